"""Every batched rule checks what it is given unless told not to, and makes its tensors where its inputs are."""

from collections.abc import Iterator
from contextlib import contextmanager
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_core.coins import PhiloxCoins
from specdec_core.rules import RULES
from specdec_core.rules.batched import PhiloxBatchCoins, ScriptedBatchCoins, checks, flatten_padded

BATCHED = [name for name, rule in RULES.items() if rule.batched is not None]
TOKENS = torch.tensor([0, 1, 1, 0, 1])
OFFSETS = torch.tensor([0, 2, 2, 5])
PARENTS = torch.tensor([-1, -1, -1, -1, 0])
Q = torch.tensor([[0.5, 0.25, 0.25]]).repeat(5, 1)
P = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]).repeat(3, 1)[:8]
SCRIPTS = [[0.7, 0.6, 0.9, 0.3], [0.2], [0.1, 0.8, 0.4, 0.9, 0.5]]


def coins() -> ScriptedBatchCoins:
    return ScriptedBatchCoins(SCRIPTS)


def judge(name: str, q: Tensor | None, p: Tensor, given: Any, **options: Any) -> Any:
    rule = RULES[name]
    if rule.takes_tree:
        options.setdefault("parents", PARENTS)
    return rule.batched(options.pop("tokens", TOKENS), OFFSETS, q, p, given, **options)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Tensors made without a device go to one that no CPU tensor can be mixed with, as on a GPU they would not fit."""
    with torch.device("meta"):
        yield


@pytest.mark.parametrize(
    ("name", "sampled"),
    [
        (name, sampled)
        for name in BATCHED
        for sampled in (True, False)
        if sampled or "deterministic" in RULES[name].proposals
    ],
)
@pytest.mark.parametrize("kind", ["scripted", "philox"])
def test_tensors_are_made_on_the_device_of_the_inputs(name: str, sampled: bool, kind: str) -> None:
    def fresh() -> Any:
        return coins() if kind == "scripted" else PhiloxBatchCoins([1, 2, 3], requests=[0, 1, 2], lengths=[4, 5, 6])

    q = Q if sampled else None
    expected, given = judge(name, q, P, fresh()), fresh()
    with elsewhere():
        found = judge(name, q, P, given)
    assert [found.verdict(request) for request in range(3)] == [expected.verdict(request) for request in range(3)]


def test_a_rectangle_is_flattened_where_it_is() -> None:
    rectangle = torch.tensor([[0, 1, -1], [2, -1, -1]])
    q, p = torch.rand(2, 3, 4), torch.rand(2, 4, 4)
    expected = flatten_padded(rectangle, q, p)
    with elsewhere():
        found = flatten_padded(rectangle, q, p)
    assert all(torch.equal(one, other) for one, other in zip(found, expected))
    assert found[0].dtype == torch.int64
    assert flatten_padded(rectangle.to(torch.int32))[0].dtype == torch.int64


def test_a_rectangle_of_laws_that_does_not_fit_is_named() -> None:
    rectangle = torch.tensor([[0, 1, -1], [2, -1, -1]])
    with pytest.raises(ValueError, match=r"draft_probs has shape \(2, 2, 4\); expected \[2, 3, vocab\]"):
        flatten_padded(rectangle, torch.rand(2, 2, 4))
    with pytest.raises(ValueError, match=r"target_probs has shape \(2, 3, 4\); expected \[2, 4, vocab\]"):
        flatten_padded(rectangle, torch.rand(2, 3, 4), torch.rand(2, 3, 4))


@pytest.mark.parametrize("name", BATCHED)
def test_checks_are_the_default_and_can_be_left_out(name: str) -> None:
    worse = P.clone()
    worse[3] *= 1.5
    if name == "greedy":
        # rows of the greedy rule may be logits
        assert judge(name, None, worse, None).next_token.tolist() == judge(name, None, P, None).next_token.tolist()
        return
    with pytest.raises(ValueError, match=r"target_probs\[3\] \(request 1, row 0\) is no law"):
        judge(name, Q, worse, coins())
    assert len(judge(name, Q, worse, coins(), validate=False)) == 3
    with pytest.raises(ValueError, match="coins are for 2 requests; cu_num_draft describes 3"):
        judge(name, Q, P, ScriptedBatchCoins(SCRIPTS[:2]))


@pytest.mark.parametrize("name", BATCHED)
def test_every_rule_checks_rows_and_ids(name: str) -> None:
    given = None if name == "greedy" else coins()
    with pytest.raises(ValueError, match=r"target_probs is torch.float32 of shape \(7, 3\); expected \[8, vocab\]"):
        judge(name, Q, P[:7], given)
    outside = TOKENS.clone()
    outside[4] = 3
    with pytest.raises(ValueError, match=r"draft_tokens\[4\] \(request 2, draft 2\) is 3; the vocabulary has ids 0..2"):
        judge(name, Q, P, given, tokens=outside)


@pytest.mark.parametrize("name", [name for name in BATCHED if RULES[name].needs_draft_probs])
def test_rules_that_read_q_check_it(name: str) -> None:
    with pytest.raises(ValueError, match=r"draft_probs is torch.float32 of shape \(4, 3\)"):
        judge(name, Q[:4], P, coins())
    with pytest.raises(ValueError, match=r"draft_probs has vocab 2, target_probs has 3"):
        judge(name, Q[:, :2], P, coins())
    worse = Q.clone()
    worse[2, 0] = -0.1
    with pytest.raises(ValueError, match=r"draft_probs\[2\] \(request 2, row 0\) is no law"):
        judge(name, worse, P, coins())


@pytest.mark.parametrize("row", range(8))
def test_every_row_is_checked_whatever_piece_it_lies_in(row: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_ROWS_AT_ONCE", 6)
    worse = P.clone()
    worse[row, 1] = torch.nan
    with pytest.raises(ValueError, match=rf"target_probs\[{row}\] \(request \d, row \d\) is no law"):
        judge("chain", Q, worse, coins())


@pytest.mark.parametrize("name", [name for name in BATCHED if RULES[name].takes_tree])
def test_tree_rules_check_parents(name: str) -> None:
    with pytest.raises(ValueError, match=r"parents\[4\] \(request 2, draft 2\) is 2"):
        judge(name, Q, P, coins(), parents=torch.tensor([-1, -1, -1, -1, 2]))
    with pytest.raises(ValueError, match=r"parents has shape \(4,\) for 5 nodes"):
        judge(name, Q, P, coins(), parents=PARENTS[:4])


@pytest.mark.parametrize("name", [name for name in BATCHED if RULES[name].takes_tree and RULES[name].needs_draft_probs])
def test_siblings_of_different_laws_are_refused(name: str) -> None:
    worse = Q.clone()
    worse[3] = torch.tensor([0.25, 0.5, 0.25])
    with pytest.raises(ValueError, match=r"draft_probs\[3\] \(request 2, draft 1\) differs from draft_probs\[2\]"):
        judge(name, worse, P, coins())
    other = Q.clone()
    other[2:4] = torch.tensor([0.25, 0.5, 0.25])  # another request, another law; and its grandchild has its own
    assert len(judge(name, other, P, coins())) == 3


@pytest.mark.parametrize("name", BATCHED)
def test_other_kinds_of_arguments_are_named(name: str) -> None:
    given = None if name == "greedy" else coins()
    with pytest.raises(ValueError, match="target_probs is a list; expected a tensor"):
        judge(name, Q, P.tolist(), given)
    with pytest.raises(ValueError, match="draft_tokens is a list; expected a tensor of whole numbers"):
        judge(name, Q, P, given, tokens=[0, 1, 1, 0, 1])
    with pytest.raises(ValueError, match="draft_tokens is torch.float32 of shape"):
        judge(name, Q, P, given, tokens=TOKENS.float())
    with pytest.raises(
        ValueError, match=r"target_probs is torch.float8_e4m3fn of shape \(8, 3\); expected \[8, vocab\]"
    ):
        judge(name, Q, P.to(torch.float8_e4m3fn), given)
    with pytest.raises(ValueError, match=r"target_probs is torch.float32 of shape \(8, 0\)"):
        judge(name, Q, P[:, :0], given)
    if name != "greedy":
        with pytest.raises(ValueError, match="coins is a PhiloxCoins; expected coins of a batch"):
            judge(name, Q, P, PhiloxCoins(1))
        with pytest.raises(ValueError, match="coins is a NoneType"):
            judge(name, Q, P, None)
    if RULES[name].takes_tree:
        with pytest.raises(ValueError, match="parents is torch.float32 of shape"):
            judge(name, Q, P, given, parents=PARENTS.float())
        with pytest.raises(ValueError, match="parents is a NoneType"):
            judge(name, Q, P, given, parents=None)


@pytest.mark.parametrize("name", BATCHED)
def test_laws_under_a_gradient_are_judged_alike(name: str) -> None:
    for fresh in (coins, lambda: PhiloxBatchCoins([1, 2, 3], requests=[0, 1, 2], lengths=[4, 5, 6])):
        expected = judge(name, Q, P, fresh())
        found = judge(name, Q.clone().requires_grad_(), P.clone().requires_grad_(), fresh())
        assert [found.verdict(request) for request in range(3)] == [expected.verdict(request) for request in range(3)]


def test_numbers_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match=r"requests\[1\] is 0.9; expected a whole number"):
        PhiloxBatchCoins([7, 7], requests=[0, 0.9], lengths=[3, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"draft_tokens is torch.float32 of shape \(1, 2\)"):
        flatten_padded(torch.tensor([[0.5, -1.0]]))


@pytest.mark.parametrize("coins", ["philox", "scripted"])
@pytest.mark.parametrize("vocab", [3, 40_000])
@pytest.mark.parametrize("fault", [math.nan, math.inf])
@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.batched and not rule.greedy_only])
def test_a_bonus_row_without_a_law_is_not_drawn_from(name: str, fault: float, vocab: int, coins: str) -> None:
    # one request whose draft is surely kept, then the bonus row; and one that drafts nothing
    p, q = torch.zeros(3, vocab), torch.zeros(1, vocab)
    p[0, 0] = q[0, 0] = 1
    p[1:, 0], p[1:, 1] = fault, 1.0
    made = PhiloxBatchCoins([1, 1], requests=[0, 1], lengths=[5, 5])
    batch_coins = made if coins == "philox" else ScriptedBatchCoins([[0.5] * 4, [0.5] * 4])
    extra = {"parents": torch.tensor([-1])} if RULES[name].takes_tree else {}
    with pytest.raises(ValueError, match="hold NaN or inf"):
        RULES[name].batched(torch.tensor([0]), torch.tensor([0, 1, 1]), q, p, batch_coins, validate=False, **extra)
