"""Recordings: what goes in comes out, and a damaged file says so."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

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


SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
HALVES = st.floats(width=16, allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.data(),
    st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 3)),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.lists(st.floats(), max_size=3),
)
def test_what_is_loaded_is_what_was_saved_bit_for_bit(tmp_path, data, shape, kind, figures):
    elements = {np.float16: HALVES, np.float32: SINGLES, np.float64: st.floats(-3e38, 3e38)}[kind]
    t, n, d = shape
    recording = Recording(
        {"seed": 1}, np.arange(t), data.draw(arrays_of.arrays(kind, shape, elements=elements)), np.arange(n) % 2,
        proxies=data.draw(arrays_of.arrays(kind, (t, 2, 1, d), elements=elements)), metrics={"loss": np.array(figures)},
    )  # fmt: skip
    path = recording.save(tmp_path / "r.npz")
    loaded = Recording.load(path)
    for part in ("embeddings", "proxies"):
        assert getattr(loaded, part).dtype == np.float32
        assert getattr(loaded, part).tobytes() == getattr(recording, part).astype(np.float32).tobytes()
    np.testing.assert_array_equal(loaded.metrics["loss"], np.array(figures, dtype=np.float64))
    whole, again = path.read_bytes(), loaded.save(path)
    assert again.read_bytes() == whole
    if kind is np.float16:
        with np.load(path) as file:
            assert file["embeddings"].dtype == np.float16  # half the room, where nothing is lost


@pytest.mark.parametrize("heap", [lambda x: x * 1e-8, lambda x: x * 1e-9, lambda x: 0.5 + 1e-4 * x, lambda x: x * 1e-44])
def test_a_heap_is_kept_point_by_point(tmp_path, heap):
    points = heap(np.random.default_rng(0).normal(size=(1, 200, 2))).astype(np.float32)
    loaded = Recording.load(Recording({}, np.array([0]), points, np.arange(200) % 4).save(tmp_path / "r.npz"))
    np.testing.assert_array_equal(loaded.embeddings, points)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("steps", np.array([0.0, 5.5, 10, 15])),
        ("labels", np.arange(N) / 2),
        ("labels", np.full(N, 2**63, np.uint64)),
        ("labels", np.full(N, np.nan)),
        ("labels", np.array(list("abcdefg"))),
        ("thumbnails", np.full((N, 4, 4), 256)),
        ("embeddings", np.ones((T, N, D), complex)),
    ],
)
def test_what_its_dtype_in_the_file_would_change_is_refused(tmp_path, part, value):
    recording = example()
    setattr(recording, part, value)
    with pytest.raises(LabError, match=f"{part} (that are no whole numbers|of dtype)"):
        recording.save(tmp_path / "r.npz")
    assert not any(tmp_path.iterdir())


def nested(levels):
    made: list = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize("part", ["experiment", "events", "environment"])
def test_words_that_are_nested_too_deep_are_refused(tmp_path, part):
    recording = example()
    setattr(recording, part, [{"a": nested(5000)}] if part == "events" else {"a": nested(5000)})
    with pytest.raises(LabError, match="nested too deep"):
        recording.save(tmp_path / "r.npz")
    assert not any(tmp_path.iterdir())


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


def rewritten(path, change):
    """The recording at `path` with its arrays and its words as `change(arrays, meta)` leaves them."""
    with np.load(path) as file:
        arrays = dict(file)
    meta = json.loads(arrays["meta"].tobytes())
    change(arrays, meta)
    words = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, **{**arrays, "meta": words if arrays["meta"].ndim == 1 else words[None]})


def put(name, value):
    return lambda arrays, meta: arrays.__setitem__(name, value)


def say(name, value):
    return lambda arrays, meta: meta.__setitem__(name, value)


def tell(name, value, place=0):
    return lambda arrays, meta: meta["problems"][place].__setitem__(name, value)


IMPOSSIBLE = {
    "steps before 0": (put("steps", np.array([-5, 0, 5, 10])), "steps that are no whole numbers in order"),
    "steps that go back": (put("steps", np.array([15, 10, 5, 0])), "steps that are no whole numbers in order"),
    "steps that stand still": (put("steps", np.zeros(T, int)), "steps that are all 0"),
    "more steps than floats count": (put("steps", np.array([0, 5, 10, 2**62])), "steps that are no whole"),
    "steps beyond 63 bits": (put("steps", np.arange(T).astype(np.uint64) + 2**63), "steps that are no whole"),
    "evaluations at no step": (put("metric_step", np.full(2, np.nan)), "metric step that are no whole"),
    "evaluations that go back": (put("metric_step", np.array([15.0, 5.0])), "metric step that are no whole"),
    "half a problem": (put("metric_problem", np.array([0.0, 0.5])), "metric problem that are no whole"),
    "pictures of no size": (put("thumbnails", np.zeros((N, 0, 0), np.uint8)), "thumbnails with shape"),
    "pictures of words": (put("thumbnails", np.zeros((N, 4, 4), np.uint16)), "thumbnails with shape .* uint16"),
    "complex embeddings": (put("embeddings", np.ones((T, N, D), complex)), "embeddings of dtype complex"),
    "a class without a name": (say("class_names", ["a"]), "labels 0 … 2 with 1 class names"),
    "a figure beyond floats": (say("final", {"map_at_r": 10**400}), "map_at_r is a number of 1329 bits"),
    "format -5": (say("format", -5), "format -5"),
    "format 0": (say("format", 0), "format 0"),
    "format true": (say("format", True), "format True"),
    "a score in words": (tell("best_map_at_r", "x"), "problem 0 with best MAP@R 'x'"),
    "no score": (tell("best_map_at_r", None), "problem 0 with best MAP@R None"),
    "a problem that ends never": (tell("end", 10**30), "problem 0 with steps 0, 5, a number of 100 bits of 15"),
    "a problem that began before": (tell("start", -5), "problem 0 with steps -5"),
    "a problem best before it began": (tell("best_step", 5, place=1), "problem 1 with steps 10, 5, 15"),
    "two problems of one number": (tell("index", 0, place=1), "problem 0 where number 1 belongs"),
    "words in rows": (put("meta", np.zeros((1, 1), np.uint8)), "a damaged file"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_no_run_can_have_recorded_is_named(tmp_path, name):
    change, message = IMPOSSIBLE[name]
    path = example().save(tmp_path / "r.npz")
    rewritten(path, change)
    with pytest.raises(LabError, match=message) as caught:
        Recording.load(path)
    assert len(str(caught.value)) < 400


def test_numbers_of_a_machine_with_the_other_byte_order_are_read(tmp_path):
    path, kept = example().save(tmp_path / "r.npz"), example()
    swapped = ("steps", "labels", "embeddings", "proxies", "metric_map_at_r", "problem_0_proxies")
    rewritten(path, lambda arrays, meta: arrays.update({n: arrays[n].astype(arrays[n].dtype.newbyteorder("S")) for n in swapped}))
    loaded = Recording.load(path)
    for name in ("steps", "labels", "embeddings", "proxies"):
        assert getattr(loaded, name).dtype.isnative
        np.testing.assert_array_equal(getattr(loaded, name), getattr(kept, name))
    assert loaded.metrics["map_at_r"].dtype.isnative and loaded.problems[0].proxies.dtype.isnative


@pytest.mark.parametrize("path", [None, 5, "a\0b", "a" * 300, "", b"\0"])
def test_what_is_no_path(path):
    with pytest.raises(LabError):
        Recording.load(path)
    if path != "":
        with pytest.raises(LabError):
            example().save(path)
