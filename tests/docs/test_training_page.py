"""docs/training.md: its tables are those of the cards and results beside it."""

import pytest

from specdec_labs.train.page import PAGE, TABLES, filled, markdown


def test_the_tables_are_up_to_date() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text) == text, "run `specdec train page`"
    for name in ("weights", "parameters", "losses", "sizes", "mismatch"):
        assert f"<!-- table: {name} -->\n| " in text


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(ValueError, match="no table is called 'colours'"):
        filled("<!-- table: colours -->\n<!-- end -->")
    assert "weights" in TABLES


def test_a_table_in_markdown() -> None:
    assert (
        markdown(("a", "b"), [(1234, 0.5), ("x", None)])
        == "| a | b |\n| --- | --- |\n| 1,234 | 0.500 |\n| x | None |\n"
    )
