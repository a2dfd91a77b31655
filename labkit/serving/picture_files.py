"""Picture files to embeddings, cut to size as a model's card says."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from labkit.datasets import DataWarning, Views
from labkit.datasets.catalogue import counted, some
from labkit.datasets.decoding import BadPicture, decode, picture_bytes
from labkit.errors import LabError
from labkit.serving.model_card import ModelCard, check_answer
from labkit.validation import check_choice, check_path, describe

CHUNK = 64  # pictures decoded and embedded at once
WORKERS = 4


class Embeds(Protocol):
    """A model with its card: `WholeModel`, `ExportedModel`."""

    card: ModelCard

    def __call__(self, pictures: Tensor) -> Tensor:
        """(n, channels, size, size) floats in 0 ... 1 -> (n, D)."""


Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_pictures(files: Files, card: ModelCard) -> Tensor:
    """Picture files as the model of that card takes them: float32 (n, channels, size, size) in 0 ... 1.

    Each is resized so that its shorter side has `card.side` pixels (both sides, where `card.square`), and its centre is cut
    out; colours are averaged where the model takes grey ones.

    Raises
    ------
    LabError : no file, or one that cannot be used as a picture, by name.
    """
    paths = _paths(files)
    pictures, problems = _read(paths, card)
    _judge(paths, problems, "refuse")
    return torch.stack([p for p in pictures if p is not None])


@torch.no_grad()
def embed_pictures(
    model: Embeds, files: Files, *, unusable: str = "refuse", progress: bool = False
) -> tuple[Tensor, list[int]]:
    """Embed picture files, some at a time.

    Parameters
    ----------
    unusable : "refuse" files that cannot be used as pictures, naming them, or "skip" them with a warning.
    progress : show a bar on stderr.

    Returns
    -------
    (embeddings, kept) : float32 (m, D), and the places in `files` of the m pictures, ascending.

    Raises
    ------
    LabError : no file, none that can be used, or some that cannot and are not to be skipped; no model, or one that gives
        something else than its card says.

    Warns
    -----
    DataWarning : pictures that were skipped.
    """
    from tqdm import tqdm

    check_choice("unusable", unusable, ("refuse", "skip"))
    card, paths = check_model(model).card, _paths(files)
    parts: list[Tensor] = []
    kept: list[int] = []
    problems: dict[int, str] = {}
    for start in tqdm(range(0, len(paths), CHUNK), desc="embedding", disable=not progress):
        pictures, bad = _read(paths[start : start + CHUNK], card)
        problems |= {start + i: why for i, why in bad.items()}
        usable = [i for i, picture in enumerate(pictures) if picture is not None]
        kept += [start + i for i in usable]
        if usable:
            answer = model(torch.stack([p for p in pictures if p is not None]))
            parts.append(check_answer(card, len(usable), answer, "model"))
    _judge(paths, problems, unusable if parts else "refuse")
    return torch.cat(parts), kept


def check_model(model: Any) -> Embeds:
    """Return `model` if it is one with a card.

    Raises
    ------
    LabError : None, the name of a file, a module without a card.
    """
    if not callable(model) or not isinstance(getattr(model, "card", None), ModelCard):
        hint = "open_model(path) gives one."
        raise LabError("model", "a WholeModel or an ExportedModel", describe(model), hint)
    found: Embeds = model
    return found


def _paths(files: Any) -> list[Path]:
    if isinstance(files, (str, os.PathLike)):
        files = [files]
    if not isinstance(files, Iterable) or isinstance(files, bytes):
        raise LabError("files", "a picture file or several", describe(files))
    paths = [check_path("files", file) for file in files]
    if not paths:
        raise LabError("files", "at least one picture", "none")
    return paths


def _read(paths: Sequence[Path], card: ModelCard) -> tuple[list[Tensor | None], dict[int, str]]:
    """Each picture or None, and what is wrong with those that are None."""
    with ThreadPoolExecutor(WORKERS) as pool:
        found: Iterable[Tensor | str] = pool.map(lambda path: _one(path, card), paths)
        results = list(found)
    pictures = [result if isinstance(result, Tensor) else None for result in results]
    return pictures, {i: result for i, result in enumerate(results) if isinstance(result, str)}


def _one(path: Path, card: ModelCard) -> Tensor | str:
    try:
        pixels = decode(picture_bytes(path), card.side, card.square).pixels
    except BadPicture as bad:
        return str(bad)
    whole = torch.from_numpy(pixels.copy()).permute(2, 0, 1)
    view = Views(max(8, card.size), max(8, card.side), card.square).central(whole).float() / 255
    return view.mean(dim=0, keepdim=True) if card.channels == 1 else view


def _judge(paths: Sequence[Path], problems: dict[int, str], unusable: str) -> None:
    if not problems:
        return
    told = some([f"{paths[i]} ({why})" for i, why in problems.items()])
    if unusable == "refuse":
        raise LabError("pictures", "files that can be used as pictures", f"{len(problems):,} that cannot: {told}")
    warnings.warn(f"Left out {counted(len(problems), 'picture')}: {told}.", DataWarning, stacklevel=3)
