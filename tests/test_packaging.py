"""The doors (pip, conda, README, CI) agree with each other and with what labkit imports."""

import ast
import re
import sys
import tomllib

import pytest

import labkit
from labkit.datasets import registry
from tests.sources import MODULES, ROOT, imports

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


# ---------------------------------------------------------------- what is imported is declared

PACKAGE_OF = {"PIL": "pillow", "faiss": "faiss-cpu", "sklearn": "scikit-learn", "umap": "umap-learn"}


def top_imports(source):
    """{top-level name: whether the module needs it to be imported at all}, those of labkit and of Python itself left out.

    What is imported inside a function, or for the type checker alone, is not needed before the function is called.
    """
    tree = ast.parse(source)
    names = dict.fromkeys((name.partition(".")[0] for name in imports(source)), False)
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= dict.fromkeys((name.partition(".")[0] for name in imports(ast.unparse(node))), True)
    return {name: now for name, now in names.items() if name not in {*sys.stdlib_module_names, "labkit"}}


def undeclared(source, dependencies, extras):
    """Imports of a module that no declared package gives; what is needed at once must be a dependency."""
    for name, now in top_imports(source).items():
        if PACKAGE_OF.get(name, name.replace("_", "-")) not in (dependencies if now else dependencies | extras):
            yield name


def names_in(*groups):
    return {requirement(item)[0] for group in groups for item in group}


def test_every_import_is_of_a_declared_package():
    """Not of one that comes with another today: that one may drop it tomorrow."""
    project = PYPROJECT["project"]
    extras = [group for name, group in project["optional-dependencies"].items() if name not in ("test", "bench")]
    declared = names_in(project["dependencies"]), names_in(*extras)
    found = {path.relative_to(ROOT).as_posix(): list(undeclared(path.read_text(encoding="utf-8"), *declared)) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}
    # All of it is there where the tests run, too.
    everywhere = names_in(project["dependencies"], *(project["optional-dependencies"][e] for e in ("offline", "test")))
    used = {name for path in MODULES for name in top_imports(path.read_text(encoding="utf-8"))}
    assert {PACKAGE_OF.get(name, name) for name in used} <= everywhere


def test_no_test_is_skipped_for_want_of_a_package_that_the_tests_declare():
    """An incomplete install would pass silently."""
    declared = names_in(PYPROJECT["project"]["dependencies"], PYPROJECT["project"]["optional-dependencies"]["test"])
    assert "torchvision" in declared and "voila" in declared
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for name in re.findall(r"""importorskip\(\s*["'](\w+)""", path.read_text(encoding="utf-8")):
            assert PACKAGE_OF.get(name, name.replace("_", "-")) not in declared, path


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("import os\nfrom labkit.errors import LabError\nimport torch", []),
        ("import timm", ["timm"]),
        ("def f():\n    import timm\n    import nowhere.at_all", ["nowhere"]),
        ("from PIL import Image\nimport faiss, traitlets", ["traitlets"]),
    ],
)
def test_the_check_of_imports_sees_what_it_should(source, missing):
    assert list(undeclared(source, {"torch", "pillow", "faiss-cpu"}, {"timm"})) == missing


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
