"""Several embeddings of one picture, from features at several depths of a network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.geometry import l2_normalize
from labkit.models.checks import check_sizes
from labkit.validation import check_choice, describe


class MultiLevelHead(nn.Module):
    """A linear layer on the averaged features of each tapped module, low, middle and high say, side by side
    (Wang et al., "Ranked List Loss", section 3.4).

    Train it with one loss for each level: `MultiLevelLoss` takes the columns apart again. In eval mode each level is
    scaled to length 1, so that all have the same say in a distance, as the paper concatenates them for its tests.

    Parameters
    ----------
    backbone : any network; what it returns is not used, so its own last layer may be an `nn.Identity`.
    taps : names of modules inside it, as `named_modules()` has them, and the number of channels each gives. The modules
        return (n, channels, h, w) or (n, channels); the former are averaged over the picture.
    level_size : width of each level's embedding.

    Attributes
    ----------
    embedding_size : width of the output, the number of taps times `level_size`.

    Shapes
    ------
    images, as the backbone takes them -> embeddings (n, embedding_size), level after level in the order of the taps.

    Raises
    ------
    LabError : when built without taps, with a name that the backbone has not (the nearest is suggested) or a size
        below 1; when called, if a tapped module is not used or gives something else than announced.

    Examples
    --------
    >>> from labkit.models import ResNet20V2
    >>> model = MultiLevelHead(ResNet20V2(), {"stages.0": 16, "stages.1": 32, "stages.2": 64}, level_size=8).eval()
    >>> model(torch.rand(5, 1, 28, 28)).square().sum(dim=1)
    tensor([3.0000, 3.0000, 3.0000, 3.0000, 3.0000], grad_fn=<...>)
    """

    def __init__(self, backbone: nn.Module, taps: Mapping[str, int], level_size: int = 512) -> None:
        super().__init__()
        if not isinstance(taps, Mapping) or not taps:
            raise LabError("taps", "names of modules and their channels, such as {'stages.0': 16}", describe(taps))
        known = [name for name, _ in backbone.named_modules() if name]
        for name, channels in taps.items():
            check_choice("taps", name, known)
            check_sizes(**{f"taps[{name!r}]": channels})
        check_sizes(level_size=level_size)
        self.backbone, self.taps = backbone, dict(taps)
        self.embedding_size = len(self.taps) * level_size
        self.heads = nn.ModuleList(nn.Linear(channels, level_size) for channels in self.taps.values())

    def forward(self, images: Tensor) -> Tensor:
        pooled: dict[str, Tensor] = {}
        hooks = []
        try:  # hooks for this call only: a copy of the network then is a copy, and nothing is kept between calls
            for name in self.taps:
                module = self.backbone.get_submodule(name)
                hooks.append(module.register_forward_hook(partial(self._pool, pooled, name)))
            self.backbone(images)
        finally:
            for hook in hooks:
                hook.remove()
        missing = [name for name in self.taps if name not in pooled]
        if missing:
            raise LabError("taps", "modules that the backbone uses", f"{missing[0]!r}, which it does not call")
        levels = [head(pooled[name]) for name, head in zip(self.taps, self.heads)]
        return torch.cat(levels if self.training else [l2_normalize(level) for level in levels], dim=1)

    def _pool(self, pooled: dict[str, Tensor], name: str, _: nn.Module, __: Any, output: Any) -> None:
        """Average at once: a later layer may overwrite its input."""
        channels = self.taps[name]
        if not isinstance(output, Tensor) or output.ndim not in (2, 4) or output.shape[1] != channels:
            expected = f"features of shape (n, {channels}, h, w) or (n, {channels}) from {name!r}"
            raise LabError("taps", expected, describe(output))
        pooled[name] = output if output.ndim == 2 else output.mean(dim=(2, 3))
