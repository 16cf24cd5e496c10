"""The tables of docs/training.md, from the cards of the weights and the results of the comparisons."""

from collections.abc import Callable, Iterable
import json
from pathlib import Path
import re
from typing import Any

from specdec_core.models.shipped import FOLDER, NAMES, SMOLLM2_EAGLE, SMOLLM2_MEDUSA, read_card
from specdec_labs.train.comparisons import table

ROOT = Path(__file__).resolve().parents[3]
PAGE, RESULTS = ROOT / "docs" / "training.md", ROOT / "docs" / "results"
SMOLLM2_WEIGHTS = 134_515_008  # of the GGUF file: its header's shapes, multiplied and added

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """The page with every table made anew. ValueError for a table that has no maker."""

    def make(match: re.Match[str]) -> str:
        name = match[2]
        if name not in TABLES:
            raise ValueError(f"no table is called {name!r}; there are {', '.join(TABLES)}")
        return f"{match[1]}{TABLES[name]()}{match[3]}"

    return _BLOCK.sub(make, text)


def markdown(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table; floats with three digits."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *([_cell(value) for value in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def weights() -> str:
    """What comes with the package."""
    rows = []
    for name in NAMES:
        card = read_card(name)
        size = sum(path.stat().st_size for path in (FOLDER / name).iterdir()) / 1e6
        figures = ", ".join(f"{key} {value:.3f}" for key, value in card["held_out"].items())
        steps = [entry["steps"] for entry in (card.get("earlier"), card) if entry is not None]
        rows.append(
            (
                f"`{name}`",
                card["parameters"],
                f"{size:.2f}",
                " + ".join(map(str, steps)),
                f"`{card['command']}`",
                figures,
            )
        )
    return markdown(("weights", "parameters", "MB", "steps", "command", "held-out figures, as stored"), rows)


def parameters() -> str:
    """The seeds' "about 2 % more parameters", measured."""
    rows = []
    for name in (SMOLLM2_MEDUSA, SMOLLM2_EAGLE):
        count = read_card(name)["parameters"]
        rows.append((f"`{name}`", count, f"{100 * count / SMOLLM2_WEIGHTS:.2f} %"))
    return markdown(("head", "parameters", "of SmolLM2's 134.5 M"), rows)


def curve(name: str) -> Callable[[], str]:
    """A maker of the learning curve on the card of that name."""

    def make() -> str:
        card = read_card(name)
        earlier = card.get("earlier", {"steps": 0, "learning_curve": []})
        entries = earlier["learning_curve"] + [
            {**entry, "step": entry["step"] + earlier["steps"]} for entry in card["learning_curve"]
        ]
        return markdown(entries[-1], ([entry.get(key, "") for key in entries[-1]] for entry in _thinned(entries)))

    return make


def result(name: str) -> Callable[[], str]:
    """A maker of the table of a comparison."""

    def make() -> str:
        return table(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))

    return make


def mismatch() -> str:
    """The draft that has read prose only beside the one that has read both, and the c below which each pays.

    A round of gamma drafts and a verify pass of one step pays while tokens per round exceed gamma c + 1.
    """
    found = json.loads((RESULTS / "training-mismatch.json").read_text(encoding="utf-8"))
    heads = list(found["rows"][0])
    pays_below = [(row["tokens_per_round"] - 1) / found["gamma"] for row in found["rows"]]
    rows = ([*(row[head] for head in heads), below] for row, below in zip(found["rows"], pays_below, strict=True))
    return markdown([*heads, "pays below c"], rows)


def _thinned(entries: list[dict[str, Any]], most: int = 10) -> list[dict[str, Any]]:
    """At most so many of the entries, evenly, the last among them."""
    step = -(-len(entries) // most)
    return entries[::-1][::step][::-1]


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


TABLES: dict[str, Callable[[], str]] = {
    "weights": weights,
    "parameters": parameters,
    **{f"curve-{name}": curve(name) for name in NAMES},
    "losses": result("training-losses"),
    "sizes": result("training-sizes"),
    "mismatch": mismatch,
}
