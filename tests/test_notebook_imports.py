"""Notebooks import what labkit's rooms export, never what lies deeper in them."""

import ast
import importlib
import json

import pytest

from tests.sources import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))


def code_of(path):
    """The source cells of a notebook as one program, without the lines that are IPython's own."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in [*"".join(cell["source"]).split("\n"), ""]]
    return "\n".join("" if line.startswith(("%", "!")) else line for line in lines)


def imported(source):
    """(module, name) of everything that a program imports from labkit; a module as a whole has no name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "labkit":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "labkit")


def exported(module):
    """Names that labkit or a room of it gives away: its `__all__`; of a room that is one file, what it defines."""
    if module.count(".") > 1:
        return set()
    room = importlib.import_module(module)
    own = {name for name, value in vars(room).items() if getattr(value, "__module__", "") == module and name[0] != "_"}
    return {"", *getattr(room, "__all__", () if hasattr(room, "__path__") else own)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_import_exported_names_only(path):
    assert [f"{module}.{name}" for module, name in imported(code_of(path)) if name not in exported(module)] == []


@pytest.mark.parametrize(
    ("source", "found", "refused"),
    [
        ("from labkit import Trainer", [("labkit", "Trainer")], []),
        (
            "import labkit\nfrom labkit.selection import greedy_k_center",
            [("labkit", ""), ("labkit.selection", "greedy_k_center")],
            [],
        ),
        ("if True:\n    from labkit.plots.palette import run_line", [("labkit.plots.palette", "run_line")], ["run_line"]),
        ("from labkit.training import trainer", [("labkit.training", "trainer")], ["trainer"]),
        ("from labkit.selection import Tensor", [("labkit.selection", "Tensor")], ["Tensor"]),
        ("import numpy as np", [], []),
    ],
)
def test_the_check_sees_what_it_should(source, found, refused):
    assert list(imported(source)) == found
    assert [name for module, name in found if name not in exported(module)] == refused


def test_every_exported_name_is_there():
    for room in ("datasets", "metrics", "panels", "plots", "training"):
        module = importlib.import_module(f"labkit.{room}")
        assert [name for name in module.__all__ if not callable(getattr(module, name))] == []
        assert len(set(module.__all__)) == len(module.__all__)
