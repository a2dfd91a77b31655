"""Models of all folds judged one by one and side by side."""

import pytest
import torch
from torch.nn import functional as F

from labkit.errors import LabError
from labkit.metrics import retrieval_metrics
from labkit.training import Experiment
from labkit.training.folds import check_folds, fold_figures, table
from labkit.training.published import published

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


def test_with_a_gallery_queries_are_looked_up_in_it_alone():
    queries, galleries = models(2), models(2, size=12)
    gallery_labels = torch.arange(6).repeat_interleave(2)
    figures = fold_figures(list(zip(queries, galleries)), LABELS, gallery_labels)
    wanted = retrieval_metrics(torch.cat(queries, 1), LABELS, torch.cat(galleries, 1), gallery_labels)
    assert figures.concatenated["map_at_r"] == pytest.approx(float(wanted["map_at_r"]))


def test_the_table_has_the_published_row_beside_ours():
    pairs = [(e, e[:0]) for e in models()]
    text = table(fold_figures(pairs, LABELS, row=published("c2-ccp-l", "cub")))
    lines = {line[:26].strip(): line[26:].split() for line in text.splitlines()}
    assert lines["published, concatenated"] == ["69.73", "28.02", "-"] and lines["published, separated"] == ["62.39", "22.67", "-"]
    figures = fold_figures(pairs, LABELS)
    assert lines["concatenated"] == [f"{100 * figures.concatenated[n]:.2f}" for n in ("p_at_1", "map_at_r", "p_at_r")]
    assert "fold 2" in lines and "C2-CCP-L" in text
    assert "ublished" not in table(figures)


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
    assert "ublished" not in table(fold_figures(pairs, LABELS, row=published("rll-h", "cub")))
