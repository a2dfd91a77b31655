"""One file over HTTP: several mirrors, resumed after an interruption, kept only if every byte is right."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.datasets.registry import Content
from labkit.errors import LabError
from labkit.files import storage_error

if TYPE_CHECKING:
    from requests import Response

_CHUNK = 1 << 16
_TIMEOUT = (10.0, 30.0)  # seconds to connect, seconds between two pieces


class MirrorFailed(Exception):
    """One mirror did not deliver; the message says why. The next one may."""


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes in hexadecimal; reads in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(urls: Iterable[str], target: Path, content: Content, *, progress: bool = True) -> Path:
    """Fetch one file; `target` appears only once all its bytes are there and their checksum is right.

    What has arrived is kept as `<target>.partial`. A later call, also after the process was killed, asks only for the
    rest (HTTP Range); a server that cannot do that makes it start again cleanly.

    Parameters
    ----------
    urls : the same file on several mirrors, tried in order.
    target : where it is to lie.
    content : its size and SHA-256.
    progress : show a bar on stderr.

    Returns
    -------
    Path : `target`.

    Raises
    ------
    LabError : no mirror delivered the right bytes (each mirror's reason is told), or the disk refused them.
    """
    partial = target.with_name(target.name + ".partial")
    problems: list[str] = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for url in urls:
            try:
                _from_mirror(url, partial, content, progress)
                os.replace(partial, target)
                return target
            except MirrorFailed as failure:
                problems.append(f"{url}: {failure}")
    except OSError as error:
        raise storage_error(target, error) from error
    kept = _kept(partial)
    hint = f"{kept:,} of {content.size:,} bytes are kept; run it again to go on from there." if kept else ""
    raise LabError(content.name, "a mirror that delivers it", "; ".join(problems) or "no mirror at all", hint)


def _from_mirror(url: str, partial: Path, content: Content, progress: bool) -> None:
    """Bring `partial` to its full size with the right checksum, or say why this mirror could not."""
    resumed = _kept(partial) > 0
    while True:
        before = _kept(partial)
        if before < content.size:
            trouble = _append(url, partial, content, progress)
        after = _kept(partial)
        if after < content.size:
            # Broken off: ask the same mirror for the rest as long as each try brings something new.
            if after <= before:
                raise MirrorFailed(trouble or f"sent {after:,} of {content.size:,} bytes")
            continue
        if sha256_of(partial) == content.sha256:
            return
        partial.unlink()
        if not resumed:
            raise MirrorFailed("sent other bytes than the registry expects (checksum differs)")
        resumed = False  # the wrong bytes may be those of an earlier try: once more, from the start


def _append(url: str, partial: Path, content: Content, progress: bool) -> str:
    """Ask for what is missing and write what comes. Returns what ended it early, "" if nothing did."""
    import requests
    from urllib3.exceptions import HTTPError

    have = _kept(partial)
    # "identity": the file as it lies on the server's disk, not packed once more for the journey.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            start = _start_of(response, have, content.size)
            _write(response, partial, start, content, progress)
    except (requests.RequestException, HTTPError, ValueError) as error:  # ValueError: a redirect to no address at all
        return _in_short(error)
    return ""


def _start_of(response: Response, have: int, size: int) -> int:
    """At which byte of the file the body begins; refuses an answer that cannot be this file."""
    status = response.status_code
    if status == 206:
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != have or match[3] not in ("*", str(size)):
            raise MirrorFailed(f"answered with another range than asked for: {response.headers.get('Content-Range')}")
        return have
    if status != 200:
        raise MirrorFailed(f"answered {status} {response.reason}")
    announced = response.headers.get("Content-Length", "")
    if announced.isdigit() and int(announced) != size:
        raise MirrorFailed(f"announced {int(announced):,} bytes where the registry expects {size:,}")
    return 0


def _write(response: Response, partial: Path, start: int, content: Content, progress: bool) -> None:
    """Write the body at byte `start` of `partial`; never more than the file's size."""
    from tqdm import tqdm

    with (
        open(partial, "r+b" if start else "wb") as file,
        tqdm(
            total=content.size, initial=start, unit="B", unit_scale=True, desc=content.name, disable=not progress
        ) as bar,
    ):
        file.seek(start)
        # Undecoded: some servers call a .gz file gzip-encoded, and what is wanted is the file.
        for piece in response.raw.stream(_CHUNK, decode_content=False):
            if file.tell() + len(piece) > content.size:
                file.truncate(0)
                raise MirrorFailed(f"sent more than the {content.size:,} bytes that the registry expects")
            file.write(piece)
            bar.update(len(piece))


def _kept(partial: Path) -> int:
    """How many bytes of an earlier try there are. Too many are wrong ones as well: the checksum finds them out."""
    return partial.stat().st_size if partial.exists() else 0


def _in_short(error: Exception) -> str:
    """The innermost reason of a network error, without the layers around it."""
    reason: BaseException = error
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    return f"{type(error).__name__}: {reason}"
