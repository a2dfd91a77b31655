"""Models of all folds judged one by one and side by side."""

import pytest
import torch
from torch.nn import functional as F

from labkit.errors import LabError
from labkit.losses import ContrastiveLoss
from labkit.metrics import retrieval_metrics
from labkit.training import Experiment, Recording
from labkit.training.folds import check_folds, fold_figures, folds_table, train_folds
from labkit.training.published import published
from tests.datasets.pictures import make_cub
from tests.photographs import TINY

LABELS = torch.arange(6).repeat_interleave(5)


def models(n=3, size=30):
    own = torch.Generator().manual_seed(0)
    centres = torch.eye(6)[LABELS] if size == 30 else torch.eye(6)[torch.arange(6).repeat_interleave(size // 6)]
    return [F.normalize(centres + 0.8 * torch.randn(len(centres), 6, generator=own)) for _ in range(n)]


def test_separated_is_the_mean_and_concatenated_one_embedding():
    each = models()
    figures = fold_figures([(e, e[:0]) for e in each], LABELS)
    singles = [retrieval_metrics(e, LABELS) for e in each]
    together = retrieval_metrics(torch.cat(each, 1), LABELS)
    for name in ("p_at_1", "map_at_r", "p_at_r"):
        assert figures.separated[name] == pytest.approx(sum(float(s[name]) for s in singles) / 3)
        assert figures.concatenated[name] == pytest.approx(float(together[name]))
        assert [fold[name] for fold in figures.folds] == pytest.approx([float(s[name]) for s in singles])
    assert figures.concatenated["map_at_r"] > max(fold["map_at_r"] for fold in figures.folds), "three views are more than one"


def test_side_by_side_each_model_counts_as_its_loss_left_it_and_then_all_have_one_length():
    """Of two models one lies well inside the unit ball, as the Lipschitz normalisation lets it."""
    wide, narrow = models(2)
    figures = fold_figures([(wide, wide[:0]), (0.2 * narrow, narrow[:0])], LABELS)
    together = F.normalize(torch.cat([wide, 0.2 * narrow], 1))
    assert figures.concatenated["map_at_r"] == pytest.approx(float(retrieval_metrics(together, LABELS)["map_at_r"]))
    lengths = torch.rand(30, 1, generator=torch.Generator().manual_seed(1)) + 0.1
    inside = lengths * wide
    figures = fold_figures([(inside, inside[:0])], LABELS)
    assert figures.separated["map_at_r"] == pytest.approx(float(retrieval_metrics(inside, LABELS)["map_at_r"]))
    assert figures.concatenated["map_at_r"] == pytest.approx(float(retrieval_metrics(wide, LABELS)["map_at_r"]))
    assert figures.concatenated["map_at_r"] != figures.separated["map_at_r"]


class Counting(ContrastiveLoss):
    """A loss of one's own with a state."""

    calls = 0

    def forward(self, *arguments, **named):
        self.calls += 1
        return super().forward(*arguments, **named)


@pytest.mark.filterwarnings("ignore::labkit.datasets.DataWarning")
def test_folds_are_judged_where_their_runs_were_and_may_have_a_loss_of_ones_own(tmp_path, monkeypatch, own_cache):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "data"))
    make_cub(tmp_path / "data", ids=(1, 20, 26, 50, 51, 60, 80, 90, 101, 130, 150, 170), each=5)
    experiment = Experiment.preset("cub-c2", **TINY)
    mine = Counting(pos_margin=0.0, neg_margin=0.3841)
    made = {None: tmp_path / "own", mine: tmp_path / "given"}
    quiet = {"progress": False, "say": lambda _: None}
    figures = {loss: train_folds(experiment, folder, loss=loss, **quiet) for loss, folder in made.items()}
    for loss, folder in made.items():
        runs = [Recording.load(folder / f"fold-{fold}") for fold in range(4)]
        for name in ("p_at_1", "map_at_r", "p_at_r"):
            assert figures[loss].separated[name] == pytest.approx(sum(run.final[name] for run in runs) / 4, abs=1e-9)
            assert [fold[name] for fold in figures[loss].folds] == pytest.approx([run.final[name] for run in runs], abs=1e-9)
        assert all(any("loss given by the caller" in event["what"] for event in run.events) == (loss is mine) for run in runs)
    assert figures[None].row.title == "C2" and figures[mine].row is None and mine.calls == 0
    assert figures[mine].folds == figures[None].folds, "it is the same loss"


def test_with_a_gallery_queries_are_looked_up_in_it_alone():
    queries, galleries = models(2), models(2, size=12)
    gallery_labels = torch.arange(6).repeat_interleave(2)
    figures = fold_figures(list(zip(queries, galleries)), LABELS, gallery_labels)
    wanted = retrieval_metrics(torch.cat(queries, 1), LABELS, torch.cat(galleries, 1), gallery_labels)
    assert figures.concatenated["map_at_r"] == pytest.approx(float(wanted["map_at_r"]))


def test_the_table_has_the_published_row_beside_ours():
    pairs = [(e, e[:0]) for e in models()]
    text = folds_table(fold_figures(pairs, LABELS, row=published("c2-ccp-l", "cub")))
    lines = {line[:26].strip(): line[26:].split() for line in text.splitlines()}
    assert lines["published, concatenated"] == ["69.73", "28.02", "-"]
    assert lines["published, separated"] == ["62.39", "22.67", "-"]
    figures = fold_figures(pairs, LABELS)
    assert lines["concatenated"] == [f"{100 * figures.concatenated[n]:.2f}" for n in ("p_at_1", "map_at_r", "p_at_r")]
    assert "fold 2" in lines and "C2-CCP-L" in text
    assert "ublished" not in folds_table(figures)


def test_what_has_no_folds_is_told_with_how_to_run_it():
    for preset in ("cub-rll-h", "cub-proxy-gml", "conventional-bn-cub-c2"):
        experiment = Experiment.preset(preset)
        for fold in ("all", "1"):
            with pytest.raises(LabError, match=r"conventional.*Leave it out to train as published.*photos\.protocol=mlrc"):
                check_folds(experiment, fold)
        check_folds(experiment.replace(**{"photos.protocol": "mlrc"}), "all")
    with pytest.raises(LabError, match="with digits, which have none"):
        check_folds(Experiment.preset("poc-ccp"), "all")
    check_folds(Experiment.preset("cub-c2"), "all")


def test_a_published_row_without_such_figures_is_not_shown():
    pairs = [(e, e[:0]) for e in models()]
    assert "ublished" not in folds_table(fold_figures(pairs, LABELS, row=published("rll-h", "cub")))
