"""Commands for what a trained network is used for: `labkit export`, `labkit index`, `labkit search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labkit.errors import LabError


def written_to(option: str, text: str) -> Path:
    """The path that an option for something to be written says.

    Raises
    ------
    LabError : empty text, which pathlib takes for the folder one is in.
    """
    if not text.strip():
        raise LabError(option, "the name of a file or folder", repr(text), "Perhaps a variable of the shell is not set.")
    return Path(text)


def add_to(app: typer.Typer) -> None:
    """Give the program the three commands."""
    for command in (export, index, search):
        app.command()(command)


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    to: Annotated[
        str, typer.Option(metavar="<path>", help="The file; its ending, .pt2, .pt (TorchScript) or .onnx, says which format.")
    ],
) -> None:
    """A trained model as a file for other programs, with all that must be known to use it."""
    from labkit.serving import WholeModel, export_model

    file = written_to("--to", to)
    model = WholeModel.of_run(run)
    path = export_model(model, file)
    card = model.card
    takes = f"{card.channels} x {card.size} x {card.size} pixels in 0 … 1"
    typer.echo(f"Model: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    typer.echo(f"Takes pictures of {takes}; gives embeddings of width {card.embedding_size}, normalisation {card.normalize}.")


def index(
    model: Annotated[Path, typer.Argument(help="Folder of a finished run, or an exported model.")],
    folder: Annotated[Path, typer.Argument(help="Folder of pictures; the folders inside it are classes.")],
    out: Annotated[str, typer.Option(metavar="<path>", help="Folder of the index.")],
    unusable: Annotated[str, typer.Option(help='"refuse" files that are no pictures, or "skip" them.')] = "refuse",
) -> None:
    """Embed a folder of pictures, to be searched with `labkit search`."""
    from labkit.serving import ImageIndex, open_model

    place = written_to("--out", out)
    ImageIndex.check_place(place)  # before the minutes that embedding takes
    made = ImageIndex.of_folder(open_model(model), folder, unusable=unusable, progress=True)
    made.save(place)
    typer.echo(f"Index: {place}, {len(made):,} pictures of {len(set(made.classes)):,} classes")


def search(
    model: Annotated[Path, typer.Argument(help="The model that the index was made with: a run's folder or an exported model.")],
    index: Annotated[Path, typer.Argument(help="Folder of an index.")],
    picture: Annotated[Path, typer.Argument(help="A picture file.")],
    k: Annotated[int | None, typer.Option(help="How many neighbours; by default 10, or all where there are fewer.")] = None,
) -> None:
    """The pictures of an index that are nearest to a picture."""
    from labkit.serving import ImageIndex, open_model

    opened = ImageIndex.load(index)
    found = opened.search(picture, k=min(10, len(opened)) if k is None else k, model=open_model(model))
    for row in found.itertuples():
        typer.echo(f"{row.rank:4}  {row.distance:.4f}  {row[3]}  {row.path}")
