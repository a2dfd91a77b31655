"""Imports run downward only, some libraries belong to some rooms, and `import labkit` stays cheap."""

import subprocess
import sys

import pytest

import labkit
from tests.sources import MODULES, ROOT, imports

# ---------------------------------------------------------------- import arrows

# Lower rooms first; a room may import from its own line's own room and from the lines before it.
FLOORS = [
    {"errors"},
    {"autograd"},
    {"validation", "files", "threads", "set_option"},
    {"measures", "scaling"},
    {"geometry"},
    {"k_center"},
    {"selection"},
    {"losses", "metrics"},
    {"ccp_input"},
    {"ccp_progress"},
    {"ccp"},
    {"datasets", "models"},
    {"training"},
    {"serving"},
    {"plots"},
    {"panels"},
    {"report_sections", "report_settings", "report_page"},
    {"report_queries"},
    {"report"},
    {"poc", "app", "cli_models", "cli_streams"},
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


def taken_from_tests(source):
    """What a test takes from a file of tests; what two of them need stands in a file beside them."""
    return [name for name in imports(source) if any(part.startswith("test_") for part in name.split(".")[:-1])]


def test_no_file_of_tests_needs_another():
    """So that each can be moved, and run alone."""
    found = {path: taken_from_tests(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").rglob("*.py"))}
    assert {path: names for path, names in found.items() if names} == {}
    assert taken_from_tests("from tests.losses.test_peer import batch\nfrom tests.command import test_mode") == [
        "tests.losses.test_peer.batch"
    ]


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
        value, home = getattr(labkit, name), labkit._HOME.get(name, "labkit.errors")
        assert value.__name__ == name and value is getattr(sys.modules[home], name)
        assert f"{value.__module__}.".startswith(f"{home}.") and name in dir(labkit)
    assert set(labkit.__all__) - {"LabError"} == set(labkit._HOME)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = labkit.nothing
