"""Networks that others have trained, without their classifiers."""

from __future__ import annotations

import copy
import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.models.initialise import global_generator_kept
from labkit.validation import check_choice

PHOTO_NETWORKS = ("efficientnet-lite0", "bn-inception", "resnet50")
TIMM_NAMES = {"efficientnet-lite0": "tf_efficientnet_lite0", "resnet50": "resnet50.tv_in1k"}


@dataclass(frozen=True)
class Trunk:
    """A network without its classifier, and what its weights were trained on.

    Parameters
    ----------
    module : pictures (n, 3, h, w) -> features (n, channels, h', w'), or (n, channels) where it pools by itself.
    channels : of the features. mean, std : per colour, of pictures in 0 ... 1.
    classifier : how the names of the weights begin that only the classifier has.
    pools : whether the module pools by itself.
    """

    module: nn.Module
    channels: int
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    classifier: tuple[str, ...] = ()
    pools: bool = False


def build_trunk(name: str, generator: torch.Generator) -> Trunk:
    """A trunk with random weights.

    Raises
    ------
    LabError : unknown name (the nearest is suggested), or the package that has it is not installed.
    """
    if not isinstance(name, str) or not name.startswith("timm:"):
        check_choice("network.name", name, [*PHOTO_NETWORKS, "timm:<name>"])
    seed = int(torch.randint(2**31, (1,), generator=generator))
    with global_generator_kept():
        torch.default_generator.manual_seed(seed)  # libraries draw their first weights from the global generator
        return _bn_inception() if name == "bn-inception" else _timm(timm_name(name))


def timm_name(name: str) -> str:
    """What timm calls a network of labkit's, or one that is named "timm:..."."""
    return TIMM_NAMES.get(name, name.removeprefix("timm:"))


def _timm(name: str) -> Trunk:
    timm = _library("timm")
    check_choice("network.name", name.partition(".")[0], timm.list_models())
    try:
        module: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    except RuntimeError as error:
        raise LabError("network.name", "a model that timm can build", f"timm:{name}: {error}") from error
    settings: dict[str, Any] = dict(module.pretrained_cfg)  # type: ignore[arg-type]
    classifier = settings.get("classifier") or ()
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    image = torch.zeros(1, *settings["input_size"])
    with torch.no_grad():
        channels = int(module.eval()(image).shape[1])
        plain = _without_pooling(module, image, channels)
    chosen = module if plain is None else plain
    return Trunk(chosen.train(), channels, tuple(settings["mean"]), tuple(settings["std"]), names, pools=plain is None)


def _without_pooling(module: Any, image: Tensor, channels: int) -> nn.Module | None:
    """The same timm model with its features left as a map (n, channels, h, w); None where it has no such map.

    Its attributes do not tell: some models have a layer between map and classifier, some put the channels last, some
    know no places at all. A look at one black picture does.
    """
    plain: nn.Module = copy.deepcopy(module)
    try:
        plain.reset_classifier(0, "")  # type: ignore[operator]
        features = plain(image)
    except (TypeError, ValueError, AssertionError, RuntimeError):
        return None
    is_map = features.ndim == 4 and features.shape[1] == channels and min(features.shape[2:]) > 1
    return plain if is_map else None


def _bn_inception() -> Trunk:
    _library("pytorchcv")
    from pytorchcv.models.bninception import bninception

    module: nn.Module = bninception(pretrained=False).features
    module.final_pool = nn.Identity()  # theirs is for pictures of 224 pixels only
    return Trunk(module, 1024, classifier=("output",))


def _library(name: str) -> Any:
    if importlib.util.find_spec(name) is None:
        raise LabError("network.name", f"the package {name}, which has this network", "no such package", f"pip install {name}")
    return importlib.import_module(name)
