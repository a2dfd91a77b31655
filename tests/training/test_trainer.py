"""The loop: what a step does, what a run leaves behind, and that both repeat bit for bit."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from labkit.errors import LabError
from labkit.metrics import covering_radius, proxy_spread, retrieval_metrics
from labkit.training import Experiment, Recording, Trainer
from tests.recordings import same
from tests.training.conftest import tiny

METHODS = ["ccp", "proxy", "samples", "pairs"]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_repeats_bit_for_bit_in_any_stride_and_leaves_the_global_generator_alone(digits, method):
    experiment = tiny(f"poc-{method}")
    before = torch.get_rng_state()
    whole = Trainer(experiment, splits=digits).run(progress=False)
    assert torch.equal(torch.get_rng_state(), before)
    strided = Trainer(experiment, splits=digits)
    torch.manual_seed(12345)  # somebody else's business
    while not strided.done:
        strided.step(7)
    same(whole, strided.recording())


def test_two_trainers_side_by_side_do_not_disturb_each_other(digits):
    alone = Trainer(tiny(), splits=digits).run(progress=False)
    first, second = Trainer(tiny(), splits=digits), Trainer(tiny(seed=1), splits=digits)
    while not (first.done and second.done):
        first.step()
        second.step(2)
    same(alone, first.recording())
    assert not np.array_equal(first.recording().embeddings, second.recording().embeddings)


def test_recorded_figures_agree_with_what_was_recorded(digits):
    recording = Trainer(tiny(), splits=digits).run(progress=False)
    metrics, labels = recording.metrics, torch.tensor(recording.labels)
    owners = torch.arange(10).repeat_interleave(4)
    for row, step in enumerate(metrics["step"]):
        t = int(np.flatnonzero(recording.steps == step)[0])
        proxies = torch.tensor(recording.proxies[t])
        assert proxy_spread(proxies) == pytest.approx(metrics["proxy_spread"][row], rel=1e-5)
        radius = covering_radius(torch.tensor(recording.embeddings[t]), labels, proxies.flatten(0, 1), owners).mean()
        assert float(radius) == pytest.approx(metrics["covering_max"][row], abs=2e-3)  # float16 on record


def test_final_figures_are_those_of_the_weights_chosen_on_the_held_out_pictures(digits):
    trainer = Trainer(tiny(), splits=digits)
    recording = trainer.run(progress=False)
    best = int(recording.metrics["map_at_r"].argmax())
    assert recording.final["chosen_step"] == recording.metrics["step"][best]
    held = retrieval_metrics(trainer.embed(digits.held_out.images), digits.held_out.labels)
    assert held["map_at_r"] == recording.metrics["map_at_r"][best] == recording.final["held_out_map_at_r"]
    test = retrieval_metrics(trainer.embed(digits.test.images), digits.test.labels)
    assert test["map_at_r"] == recording.final["map_at_r"]


def test_problems_follow_one_another_and_each_starts_where_k_center_chose(digits):
    recording = Trainer(tiny(steps=60), splits=digits).run(progress=False)
    problems = recording.problems
    assert len(problems) >= 3
    assert [p.start for p in problems[1:]] == [p.end for p in problems[:-1]]
    assert problems[-1].end == 60 and problems[-1].next_proxies is None
    for problem in problems[:-1]:
        assert recording.steps[problem.snapshot] == problem.end
        # the snapshot shows the proxies as they had converged, not the ones that follow
        assert not np.allclose(recording.proxies[problem.snapshot], problem.next_proxies)


def test_a_single_problem_is_never_reinitialised_and_runs_on_the_same_budget(digits):
    recording = Trainer(tiny("poc-proxy"), splits=digits).run(progress=False)
    assert [(p.start, p.end) for p in recording.problems] == [(0, 30)]
    ccp = Trainer(tiny("poc-ccp"), splits=digits).run(progress=False)
    first = ccp.problems[0].end
    upto = recording.steps <= first
    np.testing.assert_array_equal(recording.embeddings[upto], ccp.embeddings[ccp.steps <= first])


def test_pictures_in_a_sample_are_the_same_for_every_seed(digits):
    first, second = (Trainer(tiny(seed=s), splits=digits) for s in (0, 5))
    assert torch.equal(first.sample.images, second.sample.images)


def test_a_run_stops_when_nothing_improves_any_more(digits):
    recording = Trainer(tiny(steps=1000, stop_patience=2, **{"optimizer.learning_rate": 1e-12}), splits=digits).run(False)
    assert recording.problems[-1].end < 100


def test_callbacks_see_every_evaluation(digits):
    seen = []
    Trainer(tiny(), splits=digits, callbacks=[lambda t, figures: seen.append((t.steps_done, figures["map_at_r"]))]).run(False)
    assert [step for step, _ in seen] == [5, 10, 15, 20, 25, 30]


@pytest.mark.parametrize("loss", ["c1", "triplet", "ms"])
@pytest.mark.parametrize("method", ["ccp", "samples"])
def test_every_pair_loss_trains_by_every_method(digits, loss, method):
    changes = {"loss.name": loss, "steps": 12, "evaluate_every": 4}
    recording = Trainer(tiny(f"poc-{method}", **changes), splits=digits).run(progress=False)
    assert np.isfinite(recording.embeddings).all() and np.isfinite(recording.metrics["loss"][1:]).all()


def test_bfloat16_on_the_processor_trains(digits):
    changes = {"network.precision": "bfloat16", "steps": 6, "evaluate_every": 3}
    recording = Trainer(tiny(**changes), splits=digits).run(progress=False)
    assert recording.environment["precision"] == "bfloat16"
    assert np.isfinite(recording.embeddings).all()


@pytest.mark.parametrize("method", ["ccp", "samples"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(digits, tmp_path, method):
    experiment = tiny(f"poc-{method}")
    whole = Trainer(experiment, splits=digits, directory=tmp_path / "whole").run(progress=False)
    part = Trainer(experiment, splits=digits, directory=tmp_path / "part")
    part.step(18)  # three steps after the last checkpoint: they are done again
    resumed = Trainer(experiment, splits=digits, directory=tmp_path / "part", resume=True)
    assert resumed.steps_done == 15
    same(whole, resumed.run(progress=False))
    assert (tmp_path / "whole/recording.npz").read_bytes() == (tmp_path / "part/recording.npz").read_bytes()


KILLED = """
import sys
from tests.training.conftest import tiny
from labkit.training import Trainer
Trainer(tiny(steps=400, stop_patience=0), directory=sys.argv[1], resume=True).run(progress=False)
"""


def test_a_run_killed_at_any_moment_ends_with_the_same_recording(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    folder, kills = tmp_path / "killed", 0
    command = [sys.executable, "-c", KILLED, str(folder)]
    for turn in range(3):
        process = subprocess.Popen(command, env=environment, cwd=os.getcwd())
        deadline = time.monotonic() + 120
        checkpoint = folder / "checkpoint.pt"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while time.monotonic() < deadline and process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                break
            time.sleep(0.01)
        time.sleep(0.013 * turn)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 3
    left = [path for path in folder.iterdir() if not path.name.startswith(".")]
    assert {path.suffix for path in left} <= {".pt", ".npz", ".json", ".csv"}
    subprocess.run(command, env=environment, cwd=os.getcwd(), check=True, timeout=240)
    whole = Trainer(tiny(steps=400, stop_patience=0), directory=tmp_path / "whole").run(progress=False)
    same(whole, Recording.load(folder))


def test_a_folder_with_a_run_is_not_written_over(digits, tmp_path):
    Trainer(tiny(), splits=digits, directory=tmp_path).step(5)
    with pytest.raises(LabError, match="a folder without a run in it"):
        Trainer(tiny(), splits=digits, directory=tmp_path)
    with pytest.raises(LabError, match="the settings of the experiment being resumed"):
        Trainer(tiny(seed=9), splits=digits, directory=tmp_path, resume=True)


def test_a_damaged_checkpoint_is_named(digits, tmp_path):
    Trainer(tiny(), splits=digits, directory=tmp_path).step(5)
    path = tmp_path / "checkpoint.pt"
    whole = path.read_bytes()
    bit = bytearray(whole)
    bit[len(whole) // 2] ^= 1  # of a weight
    for damaged in (b"", b"\x80", b"c", whole[:100], whole[: len(whole) // 2], b"not a checkpoint" * 50, bit):
        path.write_bytes(damaged)
        with pytest.raises(LabError, match=r"checkpoint\.pt: expected a whole checkpoint"):
            Trainer(tiny(), splits=digits, directory=tmp_path, resume=True)
    path.write_bytes(whole)
    state = torch.load(path, weights_only=True)
    torch.save({**state, "best": {**state["best"], "weights": {}}}, path)
    with pytest.raises(LabError, match=r"checkpoint\.pt: expected the state of the same experiment .* in its part best"):
        Trainer(tiny(), splits=digits, directory=tmp_path, resume=True)
    torch.save({**state, "model": {}}, path)
    with pytest.raises(LabError, match="the state of the same experiment"):
        Trainer(tiny(), splits=digits, directory=tmp_path, resume=True)


def test_a_full_disk_stops_the_run_and_leaves_the_last_checkpoint_whole(digits, tmp_path, monkeypatch):
    trainer = Trainer(tiny(), splits=digits, directory=tmp_path)
    trainer.step(5)
    whole = (tmp_path / "checkpoint.pt").read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LabError, match="room to write it"):
        trainer.step(5)
    monkeypatch.undo()
    assert (tmp_path / "checkpoint.pt").read_bytes() == whole
    assert Trainer(tiny(), splits=digits, directory=tmp_path, resume=True).steps_done == 5


def test_an_interrupted_run_leaves_its_recording(digits, tmp_path):
    def interrupt(trainer, _figures):
        if trainer.steps_done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(tiny(), splits=digits, directory=tmp_path, callbacks=[interrupt]).run(progress=False)
    assert Recording.load(tmp_path).steps[-1] == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.classes_per_batch": 11}, "at most the 10 classes"),
        ({"network.precision": "float16"}, "on a processor"),
    ],
)
def test_settings_that_do_not_fit_the_data_or_the_machine_are_named(digits, changes, message):
    with pytest.raises(LabError, match=message):
        Trainer(tiny(**changes), splits=digits, device="cpu")


@pytest.mark.parametrize("n", [2.5, "2", -3, None, True])
def test_a_number_of_steps_that_is_none_is_named(digits, n):
    trainer = Trainer(tiny(), splits=digits)
    with pytest.raises(LabError, match="n: expected a whole number"):
        trainer.step(n)
    assert trainer.steps_done == 0
    trainer.step(0)
    trainer.step(np.int64(1))
    assert trainer.steps_done == 1


def test_a_state_that_is_refused_without_a_word_is_refused_with_one(digits, monkeypatch):
    trainer = Trainer(tiny(), splits=digits)
    state = trainer.state_dict()

    def silent(_state):
        raise RuntimeError

    monkeypatch.setattr(trainer.losses, "load_state_dict", silent)
    with pytest.raises(LabError, match="checkpoint: expected the state of the same experiment .*; got RuntimeError"):
        trainer.load_state_dict(state)


ODD = [None, "x", -1, float("nan"), torch.full((2, 2), float("nan")), {}, [1]]
PARTS_OF_A_STATE = [
    "identity", "identity/data", "steps_done", "done", "seconds", "model", "model/head.weight", "optimizer",
    "optimizer/state/0", "optimizer/state/0/step", "optimizer/state/0/exp_avg", "optimizer/param_groups",
    "optimizer/param_groups/0", "optimizer/param_groups/0/lr", "optimizer/param_groups/0/betas", "pictures",
    "pictures/sampler", "pictures/sampler/class_deck", "pictures/generators", "pictures/generators/views", "losses/sum",
    "losses/count", "best", "best/score", "best/step", "best/waited", "best/weights", "best/weights/head.weight",
    "best/references", "recorder", "recorder/steps", "recorder/steps/0", "recorder/embeddings", "recorder/embeddings/1",
    "recorder/proxies", "recorder/metrics", "recorder/metrics/step", "recorder/metrics/problem", "recorder/problems",
    "recorder/problems/0/end", "recorder/events/0", "recorder/final/x", "projections", "projections/proxies",
    "projections/_extra_state/previous_weights", "projections/_extra_state/best_weights/head.weight", "anchors",
]  # fmt: skip


@pytest.fixture(scope="module")
def good_state():
    from labkit.datasets import load_digits

    trainer = Trainer(tiny(evaluate_every=1), splits=load_digits("digits-8x8"))
    trainer.step(8)
    while trainer.projections.progress.observed != 1:
        trainer.step()
    assert trainer.projections.problem > 0
    trainer.recorder.events.append({"step": 1, "what": "looked"})
    trainer.recorder.final["x"] = 1.0
    return trainer.state_dict()


def with_part(state, path, value):
    """A copy of a state in which one part, a/b/c, has another value."""
    whole = part = copy.deepcopy(state)
    *way, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    for key in way:
        part = part[key]
    part[last] = value
    return whole


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")  # of torch, whose tensors take words for places
@pytest.mark.parametrize("path", PARTS_OF_A_STATE)
def test_an_odd_part_of_a_checkpoint_is_named_as_it_is_loaded(digits, good_state, path):
    trainer = Trainer(tiny(evaluate_every=1), splits=digits)
    for value in ODD:
        # What is as good as any: no pull yet, no anchors to go back to, nothing final, a rate that the schedule sets anyway.
        harmless = {"anchors": [None], "recorder/final/x": [-1, ODD[3]], "losses/sum": [-1], "done": [], "seconds": []}
        if any(value is good for good in harmless.get(path, ())):
            continue
        with pytest.raises(LabError, match="^checkpoint: expected ") as caught:
            trainer.load_state_dict(with_part(good_state, path, value))
        named = "a run with the same data" if "identity" in path else path.split("/")[0]
        assert named in str(caught.value) and "\n" not in str(caught.value)
    trainer.load_state_dict(copy.deepcopy(good_state))
    trainer.step()


@pytest.mark.parametrize("state", [None, 3, [], {}, {"model": {}}])
def test_what_is_no_state_is_named(digits, state):
    with pytest.raises(LabError, match="^checkpoint: expected the state .*; got none called"):
        Trainer(tiny(), splits=digits).load_state_dict(state)


def test_unknown_devices_and_missing_folders_are_named(digits):
    with pytest.raises(LabError, match="device"):
        Trainer(tiny(), splits=digits, device="tpu7")
    with pytest.raises(LabError, match="resume"):
        Trainer(tiny(), splits=digits, resume=True)
    for directory in (5, "a\0b", "a" * 300):
        with pytest.raises(LabError, match="directory: expected"):
            Trainer(tiny(), splits=digits, directory=directory)


def test_a_learning_rate_that_explodes_stops_with_a_sentence(digits):
    told = r"^optimizer.learning_rate: expected .* finite.*; got .* for the backbone, .*: training diverged, at step \d+"
    for every in (1, 5):  # the first look at the network, or the next batch's loss
        trainer = Trainer(tiny(evaluate_every=every, **{"optimizer.learning_rate": 1e30}), splits=digits)
        with pytest.raises(LabError, match=told):
            trainer.run(progress=False)
        assert trainer.steps_done <= 2


@pytest.mark.parametrize("size", [float("nan"), float("inf"), 1e38])
def test_the_rate_of_the_group_that_explodes_is_named(digits, size):
    trainer = Trainer(tiny(**{"optimizer.head_multiplier": 2.0}), splits=digits)
    trainer.step(3)
    with torch.no_grad():
        trainer.model.head.weight[1] = size
    with pytest.raises(LabError, match=r"for the head, .* diverged, at step 3\..* \(or optimizer.head_multiplier\)"):
        trainer.step(3)


def test_the_default_is_the_paper_s_proof_of_concept():
    experiment = Experiment.preset("mnist-2d-ccp")
    p = experiment.projections
    assert (p.proxies_per_class, p.pool_size, p.projection_weight, p.patience, p.pair_weight) == (4, 16, 2e-4, 3, 0.0)
    assert (experiment.network.name, experiment.network.embedding_size) == ("resnet20v2", 2)


def test_a_resumed_run_must_have_the_same_pictures_and_the_same_loss(digits, tmp_path):
    from labkit.datasets import ImageSet, Splits
    from labkit.losses import FunctionLoss

    def pull(distances, same, different):
        return distances[same].sum() / 100

    train = ImageSet(255 - digits.train.images, digits.train.labels)
    other = Splits(train, digits.held_out, digits.test, digits.name, digits.description, digits.class_names)
    Trainer(tiny(), splits=digits, directory=tmp_path / "a").step(5)
    with pytest.raises(LabError, match="a run with the same data"):
        Trainer(tiny(), splits=other, directory=tmp_path / "a", resume=True)
    with pytest.raises(LabError, match="a run with the same loss"):
        Trainer(tiny(), splits=digits, loss=FunctionLoss(pull), directory=tmp_path / "a", resume=True)
    Trainer(tiny(), splits=digits, loss=FunctionLoss(pull), directory=tmp_path / "b").step(5)
    again = Trainer(tiny(), splits=digits, loss=FunctionLoss(pull), directory=tmp_path / "b", resume=True)
    assert again.steps_done == 5


def test_a_loss_of_ones_own_that_is_not_finite_stops_the_run_at_a_named_step(digits):
    class Infinite(torch.nn.Module):
        def forward(self, embeddings, labels, indices_tuple=None, ref_emb=None, ref_labels=None):
            return embeddings.sum() * 0 + float("inf")

    with pytest.raises(LabError, match=r"a finite number; got inf by step 5|finite .* at step"):
        Trainer(tiny(), splits=digits, loss=Infinite()).step(5)
    with pytest.raises(LabError, match="at step"):
        Trainer(tiny(**{"optimizer.learning_rate": 1e30}), splits=digits).run(progress=False)


def test_embeddings_too_large_for_half_precision_are_recorded_all_the_same(digits, tmp_path):
    changes = {"loss.options.normalize": None, "steps": 2, "evaluate_every": 1}
    trainer = Trainer(tiny(**changes), splits=digits, directory=tmp_path)
    with torch.no_grad():
        trainer.model.head.weight.mul_(1e7)
    recording = trainer.run(progress=False)
    assert np.abs(recording.embeddings).max() > 65504
    np.testing.assert_array_equal(Recording.load(tmp_path).embeddings, recording.embeddings)
