"""Losses, each called as `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`."""

from labkit.losses.base import BaseLoss
from labkit.losses.contrastive import ContrastiveLoss, CosineContrastiveLoss
from labkit.losses.function import FunctionLoss
from labkit.losses.memory import CrossBatchMemory
from labkit.losses.multi_similarity import MultiSimilarityLoss
from labkit.losses.pairs import PairLoss
from labkit.losses.ranked_list import RankedListLoss
from labkit.losses.triplet import TripletLoss

__all__ = [
    "BaseLoss",
    "ContrastiveLoss",
    "CosineContrastiveLoss",
    "CrossBatchMemory",
    "FunctionLoss",
    "MultiSimilarityLoss",
    "PairLoss",
    "RankedListLoss",
    "TripletLoss",
]
