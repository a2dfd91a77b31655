"""Files of torch.save: read as data, never as a program, and only where they are whole."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from labkit.errors import LabError, said

_ZIP = b"PK\x03\x04"  # how torch.save has begun since version 1.6; what is older has no checksums
_PIECE = 1 << 20


def read_torch_file(path: str | os.PathLike[str]) -> Any:
    """What torch.save wrote into a file, onto the CPU. The checksums inside are looked at, which torch.load does not do.

    Raises
    ------
    LabError : it cannot be read, is cut off or damaged, is no file of torch.save, or holds more than tensors, numbers, words,
        lists and dictionaries.
    """
    where, unclear = Path(path), "a damaged or another file"
    kind = unclear
    try:
        with open(where, "rb") as file:
            if file.read(len(_ZIP)) == _ZIP:
                kind = "a damaged file"
                _check_members(where)
                kind = unclear  # whole as a zip, but torch may not know what is in it
        return torch.load(where, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's and zip's readers raise whatever the damaged bytes lead them to
        wanted = "a whole file of tensors as torch.save writes it"
        raise LabError(str(path), wanted, f"{kind} ({said(error, 120)})") from error


def _check_members(path: Path) -> None:
    """Read every member to its end, where zipfile compares the checksum."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as content:
                while content.read(_PIECE):
                    pass
