"""The mutation report: how it counts, and that the committed one has a reason for every survivor."""

from pathlib import Path
import re
import tomllib

from specdec_labs.mutation_report import UNEXPLAINED, Mutant, page, reason_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
MUTANTS = [
    Mutant("specdec_core.rules.chain.x_verify_chain__mutmut_1", "killed"),
    Mutant("specdec_core.rules.chain.x_verify_chain__mutmut_2", "survived", "a | b", "a or b"),
    Mutant("specdec_core.coins.noise.xǁNoiseKeyǁwords__mutmut_3", "timeout"),
    Mutant("specdec_core.coins.noise.xǁNoiseKeyǁwords__mutmut_4", "not checked"),
]


def test_killed_survived_and_not_run_are_counted_apart() -> None:
    text = page(MUTANTS, [{"function": "verify_chain", "became": "a or b", "why": "the same"}], "mutmut 3")
    assert "**2 of 3 mutants killed: 66.7 %.**" in text
    assert "The run was stopped: 1 mutants were not tried." in text
    assert "| `specdec_core/rules/chain.py` | 2 | 1 | 1 | 0 |" in text
    assert "| `specdec_core/coins/noise.py` | 2 | 1 | 0 | 1 |" in text
    assert "| `verify_chain` | `a \\| b` | `a or b` | the same |" in text
    assert "The run was stopped" not in page(MUTANTS[:3], [], "mutmut 3")


def test_a_reason_belongs_to_one_change_of_one_function() -> None:
    reasons = [{"function": "verify_chain", "became": "a or b", "why": "the same"}]
    assert reason_of(MUTANTS[1], reasons) == "the same"
    assert reason_of(Mutant(MUTANTS[1].name, "survived", "a", "b"), reasons) == UNEXPLAINED
    assert MUTANTS[2].function == "NoiseKey.words"


def test_the_committed_report_explains_its_survivors() -> None:
    text = (DOCS / "mutation.md").read_text(encoding="utf-8")
    killed, run = map(int, re.findall(r"\*\*(\d+) of (\d+) mutants killed", text)[0])
    assert killed / run >= 0.95
    assert UNEXPLAINED not in text
    survivors = text.split("## Survivors")[1].count("\n| `")
    assert survivors == run - killed
    reasons = tomllib.loads((DOCS / "mutation_survivors.toml").read_text(encoding="utf-8"))["survivor"]
    assert all(entry["why"] for entry in reasons)
