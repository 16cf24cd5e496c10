"""The counting line: rewritten in place, ended once, and not more often than a page can take."""

import pytest

from specdec_labs.widgets import progress


def test_it_counts_and_ends_the_line_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    show = progress.counting("texts")
    for done in range(1, 4):
        now += 1.0
        show(done, 3)
    show(3, 3)
    assert capsys.readouterr().out == "\rtexts: 1 of 3\rtexts: 2 of 3\rtexts: 3 of 3\n"


def test_it_skips_what_comes_too_fast_but_never_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 100.0)
    show = progress.counting("passes")
    for done in range(1, 101):
        show(done, 100)
    assert capsys.readouterr().out == "\rpasses: 1 of 100\rpasses: 100 of 100\n"
