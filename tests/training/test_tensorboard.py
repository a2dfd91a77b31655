"""Event files, read back with TensorBoard's own reader."""

import sys

import pytest

from labkit.errors import LabError
from labkit.training import Trainer
from labkit.training.tensorboard import TensorBoardLog
from tests.training.conftest import tiny

SMALL = {"network.name": "small", "steps": 6, "evaluate_every": 2, "sample_size": 30}


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return reader


def test_a_resumed_run_has_each_figure_once(digits, tmp_path):
    def trainer(**more):
        log = TensorBoardLog(tmp_path / "tensorboard")
        return Trainer(tiny(**SMALL), splits=digits, directory=tmp_path, callbacks=[log], **more)

    trainer().step(4)
    resumed = trainer(resume=True)
    recording = resumed.run(progress=False)
    events = read(tmp_path / "tensorboard")
    scalars = set(events.Tags()["scalars"])
    assert scalars == (set(recording.metrics) - {"step"}) | {f"final/{name}" for name in recording.final}
    found = events.Scalars("map_at_r")
    assert [event.step for event in found] == [0, 2, 4, 6]
    assert [event.value for event in found] == pytest.approx(recording.metrics["map_at_r"].tolist(), rel=1e-6)
    assert [event.step for event in events.Scalars("loss")] == [2, 4, 6], "before the first step there is none"
    text = events.Tensors("experiment/text_summary")[0].tensor_proto.string_val[0].decode()
    assert '"patience": 1' in text


def test_a_final_figure_that_a_run_does_not_have_is_left_out(digits, tmp_path):
    """Margins without room between them have no chance constraint."""
    experiment = tiny(**SMALL, **{"loss.options.neg_margin": 0.0})
    Trainer(experiment, splits=digits, callbacks=[TensorBoardLog(tmp_path)]).run(progress=False)
    scalars = set(read(tmp_path).Tags()["scalars"])
    assert "final/map_at_r" in scalars and not {"final/violation", "violation"} & scalars


def test_without_the_package_the_line_that_installs_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(LabError, match=r"pip install 'labkit\[tensorboard\]'"):
        TensorBoardLog(tmp_path)
