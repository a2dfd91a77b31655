"""What a trainer learns from: the pictures of its experiment, and who deals them."""

from __future__ import annotations

from labkit.datasets import PhotoSet, Splits
from labkit.errors import LabError
from labkit.threads import give_way
from labkit.training.experiment import Experiment
from labkit.training.frozen import FeaturePictures, FeatureSet, frozen_splits
from labkit.training.photo_pictures import PhotoPictures
from labkit.training.pictures import Dealer, Pictures
from labkit.training.registry import load_splits
from labkit.training.world import World


def open_splits(experiment: Experiment, splits: Splits | None, world: World) -> Splits:
    """The pictures given, or those that the experiment names; features in their place where only a head is trained.

    The main process is first, and leaves decoded pictures and features on disk for the others.
    """
    give_way()
    with world.main_first():
        found = splits if splits is not None else load_splits(experiment)
        return frozen_splits(experiment, found, world.device) if experiment.network.train == "head" else found


def open_pictures(experiment: Experiment, splits: Splits, world: World) -> Dealer:
    """The dealer of training pictures, from memory or from disk.

    Raises
    ------
    LabError : fewer pictures in a batch than there are processes.
    """
    give_way()
    batch = experiment.data.classes_per_batch * experiment.data.samples_per_class
    if batch < world.size:
        raise LabError("data.samples_per_class", f"a batch of at least one picture for each of {world.size} processes", batch)
    if isinstance(splits.train, FeatureSet):
        return FeaturePictures(splits, experiment, world)
    if isinstance(splits.train, PhotoSet):
        return PhotoPictures(splits.train, splits, experiment.data, experiment.seed, world)
    return Pictures(splits, experiment.data, experiment.seed, world)
