"""Embedding models as files: torch's exported programs, TorchScript, ONNX. Each carries its `ModelCard`."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError, said
from labkit.files import storage_error, write_atomically
from labkit.serving.model_card import ModelCard, check_answer
from labkit.serving.screening import screen_onnx, screen_program, screen_script
from labkit.serving.seal import check_seal, seal
from labkit.validation import check_choice, check_dense, check_finite, check_path, describe

SUFFIXES = (".pt2", ".pt", ".onnx")
CARD = "labkit.json"
ONNX_INPUT, ONNX_OUTPUT, ONNX_CARD = "pictures", "embeddings", "labkit"
_EXPORT_AGAIN = "Export the model again with `labkit export`."
Run = Callable[[Tensor], Tensor]


class ExportedModel:
    """A model from a file, called as `model(pictures)`.

    Attributes
    ----------
    card : `ModelCard`, what goes in and what comes out. source : the file.

    Shapes
    ------
    pictures (n, channels, size, size) floats in 0 ... 1 -> embeddings (n, embedding_size), normalised.

    Raises
    ------
    LabError : when called: pictures of another shape, bytes, or numbers outside 0 ... 1; a network that does not take
        what its card says, or gives anything but finite float32 (n, embedding_size).
    """

    def __init__(self, card: ModelCard, run: Run, source: str = "model") -> None:
        self.card, self.source, self._run = card, source, run

    @torch.no_grad()
    def __call__(self, pictures: Tensor) -> Tensor:
        taken = check_pictures(self.card, pictures).contiguous()
        try:
            answer = self._run(taken)
        except Exception as error:  # whatever the network's own code or its runtime says
            wanted = f"a network that takes pictures {tuple(taken.shape)}, as its card says"
            raise LabError(self.source, wanted, said(error), _EXPORT_AGAIN) from error
        return check_answer(self.card, len(taken), answer, self.source)


def check_pictures(card: ModelCard, pictures: Any) -> Tensor:
    """Return `pictures` if the model of that card takes them: float32 (n, channels, size, size), 0 ... 1, on the CPU."""
    wanted = f"a float tensor (n, {card.channels}, {card.size}, {card.size}) in 0 … 1"
    if not isinstance(pictures, Tensor) or pictures.ndim != 4 or len(pictures) == 0:
        raise LabError("pictures", wanted, describe(pictures))
    if tuple(pictures.shape[1:]) != (card.channels, card.size, card.size):
        raise LabError("pictures", wanted, describe(pictures))
    if not pictures.is_floating_point():
        raise LabError("pictures", wanted, describe(pictures), "Divide bytes by 255.")
    check_dense("pictures", pictures)
    check_finite("pictures", pictures)
    low, high = pictures.min().item(), pictures.max().item()
    if low < -1e-3 or high > 1 + 1e-3:
        hint = "Divide bytes by 255. The model subtracts the mean itself."
        raise LabError("pictures", wanted, f"numbers from {low:.3g} to {high:.3g}", hint)
    return pictures.float().cpu()


def export_model(model: nn.Module, path: str | os.PathLike[str]) -> Path:
    """Write a model so that other programs can open it; the whole file or none.

    What is in it takes any number of pictures of one size and does everything else itself: mean and standard deviation,
    network, normalisation. The card says what size, and how a picture is cut to it. The file ends in a digest of all its
    bytes, by which `load_exported` knows a damaged one.

    Parameters
    ----------
    model : a `WholeModel`.
    path : its ending says which format. `.pt2`: torch.export, the format that PyTorch keeps up
        (`torch.export.load(path).module()`). `.pt`: TorchScript (`torch.jit.load(path)`), for C++ and for programs that have
        it already; PyTorch calls it deprecated. `.onnx`: for other runtimes (input "pictures", output "embeddings"); needs the
        extra `onnx`.

    Raises
    ------
    LabError : another ending, packages missing, a network that cannot be exported, a full disk.
    """
    where, card = check_path("path", path), getattr(model, "card", None)
    if not isinstance(model, nn.Module) or not isinstance(card, ModelCard):
        raise LabError("model", "a WholeModel, made by WholeModel.of(trainer) or WholeModel.of_run(folder)", describe(model))
    suffix = check_choice("ending of the file", where.suffix.lower(), SUFFIXES)
    example = torch.rand(2, card.channels, card.size, card.size, generator=torch.Generator().manual_seed(0))
    writers = {".pt2": _as_program, ".pt": _as_torchscript, ".onnx": _as_onnx}
    with _quiet(), torch.no_grad():
        try:
            data = writers[suffix](model.eval(), card, example)
            _SCREENS[suffix](data, str(path))  # what could not be opened again is not written
        except LabError:
            raise
        except Exception as error:  # exporters raise whatever a network's own code leads them to
            others = ", ".join(s for s in SUFFIXES if s != suffix)
            raise LabError(str(path), f"a network that can be written as {suffix}", said(error), f"Try {others}.") from error
    sealed = seal(data, suffix)
    return write_atomically(path, lambda file: file.write(sealed))


def load_exported(path: str | os.PathLike[str]) -> ExportedModel:
    """Open what `export_model` wrote, on the CPU, and call it once to see that it is what its card says.

    Nothing in the file is run but the network's tensor operations: before PyTorch opens it, it is searched for anything
    else (`labkit.serving.screening`). A network can still be made to take for ever, or all memory.

    Raises
    ------
    LabError : no such file, another ending; a file that is damaged, that another program or an older labkit wrote (export
        it again), or that holds anything but a model of tensors; a network that is not its card's; onnxruntime missing.
    """
    where = check_path("path", path)
    suffix = check_choice("ending of the file", where.suffix.lower(), SUFFIXES)
    if not where.is_file():
        raise LabError(str(path), "an exported model", "nothing there")
    readers = {".pt2": _open_program, ".pt": _open_torchscript, ".onnx": _open_onnx}
    try:
        data = where.read_bytes()
    except OSError as error:
        raise storage_error(path, error) from error
    check_seal(data, suffix, str(path))
    with _quiet():
        try:
            _SCREENS[suffix](data, str(path))
            text, run = readers[suffix](data)
        except LabError:
            raise
        except Exception as error:  # the readers raise whatever odd bytes lead them to
            raise LabError(str(path), f"a {suffix} file of `labkit export`", said(error), _EXPORT_AGAIN) from error
        model = ExportedModel(ModelCard.from_json(text, str(path)), run, str(path))
        card = model.card
        model(torch.full((3, card.channels, card.size, card.size), 0.5))
    return model


_SCREENS = {".pt2": screen_program, ".pt": screen_script, ".onnx": screen_onnx}


def _program(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1)},), strict=False)


def _as_program(model: nn.Module, card: ModelCard, example: Tensor) -> bytes:
    file = io.BytesIO()
    torch.export.save(_program(model, example), file, extra_files={CARD: card.to_json()})
    return file.getvalue()


def _open_program(data: bytes) -> tuple[str | bytes, Run]:
    extra: dict[str, Any] = {CARD: ""}
    run: Run = torch.export.load(io.BytesIO(data), extra_files=extra).module()
    return extra[CARD], run


def _as_torchscript(model: nn.Module, card: ModelCard, example: Tensor) -> bytes:
    file = io.BytesIO()
    traced: Any = torch.jit.trace(model, example, check_trace=False)  # type: ignore[no-untyped-call]
    torch.jit.save(traced, file, _extra_files={CARD: card.to_json()})
    return file.getvalue()


def _open_torchscript(data: bytes) -> tuple[str | bytes, Run]:
    extra: dict[str, Any] = {CARD: ""}
    run: Run = torch.jit.load(io.BytesIO(data), map_location="cpu", _extra_files=extra)  # type: ignore[no-untyped-call]
    return extra[CARD], run


def _as_onnx(model: nn.Module, card: ModelCard, example: Tensor) -> bytes:
    for name in ("onnx", "onnxscript"):
        _need(name)
    shapes = ({0: torch.export.Dim("n", min=1)},)
    program: Any = torch.onnx.export(
        model, (example,), dynamo=True, input_names=[ONNX_INPUT], output_names=[ONNX_OUTPUT], dynamic_shapes=shapes, verbose=False
    )
    program.model.metadata_props[ONNX_CARD] = card.to_json()
    data: bytes = program.model_proto.SerializeToString()
    return data


def _open_onnx(data: bytes) -> tuple[str | bytes, Run]:
    runtime = _need("onnxruntime")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])

    names = [part.name for part in session.get_inputs()], [part.name for part in session.get_outputs()]
    if names != ([ONNX_INPUT], [ONNX_OUTPUT]):
        raise ValueError(f"from {names[0]} to {names[1]} instead of from {ONNX_INPUT!r} to {ONNX_OUTPUT!r}")

    def run(pictures: Tensor) -> Tensor:
        return torch.from_numpy(session.run([ONNX_OUTPUT], {ONNX_INPUT: pictures.numpy()})[0])

    return session.get_modelmeta().custom_metadata_map.get(ONNX_CARD, ""), run


def _need(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise LabError(".onnx", f"the package {name}", "no such package", 'pip install "labkit[onnx]"')
    return importlib.import_module(name)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' remarks: the checks that they do not record are repeated by `ExportedModel`, and that
    TorchScript is on its way out stands in `export_model`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
