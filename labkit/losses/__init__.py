"""Losses, each called as `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`."""

from labkit.losses.base import BaseLoss
from labkit.losses.contrastive import ContrastiveLoss, CosineContrastiveLoss
from labkit.losses.function import FunctionLoss
from labkit.losses.memory import CrossBatchMemory
from labkit.losses.mined import MinedLoss
from labkit.losses.multi_level import MultiLevelLoss
from labkit.losses.multi_similarity import MultiSimilarityLoss
from labkit.losses.pairs import PairLoss
from labkit.losses.proxy_anchor import ProxyAnchorLoss
from labkit.losses.proxy_base import BaseProxyLoss
from labkit.losses.proxy_gml import ProxyGMLLoss
from labkit.losses.proxy_nca import ProxyNCALoss
from labkit.losses.ranked_list import RankedListLoss
from labkit.losses.regularizers import SparseCentersRegularizer
from labkit.losses.soft_triple import SoftTripleLoss
from labkit.losses.triplet import TripletLoss

__all__ = [
    "BaseLoss",
    "BaseProxyLoss",
    "ContrastiveLoss",
    "CosineContrastiveLoss",
    "CrossBatchMemory",
    "FunctionLoss",
    "MinedLoss",
    "MultiLevelLoss",
    "MultiSimilarityLoss",
    "PairLoss",
    "ProxyAnchorLoss",
    "ProxyGMLLoss",
    "ProxyNCALoss",
    "RankedListLoss",
    "SoftTripleLoss",
    "SparseCentersRegularizer",
    "TripletLoss",
]
