"""Data sets: where they lie, how they are fetched, and how batches are drawn from them."""

from labkit.datasets.digits import embedded_source, load_digits
from labkit.datasets.embeddings import read_embeddings
from labkit.datasets.example import example_folder
from labkit.datasets.features import frozen_features
from labkit.datasets.fetching import fetch
from labkit.datasets.images import ImageSet, Splits, spread_sample, stratified_split
from labkit.datasets.photos import PhotoSet
from labkit.datasets.protocols import DataWarning, PhotoSplits, fold_of_classes, load_images
from labkit.datasets.readers import read_catalogue
from labkit.datasets.registry import registry
from labkit.datasets.roots import data_root
from labkit.datasets.samplers import MPerClassSampler, draw_pool
from labkit.datasets.views import Views

__all__ = [
    "DataWarning",
    "ImageSet",
    "MPerClassSampler",
    "PhotoSet",
    "PhotoSplits",
    "Splits",
    "Views",
    "data_root",
    "draw_pool",
    "embedded_source",
    "example_folder",
    "fetch",
    "fold_of_classes",
    "frozen_features",
    "load_digits",
    "load_images",
    "read_catalogue",
    "read_embeddings",
    "registry",
    "spread_sample",
    "stratified_split",
]
