"""Every figure of the audit of the seed documents, written here as a number of its own."""

from fractions import Fraction
import json
import random

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.coins import ScriptedCoins
from specdec_core.hardware_presets import hardware
from specdec_core.model_shapes import model_shape
from specdec_core.roofline import fits
from specdec_core.speed_formulas import best_gamma, expected_accepted, expected_tokens, implied_alpha, speedup
from specdec_labs.cli.app import app
from specdec_labs.seeds import formulas
from specdec_labs.seeds.audit import audit_rows, h100_rows
from specdec_labs.seeds.finding import MEANING, Finding
from specdec_labs.seeds.h100_table import H100_TABLE, SPECULATIVE, plain_tokens_per_s
from specdec_labs.seeds.texts import read_ms, tree_counts, walk_speedup
from specdec_labs.seeds.thresholds import modelled_break_even, modelled_break_even_alpha

runner = CliRunner()
DRAFT, MEDUSA, EAGLE = SPECULATIVE


@pytest.fixture(scope="module")
def rows() -> dict[tuple[int, str], Finding]:
    found = audit_rows()
    by_place = {(row.document, row.place): row for row in found}
    assert len(by_place) == len(found), "two rows of one place"
    return by_place


def test_checked_and_right():
    assert round(expected_tokens(0.8, 5), 3) == 3.689
    assert 1 + 5 * 0.05 == 1.25
    assert round(speedup(0.8, 5, 0.05), 3) == 2.951
    assert expected_accepted(0.5, 4) == 0.9375
    assert expected_accepted(0.5, 60) == pytest.approx(1, abs=1e-12)
    assert round(read_ms(140, 3.35), 1) == 41.8
    assert read_ms(140, 2) == 70
    assert [round(expected_accepted(0.7, k), 4) for k in (4, 8, 16)] == [1.7731, 2.1988, 2.3256]
    assert [round(expected_tokens(0.7, k), 4) for k in (4, 8, 16)] == [2.7731, 3.1988, 3.3256]
    assert best_gamma(0.9, 1 / 20) == 13
    assert [round(speedup(0.9, k, 1 / 20), 4) for k in (12, 13, 14)] == [4.6613, 4.6741, 4.6712]
    assert tree_counts(3, 4) == (81, 120)


def test_traffic_follows_from_the_printed_tokens():
    found = [(row.round_gb, row.tokens, row.token_gb) for row in SPECULATIVE]
    assert found == [(220, 3.54, 62.1), (140.8, 3.12, 45.1), (142.4, 4.88, 29.2)]
    for round_gb, tokens, token_gb in found:
        assert round(round_gb / tokens, 1) == token_gb
    assert [140 + row.drafting_gb for row in SPECULATIVE] == [row.round_gb for row in SPECULATIVE]
    assert round(100 * EAGLE.savings, 1) == 79.1


def test_tokens_do_not_follow_from_alpha_and_gamma():
    assert [(row.alpha, row.gamma, round(row.expected, 3)) for row in SPECULATIVE] == [
        (0.72, 5, 3.074),
        (0.68, 4, 2.671),
        (0.81, 16, 5.117),
    ]
    assert [round(implied_alpha(row.tokens, row.gamma), 3) for row in (DRAFT, MEDUSA)] == [0.782, 0.762]
    assert round(EAGLE.implied, 4) == 0.7997


def test_the_throughput_is_that_of_one_device_that_is_too_small():
    assert round(plain_tokens_per_s(1), 1) == 23.9
    assert round(plain_tokens_per_s(8)) == 191
    assert H100_TABLE[0].tokens_per_s == 23.8
    assert not fits(model_shape("dense-70b"), hardware("h100-sxm"))


def test_traffic_bounds_the_speedup():
    assert [f"{row.traffic_ratio:.2f}" for row in SPECULATIVE] == ["2.25", "3.10", "4.79"]
    assert [row.speedup for row in SPECULATIVE] == [2.25, 2.87, 4.12]
    assert all(row.speedup <= row.traffic_ratio for row in SPECULATIVE)
    assert round(speedup(0.72, 5, 16 / 140), 2) == 1.96


def test_the_bonus_token_that_was_forgotten(rows):
    assert round(walk_speedup(4), 1) == 3.3
    assert round(walk_speedup(5), 2) == 4.17
    assert rows[1, "speed-up with 4 drafts accepted"].verdict == "wrong"


def test_the_code_of_document_1():
    batch, vocab = 3, 5
    q = torch.rand(batch, 2, vocab)
    tokens = torch.tensor([1, 0, 4])
    assert q[:, 0, tokens].shape == (batch, batch)
    assert q[:, 0].gather(1, tokens[:, None]).shape == (batch, 1)
    # one unlucky row makes every row "refuse", and a row that would accept then draws from the residual alone
    ratio = torch.tensor([2.0, 2.0, 0.0])
    assert not (torch.rand(3) <= ratio).all()
    p = torch.tensor([0.5, 0.5])
    assert torch.relu(p - p).sum() == 0
    tiny_q = torch.tensor(1e-9)
    assert (1e-9 / tiny_q) == 1 and (1e-9 / tiny_q.clamp(min=1e-7)) < 0.011


def test_only_the_strict_comparison_refuses_the_impossible():
    u, p, q = 0.0, 0.0, 0.5
    assert not ScriptedCoins([u]).accept(p, q, node=0)
    assert u <= p / q


def test_medusa_offsets_and_eagle(rows):
    assert rows[0, "what Medusa head k predicts"].verdict == "right"
    assert rows[3, "what Medusa head k predicts"].verdict == "wrong"
    assert rows[0, "what EAGLE is"].verdict == "inconsistent"
    assert rows[1, "comparison table: EAGLE among the draft models"].verdict == "inconsistent"


def test_thresholds_are_presets_beside_the_derived_limit(rows):
    gates = {place: row for (_, place), row in rows.items() if place.startswith("gate: ")}
    assert {row.quoted for row in gates.values() if "batch" in row.place} == {
        "at most 8",
        "at most 15",
        "at most 32",
        "at most 63",
    }
    assert {row.quoted for row in gates.values() if "alpha" in row.place} == {
        "at least 0.55",
        "at least 0.5",
        "at least 0.4",
    }
    assert modelled_break_even() == 124
    assert round(modelled_break_even_alpha(), 3) == 0.365
    assert all(row.verdict == "rule of thumb" for row in gates.values())


def test_every_cell_of_the_h100_table_has_a_row(rows):
    columns = ("gamma", "alpha", "tokens per round", "traffic per round", "traffic per token", "throughput")
    for row in H100_TABLE:
        wanted = columns if row.gamma == 0 else (*columns, "speed-up")
        assert {f"H100 table, {row.name}: {column}" for column in wanted} <= {place for _, place in rows}
    quoted = [row for (_, place), row in rows.items() if "throughput" in place and "plain" not in place]
    assert [row.verdict for row in quoted] == ["no source"] * 3


def test_the_table_on_one_and_on_eight_devices():
    one, eight = h100_rows(1), h100_rows(8)
    assert round(one[1]["modelled"]["speedup"], 2) == 1.96
    for alone, together in zip(one, eight):
        assert together["modelled"]["tokens_per_s"] == pytest.approx(8 * alone["modelled"]["tokens_per_s"])
        assert together["modelled"]["speedup"] == pytest.approx(alone["modelled"]["speedup"])


def test_restored_formulas_hold_for_other_laws_too(monkeypatch, rows):
    assert [row.verdict for row in rows.values() if row.place.startswith("formula: ")] == ["restored"] * 7
    generator = random.Random(3)
    for _ in range(20):
        p, q = ([generator.randint(1, 6) for _ in range(4)] for _ in range(2))
        p, q = (tuple(Fraction(weight, sum(law)) for weight in law) for law in (p, q))
        assert p != q
        monkeypatch.setattr(formulas, "P", p)
        monkeypatch.setattr(formulas, "Q", q)
        monkeypatch.setattr(formulas, "ALPHA", Fraction(generator.randint(1, 9), 10))
        assert all(row.verdict == "restored" for row in formulas.formula_findings())


def test_a_formula_that_does_not_hold_is_called_wrong(monkeypatch):
    monkeypatch.setattr(formulas, "expected_tokens", lambda alpha, gamma: Fraction(1))
    verdicts = {row.place: row.verdict for row in formulas.formula_findings()}
    # the table holds functions, so the name they look up is what counts
    assert verdicts["formula: expected tokens per round"] == "wrong"
    assert verdicts["formula: residual"] == "restored"


def test_the_command(tmp_path):
    path, page = tmp_path / "audit.json", tmp_path / "audit.md"
    result = runner.invoke(app, ["audit-seeds", "--json", str(path), "--markdown", str(page)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    data = json.loads(path.read_text(encoding="utf-8"))
    assert len(data["findings"]) == len(audit_rows())
    assert {entry["verdict"] for entry in data["findings"]} == set(MEANING)
    assert set(data["h100"]) == {"1", "8"}
    for text in ("23.9 on one, 191 on eight", "3.074", "0.7997", "4.17x", "81 paths"):
        assert text in result.output
        assert text in page.read_text(encoding="utf-8")


def test_one_document_and_an_unknown_one():
    result = runner.invoke(app, ["audit-seeds", "--document", "3"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "K = 13, S = 4.6741" in result.output and "seed document 1" not in result.output.splitlines()
    result = runner.invoke(app, ["audit-seeds", "--document", "2"])
    assert result.exit_code == 2 and "document is 2" in result.stderr
