"""The playground's controls: what is typed or dragged arrives as it is, and none shows another value than the one in force."""

import threading

import pytest

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss, MultiSimilarityLoss
from labkit.panels.playground_presets import PRESETS
from tests.panels.playgrounds import go

LAMBDA, POOL = "projections.projection_weight", "projections.pool_size"


class Mine(ContrastiveLoss):
    """A loss of the user's own."""


# ------------------------------------------------------------ what arrives


@pytest.mark.parametrize(
    ("loss", "option", "value"),
    [("ms", "alpha", 14.35), ("ms", "beta", 75.83), ("triplet", "margin", 1.25), ("triplet", "margin", 0.57)],
)
def test_what_is_typed_or_dragged_arrives_to_the_last_digit(make, loss, option, value):
    panel = make("samples")
    panel.controls.cold["loss.name"].value = loss
    panel.run_pending()
    widget = panel.controls.hot[f"loss.options.{option}"]
    widget.value = value * (1 + 2e-16)  # as a page computes a place of a slider
    panel.run_pending()
    assert panel.session.snapshot.options[option] == pytest.approx(value, rel=1e-15)
    assert widget.value == pytest.approx(value, rel=1e-15)


def test_a_place_on_a_logarithmic_slider_is_a_number_of_two_digits(make):
    panel = make()
    panel.controls.hot["optimizer.learning_rate"].value = 10**-2.35
    panel.run_pending()
    assert panel.session.snapshot.settings.optimizer.learning_rate == 0.0045


# ------------------------------------------------------------ what is shown


def test_values_beyond_a_slider_are_shown_as_they_are(make):
    panel = make(**{POOL: 100, "projections.proxies_per_class": 3, "projections.patience": 55, "optimizer.learning_rate": 2e-7})
    hot = panel.controls.hot
    assert (hot[POOL].value, hot["projections.patience"].value) == (100, 55)
    assert hot["optimizer.learning_rate"].value == pytest.approx(2e-7)
    panel.controls.cold["projections.proxies_per_class"].value = 2
    panel.run_pending()
    assert panel.session.snapshot.settings.projections.pool_size == 100
    panel.change("loss.options.neg_margin", 3.5)
    panel.run_pending()
    assert hot["loss.options.neg_margin"].value == 3.5


def test_no_pull_is_the_left_end_of_its_slider_and_says_so(make):
    panel = make(**{LAMBDA: 0.0})
    widget = panel.controls.hot[LAMBDA]
    assert widget.description == "λ = 0 (no pull)" and not widget.readout
    widget.value = 0.5
    panel.run_pending()
    assert panel.session.snapshot.settings.projections.projection_weight == 0.5
    assert widget.description == "λ (pull back)" and widget.readout
    widget.value = 10**widget.min
    panel.run_pending()
    assert panel.session.snapshot.settings.projections.projection_weight == 0
    assert not widget.readout


@pytest.mark.parametrize("value", [1e-6, 3e-9, 100.0, 700.0])
def test_a_tiny_or_large_pull_is_not_taken_for_none(make, value):
    panel = make(**{LAMBDA: value})
    widget = panel.controls.hot[LAMBDA]
    assert widget.value == pytest.approx(value) and widget.readout and widget.meant() == value


def test_controls_that_go_leave_no_widget(make):
    from ipywidgets.widgets.widget import _instances

    panel = make("samples")

    def through_the_losses():
        for loss in ("triplet", "ms", "c2"):
            panel.controls.cold["loss.name"].value = loss
            panel.run_pending()
        return len(_instances)

    assert through_the_losses() == through_the_losses()


# ------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda p: p.step(-3), "n: expected"),
        (lambda p: p.change("projections.patience", 0), "projections.patience"),
        (lambda p: p.change("seed", 3), "acts at once"),
        (lambda p: p.restart({"seed": -1}), "seed"),
        (lambda p: p.load_preset("cpp"), "Did you mean 'ccp'"),
        (lambda p: p.next_problem(), "Train a step first"),
    ],
)
def test_what_a_cell_asks_for_in_vain_is_raised(make, asked, words):
    panel = make()
    with pytest.raises(LabError, match=words):
        asked(panel)
    assert panel.message.value == "" and panel.session.snapshot.run == 1


def test_what_was_refused_is_told_until_the_next_command_also_of_a_cell(make):
    panel = make()
    panel.controls.hot[POOL].value = 2
    assert "proxies_per_class" in panel.message.value
    panel.session.step(2)
    assert panel.message.value == ""


def test_a_loss_that_is_refused_is_not_the_panels_loss(make):
    panel = make(loss={"my loss": Mine, "bad": lambda: 3})
    go(panel, 2)
    menu = panel.controls.cold["loss.name"]
    menu.value = "bad"
    panel.run_pending()
    snapshot = panel.session.snapshot
    assert "expected a torch module" in snapshot.message and (snapshot.run, snapshot.step) == (1, 2)
    assert menu.value == "my loss"
    assert '"loss": "my loss"' in panel.sharing.state() and "loss=Mine()" in panel.sharing.code()
    panel.controls.cold["seed"].value = 5
    panel.run_pending()
    snapshot = panel.session.snapshot
    assert (snapshot.run, snapshot.settings.seed) == (2, 5) and type(panel.session._conductor._run.trainer.loss) is Mine


def test_a_preset_that_is_refused_is_not_the_panels_preset(make):
    given = [ContrastiveLoss(), 3]
    panel = make("collapse", loss={"once": lambda: given.pop(0)})
    assert PRESETS["collapse"].notice[:40] in panel.notice.value
    panel.preset.value = "k1"
    panel.run_pending()
    assert "expected a torch module" in panel.session.snapshot.message
    assert panel.preset.value == "collapse" and PRESETS["collapse"].notice[:40] in panel.notice.value


def test_the_menu_of_presets_follows_a_preset_that_was_loaded_in_a_cell(make):
    panel = make("collapse", loss={"ms": MultiSimilarityLoss})
    panel.load_preset("k1")
    assert PRESETS["collapse"].notice[:40] in panel.notice.value  # the run of before is still there
    panel.run_pending()
    assert panel.preset.value == "k1" and PRESETS["k1"].notice[:40] in panel.notice.value
    assert panel.session.snapshot.run == 2  # that the menu follows begins nothing


# ------------------------------------------------------------ two threads


class Door:
    """A lock that says when somebody asks for it."""

    def __init__(self, lock):
        self.lock, self.asked = lock, threading.Event()

    def __enter__(self):
        self.asked.set()
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def test_of_two_threads_that_draw_the_last_one_draws_the_newest(make):
    """With subshells a callback may draw while a cell does: what was taken first must not be drawn last."""
    panel = make()
    panel._lock = door = Door(panel._lock)
    with door.lock:
        late = threading.Thread(target=panel.refresh)
        late.start()
        assert door.asked.wait(30)
        panel.session.step(3)
        panel.session.run_pending()
        panel.refresh()
    late.join(30)
    assert "step 3" in panel.transport.status.value and panel._drawn[0] == panel.session.version
