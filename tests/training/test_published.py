"""The published figures beside ours."""

import pytest

from labkit.training import Experiment
from labkit.training.published import _tables, published, published_line


def test_a_row_of_each_table():
    row = published("c2-ccp-l", "cub")
    assert row.title == "C2-CCP-L" and "supplement" in row.source
    wanted = {"concatenated_p_at_1": 0.6973, "concatenated_map_at_r": 0.2802}
    wanted |= {"separated_p_at_1": 0.6239, "separated_map_at_r": 0.2267}
    assert row.figures == pytest.approx(wanted)
    assert published("rll-lmh", "sop").figures == pytest.approx({"p_at_1": 0.798, "nmi": 0.904})
    assert published("hpl-pa", "in-shop") is None and published("c2-ccp-s", "cub") is None and published("c2", "birds") is None


def test_a_line_for_a_single_run_names_the_protocol():
    line = published_line(Experiment.preset("cub-rll-h"))
    source = "Wang et al., Ranked List Loss: conventional protocol, GoogLeNet V2, 512-D"
    assert line == f"Published, RLL-H: p_at_1 0.5740, nmi 0.6360 ({source})"
    line = published_line(Experiment.preset("in-shop-ms-ccp-l"))
    assert line.startswith("Published, MS-CCP-L: concatenated_p_at_1 0.9024, ")
    assert "separated_map_at_r 0.5915 (" in line and "MLRC" in line
    for name in ("cub-c2-ccp-s", "conventional-bn-cub-c2", "cub-lite0-c2", "poc-ccp", "in-shop-rll-h"):
        assert published_line(Experiment.preset(name)) == ""


def test_what_is_printed_is_plausible():
    """Typing errors of a row would show: separated figures are below concatenated ones, MAP@R below P@1."""
    rows = _tables()["mlrc"]["rows"]
    assert len(rows) == 14
    for row in rows.values():
        for data in ("cub", "cars", "sop", "in-shop"):
            if data in row:
                (p, m), (p_separated, m_separated) = row[data]["concatenated"], row[data]["separated"]
                assert 50 < p_separated < p < 100 and 10 < m_separated < m < p
