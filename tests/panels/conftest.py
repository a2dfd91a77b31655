"""Fixtures that the tests of panels share."""

from tests.panels.playgrounds import make

__all__ = ["make"]
