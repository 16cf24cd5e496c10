"""The picture of a certificate shows its numbers, names its lines, and stands alone."""

from dataclasses import replace
import math
from pathlib import Path
import re

import numpy as np
import pytest

from specdec_core.certificate import Certificate
from specdec_core.certify_callable import certify_callable
from specdec_labs.plots.certificate import (
    certificate_figure,
    certificate_html,
    certificate_view,
    write_certificate_html,
)

STATED = [0.5, 0.3, 0.2, 0.0]


def without_figure(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def certificate_of(sampled: list[float], **options) -> Certificate:
    def sample(first: int, count: int) -> np.ndarray:
        return np.random.default_rng([1, first]).choice(4, (count, 3), p=sampled)

    return certify_callable(sample, lambda tokens: STATED, horizon=3, **options)


@pytest.fixture(scope="module")
def passed() -> Certificate:
    return certificate_of(STATED, n=1500, bias=0.15)


@pytest.fixture(scope="module")
def failed() -> Certificate:
    return certificate_of([0.3, 0.3, 0.4, 0.0], n=400)


@pytest.fixture(scope="module")
def sequential() -> Certificate:
    return certificate_of([0.3, 0.3, 0.4, 0.0], sequential=True, batch=40)


def test_the_view_holds_every_test_and_what_it_is_compared_with(passed: Certificate) -> None:
    view = certificate_view(passed)
    assert [row["label"] for row in view["rows"]] == [test.label for test in passed.tests]
    for row, test in zip(view["rows"], passed.tests):
        assert (row["tv"], row["noise_tv"], row["tv_upper"]) == (test.fit.tv, test.noise_tv, test.fit.tv_upper)
        assert row["evidence"] == pytest.approx(-math.log10(test.fit.p_value))
        assert row["is_beyond"] is False
    assert view["limit"] == pytest.approx(-math.log10(1e-3 / len(passed.tests)))


def test_a_row_is_beyond_the_line_exactly_when_its_test_rejects_alone(
    failed: Certificate, sequential: Certificate
) -> None:
    for row, test in zip(certificate_view(failed)["rows"], failed.tests):
        assert row["is_beyond"] == (test.fit.p_value <= failed.level / len(failed.tests))
    for row, test in zip(certificate_view(sequential)["rows"], sequential.tests):
        assert test.e_value is not None
        assert row["is_beyond"] == (test.e_value >= len(sequential.tests) / sequential.level)
        assert row["evidence"] == pytest.approx(math.log10(test.e_value))
    assert any(row["is_beyond"] for row in certificate_view(failed)["rows"])


def test_the_figure_draws_the_view(failed: Certificate) -> None:
    figure = certificate_figure(failed)
    drawn = {trace.name: trace for trace in figure.data}
    view = certificate_view(failed)
    assert list(drawn["observed"].x) == [row["tv"] for row in view["rows"]]
    assert list(drawn["upper bound"].x) == [row["tv_upper"] for row in view["rows"]]
    assert list(drawn["a perfect sampler, on average"].x) == [row["noise_tv"] for row in view["rows"]]
    assert len(drawn["rejects alone"].x) == sum(row["is_beyond"] for row in view["rows"])
    assert sorted(shape.x0 for shape in figure.layout.shapes) == sorted([view["bias"], view["limit"]])
    # told apart without colour
    symbols = [trace.marker.symbol for trace in figure.data]
    assert len(set(symbols)) == len(symbols)


def test_an_impossible_p_value_is_drawn_with_its_number(failed: Certificate) -> None:
    worst = failed.tests[0]
    never = replace(worst, fit=replace(worst.fit, p_value=0.0, chi_square=math.inf))
    figure = certificate_figure(replace(failed, tests=(never, *failed.tests[1:])))
    beyond = next(trace for trace in figure.data if trace.name == "rejects alone")
    assert "p = 0" in beyond.text
    assert all(math.isfinite(x) for x in beyond.x)


def test_an_e_value_too_small_for_a_number_is_no_evidence(sequential: Certificate) -> None:
    first = replace(sequential.tests[0], e_value=0.0)
    row = certificate_view(replace(sequential, tests=(first, *sequential.tests[1:])))["rows"][0]
    assert math.isfinite(row["evidence"]) and row["evidence"] < 0 and not row["is_beyond"]


def test_the_page_stands_alone_and_can_be_read_without_scripts(passed: Certificate, tmp_path: Path) -> None:
    page = certificate_html(passed)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    bare = without_figure(page)
    assert (
        "Certificate: passed" in bare and "So the bound may well exceed 0.15." in bare and "p of one test" not in bare
    )
    for test in passed.tests:
        assert f"<td>{test.label}</td><td>{test.cells}</td><td>{test.fit.p_value:.2g}</td>" in bare
    assert certificate_figure(passed).layout.template.layout.paper_bgcolor == "rgba(0, 0, 0, 0)", "in a notebook"
    assert '"paper_bgcolor":"white"' in page and '"paper_bgcolor":"rgba' not in page
    path = tmp_path / "certificate.html"
    write_certificate_html(path, passed)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [path]


def test_a_certificate_without_power_is_not_headed_passed() -> None:
    certificate = certificate_of(STATED, n=60)
    bare = without_figure(certificate_html(certificate))
    assert certificate_view(certificate)["verdict"] == "no verdict"
    assert "<h1>Certificate: no verdict</h1>" in bare and "Certificate: passed" not in bare


def test_the_sequential_figure_shows_the_mean_that_decides(sequential: Certificate) -> None:
    assert sequential.e_value is not None and sequential.rejected
    view = certificate_view(sequential)
    assert view["deciding"]["evidence"] == pytest.approx(math.log10(sequential.e_value))
    assert view["deciding"]["limit"] == pytest.approx(3)
    figure = certificate_figure(sequential)
    (star,) = [trace for trace in figure.data if trace.marker.symbol == "star"]
    assert list(star.x) == [view["deciding"]["evidence"]] and list(star.y) == [view["deciding"]["label"]]
    assert sorted(shape.x0 for shape in figure.layout.shapes) == sorted([view["bias"], view["deciding"]["limit"]])
    symbols = [trace.marker.symbol for trace in figure.data]
    assert len(set(symbols)) == len(symbols)
    assert f"e-values: {sequential.e_value:.3g} at its largest, and 1000 (1 / level) rejects" in certificate_html(
        sequential
    )


def test_an_infinite_mean_is_drawn_with_its_number(sequential: Certificate) -> None:
    figure = certificate_figure(replace(sequential, e_value=math.inf))
    (star,) = [trace for trace in figure.data if trace.marker.symbol == "star"]
    assert math.isfinite(star.x[0]) and star.text[0] == "e = inf"


def test_marks_at_the_edge_are_whole_and_many_tests_leave_no_gap(passed: Certificate) -> None:
    many = replace(passed, tests=tuple(replace(passed.tests[0], positions=(1, k)) for k in range(2, 80)))
    figure = certificate_figure(many)
    assert all(trace.cliponaxis is False for trace in figure.data)
    assert figure.layout.yaxis.range == (-0.7, 77.7)


def test_a_page_that_cannot_be_written_is_named(passed: Certificate, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder does not exist"):
        write_certificate_html(tmp_path / "none" / "c.html", passed)


@pytest.mark.browser
def test_the_legend_stands_right_above_the_figure_however_many_rows_it_takes(
    passed: Certificate, sequential: Certificate, browser_path: str
) -> None:
    from playwright.sync_api import sync_playwright

    places = """() => {
        const box = (name) => [...document.querySelectorAll(name)].map((node) => node.getBoundingClientRect());
        const [legend] = box('.legend');
        return [legend.bottom, Math.min(...box('.annotation').map((one) => one.top)), legend.height];
    }"""
    heights = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for certificate, width in ((passed, 1000), (passed, 620), (sequential, 820)):
            page = browser.new_page(viewport={"width": width, "height": 600})
            page.set_content(certificate_figure(certificate).to_html(config={"responsive": True}))
            page.wait_for_selector(".annotation")
            legend, names, height = page.evaluate(places)
            assert 0 <= names - legend < 15, f"{names - legend} px between the legend and the figure at {width}"
            heights.add(round(height))
        browser.close()
    assert len(heights) > 1, "one row and more were seen"
