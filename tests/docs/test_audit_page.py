"""docs/audit.md shows what the files in docs/results/ hold, and the files hold what the page claims."""

from fractions import Fraction
import json
from pathlib import Path

import pytest

from specdec_labs.audit.page import PREDICTED, findings_table, keys_table, prediction, prediction_table

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "audit.md").read_text(encoding="utf-8")


def results(pattern):
    files = sorted((DOCS / "results").glob(pattern))
    assert files
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


def after(marker):
    return PAGE.split(f"<!-- {marker} -->\n\n")[1]


VLLM = results("audit-vllm-0.32.0-*.json")
NEWER = results("audit-vllm-0.33.0-*.json")
FINDINGS = {(finding["name"], finding["certificate"]["seed"]): finding for file in VLLM for finding in file["findings"]}


@pytest.mark.parametrize(
    ("marker", "table"),
    [
        ("transformers", findings_table(results("audit-transformers-*.json"))),
        ("vllm", findings_table(VLLM)),
        ("prediction", prediction_table(VLLM)),
        ("vllm-0.33", findings_table(NEWER)),
        ("prediction-0.33", prediction_table(NEWER)),
        ("keys", keys_table(results("audit-position-keys.json")[0])),
    ],
)
def test_the_tables_of_the_page_are_those_of_the_files(marker, table):
    assert after(marker).startswith(table + "\n\n")


@pytest.mark.parametrize(
    ("pair", "seed"), [("probabilistic-paper", 0), ("greedy-coin", 0), ("greedy-coin", 1), ("probabilistic-memory", 0)]
)
def test_block_verification_deviates_and_its_control_does_not(pair, seed):
    block, standard = (FINDINGS[f"{method}-{pair}", seed]["certificate"] for method in ("block", "standard"))
    assert block["p_value"] < 1e-6
    assert standard["passed"]
    assert standard["conclusive"]
    assert block["n"] == standard["n"]


@pytest.mark.parametrize(
    ("name", "seed"), [("block-probabilistic-paper", 0), ("block-greedy-coin", 0), ("block-greedy-coin", 1)]
)
def test_the_deviation_is_the_one_that_keyed_noise_predicts(name, seed):
    target, predicted = prediction(FINDINGS[name, seed])
    assert target.p_value < 1e-6
    assert predicted.p_value > 1e-3


def test_every_file_says_what_was_run_where_and_when():
    for file in results("audit-*.json"):
        assert file["command"].startswith("specdec audit ")
        assert file["hardware"]["processor"]
        assert file["hardware"]["date"]
    for version, files in (("0.32.0", VLLM), ("0.33.0", NEWER)):
        for finding in (finding for file in files for finding in file["findings"]):
            assert finding["certificate"]["settings"]["versions"]["vllm"] == version


def test_the_newer_version_has_the_targets_law_and_not_that_of_position_keys():
    found = [finding for file in NEWER for finding in file["findings"] if finding["name"] in PREDICTED]
    assert "block-greedy-coin" in {finding["name"] for finding in found}
    for finding in found:
        target, keyed = prediction(finding)
        assert target.p_value > 1e-3 and keyed.p_value < 1e-6
        assert finding["certificate"]["p_value"] > finding["certificate"]["level"]


def test_the_worked_examples_add_up():
    assert Fraction(1, 4) + Fraction(1, 2) * (1 - Fraction(8, 9) * Fraction(3, 4)) == Fraction(5, 12)
    assert Fraction(1, 9) + Fraction(1, 3) * Fraction(1, 2) + Fraction(2, 9) * Fraction(1, 2) == Fraction(7, 18)
    assert "**5/12 instead of 1/2**" in PAGE
    assert "**7/18 instead of 1/3**" in PAGE


@pytest.mark.parametrize(
    ("p_value", "conclusive", "verdict"),
    [
        (0.5, True, "no deviation found"),
        (0.5, False, "no verdict"),
        (1e-4, True, "**not the target's law**"),
        (1e-4, False, "**not the target's law**"),
    ],
)
def test_the_table_knows_three_verdicts(p_value, conclusive, verdict):
    finding = next(iter(FINDINGS.values()))
    certificate = {**finding["certificate"], "p_value": p_value, "conclusive": conclusive}
    row = findings_table([{"findings": [{**finding, "certificate": certificate}]}]).splitlines()[-1]
    assert row.endswith(f" {verdict} |")
