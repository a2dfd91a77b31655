"""The doors (pip, conda, README, CI) agree with each other, imports run downward only, and `import labkit` stays cheap."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import labkit
from labkit.datasets import registry

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# ---------------------------------------------------------------- bounds

CONDA_NAMES = {"pytorch": "torch"}


def requirement(text):
    """("name", "bounds") of a requirement, both without spaces."""
    name, bounds = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*(.*)", text.strip()).groups()
    return name.lower(), bounds.replace(" ", "")


def environment_bounds():
    """{pip name: bounds} of environment.yml. Read line by line: its few lines need no YAML parser."""
    lines = (ROOT / "environment.yml").read_text(encoding="utf-8").partition("dependencies:")[2].splitlines()
    items = [line.strip()[2:] for line in lines if line.strip().startswith("- ")]
    bounds = dict(requirement(item) for item in items if item not in ("pip", "pip:", "-e ."))
    return {CONDA_NAMES.get(name, name): value for name, value in bounds.items()}


def test_conda_and_pip_have_the_same_bounds():
    project = PYPROJECT["project"]
    expected = {"python": project["requires-python"]}
    for group in (
        project["dependencies"],
        *(project["optional-dependencies"][e] for e in ("offline", "photos", "test", "images")),
    ):
        expected |= dict(requirement(item) for item in group)
    assert environment_bounds() == expected


def test_version_and_extras():
    assert labkit.__version__ == PYPROJECT["project"]["version"]
    assert {"offline", "test", "bench"} <= set(PYPROJECT["project"]["optional-dependencies"])
    assert "MIT License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_sources_of_methods_and_data_are_named():
    """CITATION.cff has this version, and the title of each paper that the registry asks to be cited."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {labkit.__version__}\n" in text
    titles = re.findall(r'^ +title: "(.*)"$', text, re.MULTILINE)
    assert len(titles) == 14 and "Deep Metric Learning with Chance Constraints" in titles
    for entry in registry().values():
        assert any(title in entry.citation for title in titles), entry.citation


# ---------------------------------------------------------------- README and CI


def readme_blocks():
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_ci_runs_the_readme_s_second_command():
    """Line for line, in a virtual environment of another name."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    lines = readme_blocks()[1].splitlines()
    assert len(lines) == 2
    for line in lines:
        renamed = line.replace(".venv/", '"$venv"/').replace("-m venv .venv ", '-m venv "$venv" ')
        assert renamed in script


def test_readme_s_first_command_starts_the_proof_of_concept():
    assert readme_blocks()[0].splitlines()[-1] == ".venv/bin/labkit poc"


# ---------------------------------------------------------------- import arrows

# Lower rooms first; a room may import from its own line's own room and from the lines before it.
FLOORS = [
    {"errors"},
    {"validation", "files", "threads"},
    {"scaling"},
    {"geometry"},
    {"k_center"},
    {"selection"},
    {"losses", "metrics"},
    {"ccp_input"},
    {"ccp"},
    {"datasets", "models"},
    {"training"},
    {"serving"},
    {"plots"},
    {"panels"},
    {"report_sections", "report_settings", "report_page"},
    {"report_queries"},
    {"report"},
    {"poc", "app", "cli_models"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
# Libraries that belong to some rooms only.
ONLY_IN = {
    "plotly": {"plots", "panels", "report_page"},
    "ipywidgets": {"panels"},
    "anywidget": {"panels"},
    "typer": {"cli", "cli_models"},
    "onnxruntime": {"serving"},
    "mlxtend": {"datasets"},
    "requests": {"datasets"},
    "timm": {"models"},
    "pytorchcv": {"models"},
    "accelerate": {"training"},
    "tensorboard": {"training"},
}


def imports(source):
    """Dotted names that a module imports anywhere, also inside functions; "labkit.x.y" for `from labkit.x import y`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that the arrows can be read"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_arrows(room, source):
    """What a module in `room` imports although it may not."""
    for name in imports(source):
        top, _, rest = name.partition(".")
        inner = rest.partition(".")[0]
        if top == "labkit":
            # Same floor, other room: allowed for none, so that no two rooms can come to need each other.
            if inner != room and not LEVEL.get(inner, 99) < LEVEL[room]:
                yield name
        elif room not in ONLY_IN.get(top, {room}):
            yield name


MODULES = sorted(
    path for path in (ROOT / "labkit").rglob("*.py") if path.name != "__init__.py" or path.parent.name != "labkit"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "labkit").as_posix())
def test_imports_run_downward(path):
    room = path.relative_to(ROOT / "labkit").parts[0].removesuffix(".py")
    assert room in LEVEL, f"{room} has no floor yet"
    assert list(wrong_arrows(room, path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("training", "def f():\n    import plotly.graph_objects as go", ["plotly.graph_objects"]),
        ("training", "from labkit.panels import live", ["labkit.panels.live"]),
        ("losses", "from labkit.datasets.images import ImageSet", ["labkit.datasets.images.ImageSet"]),
        ("losses", "from labkit.losses.base import Loss\nfrom labkit.geometry import l2_normalize", []),
        ("metrics", "import labkit.losses", ["labkit.losses"]),
        ("geometry", "from labkit import nmi", ["labkit.nmi"]),
        ("ccp", "import torch\nfrom labkit.selection import greedy_k_center", []),
        ("plots", "import plotly, ipywidgets", ["ipywidgets"]),
    ],
)
def test_the_arrows_check_sees_what_it_should(room, source, wrong):
    assert list(wrong_arrows(room, source)) == wrong


# ---------------------------------------------------------------- cheap import

HEAVY = (
    "sklearn",
    "faiss",
    "plotly",
    "pandas",
    "ipywidgets",
    "torchvision",
    "umap",
    "scipy",
    "requests",
    "tqdm",
    "typer",
    "timm",
    "PIL",
    "accelerate",
    "tensorboard",
)


def modules_after(statement):
    program = f"import torch, sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_import_labkit_loads_next_to_nothing():
    loaded = modules_after("import labkit")
    assert {name for name in loaded if name.partition(".")[0] in HEAVY} == set()
    assert {name for name in loaded if name.startswith("labkit")} == {"labkit", "labkit.errors"}


def test_loading_data_and_losses_needs_no_plotting():
    loaded = modules_after("from labkit import load_digits, ContrastiveLoss, AlternatingProjections")
    assert {name for name in loaded if name.partition(".")[0] in ("plotly", "ipywidgets", "pandas", "mlxtend")} == set()


def test_public_names():
    assert 12 <= len(labkit.__all__) <= 18
    for name in labkit.__all__:
        assert getattr(labkit, name) is not None
        assert name in dir(labkit)
    assert set(labkit.__all__) - {"LabError"} == set(labkit._HOME)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = labkit.nothing
