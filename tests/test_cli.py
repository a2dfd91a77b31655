"""The command line as its user meets it: what it prints, its exit code, and never a traceback for a mistake."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from labkit import cli
from labkit.datasets import registry
from labkit.datasets.roots import checkout
from labkit.errors import LabError
from labkit.metrics import covering_curve, nmi, retrieval_metrics
from labkit.poc import summary
from labkit.training import Experiment, Recording
from tests.command import program

SMALL = ("--set", "data.source=digits-8x8", "--set", "data.samples_per_class=2", "--set", "sample_size=40")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the program in an empty folder; gives (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABKIT_DATA", raising=False)
    return program(monkeypatch, capsys)


def refused(result):
    """The one line that was said about a mistake."""
    code, out, err = result
    assert code == 2 and out == "" and err.startswith("labkit: ") and err.count("\n") == 1, result
    return err


def test_help_names_every_command_and_loads_no_torch():
    program = (
        "import sys; from labkit.cli import main\ntry: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, "--help"], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"
    for command in ("poc", "train", "evaluate", "report", "data", "lab"):
        assert re.search(rf"\b{command}\b", done.stdout)


# ---------------------------------------------------------------- data


def test_data_list_says_what_is_here_and_in_use(run, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    code, out, _ = run("data", "list")
    assert code == 0 and str(tmp_path) in out
    assert "not here; labkit data get mnist downloads 11.6 MB" in out
    assert out.splitlines()[-1].startswith("Data in use: ")


def test_data_get(run, monkeypatch, tmp_path):
    asked = []
    fake = lambda name, mirrors: asked.append((name, mirrors)) or tmp_path / "MNIST"
    monkeypatch.setattr("labkit.datasets.fetch", fake)
    code, out, _ = run("data", "get", "mnist")
    assert code == 0 and out.startswith(f"mnist: {tmp_path / 'MNIST'}\nLicence: CC BY-SA 3.0. Please cite: Y. LeCun")
    assert run("data", "get", "mnist", "--mirror", "http://a", "--mirror", "http://b")[0] == 0
    assert asked == [("mnist", []), ("mnist", ["http://a", "http://b"])]


def test_data_get_of_an_unknown_name(run):
    assert "Did you mean 'mnist'" in refused(run("data", "get", "nmist"))


def test_data_get_without_a_network(run, monkeypatch, tmp_path):
    import dataclasses

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    nowhere = dataclasses.replace(registry()["mnist"], mirrors=("http://127.0.0.1:9/",))
    monkeypatch.setattr("labkit.datasets.fetching.registry", lambda: {"mnist": nowhere})
    assert "127.0.0.1:9" in refused(run("data", "get", "mnist"))


def test_data_get_interrupted(run, monkeypatch):
    def interrupted(name, mirrors):
        raise KeyboardInterrupt

    monkeypatch.setattr("labkit.datasets.fetch", interrupted)
    code, _, err = run("data", "get", "mnist")
    assert code == 130 and "goes on from there" in err and "Traceback" not in err


# ---------------------------------------------------------------- evaluate


def figures_of(out):
    return {line.split()[0]: float(line.split()[1].replace(",", "")) for line in out.splitlines()}


@pytest.fixture
def embeddings(tmp_path):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(4).repeat_interleave(300)
    values = torch.randn(1200, 3, generator=generator) + 3 * torch.eye(4, 3)[labels]
    np.savez(tmp_path / "mine.npz", embeddings=values.numpy(), labels=labels.numpy())
    return values, labels


def test_evaluate(run, embeddings):
    code, out, _ = run("evaluate", "mine.npz")
    values, labels = embeddings
    expected = retrieval_metrics(values, labels) | {"nmi": nmi(values, labels, seed=0)}
    expected["covering_curve_mean"] = float(torch.stack([c.mean() for c in covering_curve(values, labels)]).mean())
    expected |= {"n": 1200, "dimensions": 3, "classes": 4}
    found = figures_of(out)
    assert code == 0 and set(found) == set(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=5.1e-5), name


def test_evaluate_prints_counts_as_counts(run, tmp_path):
    np.savez(tmp_path / "mine.npz", embeddings=np.eye(5, 3), labels=np.array([7, 7, 7, 7, 9]))
    lines = dict(line.split() for line in run("evaluate", "mine.npz")[1].splitlines())
    assert [lines[name] for name in ("n", "classes", "n_queries", "n_skipped")] == ["5", "2", "4", "1"]
    assert lines["recall_at_4"] == "1.0000"
    np.savez(tmp_path / "mine.npz", embeddings=np.eye(4, 3), labels=np.array([0, 0, 1, 1]))
    assert "n_skipped" + " " * 21 + "0\n" in run("evaluate", "mine.npz")[1]


def test_evaluate_csv_and_normalised(run, embeddings, tmp_path):
    values, labels = embeddings
    rows = [
        ",".join(f"{v:.9g}" for v in row) + f",class {c}"
        for row, c in zip(values.tolist(), labels.tolist(), strict=True)
    ]
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,c,label", *rows]))
    assert run("evaluate", "mine.csv") == run("evaluate", "mine.npz")
    unit = torch.nn.functional.normalize(values)
    found = figures_of(run("evaluate", "mine.csv", "--normalize", "l2")[1])
    assert found["map_at_r"] == pytest.approx(retrieval_metrics(unit, labels)["map_at_r"], abs=5.1e-5)


def test_evaluate_refuses(run, tmp_path):
    assert "nothing there" in refused(run("evaluate", "no.npz"))
    np.savez(tmp_path / "alone.npz", embeddings=np.eye(3), labels=np.arange(3))
    assert "class" in refused(run("evaluate", "alone.npz"))
    np.savez(tmp_path / "pair.npz", embeddings=np.eye(4), labels=np.array([0, 0, 1, 1]))
    assert "Did you mean 'l2'" in refused(run("evaluate", "pair.npz", "--normalize", "L2"))


# ---------------------------------------------------------------- lab


def test_lab_opens_jupyter_on_the_notebook(run, monkeypatch, tmp_path):
    (tmp_path / "notebooks").mkdir()
    for name in ("00_start_here", "01_mnist_2d_proof_of_concept"):
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text("{}")
    monkeypatch.setattr("labkit.datasets.roots.checkout", lambda: tmp_path)
    started = []
    monkeypatch.setattr("labkit.cli._hand_over", lambda command: started.append(command) or 7)
    for arguments, name in (
        ((), "00_start_here"),
        (("01",), "01_mnist_2d_proof_of_concept"),
        (("01_mnist_2d_proof_of_concept.ipynb", "--no-browser", "--port=9"), "01_mnist_2d_proof_of_concept"),
    ):
        assert run("lab", *arguments)[0] == 7
        command = started.pop()
        assert command[:3] == [sys.executable, "-m", "jupyterlab"]
        where = f"--ServerApp.root_dir={tmp_path / 'notebooks'}", f"--LabApp.default_url=/lab/tree/{name}.ipynb"
        assert command[3:5] == list(where)
        assert command[5:] == list(arguments[1:])
    assert "Did you mean '00_start_here'" in refused(run("lab", "00_start"))
    monkeypatch.setattr("labkit.datasets.roots.checkout", lambda: None)
    assert "checkout" in refused(run("lab"))


def test_lab_serves_a_notebook_as_a_page(run, monkeypatch):
    started = []
    monkeypatch.setattr("labkit.cli._hand_over", lambda command: started.append(command) or 0)
    monkeypatch.setattr("labkit.app.importlib.util.find_spec", lambda name: object())
    assert run("lab", "--app", "--no-browser")[0] == 0
    page = checkout() / "notebooks" / "10_hyperparameter_lab.ipynb"
    assert started[-1][1:4] == ["-m", "voila", str(page)]
    assert {"--Voila.ip=127.0.0.1", "--port=8866", "--no-browser"} <= set(started[-1])
    code, out, err = run("lab", "03", "--app", "--host", "0.0.0.0", "--port", "9000", "--debug")
    assert (code, out) == (0, "") and "everybody who can reach this machine at 0.0.0.0" in err
    assert {"--Voila.ip=0.0.0.0", "--port=9000", "--debug"} <= set(started[-1]) and "03_" in started[-1][3]
    assert "--no-browser" not in started[-1]
    assert run("lab", "--host=10.0.0.1", "--ServerApp.open_browser=False")[0] == 0
    assert {"--ServerApp.ip=10.0.0.1", "--ServerApp.open_browser=False"} <= set(started[-1]) and "jupyterlab" in started[-1]
    for arguments in (("--app", "--port", "0"), ("--port", "0"), ("--port", "65536")):
        assert "--port: expected a whole number in [1, 65535]" in refused(run("lab", *arguments))
    monkeypatch.setattr("labkit.app.importlib.util.find_spec", lambda name: None)
    assert 'pip install "labkit[app]"' in refused(run("lab", "--app"))


ENDS_SLOWLY = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("asked", flush=True)
    sys.stdin.readline()  # as Jupyter asks whether it is meant
    print("ended", flush=True)
    sys.exit(5)
"""


@pytest.mark.parametrize("replace", [True, False])
def test_ctrl_c_leaves_the_server_time_to_end(replace):
    """However the terminal was handed over: it may ask, be interrupted again, and end its kernels."""
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from labkit.cli import _hand_over\n"
        f"sys.exit(_hand_over([sys.executable, '-c', {ENDS_SLOWLY!r}], replace={replace}))"
    )
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program], **streams, start_new_session=True) as process:
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "asked\n"
        time.sleep(0.5)  # twice as long as subprocess.run would have let it live
        out, err = process.communicate("y\n", timeout=60)
    assert (process.returncode, out, err) == (5, "ended\n", "")


def test_lab_s_default_is_a_notebook_of_this_checkout():
    assert cli.find_notebook("00") == checkout() / "notebooks" / "00_start_here.ipynb"


# ---------------------------------------------------------------- train and report


def test_settings_are_json_or_text():
    pairs = ["a.b=0.5", "c=true", "d=[1, 2]", "e=k_center", "f=x=y", "g=1e-3"]
    assert cli.parse_settings(pairs) == {"a.b": 0.5, "c": True, "d": [1, 2], "e": "k_center", "f": "x=y", "g": 1e-3}
    deep, long = "[" * 100_000, "1" * 5_000
    assert cli.parse_settings([f"a={deep}", f"b={long}"]) == {"a": deep, "b": long}  # which a setting may refuse
    for wrong in ("alone", "=3"):
        with pytest.raises(LabError, match="--set"):
            cli.parse_settings([wrong])


def test_train_resume_and_report(run, tmp_path):
    arguments = ("train", "poc-ccp", *SMALL, "--set", "steps=4", "--set", "evaluate_every=2", "--set", "seed=3")
    code, out, _ = run(*arguments)
    assert code == 0 and out.startswith("Data in use: ") and "map_at_r 0." in out
    folder = tmp_path / "runs" / "poc-ccp-seed3"
    recording = Recording.load(folder)
    assert recording.steps[-1] == 4 and recording.experiment["seed"] == 3
    assert "checkpoint" in refused(run(*arguments))
    assert run(*arguments, "--resume")[0] == 0
    code, out, _ = run("report", folder)
    assert code == 0 and out == f"Report: {folder / 'report.html'}\n"
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")
    shutil.copytree(folder, tmp_path / "again" / folder.name)
    assert run("report", f"runs/{folder.name}", f"again/{folder.name}", "--out", "both.html")[0] == 0
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert f"runs/{folder.name}" in page and f"again/{folder.name}" in page, "two runs of one name are told apart"


def test_train_refuses(run):
    assert "Did you mean 'mnist-2d-ccp'" in refused(run("train", "mnist-2d-cpc"))
    assert "Did you mean 'projections.patience'" in refused(run("train", "poc-ccp", "--set", "projections.patiense=3"))
    assert "projections.projection_weight" in refused(
        run("train", "poc-ccp", "--set", "projections.projection_weight=-1")
    )
    assert "--set" in refused(run("train", "poc-ccp", "--set", "steps"))


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", "..", "a\\b"])
def test_a_name_that_leads_out_of_runs_needs_a_folder(run, tmp_path, name):
    arguments = ("train", "poc-ccp", *SMALL, "--set", "steps=1", "--set", f"name={name}")
    told = refused(run(*arguments))
    assert "labkit: name: expected one without /" in told and "--out" in told and not list(tmp_path.iterdir())
    assert run(*arguments, "--out", "here")[0] == 0 and (tmp_path / "here" / "model.pt").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ("poc", "--steps", "1", "--out"), ("train", "poc-ccp", *SMALL, "--set", "steps=1", "--out"), ("report", "x", "--out"),
        ("index", "a", "b", "--out"), ("export", "a", "--to"),
    ],
)  # fmt: skip
def test_an_empty_place_to_write_to_is_refused(run, tmp_path, arguments):
    for empty in ("", " "):
        assert f"labkit: {arguments[-1]}: expected the name of" in refused(run(*arguments, empty))
    assert list(tmp_path.iterdir()) == []


def test_report_refuses(run, tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert "broken.npz" in refused(run("report", "broken.npz"))
    assert "nothing there" in refused(run("report", "runs/none"))


def test_usage_mistakes_are_exit_code_2(run):
    code, _, err = run("train")
    assert code == 2 and "preset" in err.lower()
    assert run("fly")[0] == 2


# ---------------------------------------------------------------- poc


def test_poc_writes_the_report_and_prints_the_table(run, tmp_path, monkeypatch):
    monkeypatch.setattr("labkit.poc.embedded_source", lambda: "digits-8x8")
    code, out, _ = run("poc", "--steps", "3", "--seed", "5", "--out", "here")
    assert code == 0
    assert out.startswith("Data in use: 8 x 8 digits")
    assert out.splitlines()[-1] == f"Report: {Path('here') / 'report.html'}"
    for words in (
        "MAP@R",
        "covering radius",
        "proxy spread",
        "inter-class distance",
        "one proxy problem",
        "CCP",
    ):
        assert words in out
    assert {p.name for p in (tmp_path / "here").iterdir()} == {
        *(f"{preset}.{kind}" for preset in ("poc-proxy", "poc-ccp") for kind in ("npz", "json")),
        "report.html",
    }
    for preset in ("poc-proxy", "poc-ccp"):
        experiment = Experiment.from_json((tmp_path / "here" / f"{preset}.json").read_text())
        assert experiment.steps == 3 and Recording.load(tmp_path / "here" / f"{preset}.npz").steps[-1] == 3
    assert "<pre>labkit poc --seed 5 --steps 3</pre>" in (tmp_path / "here" / "report.html").read_text()


def test_poc_finds_out_before_training_that_it_cannot_write(run, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert "file" in refused(run("poc", "--out", "file/here"))


def test_poc_interrupted_leaves_a_report(tmp_path):
    """A real Ctrl-C, once the first training has begun."""
    # A shell starts a job in the background with Ctrl-C ignored, and this whole test run may be one.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from labkit.cli import main; main()"
    arguments = ["poc", "--steps", "100000", "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        seen = b""
        deadline = time.monotonic() + 120
        while b"MAP@R" not in seen and time.monotonic() < deadline:  # the bar shows it after the first steps
            piece = process.stderr.read1(4096)
            if not piece:
                break
            seen += piece
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (out, seen, err)
    assert b"Traceback" not in err and b"Interrupted" in out and b"untrained network" in out
    assert "<html" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert Recording.load(tmp_path / "out" / "poc-proxy.npz").steps[0] == 0


def recording(steps, ends, final=None, **metrics):
    """A recording with made-up figures: metric value at step s is base + s / 1000."""
    from labkit.training import Problem

    names = ("map_at_r", "covering_q95", "covering_max", "proxy_spread", "inter_class_distance")
    values = {name: metrics.get(name, 0.0) + np.array(steps) / 1000 for name in names}
    starts = [0, *ends[:-1]]
    problems = [
        Problem(i, a, b, 0, b, 0.5, np.zeros((1, 1, 2)), np.zeros((1, 1, 2)) if b != steps[-1] else None)
        for i, (a, b) in enumerate(zip(starts, ends, strict=False))
    ]
    arrays = {"step": np.array(steps, dtype=float), **values}
    return Recording(
        {},
        np.array(steps),
        np.zeros((len(steps), 2, 2)),
        np.array([0, 1]),
        metrics=arrays,
        problems=problems,
        final=final or {},
    )


def cells(table):
    return [re.split(r"\s{3,}", line.strip()) for line in table.splitlines()]


def test_the_table_takes_before_from_the_end_of_the_first_problem():
    plain = recording([0, 10, 20, 30], [30], {"map_at_r": 0.71}, proxy_spread=1)
    ccp = recording([0, 10, 20, 30], [10, 20, 30], {"map_at_r": 0.82}, proxy_spread=5)
    rows = cells(summary({"poc-proxy": plain, "poc-ccp": ccp}))
    assert rows[:2] == [["before", "one proxy problem", "CCP"], ["step 10", "step 30", "step 30"]]
    assert ["proxy spread", "5.01", "1.03", "5.03"] in rows
    assert rows[-2] == ["MAP@R (test digits)", "0.71", "0.82"]
    assert "first proxy problem ended" in rows[-1][0]


def test_the_table_of_a_partial_run_begins_with_the_untrained_network():
    rows = cells(summary({"poc-proxy": recording([0, 10], [], proxy_spread=1)}))
    assert rows[:2] == [["before", "one proxy problem"], ["step 0", "step 10"]]
    assert "untrained" in rows[-1][0]
    assert ["proxy spread", "1", "1.01"] in rows
    assert not any("test digits" in row[0] for row in rows)
    rows = cells(summary({"poc-proxy": recording([0, 10, 30], [30])}))
    assert rows[1] == ["step 0", "step 30"], "the end of the only problem is no turning point"
