"""The playground without a browser: its controls reach the run, its figure shows it, and nothing of it stays behind."""

import asyncio
import dataclasses
import gc
import json
import math
import time
import weakref

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss
from labkit.panels import Playground
from labkit.panels.playground_presets import PRESETS, live_experiment
from labkit.training import Experiment, Recording
from labkit.training.controls import replay
from tests.panels.playgrounds import SMALL, go
from tests.recordings import same

# ------------------------------------------------------------ what is drawn


def test_the_map_shows_every_sample_its_proxies_and_what_k_center_chose(make):
    panel = make()
    go(panel, 12)
    snapshot, scene = panel.session.snapshot, panel.figure.scene
    np.testing.assert_allclose(scene.samples, snapshot.live.embeddings, atol=1e-6)
    np.testing.assert_array_equal(panel.figure.cast.classes[panel.figure.cast.labels], snapshot.labels)
    np.testing.assert_allclose(scene.proxies, snapshot.live.proxies, atol=1e-6)
    np.testing.assert_allclose(scene.chosen, snapshot.stored[0].proxies, atol=1e-6)
    panel.next_problem()
    panel.run_pending()
    chosen = panel.recording().problems[0].next_proxies
    np.testing.assert_allclose(panel.figure.scene.chosen, chosen, atol=1e-6)


def test_the_title_tells_the_cover(make):
    panel = make()
    go(panel, 5)
    scene, cover = panel.figure.scene, panel.session.snapshot.metrics["covering_q95"][-1]
    assert scene.step == 5 and scene.title == f"95 % of a class's samples lie within {cover:.3f} of its nearest proxy"
    assert scene.radii.mean() == pytest.approx(cover, rel=1e-3)


def test_the_status_says_of_which_step_the_figures_are(make):
    panel = make()
    go(panel, 10)
    score = panel.session.snapshot.metrics["map_at_r"][-1]
    assert panel.transport.status.value.endswith(f"step 10, problem 1, MAP@R {score:.3f}")
    go(panel, 2)
    assert panel.transport.status.value.endswith(f"step 12, problem 1, MAP@R {score:.3f} at step 10")
    panel.transport.timeline.value = 0
    first = panel.session.snapshot.metrics["map_at_r"][0]
    assert panel.transport.status.value.endswith(f"step 0, problem 1, MAP@R {first:.3f}")


def test_the_rings_say_what_chose_them(make):
    panel = make()
    go(panel, 3)
    panel.controls.hot["projections.selection"].value = "random"
    go(panel, 2)
    assert panel.figure.scene.chosen_by == "start of this problem (K-Center)"  # the running problem began before that
    panel.next_problem()
    go(panel, 2)
    assert panel.figure.scene.chosen_by == "start of this problem (at random)"
    panel.controls.hot["projections.selection"].value = "k_center"
    go(panel, 3)
    assert panel.figure.scene.chosen_by == "start of this problem (at random)"
    panel.transport.timeline.value = 0
    assert panel.figure.scene.chosen_by == "start of this problem (K-Center)"
    assert make("random").figure.scene.chosen_by == "start of this problem (at random)"


def test_the_curves_have_a_point_per_evaluation_and_marks_where_something_changed(make):
    panel = make()
    go(panel, 10)
    panel.controls.hot["optimizer.learning_rate"].value = 0.01
    panel.next_problem()
    go(panel, 10)
    recording, course = panel.recording(), panel.figure.course
    np.testing.assert_allclose(course.steps, recording.metrics["step"])
    np.testing.assert_allclose(course.values["map_at_r"], recording.metrics["map_at_r"], rtol=1e-6)
    assert course.ends == (10,)
    assert course.changes == ((10, "learning rate 0.002 → 0.01"), (10, "next problem, by hand"))


def test_a_tiny_spread_is_drawn_as_what_it_is(make):
    panel = make()
    go(panel, 10)
    snapshot = panel.session.snapshot
    tiny = (1e-1, 4e-4, 2.5e-7)
    panel._live.draw(dataclasses.replace(snapshot, metrics={**snapshot.metrics, "proxy_spread": tiny}))
    np.testing.assert_allclose(panel.figure.course.values["proxy_spread"], tiny, rtol=1e-6)


def test_covering_balls_reach_as_far_as_the_95_per_cent_cover(make):
    panel = make()
    go(panel, 6)
    panel.transport.balls.value = True
    assert panel.figure.balls
    snapshot = panel.session.snapshot
    own, embeddings = snapshot.live.proxies, snapshot.live.embeddings.astype(float)
    for c, radius in enumerate(panel.figure.scene.radii):
        nearest = np.linalg.norm(embeddings[snapshot.labels == c][:, None] - own[c][None], axis=2).min(axis=1)
        assert radius == pytest.approx(np.quantile(nearest, 0.95), rel=1e-5)
    panel.transport.balls.value = False
    assert not panel.figure.balls


def test_the_timeline_goes_back_while_the_run_goes_on(make):
    panel = make()
    go(panel, 20)
    assert panel.transport.timeline.value == panel.transport.timeline.max == len(panel.recording().steps)
    panel.transport.timeline.value = 2
    stored = panel.recording()
    np.testing.assert_allclose(panel.figure.scene.samples, stored.embeddings[2], atol=5e-4)
    assert (
        "stored snapshot" in panel.transport.status.value and f"step {stored.steps[2]}" in panel.transport.status.value
    )
    go(panel, 10)
    assert panel.transport.timeline.value == 2  # stays where it was put
    np.testing.assert_allclose(panel.figure.scene.samples, stored.embeddings[2], atol=5e-4)
    panel.transport.timeline.value = panel.transport.timeline.max
    assert "step 30" in panel.transport.status.value and panel.figure.scene.step == 30


# ------------------------------------------------------------ what acts at once


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("optimizer.learning_rate", 0.01),
        ("projections.projection_weight", 0.1),
        ("projections.patience", 7),
        ("projections.pool_size", 20),
        ("projections.selection", "random"),
        ("loss.options.neg_margin", 0.8),
    ],
)
def test_a_hot_control_reaches_the_run_and_is_on_record(make, setting, value):
    panel = make()
    go(panel, 3)
    panel.controls.hot[setting].value = value
    go(panel, 2)
    event = panel.recording().events[-1]
    assert (event["step"], event["setting"], event["value"]) == (3, setting, value)
    assert panel.session.snapshot.run == 1  # nothing began anew


def test_a_refused_value_is_told_and_the_control_goes_back(make):
    panel = make()
    go(panel, 2)
    panel.controls.hot["projections.pool_size"].value = 2  # fewer than the four proxies of a class
    assert "at least proxies_per_class = 4" in panel.message.value
    assert panel.controls.hot["projections.pool_size"].value == 8
    assert panel.recording().events == []


def test_what_a_method_does_not_have_is_greyed_out(make):
    panel = make("collapse")
    assert panel.controls.hot["projections.patience"].disabled
    assert not panel.controls.hot["projections.pool_size"].disabled
    panel.controls.cold["method"].value = "pairs"
    panel.run_pending()
    assert panel.controls.hot["projections.pool_size"].disabled


# ------------------------------------------------------------ what restarts


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("method", "samples"),
        ("loss.name", "triplet"),
        ("loss.name", "proxy_nca"),
        ("projections.proxies_per_class", 2),
        ("projections.proxies_per_class", 12),
        ("loss.options.normalize", "l2"),
        ("network.name", "resnet20v2"),
        ("data.source", "mnist-5k"),
        ("seed", 5),
    ],
)
def test_a_cold_control_begins_anew(make, setting, value):
    panel = make()
    go(panel, 4)
    panel.controls.cold[setting].value = value
    panel.run_pending()
    snapshot = panel.session.snapshot
    assert (snapshot.run, snapshot.step, snapshot.events) == (2, 0, ())
    section, _, name = setting.partition(".")
    found = getattr(snapshot.settings, section)
    found = found.options["normalize"] if "options" in name else getattr(found, name) if name else found
    assert found == value
    if setting != "data.source":  # the pictures are given here
        go(panel, 5)
        assert panel.message.value == "" and math.isfinite(panel.session.snapshot.loss)


def test_margins_in_the_menu_are_those_of_the_loss_in_use(make):
    panel = make()
    assert {"loss.options.pos_margin", "loss.options.neg_margin"} <= set(panel.controls.hot)
    panel.controls.cold["loss.name"].value = "triplet"
    panel.run_pending()
    assert "loss.options.margin" in panel.controls.hot and "loss.options.neg_margin" not in panel.controls.hot
    panel.controls.hot["loss.options.margin"].value = 0.33
    go(panel, 2)
    assert panel.session.snapshot.options["margin"] == 0.33


def test_a_combination_that_does_not_fit_is_told_and_the_menu_goes_back(make):
    panel = make("samples")
    panel.controls.cold["loss.name"].value = "soft_triple"
    assert "owns its proxies" in panel.message.value
    assert panel.controls.cold["loss.name"].value == "c2"
    assert panel.session.snapshot.run == 1


def test_a_cold_control_in_the_middle_of_a_run_with_a_thread(make):
    panel = make(threaded=True)
    panel.play()
    deadline = time.monotonic() + 30
    while panel.session.snapshot.step < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    panel.controls.cold["seed"].value = 9
    assert panel.session.settle(30)
    snapshot = panel.session.snapshot
    assert (snapshot.run, snapshot.step, snapshot.state, snapshot.settings.seed) == (2, 0, "paused", 9)


# ------------------------------------------------------------ losses of one's own


class Mine(ContrastiveLoss):
    def __init__(self, neg_margin=0.6):
        super().__init__(neg_margin=neg_margin)
        self.push = 1.0


@pytest.mark.parametrize(
    "given",
    [Mine, Mine(), lambda: Mine(), {"mine": Mine, "again": Mine()}],
    ids=["class", "module", "function", "dict"],
)
def test_a_loss_of_ones_own_is_in_the_menu_and_in_use(make, given):
    panel = make(loss=given)
    name = panel.controls.cold["loss.name"].value
    assert name in ("Mine", "<lambda>", "mine")
    go(panel, 3)
    assert panel.session.snapshot.options == {"pos_margin": 0.0, "neg_margin": 0.6, "push": 1.0}
    panel.controls.hot["loss.options.push"].value = 2.0
    panel.controls.cold["loss.name"].value = "c2"
    panel.run_pending()
    assert "push" not in panel.session.snapshot.options and panel.session.snapshot.experiment.loss.name == "c2"
    panel.controls.cold["loss.name"].value = name
    panel.run_pending()
    assert panel.session.snapshot.options["push"] == 1.0


def test_what_is_no_loss_is_named(digits):
    with pytest.raises(LabError, match="a module, its class, or a function"):
        Playground(splits=digits, loss=3.0, threaded=False, **SMALL)
    with pytest.raises(LabError, match="a torch module"):
        Playground(splits=digits, loss=dict, threaded=False, **SMALL)


# ------------------------------------------------------------ presets, notices, failure


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_runs_and_says_what_to_notice(make, preset):
    panel = make(preset)
    assert PRESETS[preset].notice[:40] in panel.notice.value
    go(panel, 8)
    assert panel.session.snapshot.step == 8 and panel.message.value == ""


def test_choosing_a_preset_begins_it(make):
    panel = make("collapse", seed=3)
    panel.preset.value = "k1"
    panel.run_pending()
    snapshot = panel.session.snapshot
    assert (snapshot.settings.projections.proxies_per_class, snapshot.settings.seed, snapshot.run) == (1, 3, 2)
    assert "One proxy" in snapshot.settings.name or "k1" in snapshot.settings.name


def test_unknown_presets_and_settings_are_named():
    with pytest.raises(LabError, match="Did you mean 'collapse'"):
        Playground("colapse")
    with pytest.raises(LabError, match="projections.lambda"):
        live_experiment("ccp", **{"projections.lambda": 1})


def test_the_notice_follows_the_state(make):
    panel = make("collapse")
    go(panel, 6)
    panel.controls.hot["optimizer.learning_rate"].value = 0.005
    go(panel, 5)
    assert "learning rate 0.002 → 0.005" in panel.notice.value
    panel = make("collapse")
    go(panel, 10)
    panel.next_problem()
    go(panel, 5)
    assert "the squares started at the rings" in panel.notice.value


def test_the_notice_never_speaks_of_what_is_over(make):
    panel = make("collapse")
    go(panel, 12)
    panel.next_problem()
    go(panel, 2)  # no evaluation yet: the last figures are those of the problem before
    assert "have jumped to the rings" in panel.notice.value and "at step 12" in panel.notice.value
    go(panel, 6)
    assert "the squares started at the rings" in panel.notice.value and "give it some 200 steps" in panel.notice.value
    panel.controls.hot["loss.options.neg_margin"].value = 0.8
    go(panel, 1)
    assert "margin m⁻ " in panel.notice.value and "→ 0.8" in panel.notice.value  # the name that its slider has
    panel.next_problem()
    go(panel, 7)
    assert "Changed at step" not in panel.notice.value


def test_a_change_at_the_step_at_which_a_problem_began_is_told(make):
    panel = make("collapse")
    go(panel, 10)
    panel.next_problem()
    panel.run_pending()
    panel.controls.hot["optimizer.learning_rate"].value = 0.005
    go(panel, 5)
    assert "Changed at step 10" in panel.notice.value


def test_a_problem_that_has_only_just_begun_is_not_ended_and_that_is_said(make):
    panel = make("collapse")
    button = next(b for b in panel.transport.buttons.children if b.description == "Next problem")
    button.click()
    assert "Train a step first" in panel.message.value
    go(panel, 3)
    button.click()
    panel.run_pending()
    assert panel.message.value == ""
    button.click()
    panel.run_pending()
    assert "only just begun" in panel.message.value and panel.session.snapshot.problem() == 2
    with pytest.raises(LabError, match="only just begun"):
        panel.next_problem()
    go(panel, 1)
    button.click()
    panel.run_pending()
    assert panel.message.value == "" and panel.session.snapshot.problem() == 3


def test_rings_at_a_problems_last_snapshot_are_the_next_ones_and_old_rings_fade(make):
    panel = make("collapse")
    go(panel, 10)
    panel.next_problem()
    panel.run_pending()
    frame = panel.session.snapshot.boundaries[0].frame
    assert panel.figure.scene.chosen_by == "start of this problem (K-Center)"
    panel.transport.timeline.value = frame
    assert (panel.figure.scene.chosen_by, panel.figure.scene.chosen_strength) == ("start of the next problem (K-Center)", 1.0)
    panel.transport.timeline.value = panel.transport.timeline.max
    go(panel, 60)
    assert panel.figure.scene.chosen_strength < 1


def test_no_entry_of_a_menu_is_lost_when_it_is_chosen(make):
    panel = make()
    menu = panel.controls.cold["loss.options.normalize"]
    menu.label = "none"
    panel.run_pending()
    assert menu.label == "none" and menu.index == 2 and panel.session.snapshot.settings.loss.options["normalize"] is None


def test_a_loss_that_turns_nan_says_so_and_goes_back(make):
    panel = make()
    go(panel, 8)
    panel.change("optimizer.learning_rate", 1e29)
    panel.play()
    panel.run_pending()
    assert 'role="alert"' in panel.message.value and "at step" in panel.message.value
    assert "Moved last: learning rate" in panel.message.value
    assert panel.transport.back.layout.display == ""
    assert np.isfinite(panel.figure.scene.samples).all()
    panel.go_back()
    panel.run_pending()
    assert panel.message.value == "" and panel.transport.back.layout.display == "none"
    assert panel.controls.hot["optimizer.learning_rate"].value == pytest.approx(2e-3)
    go(panel, 5)
    assert panel.session.snapshot.step == 13


def test_the_teacher_hides_the_controls(make):
    panel = make(controls=False)
    assert panel.controls.box.layout.display == "none"
    panel.teacher.value = False
    assert panel.controls.box.layout.display == "flex"


# ------------------------------------------------------------ taking it out


def test_the_recording_is_saved_reopened_and_repeated_by_its_code(make, tmp_path, digits):
    panel = make("collapse")
    go(panel, 7)
    panel.controls.hot["loss.options.neg_margin"].value = 0.8
    panel.next_problem()
    go(panel, 8)
    recording = Recording.load(panel.sharing.save(tmp_path / "run.npz"))
    assert len(recording.events) == 2
    again = replay(Experiment.from_dict(recording.experiment), recording.events, 15, splits=digits)
    same(Recording.load(again.save(tmp_path / "again.npz")), recording)
    code = panel.sharing.code().replace("splits=...", "splits=digits")
    exec(code, names := {"digits": digits})  # noqa: S102 - that it runs is what is tested
    same(Recording.load(names["recording"].save(tmp_path / "code.npz")), recording)


def test_a_state_is_loaded_again(make):
    panel = make("collapse", seed=4)
    go(panel, 3)
    panel.controls.hot["optimizer.learning_rate"].value = 0.005
    go(panel, 3)
    text = panel.sharing.state()
    assert json.loads(text)["step"] == 6
    other = make("ccp")
    other.sharing.text.value = text
    other.sharing._do(other.sharing._load)
    other.run_pending()
    assert other.session.snapshot.settings == panel.session.snapshot.settings
    for broken, message in (
        ("{", "JSON"),
        ("[1]", "a JSON object"),
        ('{"settings": {"sed": 1}}', "Did you mean 'seed'"),
    ):
        other.sharing.text.value = broken
        other.sharing._do(other.sharing._load)
        assert message.split()[-1].strip("'") in other.message.value


def test_the_exported_page_stands_alone(make, tmp_path):
    panel = make()
    go(panel, 6)
    page = panel.sharing.export(tmp_path / "run.html").read_text()
    assert "Plotly.newPlot" in page and "<script src=" not in page


def test_a_full_disk_is_told(make, tmp_path, monkeypatch):
    panel = make()
    go(panel, 2)
    monkeypatch.chdir(tmp_path)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    panel.sharing._do(panel.sharing._save)
    assert "room to write it" in panel.message.value
    go(panel, 2)
    assert panel.session.snapshot.step == 4


# ------------------------------------------------------------ life and death


def test_two_playgrounds_do_not_disturb_each_other(make):
    def run(panel, steps):
        for _ in range(steps):
            go(panel, 1)
            yield

    one, two = make("ccp"), make("collapse", seed=1)
    for _ in zip(run(one, 12), run(two, 12), strict=True):
        pass
    alone = make("ccp")
    go(alone, 12)
    same(one.recording(), alone.recording())
    assert not np.array_equal(one.recording().embeddings, two.recording().embeddings)


def test_a_closed_playground_is_freed_with_its_widgets_and_its_thread(digits):
    from ipywidgets.widgets.widget import _instances

    gc.collect()
    before = set(_instances)
    panel = Playground("collapse", splits=digits, **SMALL)
    panel.play()
    thread, left = panel.session._thread, [weakref.ref(panel), weakref.ref(panel.session), weakref.ref(panel.figure)]
    panel.close()
    assert not thread.is_alive()
    del panel
    gc.collect()
    assert [each() for each in left] == [None, None, None]
    assert set(_instances) == before


@pytest.mark.parametrize("who", ["panel", "session"])
def test_drawing_goes_on_in_an_event_loop_until_the_run_rests(make, who):
    panel = make(threaded=True)

    async def watch():
        (panel if who == "panel" else panel.session).step(12)
        for _ in range(300):
            await asyncio.sleep(0.05)
            if "step 12" in panel.transport.status.value and "paused" in panel.transport.status.value:
                break
        await asyncio.sleep(0.3)
        return panel._watch._task[1].done()

    assert asyncio.run(watch())
    assert "step 12" in panel.transport.status.value


def test_a_page_that_does_not_answer_gets_few_frames(make, monkeypatch):
    panel = make(threaded=True)
    monkeypatch.setattr("labkit.panels.watching.TICK", 0.0)
    monkeypatch.setattr("labkit.panels.watching.PATIENT", 1000.0)
    panel.figure._hear(None, {"asks": "all"}, [])  # the page has come
    panel.session._conductor._frame_seconds = 0.0

    async def until(true):
        for _ in range(1000):
            if true():
                return
            await asyncio.sleep(0.01)
        raise AssertionError

    async def watch():
        panel.play()
        await until(lambda: panel._watch._unseen)
        frames, at = panel._watch.frames, panel.session.snapshot.step
        await until(lambda: panel.session.snapshot.step > at + 10)
        assert panel._watch.frames == frames  # the last was never acknowledged
        panel.figure._hear(None, {"drawn": panel.figure.sent}, [])
        await until(lambda: panel._watch.frames > frames)
        panel.pause()
        panel._watch.stop()

    asyncio.run(watch())


def test_torch_is_given_back_its_threads(make):
    before = torch.get_num_threads()
    go(make(), 3)
    assert torch.get_num_threads() == before
