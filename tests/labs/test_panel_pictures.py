"""What the panels draw, in a real browser page: names, signs and values, and that none lies on another."""

from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

import pytest

from specdec_core.draft import DraftTree
from specdec_labs.widgets.roofline.live import RooflineExplorer
from specdec_labs.widgets.speedup import SEED_POINTS, measured_costs, measured_points
from specdec_labs.widgets.speedup.live import SpeedupExplorer
from specdec_labs.widgets.tree import frame_of
from specdec_labs.widgets.tree import view_model as tree_model

pytestmark = pytest.mark.browser

TREE = DraftTree((10, 11, 12, 13, 14), (-1, -1, 0, 1, 3))
COVERED = """() => [...document.querySelectorAll('.sd-panel svg')].flatMap((chart) => {
    const texts = [...chart.querySelectorAll('text:not(.sd-pass)')];
    const boxes = texts.map((node) => [node.textContent, node.getBoundingClientRect()]);
    return boxes.flatMap(([one, a], index) => boxes.slice(index + 1).flatMap(([other, b]) => {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        return across > 2 && down > 4 ? [`${one} | ${other}`] : [];
    }));
})"""
CROSSED = """() => {
    const chart = document.querySelector('svg[aria-label^=Roofline]');
    const line = chart.querySelector('.sd-level').getBoundingClientRect();
    const roof = chart.querySelector('.sd-roof'), place = chart.getScreenCTM();
    const length = roof.getTotalLength() / 199;
    const along = [...Array(200).keys()].map((step) => roof.getPointAtLength(step * length).matrixTransform(place));
    return [...chart.querySelectorAll('text:not(.sd-pass)')].filter((node) => {
        const box = node.getBoundingClientRect();
        const isInside = ({ x, y }) => x > box.left && x < box.right && y > box.top + 4 && y < box.bottom - 4;
        const isBeside = box.left >= line.left || box.right <= line.right;
        return (!isBeside && box.bottom > line.top && box.top < line.bottom) || along.some(isInside);
    }).map((node) => node.textContent);
}"""


@pytest.mark.parametrize("name", ["speedup-smollm2", "speedup-tiny"])
def test_values_of_crowded_points_lie_on_nothing(show: Callable[..., Any], root: Path, name: str) -> None:
    report = json.loads((root / "docs" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    settings = {"points": [*SEED_POINTS, *measured_points(report)]}
    page = show("speedup", {"settings": settings, "view": SpeedupExplorer.view_of(settings)})
    places = page.evaluate("module.labelPlaces(state.view.points, module.mapScale(state.view))")
    shown = [place for place in places if place]
    assert len(places) == len(settings["points"]) and len(shown) >= 0.8 * len(places)
    for index, (x, y) in enumerate(shown):
        # a value is about 43 wide and 13 high
        assert 60 < x < 600 and all(abs(x - a) > 43 or abs(y - b) > 13 for a, b in shown[:index])


@pytest.mark.parametrize("c", [0.02, 0.05, 0.1, 0.2])
def test_every_contour_on_the_map_has_its_name_and_no_two_lie_on_each_other(
    show: Callable[..., Any], root: Path, c: float
) -> None:
    report = json.loads((root / "docs" / "results" / "speedup-smollm2.json").read_text(encoding="utf-8"))
    settings = {"c": c, "points": [*SEED_POINTS, *measured_points(report)]}
    view = SpeedupExplorer.view_of(settings)
    page = show("speedup", {"settings": settings, "view": view})
    found = page.evaluate("module.contourPlaces(state.view, module.mapScale(state.view))")
    drawn = [f"{level}x" for level, alphas in view["contours"].items() if sum(a is not None for a in alphas) > 2]
    assert [name for name, _ in found] == drawn and len(drawn) >= 4
    for place, (_, (x, y)) in enumerate(found):
        assert all(abs(x - a) > 34 or abs(y - b) > 15 for _, (a, b) in found[:place])
    values = "module.labelPlaces(state.view.points, module.mapScale(state.view), NAMES)"
    values = page.evaluate(values.replace("NAMES", json.dumps([place for _, place in found])))
    assert all(abs(x - a) > 30 or abs(y - b) > 12 for x, y in filter(None, values) for _, (a, b) in found)


def test_measured_costs_are_chosen_and_name_their_machine(show: Callable[..., Any], root: Path) -> None:
    folder = root / "docs" / "results"
    report, curve = (json.loads((folder / f"{name}-smollm2.json").read_text("utf-8")) for name in ("speedup", "curve"))
    settings = {"points": [*SEED_POINTS, *measured_points(report)], "measured": measured_costs(curve)}
    page = show("speedup", {"settings": settings, "view": SpeedupExplorer.view_of(settings)})
    assert not page.is_visible("select[aria-label='drafts from']")
    page.select_option("select[aria-label='costs from']", "measured")
    page.wait_for_function("state.view.settings.cost === 'measured'")
    assert report["hardware"]["processor"] in page.inner_text(".sd-speedup") and not page.is_visible("[aria-label=c]")
    before = page.inner_text(".sd-say")
    page.select_option("select[aria-label='drafts from']", "distilled")
    page.wait_for_function("state.view.settings.measured_drafter === 'distilled'")
    assert page.inner_text(".sd-say") != before
    assert page.locator("td", has_text="another machine").count() == len(SEED_POINTS)
    assert page.locator("td", has_text="measured costs").count() == len(report["rows"])


@pytest.mark.parametrize("load", [{"batch": 1024, "gamma": 63}, {"batch": 256}, {"gamma": 1}, {"batch": 64}, {}])
def test_no_text_of_the_roofline_charts_lies_on_another(show: Callable[..., Any], load: dict[str, int]) -> None:
    page = show("roofline", {"settings": load, "view": RooflineExplorer.view_of(load)})
    page.wait_for_selector("svg .sd-roof")
    assert page.evaluate(COVERED) == []
    assert page.evaluate(CROSSED) == [], "a name across the roof or the line of its ridge"
    marks = "(nodes) => nodes.map((node) => [node.firstChild.textContent, getComputedStyle(node)[KIND]])"
    drawn = page.locator("svg[aria-label^=Roofline] .sd-pass").evaluate_all(marks.replace("KIND", "'fill'"))
    listed = page.locator("td[class^=sd-pass]").evaluate_all(marks.replace("KIND", "'color'"))
    assert len(listed) == 3 and all(mark in listed for mark in drawn), "a pass has one sign and colour"


def test_a_node_has_one_name_in_the_tree_the_mask_and_the_cache(show: Callable[..., Any]) -> None:
    for prefix in (0, 7):
        page = show("tree", {"view": tree_model([frame_of(TREE, prefix=prefix, path=(1, 3))])})
        names = ["P", "0", "1", "2", "3", "4"]
        assert page.locator("g.sd-node .sd-name").all_text_contents() == names
        assert page.locator(".sd-row-name").all_text_contents() == names
        assert page.locator(".sd-column-name").all_text_contents() == names
        assert page.locator(".sd-slot .sd-name").all_inner_texts() == names
        slots = page.locator(".sd-slot .sd-caption").all_inner_texts()
        assert slots == [f"slot {prefix + place}" for place in range(6)]
        # a column of the cache only where something is cached
        assert page.locator(".sd-cached").count() == (6 if prefix else 0)
        for row in page.locator(".sd-row-name").all():
            assert row.bounding_box()["x"] >= page.locator("svg:has(.sd-row-name)").bounding_box()["x"]


def test_the_trees_legend_explains_the_signs_in_sight_and_no_other(show: Callable[..., Any]) -> None:
    signs = ("✓", "=", "←", "×", "?")
    frames = {
        "judged": frame_of(TREE, prefix=7, path=(1, 3)),
        "kept in place": frame_of(TREE, path=(0,)),
        "all refused": frame_of(TREE, path=()),
        "a shape": frame_of(TREE, name=lambda _: ""),
    }
    for kind, frame in frames.items():
        page = show("tree", {"view": tree_model([frame])})
        seen = (page.text_content(".sd-branches") or "") + page.inner_text(".sd-rows")
        legend = page.inner_text(".sd-legend")
        assert [sign for sign in signs if sign in seen] == [sign for sign in signs if sign in legend], kind


def test_a_shape_without_tokens_shows_numbers_and_says_its_path(show: Callable[..., Any]) -> None:
    page = show("tree", {"view": tree_model([frame_of(TREE, name=lambda _: "")])})
    page.click(".sd-slot >> nth=4")
    assert "Node 3, position 2: 1 → 3." in page.inner_text(".sd-say")
    assert page.locator("g.sd-node text").all_text_contents() == ["P", "0", "1", "2", "3", "4"]
