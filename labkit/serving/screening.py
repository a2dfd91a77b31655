"""What is looked at in a file from elsewhere before PyTorch opens it, so that opening it runs nothing but tensor operations.

PyTorch's readers trust their files. `torch.export` unpickles some parts, gives others to sympy, which evaluates them as
Python, and looks functions up by name; TorchScript can write files. So a file may hold what `labkit export` writes, and
nothing else. The parts are read with PyTorch's own archive reader: what is looked at here is what it sees later.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

from labkit.errors import LabError

HINT = "Export the model again with `labkit export`."
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_MODEL, _EXAMPLE = "models/model.json", "data/sample_inputs/model.pt"
_TENSOR = r"(?:weight|tensor)_\d+"
_PROGRAM_PARTS = re.compile(
    rf"data/(?:weights|constants)/{_TENSOR}|extra/labkit\.json|archive_(?:format|version)|byteorder|\.data/(?:version|serialization_id)"
)
_TO_FILES = r"save|from_file|load_tensor"  # operations on tensors that open files
_OPERATOR = re.compile(
    rf"torch\.ops\.(?:aten|prims)\.(?!(?:{_TO_FILES})\.)\w+\.\w+"
    r"|torch\.ops\.higher_order\.wrap_with_(?:autocast|set_grad_enabled)"  # around a graph, which is looked at as well
    r"|_operator\.(?:getitem|add|sub|mul|floordiv|truediv|mod|neg|eq|ne|lt|le|gt|ge)"
)
_EXPRESSION = re.compile(
    r"(?:Symbol\('[a-z]\w*'|\w+=(?:True|False)|(?:Integer|Rational|Add|Mul|FloorDiv|CleanDiv|Mod|PythonMod|Max|Min)\("
    r"|-?\d{1,15}|[(),\s])+"
)
_ARGUMENTS = {
    "as_none", "as_tensor", "as_tensors", "as_int", "as_ints", "as_float", "as_floats", "as_string", "as_strings",
    "as_sym_int", "as_sym_ints", "as_scalar_type", "as_memory_format", "as_layout", "as_device", "as_bool", "as_bools",
    "as_sym_bool", "as_sym_bools", "as_optional_tensor", "as_optional_tensors", "as_sym_float", "as_sym_floats",
    "as_nested_tensors", "as_int_lists", "as_float_lists", "as_graph", "as_expr", "as_name",
}  # fmt: skip
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict")
_SCRIPT = re.compile(rf"\b(?:{_TO_FILES}|rpc_\w+|classes)\b|\bops\.(?!(?:aten|prim)\.)\w+")
_OUTSIDE = b"\x0a\x08location"  # of weights in another file, as an ONNX file names it


def screen_program(data: bytes, source: str) -> None:
    """Refuse the bytes of a .pt2 file in which anything but tensors and operations on them is to be found.

    Raises
    ------
    LabError : Python objects, compiled code, functions that are no tensor operations, expressions that are none of sizes.
    """
    if "version" in zipfile.ZipFile(io.BytesIO(data)).namelist():  # which torch.export.load would take for an older format
        raise _refused(source, "parts of an older format")
    parts = torch._C.PyTorchFileReader(io.BytesIO(data))
    for name in parts.get_all_records():
        if name not in (*_CONFIGS, _MODEL, _EXAMPLE) and not _PROGRAM_PARTS.fullmatch(name):
            raise _refused(source, f"a part called {name!r}")
    for name in _CONFIGS:
        for payload in json.loads(parts.get_record(name))["config"].values():
            if payload["use_pickle"] is not False or not re.fullmatch(_TENSOR, payload["path_name"]):
                raise _refused(source, f"Python objects ({payload['path_name']!r})")
    try:
        torch.load(io.BytesIO(parts.get_record(_EXAMPLE)), weights_only=True)
    except Exception as error:  # whatever the unpickler that takes tensors only says
        raise _refused(source, "Python objects (the example)") from error
    _screen_graph(json.loads(parts.get_record(_MODEL)), source)


def screen_script(data: bytes, source: str) -> None:
    """Refuse the bytes of a TorchScript file whose code names operations on files, on other machines, or unknown ones.

    PyTorch reads these files without Python's unpickler, and their code is TorchScript, which has tensor operations only.

    Raises
    ------
    LabError : such an operation.
    """
    parts = torch._C.PyTorchFileReader(io.BytesIO(data))
    for name in parts.get_all_records():
        if name.startswith("code/") and name.endswith(".py"):
            found = _SCRIPT.search(parts.get_record(name).decode())
            if found:
                raise _refused(source, f"{found.group()!r} in its code")


def screen_onnx(data: bytes, source: str) -> None:
    """Refuse the bytes of an ONNX file whose weights lie in other files: it may name any file there is.

    Raises
    ------
    LabError : weights elsewhere.
    """
    if _OUTSIDE in data:
        raise _refused(source, "weights in another file")


def _screen_graph(model: dict[str, Any], source: str) -> None:
    if model["guards_code"] or model["graph_module"].get("treespec_namedtuple_fields"):
        raise _refused(source, "Python code")
    for name in model["range_constraints"]:
        _match(re.compile(r"[a-z]\w*"), name, source)
    for key, value in _entries(model):
        if key == "target":
            _match(_OPERATOR, value, source)
        elif key == "expr_str":
            _match(_EXPRESSION, value, source)
        elif key in ("in_spec", "out_spec"):
            for name, kind in _entries(json.loads(value)):
                if name == "type" and kind not in _CONTAINERS:
                    raise _refused(source, f"inputs or outputs of the type {kind!r}")
        elif key.startswith("as_") and key not in _ARGUMENTS:
            raise _refused(source, f"an argument of the kind {key!r}")


def _match(pattern: re.Pattern[str], text: Any, source: str) -> None:
    if not isinstance(text, str) or len(text) > 1000 or not pattern.fullmatch(text):
        raise _refused(source, f"{str(text)[:80]!r}")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value in what JSON gave, at any depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one.items()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _refused(source: str, found: str) -> LabError:
    return LabError(source, "a model of tensors and operations on them, as `labkit export` writes it", f"one with {found}", HINT)
