"""Every function that draws takes a title and a width, under the same names, in the same order."""

import inspect

import pytest

from labkit import plots

# What plots exports beside: numbers, choices, tables and lines for figures of one's own.
NO_FIGURES = {
    "CoveringSteps", "choose_classes", "chosen_snapshot", "class_sets", "class_table", "distinct_centers", "example_sets",
    "field_values", "moments_of", "nearest_to", "negative_weights", "neighbour_gallery", "profile_values", "run_line", "shaded",
}  # fmt: skip
FIGURES = sorted(set(plots.__all__) - NO_FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_title_and_width_are_the_last_two_and_named(name):
    function = getattr(plots, name)
    parameters = inspect.signature(function).parameters
    assert list(parameters)[-2:] == ["title", "width"] and not {"size", "side"} & set(parameters)
    title, width = parameters["title"], parameters["width"]
    assert {title.kind, width.kind} == {inspect.Parameter.KEYWORD_ONLY}
    assert title.default is None and title.annotation == "str | None"
    if width.default is None:
        assert width.annotation == "int | None" and "None: " in function.__doc__
    else:
        assert width.annotation == "int" and 700 <= width.default <= 1100
    if "sample" in parameters and parameters["sample"].kind == inspect.Parameter.KEYWORD_ONLY:
        assert list(parameters)[-3] == "sample"
    as_for = "Parameters, errors and result as for" in function.__doc__
    assert as_for or ("title : " in function.__doc__ and "width : " in function.__doc__)


def test_what_draws_nothing_is_exported_under_these_names():
    assert set(plots.__all__) >= NO_FIGURES
