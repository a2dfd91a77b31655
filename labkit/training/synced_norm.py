"""Batch norm over the batch of all processes, so that several train as one would."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from labkit.errors import LabError
from labkit.training.world import World

Norm = nn.modules.batchnorm._BatchNorm


class SyncedBatchNorm(Norm):
    """`nn.BatchNorm2d` whose mean and variance are those of the rows of all processes.

    torch's own `nn.SyncBatchNorm` does the same on GPUs alone.

    Parameters
    ----------
    norm : the layer whose parameters, statistics and settings it takes over. world : the processes.
    """

    def __init__(self, norm: Norm, world: World) -> None:
        super().__init__(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        self.world = world
        self._parameters.update(norm._parameters)
        self._buffers.update(norm._buffers)

    def _check_input_dim(self, input: Tensor) -> None:
        """Rows (n, C) or (n, C, h, w): whatever the layer before it gave."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        x = input.float()
        axes, shape = [0, *range(2, x.ndim)], [1, -1] + [1] * (x.ndim - 2)
        sums = self.world.sum(torch.cat((x.sum(axes), x.new_tensor([x.numel() / x.shape[1]]))))
        mean, count = sums[:-1] / sums[-1], sums[-1].detach()
        centred = x - mean.view(shape)
        variance = self.world.sum(centred.square().sum(axes)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        normal = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal.to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        weight = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, weight)
        self.running_var.lerp_(variance, weight)


def synchronise_batch_norms(model: nn.Module, world: World) -> nn.Module:
    """The model, its batch norms that train replaced by synchronised ones where there are several processes; in place.

    Raises
    ------
    LabError : a batch norm of a kind that cannot be, such as one that is an activation as well.
    """
    if world.size == 1:
        return model
    model.train()  # a network that freezes its batch norms leaves them in eval mode here
    for name, layer in list(model.named_modules()):
        if not isinstance(layer, Norm) or not layer.training:
            continue
        if type(layer) not in (nn.BatchNorm1d, nn.BatchNorm2d):
            hint = "Set network.freeze_batch_norm=true, or train with one process."
            raise LabError("network", "batch norms that can be synchronised, or frozen ones", type(layer).__name__, hint)
        above, _, last = name.rpartition(".")
        on_gpu = world.device.type == "cuda"
        convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
        synced = convert(layer) if on_gpu else SyncedBatchNorm(layer, world)
        setattr(model.get_submodule(above), last, synced)
    return model
