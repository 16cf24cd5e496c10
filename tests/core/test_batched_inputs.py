"""What batched rules take: ragged and padded layouts, empty batches, dtypes, scripts that end; and what they refuse."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from specdec_core.coins import PhiloxCoins, ScriptedCoins, inverse_cdf
from specdec_core.draft import DraftTree
from specdec_core.residual import residual
from specdec_core.rules import RULES
from specdec_core.rules.batched import (
    PhiloxBatchCoins,
    Questions,
    ScriptedBatchCoins,
    flatten_padded,
    verify_chain_batch,
    verify_greedy_batch,
    verify_recursive_batch,
)
from specdec_core.rules.batched.inverse_cdf import coarse_search, draw_by_inverse_cdf
from specdec_core.rules.batched.laws import LawGroup, Laws, groups
from specdec_core.rules.batched.rows import law_rows, residual_rows
from specdec_core.rules.chain import verify_chain

BATCHED = [name for name, rule in RULES.items() if rule.batched is not None]
HALF = [0.5, 0.5]


def call(name: str, tokens: list[int], counts: list[int], q: Any, p: Any, coins: Any, **options: Any) -> Any:
    offsets = torch.tensor([0, *counts]).cumsum(0)
    if RULES[name].takes_tree:
        parents = [node - 1 for count in counts for node in range(count)]
        options["parents"] = torch.tensor(parents, dtype=torch.int64)
    return RULES[name].batched(torch.tensor(tokens, dtype=torch.int64), offsets, q, p, coins, **options)


@pytest.mark.parametrize("name", BATCHED)
def test_an_empty_batch_has_empty_verdicts(name: str) -> None:
    verdict = call(name, [], [], torch.empty(0, 3), torch.empty(0, 3), ScriptedBatchCoins([]))
    assert len(verdict) == 0
    assert verdict.emitted.shape == (0, 1)
    assert verdict.path.shape == (0, 0)


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("q", [None, torch.empty(0, 2)])
def test_no_drafts_are_plain_steps(name: str, q: Any) -> None:
    verdict = call(
        name, [], [0, 0, 0], q, torch.tensor([[0.0, 1.0], HALF, [1.0, 0.0]]), ScriptedBatchCoins([[0.5]] * 3)
    )
    assert verdict.num_accepted.tolist() == [0, 0, 0]
    assert verdict.next_token.tolist() == ([1, 0, 0] if name == "greedy" else [1, 1, 0])
    assert verdict.emitted[:, 0].tolist() == verdict.next_token.tolist()
    assert verdict.is_bonus.dtype == torch.bool and verdict.is_bonus.all()


def test_a_padded_rectangle_becomes_ragged() -> None:
    tokens = torch.tensor([[4, 2, -1], [-1, -1, -1], [1, 3, 0]], dtype=torch.int32)
    q, p = torch.rand(3, 3, 5), torch.rand(3, 4, 5)
    flat, offsets, flat_q, flat_p = flatten_padded(tokens, q, p)
    assert flat.tolist() == [4, 2, 1, 3, 0]
    assert offsets.tolist() == [0, 2, 2, 5]
    assert torch.equal(flat_q, torch.cat([q[0, :2], q[2]]))
    assert torch.equal(flat_p, torch.cat([p[0, :3], p[1, :1], p[2]]))
    assert flatten_padded(tokens)[2:] == (None, None)


def test_what_stands_in_the_padding_is_never_read() -> None:
    nan = float("nan")
    tokens = torch.tensor([[1, -1], [0, 1]])
    q = torch.tensor([[HALF, [nan, nan]], [HALF, HALF]])
    p = torch.tensor([[HALF, [0.0, 1.0], [nan, nan]], [HALF, HALF, [1.0, 0.0]]])
    verdict = verify_chain_batch(*flatten_padded(tokens, q, p), ScriptedBatchCoins([[0.9, 0.3], [0.9, 0.9, 0.3]]))
    assert verdict.emitted.tolist() == [[1, 1, -1], [0, 1, 0]]
    assert verdict.path.tolist() == [[0, -1], [0, 1]]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[1, -1, 2]], r"draft_tokens\[0, 1\] is -1; drafts come first"),
        ([[1, -2]], r"draft_tokens\[0, 1\] is -2"),
        ([1, 2], r"draft_tokens is torch.int64 of shape \(2,\)"),
    ],
)
def test_padding_in_the_middle_is_refused(tokens: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flatten_padded(torch.tensor(tokens))


def test_laws_of_another_shape_than_the_rectangle_are_refused() -> None:
    with pytest.raises(ValueError, match=r"target_probs has shape \(1, 2, 5\); expected \[1, 3, vocab\]"):
        flatten_padded(torch.tensor([[1, 2]]), None, torch.rand(1, 2, 5))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_ids_of_any_integer_type(dtype: torch.dtype) -> None:
    tokens, offsets = torch.tensor([1, 0], dtype=dtype), torch.tensor([0, 1, 2], dtype=dtype)
    p = torch.tensor([HALF] * 4)
    coins = ScriptedBatchCoins([[0.4, 0.9]] * 2)
    assert verify_chain_batch(tokens, offsets, None, p, coins).emitted.tolist() == [[1, 1], [0, 1]]
    parents = torch.full((2,), -1, dtype=dtype)
    verdict = verify_recursive_batch(tokens, offsets, None, p, ScriptedBatchCoins([[0.4, 0.9]] * 2), parents=parents)
    assert verdict.emitted.tolist() == [[1, 1], [0, 1]]


def test_a_script_runs_on_through_rounds_and_out() -> None:
    p = torch.tensor([HALF, HALF])
    script = [0.6, 0.2, 0.4, 0.7]
    coins, alone = ScriptedBatchCoins([script]), ScriptedCoins(script)
    one, zero = torch.tensor([0, 1]), torch.tensor([0, 0])
    for _ in range(2):
        verdict = verify_chain_batch(torch.tensor([1]), one, None, p, coins)
        assert verdict.verdict(0) == verify_chain([1], None, p, alone)
        coins = coins.rest()
    with pytest.raises(ValueError, match="the script of request 0 has 0 uniforms and all are used"):
        verify_chain_batch(torch.tensor([], dtype=torch.int64), zero, None, p[:1], coins)
    with pytest.raises(ValueError, match="has 1 uniforms and all are used"):
        verify_chain_batch(torch.tensor([1]), one, None, p, ScriptedBatchCoins([[0.1]]))
    with pytest.raises(ValueError, match=r"uniforms\[1\]\[0\] is 1.0; a uniform lies in \[0, 1\)"):
        ScriptedBatchCoins([[0.5], [1.0]])


def test_unseeded_requests_have_noise_of_their_own() -> None:
    coins = PhiloxBatchCoins([None] * 64, requests=[0] * 64, lengths=[1] * 64)
    assert len(set(coins.seeds)) == 64
    verdict = verify_chain_batch(
        torch.empty(0, dtype=torch.int64), torch.zeros(65, dtype=torch.int64), None, torch.tensor([HALF] * 64), coins
    )
    assert set(verdict.next_token.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([1], [2, 3], [4]), "seeds, requests and lengths have 1, 2 and 1 entries"),
        (([-1], [0], [0]), "seed is -1"),
        (([1 << 64], [0], [0]), "seed is 18446744073709551616"),
        (([1], [-1], [0]), "request is -1"),
        (([1], [0], [1 << 32]), "length is 4294967296"),
    ],
)
def test_noise_keys_out_of_range_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PhiloxBatchCoins(given[0], requests=given[1], lengths=given[2])


def broken(**changes: Any) -> Callable[..., Any]:
    """A call of the chain rule on two requests, [0, 1] and [1], with something changed."""
    given: dict[str, Any] = {
        "tokens": torch.tensor([0, 1, 1]),
        "offsets": torch.tensor([0, 2, 3]),
        "q": torch.full((3, 2), 0.5),
        "p": torch.full((5, 2), 0.5),
        "coins": ScriptedBatchCoins([[0.5] * 3] * 2),
    }
    given.update(changes)
    return lambda rule, **options: rule(*given.values(), **options)


NO_LAW = torch.full((5, 2), 0.5)
NO_LAW[4, 0] = float("nan")
NEGATIVE = torch.tensor([[0.5, 0.5], [1.5, -0.5], [0.5, 0.5]])
FAULTS = [
    (broken(offsets=torch.tensor([0, 2])), r"cu_num_draft is \[0, 2\] for 3 draft tokens"),
    (broken(offsets=torch.tensor([0, 3, 2, 3])), r"cu_num_draft is \[0, 3, 2, 3\]"),
    (broken(offsets=torch.tensor([1, 3])), r"cu_num_draft is \[1, 3\]"),
    (broken(offsets=torch.tensor([0.0, 3.0])), r"cu_num_draft is torch.float32"),
    (broken(tokens=torch.tensor([[0, 1, 1]])), r"draft_tokens is torch.int64 of shape \(1, 3\)"),
    (broken(tokens=torch.tensor([0, 1, 2])), r"draft_tokens\[2\] \(request 1, draft 0\) is 2; .* ids 0..1"),
    (broken(tokens=torch.tensor([0, -1, 1])), r"draft_tokens\[1\] \(request 0, draft 1\) is -1; .* flatten_padded"),
    (broken(p=torch.full((3, 2), 0.5)), r"target_probs is torch.float32 of shape \(3, 2\); expected \[5, vocab\]"),
    (broken(p=torch.ones(5, 2, dtype=torch.int64)), r"target_probs is torch.int64"),
    (broken(q=torch.full((5, 2), 0.5)), r"draft_probs is torch.float32 of shape \(5, 2\); expected \[3, vocab\]"),
    (broken(q=torch.full((3, 4), 0.25)), r"draft_probs has vocab 4, target_probs has 2"),
    (broken(p=NO_LAW), r"target_probs\[4\] \(request 1, row 1\) is no law"),
    (broken(q=NEGATIVE), r"draft_probs\[1\] \(request 0, row 1\) is no law"),
    (broken(coins=ScriptedBatchCoins([[0.5]])), r"coins are for 1 requests; cu_num_draft describes 2"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS, ids=range(len(FAULTS)))
def test_faults_are_named(fault: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fault(verify_chain_batch)
    parents = torch.tensor([-1, 0, -1])
    with pytest.raises(ValueError, match=message):
        fault(verify_recursive_batch, parents=parents)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, 1, -1], r"parents\[1\] \(request 0, draft 1\) is 1; a parent is numbered within its request"),
        ([-1, 0, 1], r"parents\[2\] \(request 1, draft 0\) is 1"),
        ([-2, 0, -1], r"parents\[0\] \(request 0, draft 0\) is -2"),
        ([-1, 0], r"parents has shape \(2,\) for 3 nodes"),
    ],
)
def test_parents_that_are_none_are_refused(parents: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        broken()(verify_recursive_batch, parents=torch.tensor(parents))


@pytest.mark.parametrize("name", ["traversal", "traversal_without_replacement", "block", "chain", "recursive"])
@pytest.mark.parametrize("tiny", [1e-17, 1e-30, 5e-324])
def test_an_excess_that_vanishes_beside_one_is_still_drawn_from(name: str, tiny: float) -> None:
    """Rows of few bits sum to 0.99, say: then almost nothing is left, and Z + 1 - w was 0 at w = 1."""
    q, p = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.99, tiny], [0.5, 0.5]], dtype=torch.float64)
    drafted = DraftTree.chain([0]) if RULES[name].takes_tree else [0]
    verdict = RULES[name].verify(drafted, q, p, ScriptedCoins([0.995, 0.5]))
    assert (verdict.num_accepted, verdict.next_token, verdict.kind) == (0, 1, "recovered")
    assert call(name, [0], [1], q, p, ScriptedBatchCoins([[0.995, 0.5]])).verdict(0) == verdict


@pytest.mark.parametrize("name", ["traversal", "traversal_without_replacement", "block", "chain", "recursive"])
def test_with_nothing_left_the_redraw_is_from_p(name: str) -> None:
    """p below q everywhere, as rounding of the rows can make it; v = 0.4955 tells p from q."""
    q, p = torch.tensor([[0.5, 0.5]]).double(), torch.tensor([[0.49, 0.5], [0.5, 0.5]], dtype=torch.float64)
    drafted = DraftTree.chain([0]) if RULES[name].takes_tree else [0]
    verdict = RULES[name].verify(drafted, q, p, ScriptedCoins([0.99, 0.4955]))
    assert (verdict.num_accepted, verdict.next_token) == (0, 1)
    assert call(name, [0], [1], q, p, ScriptedBatchCoins([[0.99, 0.4955]])).verdict(0) == verdict


def test_a_threshold_that_rounds_up_to_the_total_takes_the_last_positive_index() -> None:
    weights = torch.tensor([[0.0, 5e-324, 0.0]], dtype=torch.float64)
    tokens, drawn = draw_by_inverse_cdf(Laws.of(weights), torch.tensor([0.9], dtype=torch.float64))
    assert tokens.tolist() == [inverse_cdf(weights[0], 0.9)] == [1]
    assert drawn.tolist() == [5e-324]


def test_several_thresholds_that_round_up_take_each_the_last_positive_index_of_their_own_row() -> None:
    weights = torch.tensor(
        [[0.0, 5e-324, 0.0, 0.0], [5e-324, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 5e-324]], dtype=torch.float64
    )
    tokens, _ = draw_by_inverse_cdf(Laws.of(weights), torch.full((3,), 0.9, dtype=torch.float64))
    assert tokens.tolist() == [inverse_cdf(row, 0.9) for row in weights] == [1, 0, 3]


def test_without_checks_nothing_impossible_is_drawn_either() -> None:
    zero = torch.zeros(1, 3)
    none, offsets = torch.empty(0, dtype=torch.int64), torch.tensor([0, 0])
    for coins in (ScriptedBatchCoins([[0.5]]), PhiloxBatchCoins([1], requests=[0], lengths=[1])):
        with pytest.raises(ValueError, match="request 0, row 0 have no positive entry"):
            verify_chain_batch(none, offsets, None, zero, coins, validate=False)
    q, p = torch.full((3, 2), 0.5), torch.full((5, 2), 0.5)
    p[0] = float("nan")
    with pytest.raises(ValueError, match="request 0, row 0 have no positive entry or hold NaN"):
        broken(q=q, p=p)(verify_chain_batch, validate=False)
    with pytest.raises(ValueError, match="target_probs holds NaN"):
        broken(p=p)(verify_greedy_batch)


@pytest.mark.parametrize("vocab", [*range(1, 40), 63, 64, 65, 511, 1000, 4097, 8193, 16_383, 32_767])
def test_rows_are_added_like_single_laws(vocab: int) -> None:
    """The claim of `rows.py` on which equal decisions rest: sum and running sum of a row do not depend on its group."""
    part = next(groups(1000, vocab))
    excess = torch.rand(part.stop, vocab, dtype=torch.float64, generator=torch.Generator().manual_seed(vocab)) ** 5
    together = LawGroup(excess, excess).values()
    v = torch.linspace(0, 1 - 2.0**-24, part.stop, dtype=torch.float64)
    drawn, _ = draw_by_inverse_cdf(Laws.of(together), v)
    for row in range(min(part.stop, 25)):
        assert torch.equal(together[row], excess[row] / float(excess[row].clone().sum()))
        assert int(drawn[row]) == inverse_cdf(together[row], float(v[row]))
        assert np.array_equal(together[row].cumsum(0).numpy(), np.cumsum(together[row].numpy()))


def test_a_large_row_is_added_like_a_single_law_by_two_threads() -> None:
    """Beyond torch's parallel grain of 32,768 a sum depends on the threads; a row must be alone there."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        p, q = torch.rand(2, 3, 40_001, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        for part in groups(3, 40_001):
            rest = residual_rows(law_rows(p, torch.arange(3)[part]), law_rows(q, torch.arange(3)[part]))
            assert torch.equal(rest.values()[0], residual(p[part.start], q[part.start]))
            assert part.stop == part.start + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("vocab", [1, 255, 256, 257, 8193, 49_152])
def test_a_coarse_search_is_right_or_silent(vocab: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    weights = torch.rand(vocab, dtype=torch.float64, generator=generator) ** 4
    weights[torch.rand(vocab, generator=generator) < 0.5] = 0
    weights[vocab // 2] += 0.5
    law = weights / weights.sum()
    v = torch.rand(100, dtype=torch.float64, generator=generator)
    # boundaries to the last bit, where only the exact sums may speak
    running = np.cumsum(law.numpy())
    v[:40] = torch.from_numpy(running[:: max(1, vocab // 40)][:40] / running[-1]).clamp(max=0.999)[: min(40, vocab)]
    v[40] = 0.0
    # as rough as is allowed: that is what the margin is for
    rough = weights * (1 + 2.0**-24 * (2 * torch.rand(vocab, dtype=torch.float64, generator=generator) - 1).sign())
    laws = Laws(
        100,
        vocab,
        make=lambda part: LawGroup(weights[None]),
        rough=lambda law: rough,
        entries=lambda which, tokens: weights[tokens],
    )
    found, mass = coarse_search(laws, v)
    assert (found[41:] >= 0).sum() >= 50
    for place, index in enumerate(found.tolist()):
        if index >= 0:
            assert index == inverse_cdf(law, float(v[place]))
            assert float(mass[place]) == float(weights[index]) > 0


def test_a_large_row_is_read_through_a_view() -> None:
    law = torch.rand(3, 50_000, dtype=torch.float64)
    assert law_rows(law, torch.tensor([1])).data_ptr() == law[1].data_ptr()


@pytest.mark.parametrize("purpose", ["recover", "bonus", "sample"])
def test_the_noise_is_that_of_the_scalar_coins(purpose: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(50, 37, dtype=torch.float64, generator=generator) * (torch.rand(50, 37) < 0.5)
    weights[:, 36] += 1e-3
    seeds, indices = list(range(50)), [(1 << 32) - 1 - i for i in range(50)]
    nodes, lengths = [i % 7 for i in range(50)], [(1 << 20) + i for i in range(50)]
    coins = PhiloxBatchCoins(seeds, requests=indices, lengths=lengths)
    questions = Questions(torch.arange(50), torch.tensor(nodes), torch.zeros(50, dtype=torch.int64))
    drawn, uniforms = coins.draw(Laws.of(weights), questions, purpose), coins.uniforms(questions)
    for i in range(50):
        alone = PhiloxCoins(seeds[i]).at(request=indices[i], length=lengths[i])
        assert int(drawn[i]) == alone.draw(weights[i], node=nodes[i], purpose=purpose)
        assert alone.accept(0.0, 1.0, node=nodes[i]) is False
        assert float(uniforms[i]) == alone.events[-1].uniform


def test_weights_near_the_smallest_number_race_as_in_the_scalar_coins() -> None:
    """E / weight overflows for all of a row: those are compared at another scale, the other rows are left alone."""
    weights = torch.tensor(
        [[0.2, 0.3, 0.5, 0.0], [5e-324, 1e-320, 0.0, 3e-321], [1e-322, 0.0, 1e-322, 5e-324]], dtype=torch.float64
    )
    winners = []
    for seed in range(200):
        coins = PhiloxBatchCoins([seed] * 3, requests=[0, 1, 2], lengths=[4, 5, 6])
        places = torch.arange(3)
        drawn = coins.draw(Laws.of(weights), Questions(places, torch.zeros(3, dtype=torch.int64), places * 0), "bonus")
        scalar = [
            PhiloxCoins(seed).at(request=row, length=4 + row).draw(weights[row], node=0, purpose="bonus")
            for row in range(3)
        ]
        assert drawn.tolist() == scalar
        winners.append(scalar)
    assert len({tuple(row) for row in winners}) > 8, "every candidate wins now and then"


def test_the_noise_of_no_request_and_wrong_keys() -> None:
    assert len(PhiloxBatchCoins([], requests=[], lengths=[])) == 0
    with pytest.raises(ValueError, match=r"lengths\[1\] is 1.5; expected a whole number"):
        PhiloxBatchCoins([1, 2], requests=[0, 1], lengths=[1, 1.5])  # type: ignore[list-item]


@pytest.mark.parametrize("scripts", [[[0.1], [0.1, 0.2, 0.3, 0.4]], [[0.1]]])
def test_a_script_shorter_than_its_round_is_no_zero(scripts: list[list[float]]) -> None:
    """Also where the list beside it is longer: what pads the shorter one is no answer."""
    rows = len(scripts)
    tokens, offsets = torch.zeros(3 * rows, dtype=torch.int64), torch.arange(0, 3 * rows + 1, 3)
    q, p = torch.tensor([HALF] * (3 * rows)), torch.tensor([HALF] * (4 * rows))
    with pytest.raises(ValueError, match="the script of request 0 has 1 uniforms and all are used"):
        verify_chain_batch(tokens, offsets, q, p, ScriptedBatchCoins(scripts))
