"""Data sets: where they lie, how they are fetched, and how batches are drawn from them."""

from labkit.datasets.digits import embedded_source, load_digits
from labkit.datasets.embeddings import read_embeddings
from labkit.datasets.fetching import fetch
from labkit.datasets.images import ImageSet, Splits, stratified_split
from labkit.datasets.registry import registry
from labkit.datasets.roots import data_root
from labkit.datasets.samplers import MPerClassSampler, draw_pool

__all__ = [
    "ImageSet",
    "MPerClassSampler",
    "Splits",
    "data_root",
    "draw_pool",
    "embedded_source",
    "fetch",
    "load_digits",
    "read_embeddings",
    "registry",
    "stratified_split",
]
