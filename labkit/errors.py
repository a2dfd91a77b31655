"""The one error that labkit raises for something its user can mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class LabError(ValueError):
    """A mistake in what labkit was given, told so that the reader can mend it.

    Parameters
    ----------
    argument : name of the argument, setting or file that is wrong.
    expected : what would have been right.
    got : what came instead (a shape, a value, a type); the message shows one line of it, a long one without its middle.
    hint : what to do about it; optional.

    Examples
    --------
    >>> str(LabError("labels", "one label per embedding, shape (32,)", "shape (31,)"))
    'labels: expected one label per embedding, shape (32,); got shape (31,).'
    """

    def __init__(self, argument: str, expected: str, got: object, hint: str = "") -> None:
        self.argument = argument
        self.expected = expected
        self.got = got
        self.hint = hint
        message = f"{argument}: expected {expected}; got {_shown(got)}."
        super().__init__(f"{message} {hint}" if hint else message)

    def __reduce__(self) -> tuple[type[LabError], tuple[str, str, object, str]]:
        return type(self), (self.argument, self.expected, self.got, self.hint)


def _shown(got: object) -> str:
    """What came instead in one line of at most 300 letters; its end stays, which says e.g. at which step it came."""
    text = " ".join(line.strip() for line in str(got).splitlines())
    return text if len(text) <= 300 else f"{text[:200]} … {text[-97:]}"


def said(error: BaseException, most: int = 200) -> str:
    """What an error says, in one line of at most `most` letters; the name of its kind where it says nothing.

    Examples
    --------
    >>> said(ValueError("two\\n  lines")), said(KeyError())
    ('two lines', 'KeyError')
    """
    return " ".join(str(error).split())[:most] or type(error).__name__


@contextmanager
def during(what: str) -> Iterator[None]:
    """Add to a LabError raised inside when it happened, e.g. `with during("step 7"):`."""
    try:
        yield
    except LabError as error:
        raise LabError(error.argument, error.expected, f"{error.got}, at {what}", error.hint) from error
