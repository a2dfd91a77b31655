"""The program as its users call it, inside the process of the test."""

import sys

import pytest

from labkit import cli


def program(monkeypatch, capsys):
    """A function that takes the words after `labkit` and gives (exit code, stdout, stderr)."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["labkit", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return call
