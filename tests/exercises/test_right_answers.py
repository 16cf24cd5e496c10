"""Right answers that are written otherwise than the references: checks ask for what a function does, not how."""

from collections.abc import Callable
from fractions import Fraction
import math
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from specdec_core.goodness import samples_needed
from specdec_core.residual import residual as core_residual
from specdec_core.rules import verify_block, verify_chain
from specdec_labs.grade.access import Here
from specdec_labs.grade.checking import reference
from specdec_labs.grade.engine import run_task
from specdec_labs.grade.tasks import TASKS, task_asking_for

ANSWERS: dict[str, Callable[..., Any]] = {}


def answer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Another right answer under its asked name."""
    ANSWERS[function.__name__] = function
    return function


@answer
def rejection_probability(p, q):
    return sum(abs(a - b) for a, b in zip(p, q)) / 2


@answer
def residual(p, q):
    rest = {x: p[x] - q[x] for x in range(len(p)) if p[x] > q[x]}
    total = sum(rest.values())
    return tuple(rest.get(x, 0) / total for x in range(len(p))) if rest else tuple(p)


@answer
def pass_seconds(flops, bytes_moved, peak_flops, bandwidth):
    ridge = peak_flops / bandwidth
    return flops / peak_flops if flops > ridge * bytes_moved else bytes_moved / bandwidth


@answer
def ridge_tokens(peak_flops, bandwidth, bytes_per_weight):
    return (bytes_per_weight / bandwidth) / (2 / peak_flops)


@answer
def keep_probability(p, q, token):
    return Fraction(0) if not p[token] else 1 if not q[token] else min(1, p[token] / q[token])


@answer
def mean_acceptance(p, q):
    return 1 - sum(max(b - a, 0) for a, b in zip(p, q))


@answer
def verify_drafts(draft_tokens, draft_probs, target_probs, coins):
    # by the course's own rule
    verdict = verify_chain(tuple(draft_tokens), draft_probs, target_probs, coins)
    return (*draft_tokens[: verdict.num_accepted], verdict.next_token)


@answer
def mended_threshold(p, q, token, coins):
    if p[token] >= q[token] or coins.accept(p[token] / q[token], 1, node=0):
        return True, token
    return False, coins.draw(core_residual(p, q), node=0, purpose="recover")


@answer
def mended_softmax_q(p, q, coins):
    # one draw from p decides both: the draft is kept exactly when it is what comes out
    own = coins.draw(p, node=0, purpose="sample")
    return own == q.index(max(q)), own


@answer
def law_of_one_draft(p, q, keep, redraw):
    size = range(len(p))
    kept = [keep(p, q, x) if q[x] else 0 for x in size]
    laws = [redraw(p, q, x) if q[x] and kept[x] != 1 else [0] * len(p) for x in size]
    return [q[y] * kept[y] + sum(q[x] * (1 - kept[x]) * laws[x][y] for x in size) for y in size]


@answer
def samples_for_power(degrees, bias, level, power):
    return samples_needed(degrees, bias, level, power)


@answer
def mended_length(p, q, least, coins):
    distance = sum(abs(a - b) for a, b in zip(p, q)) / 2
    if 1 - distance < least:
        return False, coins.draw(p, node=0, purpose="bonus")
    token = coins.draw(q, node=0, purpose="draft")
    if coins.accept(p[token], q[token], node=0):
        return True, token
    return False, coins.draw(core_residual(p, q), node=0, purpose="recover")


@answer
def mended_block(draft_tokens, draft_probs, target_probs, coins):
    verdict = verify_block(tuple(draft_tokens), draft_probs, target_probs, coins)
    return [*draft_tokens[: verdict.num_accepted], verdict.next_token]


@answer
def expected_accepted_drafts(alpha, gamma):
    # Horner
    total = 0 * alpha
    for _ in range(gamma):
        total = alpha * (1 + total)
    return total


@answer
def best_window(alpha, c, largest):
    best, gain, tokens = 0, 1, 1
    for gamma in range(1, largest + 1):
        tokens = 1 + alpha * tokens
        if tokens / (gamma * c + 1) > gain:
            best, gain = gamma, tokens / (gamma * c + 1)
    return best


@answer
def break_even_alpha(gamma, c):
    from scipy.optimize import brentq

    if c > 1:
        return None
    if c in (0, 1):
        return float(c)
    return brentq(lambda a: sum(a**i for i in range(1, gamma + 1)) - gamma * c, 0, 1, xtol=1e-14)


@answer
def alpha_of_rounds(rounds):
    refused = sum(accepted < drafted for drafted, accepted in rounds)
    accepted = sum(accepted for _, accepted in rounds)
    return Fraction(accepted, accepted + refused) if accepted + refused else None


@answer
def mended_cut(tokens, stop):
    left = []
    for token in tokens:
        left.append(token)
        if token in set(stop):
            break
    return tuple(left)


@answer
def count_paths(branching, depth):
    return branching * count_paths(branching, depth - 1) if depth else 1


@answer
def count_nodes(branching, depth):
    return branching * (1 + count_nodes(branching, depth - 1)) if depth else 0


@answer
def tree_mask(parents, prefix_len):
    # as a tensor, from powers of the parent matrix
    size = len(parents) + 1
    step = torch.zeros(size, size)
    for node, parent in enumerate(parents):
        step[node + 1, parent + 1] = 1
    reach = sum((torch.matrix_power(step, power) for power in range(size)), torch.zeros(size, size)) > 0
    return torch.cat([torch.ones(size, prefix_len, dtype=torch.bool), reach], dim=1)


@answer
def tree_positions(parents, offset):
    def depth(node):
        return 0 if node < 0 else 1 + depth(parents[node])

    return np.array([offset, *(offset + depth(node) for node in range(len(parents)))])


@answer
def judge_siblings(p, q, children, coins):
    # unnormalised: what is left of p, beside q scaled by its total
    left, total = list(p), 1
    for index, token in enumerate(children):
        if coins.accept(left[token], q[token] * total, node=index):
            return index, token
        left = [max(a - total * b, 0) for a, b in zip(left, q)]
        total = sum(left)
    return None, coins.draw(left, node=0, purpose="recover")


@answer
def mended_duplicates(p, children, coins):
    seen = set()
    for index, token in enumerate(children):
        if token in seen:
            continue
        if coins.accept(p[token], 1 - sum(p[x] for x in seen), node=index):
            return index, token
        seen.add(token)
    return None, coins.draw([0 if x in seen else p[x] for x in range(len(p))], node=0, purpose="recover")


@answer
def mended_replacement(p, q, children, coins):
    gone: list[int] = []
    left = list(p)
    for index, token in enumerate(children):
        rest = 1 - sum(q[x] for x in gone)
        law = [0 if x in gone else q[x] / rest for x in range(len(q))]
        if coins.accept(left[token], law[token], node=index):
            return index, token
        left = list(core_residual([Fraction(x) for x in left], [Fraction(x) for x in law]))
        gone.append(token)
    return None, coins.draw(left, node=0, purpose="recover")


@triton.jit
def in_two_passes(p_ptr, q_ptr, out_ptr, vocab, BLOCK: tl.constexpr):
    row = tl.program_id(0) * vocab
    lanes = tl.arange(0, BLOCK)
    inside = lanes < vocab
    gap = tl.load(p_ptr + row + lanes, mask=inside, other=0.0) - tl.load(q_ptr + row + lanes, mask=inside, other=1.0)
    excess = tl.where(gap > 0, gap, 0.0)
    tl.store(out_ptr + row + lanes, excess, mask=inside)
    total = tl.sum(excess, axis=0)
    if total > 0:
        tl.store(out_ptr + row + lanes, excess / total, mask=inside)
    else:
        tl.store(out_ptr + row + lanes, tl.load(p_ptr + row + lanes, mask=inside), mask=inside)


ANSWERS["excess_kernel"] = in_two_passes


@pytest.mark.parametrize("name", ANSWERS)
def test_another_right_answer_passes(name: str) -> None:
    task = task_asking_for(name)
    names = {ask.name: reference(task, ask.name) for ask in task.asks} | {name: ANSWERS[name]}
    report = run_task(task, Here(names), hidden_seed=7, only=[name])
    assert report.ok, str(report)


def test_every_function_that_is_asked_for_has_a_second_answer() -> None:
    asked = {ask.name for task in TASKS.values() for ask in task.asks if ask.kind != "value"}
    assert set(ANSWERS) == asked


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EXPECTED", ("accepted", 1.7731, 2.1988, 2.3256)),
        ("EXPECTED", ["tokens", 2.7731, 3.1988, 3.3256]),
        ("EXPECTED", ("tokens", *((1 - 0.7 ** (K + 1)) / 0.3 for K in (4, 8, 16)))),
        ("EXPECTED", ("accepted", Fraction("1.773"), 2.199, 2.326)),
        ("BEST_K", 13.0),
        ("PATHS_3_4", 3**4),
        ("PROOF", ["b", "a", "d", "c", "e"]),
        ("PROOF", "hbacde"),
        ("GAINS_MORE", "memory-bound"),
        ("THRESHOLD_INPUT", [(Fraction(1, 2), Fraction(1, 2)), (0, 1)]),
        ("LENGTH_INPUT", ([Fraction(1, 3), Fraction(2, 3)], [Fraction(2, 3), Fraction(1, 3)], Fraction(2, 3))),
        ("EOS_INPUT", ((4, 4), (4,))),
        ("DUPLICATE_INPUT", ((Fraction(1, 2), Fraction(1, 2)), (1, 1))),
    ],
)
def test_other_right_values_pass(name: str, value: object) -> None:
    report = run_task(task_asking_for(name), Here({name: value}), only=[name])
    assert report.ok, str(report)


def test_the_seeds_answers() -> None:
    accepted = [float(reference(TASKS["E05.expected"], "expected_accepted_drafts")(0.7, K)) for K in (4, 8, 16)]
    assert [round(value, 4) for value in accepted] == [1.7731, 2.1988, 2.3256]
    best = reference(TASKS["E05.best_gamma"], "best_window")
    assert best(0.9, 0.05, 500) == 13 == reference(TASKS["E05.best_gamma"], "BEST_K")
    assert math.isclose(sum(0.9**i for i in range(14)) / (13 * 0.05 + 1), 4.6741, abs_tol=5e-5)
    assert reference(TASKS["E07.paths"], "count_paths")(3, 4) == 81
    assert reference(TASKS["E07.paths"], "count_nodes")(3, 4) == 120
    assert reference(TASKS["E02.memory_bound"], "GAINS_MORE") == "memory-bound"
