"""Recordings: what goes in comes out, and a damaged file says so."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from labkit.errors import LabError
from labkit.training import Problem, Recording

T, N, D, C, K = 4, 7, 2, 3, 2


def example() -> Recording:
    rng = np.random.default_rng(0)
    proxies = rng.normal(size=(T, C, K, D)).astype(np.float32)
    return Recording(
        experiment={"name": "x", "seed": 3},
        steps=np.array([0, 5, 10, 15]),
        embeddings=rng.normal(size=(T, N, D)).astype(np.float16).astype(np.float32),
        labels=np.arange(N) % C,
        proxies=proxies,
        metrics={"step": np.array([5.0, 15.0]), "map_at_r": np.array([0.25, 1 / 3])},
        problems=[Problem(0, 0, 10, 2, 5, 0.25, proxies[1], proxies[2]), Problem(1, 10, 15, 3, 15, 1 / 3, proxies[3], None)],
        thumbnails=rng.integers(0, 255, size=(N, 4, 4)).astype(np.uint8),
        class_names=["a", "b", "ç"],
        events=[{"step": 7, "what": "learning_rate 0.1"}],
        final={"map_at_r": 0.5},
        environment={"torch": "2"},
    )


def test_everything_survives_the_disk(tmp_path):
    saved = example()
    loaded = Recording.load(saved.save(tmp_path / "r.npz"))
    for name in ("steps", "embeddings", "labels", "proxies", "thumbnails"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
    assert loaded.metrics.keys() == saved.metrics.keys()
    np.testing.assert_array_equal(loaded.metrics["map_at_r"], saved.metrics["map_at_r"])
    for name in ("experiment", "class_names", "events", "final", "environment"):
        assert getattr(loaded, name) == getattr(saved, name)
    for mine, theirs in zip(loaded.problems, saved.problems, strict=True):
        assert (mine.index, mine.start, mine.end, mine.best_map_at_r) == (
            theirs.index, theirs.start, theirs.end, theirs.best_map_at_r,
        )  # fmt: skip
        np.testing.assert_array_equal(mine.proxies, theirs.proxies)
    assert loaded.problems[1].next_proxies is None


def test_equal_recordings_are_equal_files(tmp_path):
    a, b = example().save(tmp_path / "a.npz"), example().save(tmp_path / "b.npz")
    assert a.read_bytes() == b.read_bytes()


def test_a_folder_stands_for_the_recording_in_it(tmp_path):
    example().save(tmp_path / "run" / "recording.npz")
    assert Recording.load(tmp_path / "run").experiment["seed"] == 3


@pytest.mark.parametrize("keep", [0, 10, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_named(tmp_path, keep):
    path = example().save(tmp_path / "r.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    with pytest.raises(LabError, match=r"r\.npz: expected a whole recording"):
        Recording.load(path)


def test_a_flipped_byte_never_passes_unseen(tmp_path):
    path = example().save(tmp_path / "r.npz")
    whole = bytearray(path.read_bytes())
    rng, refused = np.random.default_rng(1), 0
    for place in rng.integers(0, len(whole), 60):
        damaged = whole.copy()
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            loaded = Recording.load(path)
        except LabError:
            refused += 1
        else:  # a byte of the zip's own bookkeeping that no number depends on
            np.testing.assert_array_equal(loaded.embeddings, example().embeddings)
    assert refused > 30


def test_no_pickle_is_ever_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "boom"),)

    np.savez(tmp_path / "bad.npz", meta=np.array([Bomb()], dtype=object))
    (tmp_path / "worse.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("bad.npz", "worse.npz"):
        with pytest.raises(LabError):
            Recording.load(tmp_path / name)
    assert not (tmp_path / "boom").exists()


def test_missing_files_and_newer_formats_are_named(tmp_path, monkeypatch):
    with pytest.raises(LabError, match="nothing there"):
        Recording.load(tmp_path / "none.npz")
    monkeypatch.setattr("labkit.training.recording.FORMAT", 9)
    path = example().save(tmp_path / "r.npz")
    monkeypatch.undo()
    with pytest.raises(LabError, match="format 9. Update labkit"):
        Recording.load(path)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("proxies", np.zeros((T - 1, C, K, D), np.float32), "proxies of shape"),
        ("labels", np.zeros(N + 1, int), "labels of shape"),
        ("thumbnails", np.zeros((N + 1, 4, 4), np.uint8), "thumbnails of shape"),
        ("embeddings", np.full((T, N, D), np.nan, np.float32), "NaN or infinity"),
        ("embeddings", np.zeros((T, N), np.float32), "embeddings with shape"),
        ("steps", np.arange(T + 1), "steps of shape"),
        ("metrics", {"step": np.zeros((2, 2))}, "metric step with shape"),
        ("metrics", {"step": np.zeros(2), "loss": np.zeros(3)}, "different lengths"),
        ("problems", [Problem(0, 0, 10, 99, 5, 0.25)], "snapshot 99 of 4"),
        ("problems", [Problem(0, 0, 10, 1, 5, 0.25, np.zeros((C, K + 1, D)))], "proxies of problem 0"),
        ("final", {"map_at_r": "a"}, "a final figure is no number"),
        ("events", ["a"], "no dictionary"),
        ("experiment", [], "no dictionary"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused_when_loaded_and_when_saved(tmp_path, monkeypatch, part, value, message):
    recording = example()
    setattr(recording, part, value)
    with pytest.raises(LabError, match=message):
        recording.save(tmp_path / "r.npz")
    assert not any(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr("labkit.training.recording.check_parts", lambda recording: None)
        path = recording.save(tmp_path / "r.npz")
    with pytest.raises(LabError, match=message):
        Recording.load(path)


@pytest.mark.parametrize("part", ["steps", "embeddings", "labels", "proxies", "thumbnails"])
def test_a_list_in_place_of_an_array_is_named_before_anything_is_written(tmp_path, part):
    recording = example()
    setattr(recording, part, getattr(recording, part).tolist())
    with pytest.raises(LabError, match=rf"^recording.{part}: expected a NumPy array; got .*Write np.asarray"):
        recording.save(tmp_path / "r.npz")
    assert not any(tmp_path.iterdir())


def test_what_a_single_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    recording = example()
    recording.embeddings = np.full((T, N, D), 1e300)
    with pytest.raises(LabError, match="embeddings with NaN or infinity"):
        recording.save(tmp_path / "r.npz")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("text", [b'{"format": "1"}', b'{"format": null}', b"[" * 100_000, b"\xff"])
def test_odd_words_in_a_file_are_named(tmp_path, text):
    np.savez(tmp_path / "r.npz", meta=np.frombuffer(text, dtype=np.uint8))
    with pytest.raises(LabError, match="recording"):
        Recording.load(tmp_path / "r.npz")


def test_a_bare_array_is_no_recording(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(LabError, match="a whole recording"):
        Recording.load(tmp_path / "a.npz")


def test_numbers_of_numpy_are_written_as_numbers(tmp_path):
    recording = example()
    recording.events, recording.final = [{"step": np.int64(3)}], {"a": np.float32(0.5)}
    loaded = Recording.load(recording.save(tmp_path / "r.npz"))
    assert (loaded.events, loaded.final) == ([{"step": 3}], {"a": 0.5})
    recording.events = [{"what": object()}]
    with pytest.raises(LabError, match="numbers, words and lists"):
        recording.save(tmp_path / "r.npz")
