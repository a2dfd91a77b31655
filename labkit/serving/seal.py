"""A digest at the end of an exported file, over every byte before it: so a file that was damaged is known as such.

Other programs do not notice it: in a zip archive it is the archive's comment, in ONNX one more entry of the metadata.
"""

from __future__ import annotations

import hashlib

from labkit.errors import LabError

_HEX = 64
_KEY = b"labkit.sha256"
_ZIP = _KEY + b" "
# Fields of a protobuf message may be appended to it. This is ModelProto.metadata_props (14), with a key and a value.
_ONNX = bytes([14 << 3 | 2, len(_KEY) + _HEX + 4, 10, len(_KEY)]) + _KEY + bytes([18, _HEX])
_ZIP_LENGTH = (len(_ZIP) + _HEX).to_bytes(2, "little")


def seal(data: bytes, suffix: str) -> bytes:
    """`data`, the bytes of a file with that ending, with their digest after them."""
    body, before = _parts(data, suffix)
    return body + before + hashlib.sha256(body).hexdigest().encode()


def check_seal(data: bytes, suffix: str, source: str) -> None:
    """Refuse bytes that are not what `seal` gave.

    Raises
    ------
    LabError : cut off, damaged, or written without a digest.
    """
    wanted, hint = f"a whole {suffix} file of `labkit export`", "Export the model again with `labkit export`."
    start, before = data[:-_HEX], _ONNX if suffix == ".onnx" else _ZIP_LENGTH + _ZIP
    if not start.endswith(before):
        raise LabError(source, wanted, "a file that does not end in its digest: cut off, or of another or older program", hint)
    if hashlib.sha256(start[: -len(before)]).hexdigest().encode() != data[-_HEX:]:
        raise LabError(source, wanted, "a damaged one: its bytes are not those of its digest", hint)


def _parts(data: bytes, suffix: str) -> tuple[bytes, bytes]:
    """The bytes that the digest is of, and those between them and the digest."""
    if suffix == ".onnx":
        return data, _ONNX
    # A zip archive without a comment ends in the comment's length, 0.
    if data[-2:] != b"\0\0":
        raise LabError("data", "an archive without a comment", "another one")
    return data[:-2], _ZIP_LENGTH + _ZIP
