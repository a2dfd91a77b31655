"""Whether there is a browser to test with, and how it is started.

The tests here need the package playwright and a Chromium. Where either is absent they are skipped with one line; where
the environment variable LABKIT_BROWSER is "required", as in `.ci/run`, absence fails them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-background-networking", "--no-first-run", "--mute-audio"]
# WebGL is drawn by software, so that Scattergl traces appear on a machine without a graphics card.
WEBGL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]


def missing() -> str:
    """What the browser tests lack, in one line; empty where they can run."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "no browser tests: the package playwright is not installed"
    return "" if executable() else f"no browser tests: none of {', '.join(NAMES)} is on the path"


def executable() -> str | None:
    """Path of the first Chromium found."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def required() -> bool:
    """Whether a missing browser is a failure."""
    return os.environ.get("LABKIT_BROWSER", "") == "required"


@contextmanager
def browser(*, webgl: bool = True) -> Iterator[Any]:
    """A headless Chromium; skips the test, or fails it where a browser is required, when there is none."""
    lack = missing()
    if lack and required():
        pytest.fail(f"LABKIT_BROWSER=required, but {lack}")
    if lack:
        pytest.skip(lack)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable(), args=FLAGS + WEBGL * webgl)
        try:
            yield started
        finally:
            started.close()
