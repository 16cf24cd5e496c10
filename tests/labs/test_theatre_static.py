"""The theatre without a script says the same in plain HTML."""

from html.parser import HTMLParser

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.theatre import provenance_html, static_theatre, view_model

HOSTILE = "<img src=x onerror=alert(1)>"


def toy_trace(tokens: int = 16) -> Trace:
    target, draft = toy_pair()
    engine = Engine(target, ModelDrafter(draft), "chain", 4, record_top=4)
    return engine.generate([1, 2, 3], SamplingParams(temperature=0.0, seed=1), tokens).trace


class Reader(HTMLParser):
    """Collects tags and text, as a page without styles shows them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_origin_is_readable_without_styles() -> None:
    text = Reader(provenance_html(toy_trace())).text
    assert "2· 0↺ 5✓ 1✓ 0✓ 8↺" in text.replace("#", "")
    for meaning in ("accepted draft", "redrawn after a refusal", "all drafts kept", "no draft"):
        assert meaning in text


def test_every_decision_of_the_first_rounds_is_a_row() -> None:
    trace = toy_trace()
    steps = view_model(trace)["steps"]
    page = Reader(static_theatre(trace, rounds=2).html)
    expected = [step for step in steps if step["round"] in (1, 2)]
    assert page.tags.count("tr") == 1 + len(expected)
    assert all(step["say"] in page.text for step in expected)
    assert "First 2 of 5 rounds." in page.text
    assert "5 rounds, 10 of 17 drafts accepted, mean acceptance length 3.00." in page.text


def test_token_text_is_never_markup() -> None:
    trace = toy_trace()
    trace.texts = dict.fromkeys(range(10), HOSTILE)
    for html in (static_theatre(trace).html, provenance_html(trace)):
        page = Reader(html)
        assert "img" not in page.tags and "script" not in page.tags
        assert HOSTILE in page.text


def test_an_empty_trace_is_a_sentence() -> None:
    html = static_theatre(Trace(prompt=(1,)))._repr_html_()
    assert "Nothing was generated." in html and "<table" not in html
