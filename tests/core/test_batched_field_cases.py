"""Reported cases for batched rules: P13 (a request and its batch), P15 and P16 (edges of a draw), P21 (ties)."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specdec_core.coins import PhiloxCoins
from specdec_core.draft import DraftTree
from specdec_core.rules import RULES
from specdec_core.rules.batched import (
    PhiloxBatchCoins,
    ScriptedBatchCoins,
    philox_coins,
    verify_chain_batch,
    verify_greedy_batch,
)

BATCHED = [name for name, rule in RULES.items() if rule.batched is not None]
SAMPLING = [name for name in BATCHED if name != "greedy"]
VOCABS = [1, 7, 9, 17, 8193]
LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))
NO_DRAFTS = torch.empty(0, dtype=torch.int64)


def chains(name: str, tokens: list[list[int]], q: Tensor | None, p: Tensor, coins: Any) -> Any:
    """The batched rule on chains of drafts."""
    offsets = torch.tensor([0, *(len(row) for row in tokens)]).cumsum(0)
    flat = torch.tensor([token for row in tokens for token in row], dtype=torch.int64)
    options = {}
    if RULES[name].takes_tree:
        options["parents"] = torch.tensor([node - 1 for row in tokens for node in range(len(row))], dtype=torch.int64)
    return RULES[name].batched(flat, offsets, q, p, coins, **options)


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("shared_index", [True, False])
def test_p13_a_seeded_request_decides_alike_in_every_batch(name: str, shared_index: bool) -> None:
    """A has seed 7, B none, C seed 9; they may even carry the same index, as first requests of their clients do."""
    generator = torch.Generator().manual_seed(13)
    drafted = {"A": 3, "B": 2, "C": 4}
    seeds = {"A": 7, "B": None, "C": 9}
    p = {who: torch.rand(k + 1, 6, generator=generator).softmax(-1) for who, k in drafted.items()}
    q = {who: torch.rand(k, 6, generator=generator).softmax(-1) for who, k in drafted.items()}
    tokens = {who: torch.multinomial(q[who], 1, generator=generator)[:, 0].tolist() for who in drafted}

    def run(order: str, length: int) -> dict[str, Any]:
        coins = PhiloxBatchCoins(
            [seeds[who] for who in order],
            requests=[0 if shared_index else "ABC".index(who) for who in order],
            lengths=[length] * len(order),
        )
        laws = torch.cat([q[who] for who in order]), torch.cat([p[who] for who in order])
        verdict = chains(name, [tokens[who] for who in order], *laws, coins)
        assert ((verdict.next_token >= 0) & (verdict.next_token < 6)).all()
        return {who: verdict.verdict(place) for place, who in enumerate(order)}

    seen = set()
    for length in range(5, 25):
        runs = [run(order, length) for order in ("A", "ABC", "CBA", "BAC")]
        assert len({answer["A"] for answer in runs}) == 1
        assert len({answer["C"] for answer in runs[1:]}) == 1
        seen.add(runs[0]["A"])
    assert len(seen) > 1, "the noise must matter, or the case shows nothing"


@pytest.mark.parametrize("vocab", VOCABS)
def test_p15_no_redraw_outside_the_support_or_the_vocabulary(vocab: int) -> None:
    p, q = torch.zeros(2, vocab), torch.zeros(1, vocab)
    p[:, :2], q[0, 0] = 1 / min(2, vocab), 1.0
    token = min(1, vocab - 1)
    requests = 20
    given = torch.full((requests, 2), LARGEST_BELOW_ONE, dtype=torch.float64)
    for coins in (
        ScriptedBatchCoins(given),
        PhiloxBatchCoins([3] * requests, requests=range(requests), lengths=[5] * requests),
    ):
        verdict = chains("chain", [[0]] * requests, q.repeat(requests, 1), p.repeat(requests, 1), coins)
        refused = ~verdict.is_bonus
        assert (verdict.next_token[refused] == token).all()
        assert (verdict.next_token < min(2, vocab)).all()
        assert bool(refused.any()) == (vocab > 1)


@pytest.mark.parametrize("name", SAMPLING)
@pytest.mark.parametrize("vocab", VOCABS)
def test_p15_every_batched_rule_stays_in_the_support(name: str, vocab: int) -> None:
    p, q = torch.zeros(3, vocab), torch.zeros(2, vocab)
    p[:, : min(2, vocab)], q[:, 0] = 1 / min(2, vocab), 1.0
    requests = 12
    given = torch.rand(requests, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(vocab))
    given[:4] = LARGEST_BELOW_ONE
    for coins in (
        ScriptedBatchCoins(given),
        PhiloxBatchCoins([3] * requests, requests=range(requests), lengths=[5] * requests),
    ):
        verdict = chains(name, [[0, 0]] * requests, q.repeat(requests, 1), p.repeat(requests, 1), coins)
        assert ((verdict.next_token >= 0) & (verdict.next_token < min(2, vocab))).all()


def plain_draw(weights: Tensor, v: list[float]) -> list[int]:
    """A draw from the same law for each v: requests without drafts."""
    offsets = torch.zeros(len(v) + 1, dtype=torch.int64)
    coins = ScriptedBatchCoins([[u] for u in v])
    return verify_chain_batch(NO_DRAFTS, offsets, None, weights.repeat(len(v), 1), coins).next_token.tolist()


def test_p16_zero_weight_tokens_are_never_drawn() -> None:
    assert plain_draw(torch.tensor([0.0, 0.5, 0.5, 0.0]), [0.0, 1 - 2**-24, LARGEST_BELOW_ONE]) == [1, 2, 2]


@pytest.mark.parametrize("padding", [0, 40_000])
def test_p16_a_running_sum_that_falls_short_stays_inside_the_support(padding: int) -> None:
    """Also behind 40,000 zeros, where a large vocabulary is searched coarsely first."""
    weights = torch.tensor([0.0] * padding + [1 / 12] * 12 + [0.0], dtype=torch.float32)
    v = float(np.float32(1 - 2**-24))
    assert plain_draw(weights, [v, 0.0, LARGEST_BELOW_ONE]) == [padding + 11, padding, padding + 11]


def test_p16_production_races_leave_zero_weights_out() -> None:
    weights = torch.tensor([[0.0, 1e-6, 0.0, 1.0 - 1e-6, 0.0]]).repeat(200, 1)
    coins = PhiloxBatchCoins([5] * 200, requests=range(200), lengths=[1] * 200)
    drawn = verify_chain_batch(NO_DRAFTS, torch.zeros(201, dtype=torch.int64), None, weights, coins).next_token
    assert set(drawn.tolist()) <= {1, 3}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_p21_ties_go_to_the_lowest_index_of_a_row(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0]], dtype=dtype).repeat(6, 1)
    verdict = verify_greedy_batch(torch.tensor([2, 1, 1]), torch.tensor([0, 1, 2, 3]), None, logits)
    assert verdict.num_accepted.tolist() == [0, 1, 1]
    assert verdict.next_token.tolist() == [1, 1, 1]


@pytest.mark.parametrize("vocab", [3, 9, 8193])
def test_p21_equal_times_go_to_the_lowest_index_in_a_race(vocab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same noise for all tokens and equal weights every candidate is as fast as the next."""
    monkeypatch.setattr(philox_coins, "philox4x32", lambda counter, key: np.full(counter.shape, 1 << 30, np.uint32))
    law = torch.zeros(2, vocab)
    law[:, 1:] = 1 / (vocab - 1)
    coins = PhiloxBatchCoins([1, 2], requests=[0, 1], lengths=[1, 1])
    drawn = verify_chain_batch(NO_DRAFTS, torch.tensor([0, 0, 0]), None, law, coins).next_token
    assert drawn.tolist() == [1, 1]


@pytest.mark.parametrize("name", [name for name in SAMPLING if RULES[name].takes_tree])
def test_p21_of_equal_siblings_the_first_is_entered(name: str) -> None:
    """Two children with the same token: the lower node wins, as in the scalar walk."""
    law = torch.tensor([[0.0, 1.0, 0.0]])
    rule = RULES[name].batched
    assert rule is not None
    verdict = rule(
        torch.tensor([1, 1]),
        torch.tensor([0, 2]),
        law.repeat(2, 1),
        law.repeat(3, 1),
        PhiloxBatchCoins([1], requests=[0], lengths=[4]),
        parents=torch.tensor([-1, -1]),
    )
    assert verdict.verdict(0).path == (0,)
    tree, alone = DraftTree((1, 1), (-1, -1)), PhiloxCoins(1).at(request=0, length=4)
    assert verdict.verdict(0) == RULES[name].verify(tree, law.repeat(2, 1), law.repeat(3, 1), alone)
