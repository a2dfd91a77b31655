"""What a trained network is for: a file that other programs open, and an index that finds a picture's neighbours."""

from labkit.serving.formats import ExportedModel, export_model, load_exported
from labkit.serving.image_index import ImageIndex
from labkit.serving.model_card import ModelCard
from labkit.serving.picture_files import embed_pictures, read_pictures
from labkit.serving.whole_model import WholeModel, open_model

__all__ = [
    "ExportedModel",
    "ImageIndex",
    "ModelCard",
    "WholeModel",
    "embed_pictures",
    "export_model",
    "load_exported",
    "open_model",
    "read_pictures",
]
