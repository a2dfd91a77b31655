"""Losses, each called as `loss(embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None)`."""

from labkit.losses.base import BaseLoss
from labkit.losses.contrastive import ContrastiveLoss, CosineContrastiveLoss
from labkit.losses.pairs import PairLoss

__all__ = ["BaseLoss", "ContrastiveLoss", "CosineContrastiveLoss", "PairLoss"]
