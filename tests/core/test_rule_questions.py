"""What each rule asks, in which order, under which key, and what its verdict says: over every way the coins can fall.

The keys are a contract: the batched and the kernel versions read the same noise, and two questions of a round with
one key would read it twice. A law alone cannot show a wrong key, because enumeration ignores keys.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import get_args

import pytest
import torch

from specdec_core.coins import PhiloxCoins, ScriptedCoins, branches
from specdec_core.draft import DraftTree
from specdec_core.rules import RULES, Verdict, verify_tree
from specdec_core.rules.kseq import DENOMINATOR, kseq_residual, smallest_rho
from specdec_core.rules.tree import TreeMethod

F = Fraction
CHAIN = (-1, 0, 1)
TREE = (-1, -1, 0, 0, 1)
# tokens 0 and 1 are drafted: both can be refused, and 1 also by what a refusal of 0 leaves
Q = [[F(40, 100), F(30, 100), F(20, 100), F(10, 100)], [F(38, 100), F(30, 100), F(22, 100), F(10, 100)]]
P = [[F(w, 100) for w in weights] for weights in ((10, 32, 35, 23), (12, 33, 30, 25), (8, 31, 36, 25))]
# rules that weigh whole paths end inside one only where p is close to q
NEAR = [[F(w, 1000) for w in weights] for weights in ((360, 311, 200, 129), (370, 390, 40, 200), (355, 400, 45, 200))]
Asked = list[tuple[str, int]]


def case(name: str, parents: tuple[int, ...]) -> tuple[DraftTree, list[list[F]], list[list[F]]]:
    """A tree whose nodes have laws of their own, siblings the same and distinct tokens."""
    shape = DraftTree((0,) * len(parents), parents)
    tokens = tuple(shape.children(parent).index(node) for node, parent in enumerate(parents))
    q = [Q[(parent + 1) % 2] for parent in parents]
    rows = NEAR if name.startswith(("block", "traversal")) else P
    return DraftTree(tokens, parents), q, [rows[row % 3] for row in range(len(parents) + 1)]


def end_row(verdict: Verdict) -> int:
    return verdict.path[-1] + 1 if verdict.path else 0


def last(verdict: Verdict, node: int) -> Asked:
    return [("bonus" if verdict.kind == "bonus" else "recover", node)]


def by_chain(tree: DraftTree, verdict: Verdict) -> Asked:
    judged = min(verdict.num_accepted + 1, len(tree))
    return [("accept", node) for node in range(judged)] + last(verdict, verdict.num_accepted)


def by_block(tree: DraftTree, verdict: Verdict) -> Asked:
    """Prefix i has the coin of its last node, the longest prefix first; the empty one needs none."""
    judged = range(len(tree) - 1, max(verdict.num_accepted, 1) - 2, -1)
    return [("accept", node) for node in judged] + last(verdict, verdict.num_accepted)


def by_match(tree: DraftTree, verdict: Verdict) -> Asked:
    return [("sample", node) for node in range(verdict.num_accepted + 1)]


def by_level(tree: DraftTree, verdict: Verdict) -> Asked:
    """Siblings in order up to the one that is entered, then its children."""
    asked: Asked = []
    for parent, entered in zip((-1, *verdict.path), (*verdict.path, None)):
        for child in tree.children(parent):
            asked.append(("accept", child))
            if child == entered:
                break
    return asked + last(verdict, end_row(verdict))


def by_leaf(tree: DraftTree, verdict: Verdict) -> Asked:
    """Nodes in post-order, children before their parent, up to the end of the accepted path."""

    def postorder(node: int) -> list[int]:
        return [below for child in tree.children(node) for below in postorder(child)] + [node]

    order = postorder(-1)[:-1]
    judged = order[: order.index(verdict.path[-1]) + 1] if verdict.path else order
    return [("accept", node) for node in judged] + last(verdict, end_row(verdict))


def by_draw(tree: DraftTree, verdict: Verdict) -> Asked:
    return [("sample", depth) for depth in range(verdict.num_accepted + 1)]


def by_threshold(tree: DraftTree, verdict: Verdict) -> Asked:
    return last(verdict, verdict.num_accepted)


ASKS: dict[str, Callable[[DraftTree, Verdict], Asked]] = {
    "chain": by_chain,
    "block": by_block,
    "greedy": lambda tree, verdict: [],
    "match": by_match,
    "recursive": by_level,
    "recursive_without_replacement": by_level,
    "kseq": by_level,
    "target_only": by_draw,
    "traversal": by_leaf,
    "traversal_without_replacement": by_leaf,
    "typical": by_threshold,
    "relaxed": by_chain,
}


def outcomes(name: str, parents: tuple[int, ...], *, sampled: bool = True) -> list[tuple[Verdict, Asked, DraftTree]]:
    tree, q, p = case(name, parents)
    drafted = tree if RULES[name].takes_tree else tree.tokens
    found = branches(
        lambda coins: (
            RULES[name].verify(drafted, q if sampled else None, p, coins),
            [(event.purpose, event.node) for event in coins.events],
        )
    )
    return [(verdict, asked, tree) for _, (verdict, asked) in found]


def shapes(name: str) -> Sequence[tuple[int, ...]]:
    if name == "kseq":
        return ((), (-1,), (-1, -1))
    return ((), (-1,), CHAIN, TREE) if RULES[name].takes_tree else ((), (-1,), CHAIN)


@pytest.mark.parametrize("name", RULES)
def test_every_question_and_its_key(name):
    """The table above knows every rule, and a rule asks nothing that is not in it."""
    for parents in shapes(name):
        for verdict, asked, tree in outcomes(name, parents):
            assert asked == ASKS[name](tree, verdict)
            assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if "deterministic" in rule.proposals])
def test_deterministic_drafts_ask_the_same_questions(name):
    for parents in shapes(name):
        for verdict, asked, tree in outcomes(name, parents, sampled=False):
            assert asked == ASKS[name](tree, verdict)


@pytest.mark.parametrize("name", RULES)
def test_a_verdict_is_a_path_from_the_root_and_says_whether_a_draft_was_refused(name):
    for parents in shapes(name):
        for verdict, _, tree in outcomes(name, parents):
            assert verdict.num_accepted == len(verdict.path)
            assert [tree.parents[node] for node in verdict.path] == list((-1, *verdict.path)[:-1])
            refused = bool(tree.children(verdict.path[-1] if verdict.path else -1))
            assert verdict.kind == ("recovered" if refused else "bonus")
            assert 0 <= verdict.next_token < 4


@pytest.mark.parametrize("name", RULES)
def test_every_prefix_of_a_draft_can_be_the_end(name):
    """Otherwise the tests above would have looked at nothing."""
    parents = shapes(name)[-1]
    ends = {verdict.path for verdict, *_ in outcomes(name, parents)}
    tree = DraftTree((0,) * len(parents), parents)
    wanted = {(), *tree.paths()}
    # typical acceptance has no coin over a draft and greedy none at all: one end each
    assert ends == wanted or (name in ("typical", "greedy") and len(ends) == 1)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.needs_draft_probs])
def test_rules_that_read_q_check_it(name):
    tree, q, p = case(name, (-1, -1) if RULES[name].takes_tree else (-1, 0))
    drafted = tree if RULES[name].takes_tree else tree.tokens
    verify = RULES[name].verify
    with pytest.raises(ValueError, match="draft_probs has 1 rows for 2 draft tokens"):
        verify(drafted, q[:1], p, ScriptedCoins([0.5] * 9))
    with pytest.raises(ValueError, match=r"draft_probs\[1\] has vocab 2"):
        verify(drafted, [q[0], [F(1, 2), F(1, 2)]], p, ScriptedCoins([0.5] * 9))
    with pytest.raises(ValueError, match=r"draft_probs\[1\] is no law"):
        verify(drafted, [q[0], [F(3), F(1), F(1), F(0)]], p, ScriptedCoins([0.5] * 9))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_checks_the_target(name):
    tree, q, p = case(name, (-1, -1) if RULES[name].takes_tree else (-1, 0))
    drafted = tree if RULES[name].takes_tree else tree.tokens
    with pytest.raises(ValueError, match="target_probs has 2 rows for 2 draft tokens; expected 3"):
        RULES[name].verify(drafted, q, p[:2], ScriptedCoins([0.5] * 9))
    if name != "greedy":
        with pytest.raises(ValueError, match=r"target_probs\[2\] is no law"):
            RULES[name].verify(drafted, q, [*p[:2], [F(2), F(0), F(0), F(0)]], ScriptedCoins([0.5] * 9))


@pytest.mark.parametrize("name", RULES)
def test_every_rule_takes_tensors_as_it_takes_fractions(name):
    """The same coins, the same verdict: none of the 40 scripts sits on a threshold of these laws."""
    parents = shapes(name)[-1]
    tree, q, p = case(name, parents)
    drafted = tree if RULES[name].takes_tree else tree.tokens
    as_tensor = [torch.tensor([[float(x) for x in law] for law in laws], dtype=torch.float64) for laws in (q, p)]
    for script in range(40):
        uniforms = [((script * 31 + place * 17) % 97 + 0.37) / 97 for place in range(10)]
        exact = RULES[name].verify(drafted, q, p, ScriptedCoins(uniforms))
        assert RULES[name].verify(drafted, *as_tensor, ScriptedCoins(uniforms)) == exact
        # given as Python floats they are judged alike too
        floats = [[[float(x) for x in law] for law in laws] for laws in (q, p)]
        assert RULES[name].verify(drafted, *floats, ScriptedCoins(uniforms)) == exact
        if "deterministic" in RULES[name].proposals:
            exact = RULES[name].verify(drafted, None, p, ScriptedCoins(uniforms))
            assert RULES[name].verify(drafted, None, as_tensor[1], ScriptedCoins(uniforms)) == exact
    bits = PhiloxCoins(3).at(request=0, length=5), PhiloxCoins(3).at(request=0, length=5)
    assert RULES[name].verify(drafted, *as_tensor, bits[0]) == RULES[name].verify(drafted, q, p, bits[1])


@pytest.mark.parametrize("method", get_args(TreeMethod))
def test_verify_tree_is_the_rule_of_that_name(method):
    parents = shapes(method)[-1]
    tree, q, p = case(method, parents)
    for script in range(20):
        uniforms = [((script * 31 + place * 17) % 97 + 0.37) / 97 for place in range(10)]
        expected = RULES[method].verify(tree, q, p, ScriptedCoins(uniforms))
        assert verify_tree(tree, q, p, ScriptedCoins(uniforms), method=method) == expected


def test_an_unknown_tree_method_is_refused():
    tree, q, p = case("recursive", TREE)
    with pytest.raises(ValueError, match="method is 'both'; expected one of recursive, "):
        verify_tree(tree, q, p, ScriptedCoins([]), method="both")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.takes_tree and rule.needs_draft_probs])
def test_siblings_of_different_laws_are_refused(name):
    """All siblings are judged against the first one's law; another for the second used to bend the output unseen."""
    tree = DraftTree((0, 1), (-1, -1))
    for laws in ([Q[0], Q[1]], torch.tensor([[float(x) for x in law] for law in Q])):
        p = [P[0]] * 3 if isinstance(laws, list) else torch.tensor([[float(x) for x in P[0]]] * 3)
        with pytest.raises(ValueError, match=r"draft_probs\[1\] differs from draft_probs\[0\], the law of its first"):
            RULES[name].verify(tree, laws, p, ScriptedCoins([0.5] * 9))
    below = DraftTree((0, 1, 0), (-1, -1, 0))
    if name != "kseq":
        RULES[name].verify(below, [Q[0], list(Q[0]), Q[1]], P + P[:1], ScriptedCoins([0.5] * 9))


def test_kseq_scales_by_the_smallest_rho_and_tensors_agree_with_fractions():
    p, q = [F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)]
    nothing = [F(0), F(0), F(1)], [F(1, 2), F(1, 2), F(0)]
    for k in (2, 3):
        # nothing to scale where the laws are equal, nor where no draft can be kept
        assert smallest_rho(p, p, k) == smallest_rho(*nothing, k) == 1
        assert list(kseq_residual(p, p, F(1), k)) == p
        rho = smallest_rho(p, q, k)
        exact = [float(x) for x in kseq_residual(p, q, rho, k)]
        tensors = [torch.tensor([float(x) for x in law], dtype=torch.float64) for law in (p, q)]
        assert 1 < rho < k
        is_valid = [
            1 - (1 - beta) ** k <= candidate * beta
            for candidate in (rho - F(1, DENOMINATOR), rho)
            for beta in [sum(min(q_x, p_x / candidate) for p_x, q_x in zip(p, q))]
        ]
        assert is_valid == [False, True]
        assert torch.allclose(kseq_residual(*tensors, rho, k), torch.tensor(exact, dtype=torch.float64), atol=1e-15)
        assert torch.equal(kseq_residual(tensors[0], tensors[0], F(1), k), tensors[0])
