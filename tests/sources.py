"""The source of labkit, and what its modules import, for the tests that hold rules about it."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    path for path in (ROOT / "labkit").rglob("*.py") if path.name != "__init__.py" or path.parent.name != "labkit"
)


def imports(source):
    """Dotted names that a module imports anywhere, also inside functions; "labkit.x.y" for `from labkit.x import y`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that the arrows can be read"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
