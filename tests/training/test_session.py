"""The live session: commands, snapshots, errors, and nothing left behind."""

import gc
import math
import threading
import time
import weakref

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.losses import FunctionLoss
from labkit.threads import one_core_left
from labkit.training import Experiment, Recording, Trainer
from labkit.training.controls import replay
from labkit.training.session import LiveSession
from tests.recordings import same
from tests.training.conftest import long_work, tiny

SOON = 30  # seconds that a test waits for what takes milliseconds


def session_of(digits, preset="poc-ccp", threaded=False, **changes):
    changes = {"steps": 400, **changes}
    loss = changes.pop("own", None)
    return LiveSession(tiny(preset, **changes), splits=digits, loss=loss, threaded=threaded, frame_seconds=0)


def wait_until(true):
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# ------------------------------------------------------------ without a thread


def test_a_session_left_alone_records_what_a_trainer_does(digits):
    session = session_of(digits, steps=30)
    session.start()
    assert session.run_pending().state == "done"
    same(session.recording(), Trainer(tiny(), splits=digits).run(progress=False))


def test_commands_act_in_order_and_before_the_steps_that_are_due(digits):
    session = session_of(digits)
    session.step(3)
    session.set("optimizer.learning_rate", 1e-3)
    session.step(4)
    assert session.snapshot.state == "new"  # nothing happens before it is asked to
    snapshot = session.run_pending()
    assert (snapshot.state, snapshot.step) == ("paused", 7)
    assert snapshot.settings.optimizer.learning_rate == 1e-3
    assert snapshot.experiment.optimizer.learning_rate == 3e-3
    session.start()
    assert session.run_pending(5).step == 12 and session.state == "playing"
    session.pause()
    assert session.run_pending().state == "paused"


def test_steps_asked_for_while_it_steps_come_on_top_and_while_it_plays_are_the_last(digits):
    session = session_of(digits)
    session.step(3)
    session.step(4)
    assert session.run_pending().step == 7
    session.start()
    session.run_pending(2)
    session.step(5)
    snapshot = session.run_pending()
    assert snapshot.step == 14 and snapshot.state == "paused"


def test_snapshots_are_never_changed_by_what_comes_after(digits):
    session = session_of(digits)
    session.step(6)
    first = session.run_pending()
    kept = (first.live.embeddings.copy(), dict(first.metrics), len(first.stored), first.live.proxies.copy())
    session.step(20)
    later = session.run_pending()
    np.testing.assert_array_equal(first.live.embeddings, kept[0])
    np.testing.assert_array_equal(first.live.proxies, kept[3])
    assert dict(first.metrics) == kept[1] and len(first.stored) == kept[2]
    assert later.version > first.version and later.step == 26


def test_nothing_of_a_snapshot_can_be_written_to(digits):
    """Its frames lie in the recording's memory."""
    session = session_of(digits)
    session.start()
    while not session.run_pending(1).boundaries:
        pass
    snapshot = session.run_pending(1)
    frames = [array for frame in (snapshot.live, *snapshot.stored) for array in (frame.embeddings, frame.proxies)]
    for array in (*frames, snapshot.chosen(), snapshot.labels, snapshot.thumbnails):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_what_is_seen_is_what_is_there(digits):
    session = session_of(digits)
    session.step(12)
    snapshot, trainer = session.run_pending(), Trainer(tiny(steps=400), splits=digits)
    trainer.step(12)
    np.testing.assert_array_equal(snapshot.live.embeddings, trainer.embed(trainer.sample.images))
    np.testing.assert_array_equal(snapshot.live.proxies, trainer.projections.normalized(trainer.projections.proxies.detach()))
    recording = session.recording()
    assert [frame.step for frame in snapshot.stored] == recording.steps.tolist()
    np.testing.assert_array_equal(snapshot.labels, recording.labels)
    assert snapshot.metrics["map_at_r"] == tuple(recording.metrics["map_at_r"])


def test_looking_does_not_disturb_the_run(digits):
    watched, unwatched = session_of(digits, steps=30), session_of(digits, steps=30)
    watched.start()
    while watched.run_pending(1).state != "done":
        assert watched.snapshot.live is not None
    unwatched.start()
    unwatched.run_pending()
    same(watched.recording(), unwatched.recording())


def test_problems_and_chosen_proxies_of_a_snapshot(digits):
    session = session_of(digits, steps=60)
    session.start()
    snapshot = session.run_pending()
    problems = session.recording().problems
    assert len(problems) >= 3
    second = problems[1]
    np.testing.assert_array_equal(snapshot.chosen(second.snapshot), second.next_proxies)
    np.testing.assert_array_equal(snapshot.chosen(second.snapshot - 1), problems[0].next_proxies)
    np.testing.assert_array_equal(snapshot.chosen(0), snapshot.stored[0].proxies)
    assert snapshot.problem(second.snapshot) == 2 and snapshot.problem(second.snapshot + 1) == 3 and snapshot.problem(0) == 1


def test_a_live_run_is_repeated_from_its_experiment_and_events(digits, tmp_path):
    session = session_of(digits)

    def go_on(steps):
        session.step(steps)
        session.run_pending()

    go_on(7)
    session.set("optimizer.learning_rate", 1e-3)
    session.set("loss.options.neg_margin", 0.7)
    go_on(6)
    session.next_problem()
    go_on(9)
    session.set("projections.selection", "random")
    session.set("projections.projection_weight", 0.05)
    go_on(20)
    path = session.recording().save(tmp_path / "live.npz")
    recording = Recording.load(path)
    assert [event["step"] for event in recording.events] == [7, 7, 13, 22, 22]
    again = replay(Experiment.from_dict(recording.experiment), recording.events, 42, splits=digits)
    same(Recording.load(again.save(tmp_path / "again.npz")), recording)


def test_reset_begins_again_with_the_settings_as_they_stand(digits):
    session = session_of(digits)
    session.step(8)
    session.set("optimizer.learning_rate", 1e-3)
    session.step(8)
    session.reset()
    snapshot = session.run_pending()
    assert (snapshot.step, snapshot.state, snapshot.run, snapshot.events) == (0, "paused", 2, ())
    assert snapshot.experiment.optimizer.learning_rate == 1e-3
    session.reset(tiny(seed=4))
    assert session.run_pending().experiment.seed == 4


def test_a_reset_keeps_the_margins_of_a_loss_of_ones_own(digits):
    from labkit.losses import ContrastiveLoss

    class Mine(ContrastiveLoss):
        pass

    loss = Mine(neg_margin=0.6)
    session = session_of(digits, own=loss)
    session.set("loss.options.neg_margin", 0.9)
    session.step(2)
    session.reset()
    snapshot = session.run_pending()
    assert snapshot.options["neg_margin"] == 0.9 and snapshot.events[-1]["step"] == 0
    assert loss.neg_margin == 0.6  # the caller's own object is left alone


@pytest.mark.parametrize("setting", ["projections.proxies_per_class", "data.source", "lambda"])
def test_cold_settings_are_refused_at_once(digits, setting):
    with pytest.raises(LabError, match="Reset the session"):
        session_of(digits).set(setting, 1)


def test_a_refused_value_stops_nothing(digits):
    session = session_of(digits)
    with pytest.raises(LabError, match="learning_rate"):
        session.set("optimizer.learning_rate", 0.0)
    session.start()
    session.run_pending(2)
    session.set("loss.options.beta", 0.1)
    snapshot = session.run_pending(2)
    assert snapshot.state == "playing" and snapshot.step == 4 and "loss.options.beta" in snapshot.message
    session.pause()
    with pytest.raises(LabError, match=r"loss\.options\.beta"):
        session.join()
    assert session.join().state == "paused"


def test_a_restart_that_cannot_be_built_leaves_the_run_alone(digits):
    session = session_of(digits)
    session.step(3)
    session.reset(tiny(**{"data.classes_per_batch": 11}))
    snapshot = session.run_pending()
    assert snapshot.step == 3 and snapshot.state == "paused" and "at most the 10 classes" in snapshot.message


def test_a_snapshot_says_what_made_its_run(digits):
    def first(experiment):
        return Trainer(experiment, splits=digits)

    def refused(experiment):
        raise LabError("loss", "one that can be built", "another")

    def second(experiment):
        return Trainer(experiment, splits=digits)

    session = LiveSession(tiny(), build=first, threaded=False)
    assert session.snapshot.build is first
    for build, made_by in ((refused, first), (second, second), (None, second)):
        session.reset(build=build)
        assert session.run_pending().build is made_by


# ------------------------------------------------------------ a loss that is not a number


def test_a_rate_that_explodes_stops_names_the_step_and_the_control_and_goes_back(digits):
    session = session_of(digits, **{"optimizer.schedule": "constant"})
    session.step(8)
    session.run_pending()
    session.set("optimizer.learning_rate", 1e29)
    session.start()
    snapshot = session.run_pending()
    assert snapshot.state == "failed" and snapshot.can_go_back
    assert "at step" in snapshot.message and "Moved last: learning rate 0.003 → 1e+29, at step 8." in snapshot.message
    session.start()  # does not go on from there
    assert "Go back or reset first" in session.run_pending().message
    session.go_back()
    snapshot = session.run_pending()
    assert (snapshot.state, snapshot.step) == ("paused", 8)
    assert snapshot.settings.optimizer.learning_rate == 3e-3
    assert "back from step" in snapshot.events[-1]["what"]
    session.step(22)
    session.run_pending()
    recording, untouched = session.recording(), Trainer(tiny(steps=400, **{"optimizer.schedule": "constant"}), splits=digits)
    untouched.step(30)
    np.testing.assert_array_equal(recording.embeddings, untouched.recording().embeddings)
    again = replay(Experiment.from_dict(recording.experiment), recording.events, 30, splits=digits)
    same(again, recording)


def test_a_loss_of_ones_own_that_turns_nan_is_told_at_its_step_and_goes_back_to_the_evaluation(digits):
    class Fails(torch.nn.Module):
        calls = 0

        def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
            Fails.calls += 1
            return embeddings.square().sum() * (math.nan if self.calls == 18 else 1e-3)

    session = session_of(digits, own=Fails())
    session.start()
    snapshot = session.run_pending()
    assert snapshot.state == "failed" and "nan, at step 18" in snapshot.message
    with pytest.raises(LabError, match="at step 18"):
        session.join()
    session.go_back()
    assert session.run_pending().step == 15
    session.step(10)
    assert session.run_pending().step == 25


def test_weights_that_turn_nan_fail_at_their_step_and_what_was_recorded_before_can_be_saved(digits, tmp_path):
    class Fails(torch.nn.Module):
        def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
            return (embeddings * 0).sum().sqrt()  # 0, with a derivative of infinity times 0

    session = session_of(digits, own=Fails())
    session.start()
    snapshot = session.run_pending()
    assert snapshot.state == "failed" and "at step 1" in snapshot.message
    loaded = Recording.load(session.recording().save(tmp_path / "r.npz"))
    assert loaded.steps.tolist() == [0] and np.isfinite(loaded.embeddings).all()


def test_an_exception_of_another_kind_is_raised_on_join(digits):
    def broken(values, same, different):
        raise RuntimeError("no such pair")

    session = session_of(digits, threaded=True, own=FunctionLoss(broken))
    session.start()
    with pytest.raises(RuntimeError, match="no such pair"):
        session.join(SOON)
    assert session.state == "failed" and "no such pair" in session.snapshot.message
    session.stop()


# ------------------------------------------------------------ with a thread


def test_play_pause_and_stop(digits):
    with session_of(digits, threaded=True, steps=100_000) as session:
        session.start()
        wait_until(lambda: session.snapshot.step >= 20)
        assert session.state == "playing"
        session.pause()
        assert session.settle(SOON)
        at = session.snapshot.step
        session.step(5)
        assert session.join(SOON).step == at + 5
        assert session.snapshot.steps_per_second >= 0
    assert session.state == "stopped" and threading.active_count() == len(threading.enumerate())
    assert not any(thread.name == "labkit session" for thread in threading.enumerate())


def test_a_thread_records_what_no_thread_does(digits):
    with session_of(digits, threaded=True, steps=30) as session:
        session.start()
        session.join(SOON)
        assert session.state == "done"
        same(session.recording(), Trainer(tiny(), splits=digits).run(progress=False))


def test_two_sessions_side_by_side_do_not_disturb_each_other(digits):
    with session_of(digits, threaded=True, steps=30) as one, session_of(digits, threaded=True, steps=30, seed=3) as two:
        one.start()
        two.start()
        one.join(SOON), two.join(SOON)
        same(one.recording(), Trainer(tiny(), splits=digits).run(progress=False))
        same(two.recording(), Trainer(tiny(seed=3), splits=digits).run(progress=False))


def test_a_recording_can_be_taken_while_it_trains(digits):
    with session_of(digits, threaded=True, steps=100_000) as session:
        session.start()
        wait_until(lambda: session.snapshot.step > 6)
        recording = session.recording()
        assert session.state == "playing" and recording.steps[-1] >= 5
        assert len(recording.embeddings) == len(recording.steps) == len(recording.proxies)


def test_stop_and_start_goes_on(digits):
    session = session_of(digits, threaded=True)
    session.step(12)
    session.join(SOON)
    assert session.stop()
    assert session.recording().steps[-1] == 10
    session.step(18)
    session.join(SOON)
    session.stop()
    whole = Trainer(tiny(steps=400), splits=digits)
    whole.step(30)
    same(session.recording(), whole.recording())


def test_fifty_sessions_leave_no_thread_and_no_trainer_behind(digits):
    gc.collect()
    threads = threading.active_count()

    def one():
        session = session_of(digits, threaded=True, sample_size=20)
        session.start()
        wait_until(lambda: session.snapshot.step >= 1)
        assert session.stop()
        return weakref.ref(session._conductor.of_run().trainer)

    left = [one() for _ in range(50)]
    gc.collect()
    assert threading.active_count() == threads
    assert [each() for each in left] == [None] * 50


def test_fifty_starts_and_stops_of_one_session_leave_one_trainer(digits):
    threads = threading.active_count()
    session = session_of(digits, threaded=True)
    session.prepare()
    trainer = session._conductor.of_run().trainer
    for _ in range(50):
        session.start()
        assert session.stop()
    assert threading.active_count() == threads
    assert session._conductor.of_run().trainer is trainer


def test_a_forgotten_session_ends_its_thread(digits):
    def start():
        session = session_of(digits, threaded=True, steps=100_000)
        session.start()
        wait_until(lambda: session.snapshot.step > 2)
        return session._thread, weakref.ref(session)

    thread, left = start()
    wait_until(lambda: gc.collect() >= 0 and left() is None)
    thread.join(SOON)
    assert not thread.is_alive()


def test_a_session_of_the_same_name_stops_the_older(digits):
    first = LiveSession(tiny(steps=100_000), splits=digits, name="cell 3")
    first.start()
    wait_until(lambda: first.snapshot.step > 0)
    second = LiveSession(tiny(), splits=digits, name="cell 3")
    assert first.state == "stopped" and not first._alive()
    other = LiveSession(tiny(), splits=digits, name="cell 4")
    assert second.state == other.state == "new"


def test_a_step_that_takes_too_long_is_let_go_of_and_done_again(digits):
    """The network is held up in the middle of an evaluation; the session still stops, and loses nothing."""
    held, hold = threading.Event(), threading.Event()

    def build(experiment):
        trainer = Trainer(experiment, splits=digits)
        look = trainer.evaluator.look

        def slow(judged, proxies):
            if trainer.steps_done == 10 and not hold.is_set():
                held.set()
                while not session._abort.is_set():
                    hold.wait(0.01)
                hold.set()
            return look(judged, proxies)

        trainer.evaluator.look = slow
        return trainer

    session = LiveSession(tiny(), build=build)
    session.start()
    assert held.wait(SOON)
    assert session.stop(2.0)
    assert session.state == "stopped" and session.recording().steps[-1] == 8
    session.start()
    assert session.join(SOON).state == "done"
    session.stop()
    np.testing.assert_array_equal(session.recording().embeddings, Trainer(tiny(), splits=digits).run(False).embeddings)


def test_a_core_is_left_free_and_the_setting_put_back(monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        monkeypatch.setattr("labkit.threads.cores", lambda: 2)
        with one_core_left(), one_core_left():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        monkeypatch.setattr("labkit.threads.cores", lambda: 8)
        with one_core_left():
            assert torch.get_num_threads() == 3  # no more than the user allows
        monkeypatch.setattr("labkit.threads.cores", lambda: 1)
        with one_core_left():
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_the_user_s_number_of_threads_is_the_same_after_a_session(digits):
    before = torch.get_num_threads()
    session = session_of(digits, threaded=True)
    session.start()
    wait_until(lambda: session.snapshot.step > 2)
    session.stop()
    assert torch.get_num_threads() == before
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [before]


# ------------------------------------------------------------ while it is being built


def test_a_run_that_is_being_built_is_let_go_of_between_two_parts(digits, monkeypatch):
    """Where pictures are decoded, or features computed, for minutes."""
    endless, begun, ended = long_work()
    monkeypatch.setattr("labkit.training.opening.load_splits", endless)
    session = LiveSession(tiny())
    session.start()
    assert begun.wait(SOON)
    assert session.stop(SOON) and ended == [True]
    assert session.state == "stopped" and session.snapshot.message.startswith("Stopped while it was being built")
    assert not any(thread.name == "labkit session" for thread in threading.enumerate())
    monkeypatch.setattr("labkit.training.opening.load_splits", lambda experiment: digits)
    session.start()
    assert session.join(SOON).state == "done"
    session.stop()
    np.testing.assert_array_equal(session.recording().embeddings, Trainer(tiny(), splits=digits).run(False).embeddings)


def test_what_cannot_be_let_go_of_ends_by_itself_and_says_so(digits):
    begun, hold = threading.Event(), threading.Event()

    def build(experiment):
        begun.set()
        assert hold.wait(SOON)
        return Trainer(experiment, splits=digits)

    session = LiveSession(tiny(steps=3), build=build)
    session.start()
    assert begun.wait(SOON)
    for _ in range(2):  # also where it is asked again
        assert not session.stop(0.1)
        assert session.snapshot.message == "The run is still being built; it ends by itself as soon as it can."
    hold.set()
    wait_until(lambda: not any(thread.name == "labkit session" for thread in threading.enumerate()))
    assert session.state == "stopped" and session.recording().steps.tolist() == [0]
    session.start()
    assert session.join(SOON).step == 3
    session.stop()


def test_a_first_look_at_the_network_is_let_go_of_too(digits):
    """The untrained network's figures are part of the building."""
    begun = threading.Event()

    def build(experiment):
        trainer = Trainer(experiment, splits=digits)

        def slow(module, inputs):
            begun.set()
            while not session._abort.is_set():
                time.sleep(0.005)

        trainer.model.register_forward_pre_hook(slow)
        return trainer

    session = LiveSession(tiny(), build=build)
    session.start()
    assert begun.wait(SOON)
    assert session.stop(SOON) and session.snapshot.step == 0 and session.state == "stopped"


def test_a_loss_that_cannot_be_copied_is_told(digits):
    class Locked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

        def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
            return embeddings.sum()

    session = LiveSession(tiny(), splits=digits, loss=Locked(), threaded=False)
    session.step()
    with pytest.raises(LabError, match="loss: expected a loss that copy.deepcopy can copy; got TypeError: cannot pickle"):
        session.join()
