"""docs/rules.md shows the table `RULES`, row for row."""

from pathlib import Path

from specdec_core.rules import RULES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"


def row(rule) -> str:
    exact = "exact, temperature 0 only" if rule.greedy_only else "exact"
    cells = (
        f"`{rule.name}`",
        exact if rule.lossless else "**lossy**",
        "yes" if rule.needs_draft_probs else "no",
        ", ".join(rule.proposals),
        "tree" if rule.takes_tree else "chain",
        "no" if rule.batched is None else "yes",
        rule.source,
    )
    return f"| {' | '.join(cells)} |"


def test_the_page_is_the_table():
    table = PAGE.read_text(encoding="utf-8").split("<!-- rules -->\n")[1].split("\n\n")[0].splitlines()
    assert table[2:] == [row(rule) for rule in RULES.values()]
