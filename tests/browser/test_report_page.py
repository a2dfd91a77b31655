"""The report in a real browser: it plays, answers the pointer, and asks the network for nothing.

labkit itself needs neither playwright nor a Chromium; without them these tests are skipped, see `chromium`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.report import write_report
from tests.browser.lab import PATIENCE
from tests.browser.notebook import steady, until
from tests.plots.recordings import make_recording


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    runs = {"CCP": make_recording(4), "single": make_recording(1)}
    yield from opened(browser, write_report(tmp_path_factory.mktemp("report") / "report.html", runs))


@pytest.fixture
def mixed(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Two runs whose classes are others."""
    birds = replace(make_recording(1, classes=13), class_names=[f"bird {i}" for i in range(13)])
    yield from opened(browser, write_report(tmp_path / "report.html", {"digits": make_recording(1), "birds": birds}))


def opened(browser: Any, path: Path) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(PATIENCE * 1000)
    page.complaints = []
    page.requests = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda said: page.complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    yield page
    page.close()


PLACES = """([run, kind]) => {
    const trace = document.querySelectorAll(`#map-${run} .scatterlayer .trace`)[kind];
    const boxes = [...trace.querySelectorAll(".point")].map((mark) => mark.getBoundingClientRect());
    return boxes.map((box) => [box.x + box.width / 2, box.y + box.height / 2]);
}"""


def positions(page: Any, run: int, kind: int) -> list[list[float]]:
    """What is drawn of one trace: the place of each mark on the screen."""
    return page.evaluate(PLACES, [run, kind])


def farthest(old: list[list[float]], new: list[list[float]]) -> float:
    """How far one of the marks has gone, in pixels."""
    return max(abs(a - b) for p, q in zip(old, new, strict=True) for a, b in zip(p, q, strict=True))


def point(page: Any, run: int, kind: int, told: str) -> tuple[float, float]:
    """Point at the first mark of a trace until the card says so, as a user would: where that is on the screen."""
    x, y = steady(page, f"() => ({PLACES})([{run}, {kind}])[0]")

    def says() -> bool:
        page.mouse.move(x - 40, y - 40)
        page.mouse.move(x, y, steps=5)
        page.wait_for_timeout(300)
        return told in page.inner_text("#card")

    until(page, says)
    return x, y


def scrub(page: Any, index: int) -> None:
    script = """(index) => {
        const bar = document.getElementById("scrubber");
        bar.value = index;
        bar.dispatchEvent(new Event("input"));
    }"""
    page.evaluate(script, index)


def test_the_scrubber_moves_both_maps(page: Any) -> None:
    places = f"() => [0, 1].map((run) => ({PLACES})([run, 3]))"
    scrub(page, 0)
    before = steady(page, places)
    scrub(page, 10)
    assert [len(marks) for marks in before] == [12, 12]
    for run in (0, 1):
        until(page, lambda run=run: farthest(before[run], positions(page, run, 3)) > 20)
    assert page.inner_text("#step") == "step 1,000"
    assert page.inner_text("#now-0").startswith("problem 3, step 1,000")
    assert page.inner_text("#now-1").startswith("problem 1, step 1,000")


def test_rings_come_at_the_end_of_a_problem_and_go_again(page: Any) -> None:
    scrub(page, 0)
    for step in ("step 400", "step 800"):
        page.click("#later")
        until(page, lambda: len(positions(page, 0, 11)) == 40)
        assert page.inner_text("#step") == step and "rings" in page.inner_text("#now-0")
    scrub(page, 9)
    until(page, lambda: len(positions(page, 0, 11)) == 0)
    assert "rings" not in page.inner_text("#now-0")


def test_play_reaches_the_end_and_stops(page: Any) -> None:
    scrub(page, 14)
    page.click("#play")
    page.wait_for_function("document.getElementById('play').textContent.includes('Play')")
    assert page.inner_text("#step") == "step 1,600"


def test_pointing_at_a_sample_shows_its_picture_and_rings_it_in_both_maps(page: Any) -> None:
    scrub(page, 8)
    page.locator("#map-0").scroll_into_view_if_needed()
    x, y = point(page, 0, 3, "class 3, sample")
    assert page.locator("#card canvas").is_visible()
    assert page.locator("#halo-0").is_visible() and page.locator("#halo-1").is_visible()
    box = page.locator("#halo-0").bounding_box()
    assert abs(box["x"] + box["width"] / 2 - x) < 12 and abs(box["y"] + box["height"] / 2 - y) < 12
    page.mouse.move(5, 5)
    page.locator("#card").wait_for(state="hidden")


def test_a_class_can_be_hidden_in_both_maps(page: Any) -> None:
    button = page.locator(".classes button").nth(5)
    count = "() => document.querySelectorAll('#map-1 .scatterlayer .trace').length"
    traces = steady(page, count)
    for hidden in (1, 0):
        button.click()
        assert button.get_attribute("aria-pressed") == ("true", "false")[hidden]
        page.wait_for_function(f"() => ({count})() === {traces - hidden}")


def test_two_data_sets_are_told_by_their_own_names(mixed: Any) -> None:
    scrub(mixed, 8)
    mixed.locator("#map-1").scroll_into_view_if_needed()
    point(mixed, 1, 11, "class bird 11, sample")
    assert mixed.locator("#card canvas").is_visible()
    mixed.mouse.move(5, 5)
    count = "() => [0, 1].map((run) => document.querySelectorAll(`#map-${run} .scatterlayer .trace`).length)"
    before = steady(mixed, count)
    mixed.locator(".classes").nth(1).locator("button", has_text="bird 3").click()
    until(mixed, lambda: mixed.evaluate(count) == [before[0], before[1] - 1])
    assert mixed.complaints == []


def test_every_figure_is_drawn_once_it_is_scrolled_to(page: Any) -> None:
    for figure in page.locator(".plot[data-figure]").all():
        figure.scroll_into_view_if_needed()
        page.wait_for_function("(node) => node.matches('.js-plotly-plot')", arg=figure.element_handle())


def test_nothing_was_asked_of_the_network_and_nothing_went_wrong(page: Any) -> None:
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert page.complaints == []


def test_the_worst_queries_show_their_pictures_and_tell_right_from_wrong_without_colour(page: Any) -> None:
    assert page.locator(".query").count() == 12 and page.locator(".query .asked img").count() == 12
    loaded = "[...document.querySelectorAll('.query img')].every((image) => image.complete && image.naturalWidth > 0)"
    assert page.evaluate(loaded)
    frames = page.evaluate(
        "[...document.querySelectorAll('.query figure:not(.asked)')].map((figure) => [figure.className,"
        " getComputedStyle(figure.querySelector('img')).borderTopStyle, figure.querySelector('b').textContent[0]])"
    )
    assert {tuple(frame) for frame in frames} == {("right", "solid", "✓"), ("wrong", "dashed", "✗")}
    assert page.complaints == [] and all(url.startswith(("file:", "data:", "blob:")) for url in page.requests)
