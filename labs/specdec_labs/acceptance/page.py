"""The tables of docs/acceptance.md, from a result of the bench."""

from collections.abc import Callable, Mapping, Sequence
import re
from typing import Any

from specdec_core.prompts import HUMANEVAL, MT_BENCH, TASKS
from specdec_labs.acceptance.result import Row, rows_of

AIMS = (
    ("eagle-tree", "all", 2.8),
    ("eagle", "all", 2.4),
    ("medusa", "all", 2.1),
    ("draft", "all", 2.1),
    ("suffix-corpus", "copying", 3.0),
)
"""(drafter, group, tokens a round) that the project set out for, at temperature 0."""

_SHOWN = 4


_OF_TREES = ("trees", "vectors", "sized")
UNMEASURED = "Not measured yet: the run was made with `--only`, which leaves the trees out."
_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, result: Mapping[str, Any]) -> str:
    """The page with the table of every block `<!-- table: name --> ... <!-- end -->` made anew.

    Raises:
        ValueError: a block of a name that has no table.
    """

    def make(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            raise ValueError(f"no table is called {match[2]!r}; there are {', '.join(TABLES)}")
        unmeasured = match[2] in _OF_TREES and result["trees"] is None
        return f"{match[1]}{UNMEASURED if unmeasured else TABLES[match[2]](result)}\n{match[3]}"

    return _BLOCK.sub(make, text)


def overview(result: Mapping[str, Any]) -> str:
    """One line a drafter: tokens a round with intervals at temperature 0 by set of prompts, and at temperature 1."""
    rows = _by_place(rows_of(result, ("all", MT_BENCH, HUMANEVAL, "own")))
    lines = []
    for entry in result["families"]:
        name = entry["name"]
        own = rows[name, "all", 0.0]
        greedy = [_mean(rows.get((name, group, 0.0))) for group in (MT_BENCH, HUMANEVAL, "own", "all")]
        kind = "one-hot" if entry["deterministic"] else "sampled"
        lines.append((entry["title"], kind, str(own.prompts), *greedy, _mean(rows.get((name, "all", 1.0)))))
    heads = ("drafter", "proposal", "prompts", "MT-bench", "HumanEval", "own", "all", "all, T = 1")
    return table(heads, lines)


def by_task(result: Mapping[str, Any]) -> str:
    """Tokens a round at temperature 0, a column for each of our own tasks."""
    rows = _by_place(rows_of(result, TASKS))
    lines = [
        (entry["title"], *(_plain(rows.get((entry["name"], task, 0.0))) for task in TASKS))
        for entry in result["families"]
    ]
    return table(("drafter", *(task.replace("_", " ") for task in TASKS)), lines)


def by_position(result: Mapping[str, Any]) -> str:
    """Survival and conditional acceptance at the first positions, over all prompts, at both temperatures."""
    lines = []
    for row in rows_of(result, ("all",)):
        rates = [*_first(row.counts.survival), *_first(row.counts.conditional)]
        lines.append((row.title, f"{row.temperature:g}", _number(row.counts.alpha), *map(_number, rates)))
    heads = [f"{kind} {i}" for kind in ("kept", "kept if tested") for i in range(1, _SHOWN + 1)]
    return table(("drafter", "T", "alpha", *heads), lines)


def aims(result: Mapping[str, Any]) -> str:
    """What was aimed for, what was measured, and whether the interval reaches it."""
    rows = _by_place(rows_of(result, ("all", "copying")))
    lines = []
    for name, group, aim in AIMS:
        row = rows.get((name, group, 0.0))
        if row is not None and row.mean is not None:
            verdict = "reached" if row.mean >= aim else "missed"
            where = "all prompts" if group == "all" else "summary, RAG, code editing"
            lines.append((row.title, where, f"{aim:.1f}", _mean(row), verdict))
    return table(("drafter", "prompts", "aim", "measured", ""), lines)


def trees(result: Mapping[str, Any]) -> str:
    """Expected against measured tokens a round, a line for each drafter and shape."""
    lines = []
    for drafter in result["trees"]["drafters"]:
        for shape in drafter["shapes"]:
            measured = f"{shape['measured']:.2f} ({shape['low']:.2f} to {shape['high']:.2f})"
            off = 100 * (shape["measured"] / shape["expected"] - 1)
            expected = (
                f"{shape['expected']:.2f}",
                f"{shape['expected_by_depth']:.2f}",
                _number(shape.get("every_place")),
            )
            lines.append((drafter["title"], shape["kind"], *expected, measured, f"{off:+.1f} %"))
    heads = ("drafter", "tree", "one vector", "a vector a depth", "from every place", "measured", "to one vector")
    return table(heads, lines)


def sized(result: Mapping[str, Any]) -> str:
    """The tree with fewest seconds a token on the machine whose costs were measured."""
    lines = [
        (
            entry["title"],
            str(entry["nodes"]),
            str(entry["depth"]),
            f"{1e3 * entry['level_s']:.1f}",
            f"{1e3 * entry['plain_s']:.1f}",
            f"{entry['expected']:.2f}",
            f"{entry['predicted_speedup']:.2f}",
        )
        for entry in result["trees"].get("sized", [])
    ]
    heads = ("drafter", "nodes", "levels", "ms a level", "ms a plain step", "expected tokens", "predicted speed-up")
    return table(heads, lines)


def claims(result: Mapping[str, Any]) -> str:
    """What the seed documents claim about acceptance, with what was measured here."""
    rows = _by_place(rows_of(result))

    def alpha(name: str, group: str = "all", temperature: float = 0.0) -> str:
        row = rows.get((name, group, temperature))
        return "-" if row is None else _number(row.counts.alpha)

    drafters = result["trees"]["drafters"] if result["trees"] else ()
    small = [(drafter["title"], drafter["small"]) for drafter in drafters]
    tokens = ", ".join(f"{title} {entry['measured']:.2f}" for title, entry in small) or "not measured yet"
    added = [f"{100 * count / result['target_parameters']:.1f} %" for count in result["parameters"].values()]
    lines = (
        ("draft model: acceptance 70-85 %", "alpha, T = 0 / T = 1", _pair(alpha, "draft")),
        ("the same, with a draft of the target's own layers", "alpha, T = 0 / T = 1", _pair(alpha, "layers")),
        ("parallel heads with tree attention: 60-78 %", "alpha along the path, T = 0 / T = 1", _pair(alpha, "medusa")),
        ("structured JSON, code, T = 0: above 85 %", "alpha of EAGLE-2 on JSON / code / HumanEval", _three(alpha)),
        ("8 candidates over 4 levels: 3.5 tokens", "tokens a round, best tree of that size", tokens),
        ("INT4 of the target: alpha 0.85-0.9", "alpha, T = 0 / T = 1", _pair(alpha, "int4")),
        ("heads add about 2 % of parameters", "Medusa (4 heads) / EAGLE, of the target's", " / ".join(added)),
    )
    return table(("the seeds say", "counterpart", "measured"), lines)


def _pair(alpha: Callable[..., str], name: str) -> str:
    return f"{alpha(name)} / {alpha(name, temperature=1.0)}"


def _three(alpha: Callable[..., str]) -> str:
    return " / ".join(alpha("eagle-tree", group) for group in ("json", "code", HUMANEVAL))


def vectors(result: Mapping[str, Any]) -> str:
    """How often the 1st, 2nd, ... child is the next token, by depth."""
    lines = []
    for drafter in result["trees"]["drafters"]:
        for depth, vector in enumerate(drafter["by_depth"][:_SHOWN], start=1):
            lines.append((drafter["title"], str(depth), *(f"{chance:.2f}" for chance in vector[:_SHOWN])))
    return table(("drafter", "depth", *(f"child {i}" for i in range(1, _SHOWN + 1))), lines)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines))


def _by_place(rows: Sequence[Row]) -> dict[tuple[str, str, float], Row]:
    return {(row.family, row.group, row.temperature): row for row in rows}


def _mean(row: Row | None) -> str:
    if row is None or row.mean is None:
        return "-"
    return f"{row.mean:.2f}" if row.low is None else f"{row.mean:.2f} ({row.low:.2f} to {row.high:.2f})"


def _plain(row: Row | None) -> str:
    return "-" if row is None else _number(row.mean)


def _first(rates: Sequence[float | None]) -> list[float | None]:
    return [*rates, *[None] * _SHOWN][:_SHOWN]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "overview": overview,
    "tasks": by_task,
    "positions": by_position,
    "aims": aims,
    "trees": trees,
    "vectors": vectors,
    "sized": sized,
    "claims": claims,
}
