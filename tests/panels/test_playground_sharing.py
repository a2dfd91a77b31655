"""What is taken out of a playground: files under the names that were typed, and code that says what it cannot know."""

import ast

import pytest

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss
from labkit.training import Recording
from tests.panels.playgrounds import go
from tests.recordings import same


class Mine(ContrastiveLoss):
    """A loss of the user's own."""

    def __init__(self, neg_margin=0.6):
        super().__init__(neg_margin=neg_margin)


def a_loss():
    return Mine(0.7)


# ------------------------------------------------------------ files


def press(panel, text):
    inside = panel.sharing.box.children[0]
    next(each for each in inside.children[0].children if getattr(each, "description", "") == text).click()


def test_names_with_a_dot_keep_what_stands_behind_it(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = make()
    go(panel, 2)
    for name in ("lr0.01", "lr0.02", "C2 v1.5 run", "has.npz", "HAS.NPZ too.NPZ"):
        panel.sharing.name.value = name
        press(panel, "Save recording")
        assert panel.message.value == ""
    expected = {"lr0.01.npz", "lr0.02.npz", "C2 v1.5 run.npz", "has.npz", "HAS.NPZ too.NPZ"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert Recording.load(tmp_path / "lr0.01.npz").steps[-1] == 2


@pytest.mark.parametrize("name", ["", "  ", ".", "..", "/", "a\0b", "n" * 300])
def test_what_is_no_name_of_a_file_is_told(make, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    panel = make()
    panel.sharing.name.value = name
    for text in ("Save recording", "Export page"):
        press(panel, text)
        assert "file: expected a name" in panel.message.value
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------ code


@pytest.mark.parametrize(("loss", "call"), [(Mine, "Mine()"), ({"my loss": Mine}, "Mine()"), (a_loss, "a_loss()")])
def test_a_class_or_function_is_called_by_its_own_name(make, digits, loss, call):
    panel = make(loss=loss)
    go(panel, 3)
    code = panel.sharing.code()
    assert f"loss={call}" in code and "loss=..." not in code
    exec(code.replace("splits=...", "splits=digits"), names := {"digits": digits, "Mine": Mine, "a_loss": a_loss})  # noqa: S102
    same(names["recording"], panel.recording())


@pytest.mark.parametrize(
    ("loss", "name"),
    [(Mine(0.7), "Mine"), ({"my\nloss": Mine(0.7)}, "my\\nloss"), (lambda: Mine(0.7), "<lambda>")],
    ids=["module", "dict", "lambda"],
)
def test_what_code_cannot_make_is_left_to_be_filled_in_and_refused_until_then(make, digits, loss, name):
    panel = make(loss=loss)
    go(panel, 3)
    code = panel.sharing.code()
    ast.parse(code)
    assert f"loss=...,  # the loss that the playground was given as '{name}'" in code
    assert "splits=...,  # the pictures that the playground was given" in code
    with pytest.raises(LabError, match="splits: expected Splits.*ellipsis"):
        exec(code, {})  # noqa: S102
    with pytest.raises(LabError, match="loss: expected"):
        exec(code.replace("splits=...", "splits=digits"), {"digits": digits})  # noqa: S102
    filled = code.replace("splits=...", "splits=digits").replace("loss=...", "loss=loss")
    exec(filled, names := {"digits": digits, "loss": Mine(0.7)})  # noqa: S102
    same(names["recording"], panel.recording())


def test_without_anything_given_the_code_is_whole(make):
    panel = make(splits=None)
    assert "..." not in panel.sharing.code()
