"""Data sets: where they lie, how they are fetched, and how batches are drawn from them."""

from labkit.datasets.images import ImageSet, Splits, stratified_split
from labkit.datasets.samplers import MPerClassSampler, draw_pool

__all__ = ["ImageSet", "MPerClassSampler", "Splits", "draw_pool", "stratified_split"]
