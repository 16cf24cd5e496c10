"""The rule functions and the table of rules: same answer for float and Fraction, checks, what each promises."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.coins import PhiloxCoins, ScriptedCoins
from specdec_core.draft import Draft, DraftTree
from specdec_core.engine import Engine
from specdec_core.rules import RULES, verify_chain, verify_greedy
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams

F = Fraction


@st.composite
def chain_cases(draw: st.DrawFn) -> tuple[list[int], list[list[Fraction]], list[list[Fraction]], list[float]]:
    vocab, drafted = draw(st.integers(1, 4)), draw(st.integers(0, 4))
    law = st.lists(st.integers(0, 7), min_size=vocab, max_size=vocab).filter(any)
    laws = [draw(law) for _ in range(2 * drafted + 1)]
    exact = [[F(w, sum(ws)) for w in ws] for ws in laws]
    tokens = [draw(st.sampled_from([t for t, w in enumerate(ws) if w])) for ws in laws[:drafted]]
    uniforms = draw(st.lists(st.integers(0, 96), min_size=drafted + 1, max_size=drafted + 1))
    # 97 divides none of the products that p / q can make, so no uniform sits on a threshold but 0
    return tokens, exact[:drafted], exact[drafted:], [k / 97 for k in uniforms]


@given(chain_cases())
def test_float_and_exact_laws_give_the_same_verdict(case) -> None:
    tokens, q, p, uniforms = case
    as_tensor = [torch.tensor([[float(x) for x in law] for law in laws], dtype=torch.float64) for laws in (q, p)]
    exact = verify_chain(tokens, q, p, ScriptedCoins(uniforms))
    floats = verify_chain(tokens, as_tensor[0] if tokens else [], as_tensor[1], ScriptedCoins(uniforms))
    assert exact == floats
    assert exact.path == tuple(range(exact.num_accepted))
    assert (exact.kind == "bonus") == (exact.num_accepted == len(tokens))


@given(chain_cases())
def test_a_deterministic_draft_is_the_one_hot_case_of_a_sampled_one(case) -> None:
    tokens, q, p, uniforms = case
    one_hot = [[F(x == token) for x in range(len(p[0]))] for token in tokens]
    assert verify_chain(tokens, None, p, ScriptedCoins(uniforms)) == verify_chain(
        tokens, one_hot, p, ScriptedCoins(uniforms)
    )


@given(chain_cases())
def test_greedy_is_chain_on_one_hot_laws(case) -> None:
    tokens, q, p, uniforms = case
    one_hot = [[F(x == law.index(max(law))) for x in range(len(law))] for law in p]
    assert verify_greedy(tokens, q, p) == verify_chain(tokens, None, one_hot, ScriptedCoins(uniforms))


@given(chain_cases())
def test_questions_are_asked_once_each_in_order(case) -> None:
    tokens, q, p, _ = case
    coins = PhiloxCoins(4).at(request=0, length=1)
    verdict = verify_chain(tokens, q, p, coins)
    judged = min(verdict.num_accepted + 1, len(tokens))
    last = ("recover", verdict.num_accepted) if verdict.kind == "recovered" else ("bonus", len(tokens))
    assert [(event.purpose, event.node) for event in coins.events] == [("accept", i) for i in range(judged)] + [last]


HALF = torch.tensor([0.5, 0.5])


def test_no_draft_is_a_plain_step() -> None:
    for q in (None, [], torch.empty(0, 2)):
        verdict = verify_chain([], q, HALF[None], ScriptedCoins([0.7]))
        assert (verdict.num_accepted, verdict.path, verdict.next_token, verdict.kind) == (0, (), 1, "bonus")


@pytest.mark.parametrize("rule", [verify_chain, verify_greedy])
def test_too_few_or_too_many_target_rows_are_refused(rule) -> None:
    for rows in (1, 3):
        with pytest.raises(ValueError, match=f"target_probs has {rows} rows for 1 draft tokens; expected 2"):
            rule([0], None, HALF.repeat(rows, 1), ScriptedCoins([0.1] * 4))


def test_wrong_number_of_draft_laws_is_refused() -> None:
    with pytest.raises(ValueError, match="draft_probs has 2 rows for 1 draft tokens"):
        verify_chain([0], HALF.repeat(2, 1), HALF.repeat(2, 1), ScriptedCoins([0.1] * 4))


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"draft_probs\[0\] has vocab 3, target_probs\[0\] has 2"):
        verify_chain([0], torch.full((1, 3), 1 / 3), HALF.repeat(2, 1), ScriptedCoins([0.1] * 4))
    with pytest.raises(ValueError, match=r"target_probs\[1\] has vocab 3, target_probs\[0\] has 2"):
        verify_chain([0], [HALF], [HALF, torch.full((3,), 1 / 3)], ScriptedCoins([0.1] * 4))


@pytest.mark.parametrize("rule", [verify_chain, verify_greedy])
@pytest.mark.parametrize("token", [-1, 2])
def test_draft_tokens_outside_the_vocabulary_are_refused(rule, token: int) -> None:
    with pytest.raises(ValueError, match=rf"draft_tokens\[1\] is {token}; the vocabulary has ids 0\.\.1"):
        rule([0, token], None, HALF.repeat(3, 1), ScriptedCoins([0.1] * 4))


def test_a_law_with_nan_is_refused_by_each_rule() -> None:
    bad = torch.tensor([[float("nan"), 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match=r"target_probs\[0\] is no law"):
        verify_chain([0], None, bad, ScriptedCoins([0.1] * 4))
    with pytest.raises(ValueError, match=r"target_probs\[1\] is no law"):
        verify_chain([0], None, bad.flip(0), ScriptedCoins([0.1] * 4))
    with pytest.raises(ValueError, match="NaN"):
        verify_greedy([0], None, bad)
    with pytest.raises(ValueError, match="NaN"):
        verify_greedy([0], None, bad.flip(0))


@pytest.mark.parametrize("rows", [[[5.0, 1.0], [0.5, 0.5]], [[0.5, 0.5], [-0.5, 1.5]], [[0.3, 0.3], [0.5, 0.5]]])
def test_logits_in_place_of_laws_are_refused(rows) -> None:
    """Positive logits used to accept every draft in silence."""
    with pytest.raises(ValueError, match="is no law"):
        verify_chain([0], None, torch.tensor(rows), ScriptedCoins([0.1] * 4))
    with pytest.raises(ValueError, match=r"draft_probs\[0\] is no law"):
        verify_chain([0], torch.tensor([[2.0, 3.0]]), torch.full((2, 2), 0.5), ScriptedCoins([0.1] * 4))
    low = torch.softmax(torch.randn(2, 50_000, generator=torch.Generator().manual_seed(0)), dim=-1).bfloat16()
    verify_chain([0], None, low, ScriptedCoins([0.1] * 4))


@pytest.mark.parametrize("name", RULES)
def test_the_table_is_keyed_by_name_and_names_its_source(name: str) -> None:
    rule = RULES[name]
    assert rule.name == name
    assert rule.source
    assert rule.proposals


@pytest.mark.parametrize("name", ["chain", "greedy"])
def test_a_rule_refuses_other_proposals_and_branching_drafts(name: str) -> None:
    rule = RULES[name]
    iid = Draft(DraftTree((0, 1), (-1, -1)), HALF.repeat(2, 1), "iid")
    with pytest.raises(ValueError, match=f"rule '{name}' does not take 'iid' drafts; it accepts chain, deterministic"):
        rule(iid, HALF.repeat(3, 1), ScriptedCoins([]))
    fork = Draft(DraftTree((0, 1), (-1, -1)), None, "deterministic")
    with pytest.raises(ValueError, match=f"rule '{name}' judges chains; this draft branches"):
        rule(fork, HALF.repeat(3, 1), ScriptedCoins([]))


def test_one_draft_of_another_kind_is_refused_and_no_draft_is_of_any_kind() -> None:
    one = Draft(DraftTree((0,), (-1,)), HALF.repeat(1, 1), "iid")
    with pytest.raises(ValueError, match="rule 'chain' does not take 'iid' drafts"):
        RULES["chain"](one, HALF.repeat(2, 1), ScriptedCoins([]))
    none = Draft(DraftTree((), ()), HALF.repeat(0, 1), "iid")
    assert RULES["chain"](none, HALF.repeat(1, 1), ScriptedCoins([0.6])).next_token == 1


def test_a_tree_rule_gets_the_tree() -> None:
    fork = Draft(DraftTree((0, 1), (-1, -1)), None, "deterministic")
    verdict = RULES["recursive"](fork, HALF.repeat(3, 1), ScriptedCoins([0.9, 0.1, 0.6]))
    assert (verdict.path, verdict.next_token) == ((1,), 1)


def test_kseq_refuses_a_second_level() -> None:
    tree = DraftTree((0, 1), (-1, 0))
    with pytest.raises(ValueError, match="k-SEQ judges one level"):
        RULES["kseq"].verify(tree, HALF.repeat(2, 1), HALF.repeat(3, 1), ScriptedCoins([0.5] * 9))


def test_the_greedy_rule_is_refused_where_it_is_not_lossless() -> None:
    """Argmax verification at temperature 1 says the argmax, whatever the target's law is."""
    target, _ = toy_pair()
    with pytest.raises(ValueError, match="temperature is 1.0; rule 'greedy'"):
        Engine(target, None, "greedy", 0).generate([1], SamplingParams(), 4)
