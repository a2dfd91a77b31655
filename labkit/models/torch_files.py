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


def read_torch_file(path: str | os.PathLike[str], hint: str = "") -> Any:
    """What torch.save wrote into a file, onto the CPU. The checksums inside are looked at, which torch.load does not do.

    Parameters
    ----------
    hint : what to do where the file is damaged; for the message.

    Raises
    ------
    LabError : it cannot be read, is cut off or damaged, is no file of torch.save, or holds more than tensors, numbers, words,
        lists and dictionaries.
    """
    where = Path(path)
    try:
        with open(where, "rb") as file:
            if file.read(len(_ZIP)) == _ZIP:
                _check_members(where)
        return torch.load(where, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's and zip's readers raise whatever the damaged bytes lead them to
        wanted = "a whole file of tensors as torch.save writes it"
        raise LabError(str(path), wanted, f"a damaged or another file ({said(error, 120)})", hint) from error


def _check_members(path: Path) -> None:
    """Read every member to its end, where zipfile compares the checksum."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as content:
                while content.read(_PIECE):
                    pass
