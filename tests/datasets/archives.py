"""Archives made in a test."""

import io
import tarfile
import zipfile


def tgz(path, members):
    """Write a .tgz of {name: bytes}, or of TarInfo objects, which have no content."""
    with tarfile.open(path, "w:gz") as file:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                file.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def packed(path, members):
    """Write a .zip of {name or ZipInfo: bytes}."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info
