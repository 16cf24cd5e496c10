"""Reported cases on several candidates and trees: P06, P21, P45, P48, P49."""

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

from specdec_core.coins import Coins, EnumeratingCoins, ScriptedCoins, branches
from specdec_core.draft import Draft, DraftTree
from specdec_core.engine import Engine
from specdec_core.rules import RULES, Rule
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

F = Fraction
GREEDY = SamplingParams(temperature=0)
DETERMINISTIC_TREE_RULES = [rule for rule in RULES.values() if rule.takes_tree and "deterministic" in rule.proposals]


@pytest.fixture(params=DETERMINISTIC_TREE_RULES, ids=lambda rule: rule.name)
def rule(request: pytest.FixtureRequest) -> Rule:
    return request.param


def first_token_law(rule: Rule, tree: DraftTree, rows: list[list[Fraction]]) -> dict[int, Fraction]:
    """The law of the first emitted token, over all the ways the coins can fall."""

    def run(coins: EnumeratingCoins) -> int:
        verdict = rule.verify(tree, None, rows, coins)
        return tree.tokens[verdict.path[0]] if verdict.path else verdict.next_token

    law: dict[int, Fraction] = {}
    for weight, token in branches(run):
        law[token] = law.get(token, F(0)) + weight
    return law


P06_P = [F(5, 10), F(3, 10), F(2, 10)]


@pytest.mark.parametrize("candidates", [(0, 1), (1, 0), (0, 1, 2), (2,), (0, 0), (1, 1, 0)])
def test_p06_top_k_candidates_leave_the_law_as_it_is(rule: Rule, candidates: tuple[int, ...]) -> None:
    tree = DraftTree(candidates, (-1,) * len(candidates))
    law = first_token_law(rule, tree, [P06_P] * (len(candidates) + 1))
    assert law == dict(enumerate(P06_P))


def test_p06_each_candidate_is_judged_against_what_the_one_before_left() -> None:
    asked: list[tuple[Fraction, Fraction]] = []

    class Asked(ScriptedCoins):
        def accept(self, p: Fraction, q: Fraction, *, node: int) -> bool:
            asked.append((p, q))
            return super().accept(p, q, node=node)

    verdict = RULES["recursive"].verify(DraftTree((0, 1), (-1, -1)), None, [P06_P] * 3, Asked([0.9, 0.9, 0.9]))
    assert asked == [(F(1, 2), 1), (F(6, 10), 1)]
    assert (verdict.num_accepted, verdict.next_token) == (0, 2), "0 and 1 are out: only 2 is left"


def test_p06_judged_with_the_softmax_of_the_drafter_the_law_is_bent() -> None:
    """The planted slip: q = (.8, .1, .1) although the candidate was not drawn from it."""
    softmax = [F(8, 10), F(1, 10), F(1, 10)]

    def run(coins: Coins) -> int:
        verdict = RULES["recursive"].verify(DraftTree((0, 1), (-1, -1)), [softmax] * 2, [P06_P] * 3, coins)
        return (0, 1)[verdict.path[0]] if verdict.path else verdict.next_token

    law = {token: sum((w for w, t in branches(run) if t == token), F(0)) for token in range(3)}
    assert law != dict(enumerate(P06_P))


@pytest.mark.parametrize("logits", [[1.0, 3.0, 3.0], [3.0, 3.0, 3.0], [-1.0, -2.0, -1.0]])
def test_p21_a_tree_walk_takes_the_lowest_of_tied_tokens(rule: Rule, logits: list[float], fixed_drafter) -> None:
    model = PrefixModel(3, lambda prefix: logits)
    plain = Engine(model, None, "chain", 0).generate([0], GREEDY, 12).tokens
    assert plain == (logits.index(max(logits)),) * 12
    tree = Draft(DraftTree((2, 1, 0, 2, 1), (-1, -1, -1, 1, 1)), None, "deterministic")
    drafter = fixed_drafter(lambda tokens, budget: tree if budget >= 5 else Draft.empty())
    generation = Engine(model, drafter, rule, 5).generate([0], GREEDY, 12)
    assert generation.tokens == plain
    first = generation.trace.rounds[0]
    assert [tree.tokens[node] for node in first.path] == list(plain[: len(first.path)])


def test_p45_a_tree_mask_is_the_ancestors_not_a_triangle() -> None:
    # node 0 of the case is our pending token
    tree = DraftTree((9,) * 6, (-1, -1, 0, 0, 1, 3))
    rows = ["1000000", "1100000", "1010000", "1101000", "1100100", "1010010", "1100101"]
    mask = tree.attention_mask(0)
    assert ["".join(str(int(seen)) for seen in row) for row in mask.tolist()] == rows
    assert int(mask.sum()) == 18, "a lower triangle has 28"
    assert (0, *tree.depths) == (0, 1, 1, 2, 2, 2, 3)
    assert tree.position_ids(10).tolist() == [10, 11, 11, 12, 12, 12, 13]
    cached = tree.attention_mask(20)
    assert bool(cached[:, :20].all())
    assert torch.equal(cached[:, 20:], mask)


def test_p48_a_greedy_tree_follows_the_argmax_not_the_deeper_branch(rule: Rule, fixed_drafter) -> None:
    said: dict[tuple[int, ...], Callable[[], torch.Tensor]] = {
        (0, 1): lambda: _law(10, {5: 0.51, 3: 0.49}),
        (0, 1, 5): lambda: _law(10, {9: 1.0}),
        (0, 1, 3): lambda: _law(10, {4: 1.0}),
        (0,): lambda: _law(10, {1: 1.0}),
    }
    target = PrefixModel(10, lambda prefix: said.get(prefix, lambda: _law(10, {0: 1.0}))())
    tree = Draft(DraftTree((3, 5, 4), (-1, -1, 0)), None, "deterministic")
    drafter = fixed_drafter(lambda tokens, budget: tree if len(tokens) == 2 else Draft.empty())
    record = Engine(target, drafter, rule, 3).generate([0], GREEDY, 5).trace.rounds[0]
    assert [tree.tokens[node] for node in record.path] == [5]
    assert record.emitted == (5, 9)


def _law(vocab: int, chances: dict[int, float]) -> torch.Tensor:
    return torch.tensor([chances.get(token, 0.0) for token in range(vocab)]).log()


# a, b, c, d, e, f are 0 .. 5; ab, ac and ad share the node a
P49_TREE = DraftTree((0, 1, 2, 3, 4, 5), (-1, 0, 0, 0, -1, 4))
P49_ROWS = [[F(1, 2), F(0), F(0), F(0), F(1, 2), F(0)]] + [[F(1, 6)] * 6] * 6


def test_p49_a_prefix_that_candidates_share_is_drawn_once(rule: Rule) -> None:
    law = first_token_law(rule, P49_TREE, P49_ROWS)
    assert law == {0: F(1, 2), 4: F(1, 2)}, "a draw for each of the four rows would enter the a-branch with 7/8"


@pytest.mark.parametrize("u", [0.0, 0.499, 0.501, 0.999])
def test_p49_one_draw_decides_over_all_candidates(u: float) -> None:
    coins = ScriptedCoins([u, 0.0, 0.0])
    verdict = RULES["target_only"].verify(P49_TREE, None, P49_ROWS, coins)
    assert P49_TREE.tokens[verdict.path[0]] == (0 if u < 0.5 else 4)
    assert [event.node for event in coins.events] == list(range(len(coins.events)))
