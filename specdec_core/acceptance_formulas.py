"""How often a level of drafts is passed, in closed form, and the most any rule can reach with the same drafts.

Every function takes exact Fractions (or floats) and is a sum over the vocabulary or its subsets: they are rulers for
small laws, not parts of the engine. p is the target's law, q the draft's.
"""

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from itertools import combinations, permutations
import math
from math import prod

Number = float | Fraction
Masses = Sequence[Number]


def match_acceptance(p: Masses, q: Masses) -> Number:
    """Chance that independent draws from p and q are the same token: sum p q."""
    return sum(p_x * q_x for p_x, q_x in zip(p, q, strict=True))


def coupled_match_acceptance(p: Masses, q: Masses) -> Number:
    """Chance that draws from p and q by the same exponential race agree: sum_i 1 / sum_j max(p_j/p_i, q_j/q_i).

    Lies between (1 - TV) / (1 + TV) and 1 - TV.

    Source: Daliri et al. 2408.07978.
    """
    common = [x for x in range(len(p)) if p[x] > 0 and q[x] > 0]
    return sum(1 / sum(max(p[j] / p[i], q[j] / q[i]) for j in range(len(p))) for i in common)


def set_acceptance(p: Masses, children: Collection[int]) -> Number:
    """Chance that a level of deterministic children is passed: p(children); duplicates count once."""
    return sum(p[x] for x in set(children))


def greedy_set_acceptance(p: Masses, q: Masses, k: int) -> Number:
    """Optimum when the k - 1 most probable tokens of q are drafted for sure and one more is drawn off them.

    p(T) + sum over x not in T of min(p(x), q(x) / (1 - q(T))).

    Source: 2502.18779, the greedy draft set.
    """
    top = sorted(range(len(q)), key=lambda x: (-q[x], x))[: k - 1]
    rest = [x for x in range(len(q)) if x not in top]
    left = sum(q[x] for x in rest)
    drawn = sum(min(p[x], q[x] / left) for x in rest) if left else 0
    return sum(p[x] for x in top) + drawn


def optimal_multidraft_acceptance(p: Masses, hits: Callable[[Collection[int]], Number]) -> Number:
    """The most any rule can accept at depth 1: min over H of 1 - p(H) + P(the draft set meets H).

    `hits(H)` is that probability; `hits_iid` and `hits_without_replacement` make it. Takes 2^vocab steps.

    Source: the min-cut dual of the transport problem, 2502.18779.
    """
    everything = range(len(p))
    subsets = (subset for size in range(len(p) + 1) for subset in combinations(everything, size))
    return min(1 - sum(p[x] for x in subset) + hits(subset) for subset in subsets)


def optimal_iid_acceptance(p: Masses, q: Masses, k: int) -> Number:
    """`optimal_multidraft_acceptance(p, hits_iid(q, k))` by sorting: vocab * log(vocab) steps, not 2^vocab.

    The cut 1 - p(H) + 1 - (1 - q(H))^k is concave in the indicator of H, so its minimum takes in exactly the tokens
    above some level of p / q: sort by it and scan.

    Source: 2502.18779; k = 1 gives sum min(p, q).
    """
    if k < 1:
        raise ValueError(f"k is {k}; expected at least 1 draft")
    rising = sorted(zip(p, q, strict=True), key=lambda at: -at[0] / at[1] if at[1] else -math.inf)
    best: Number = 1
    inside_p: Number = 0
    inside_q: Number = 0
    for p_x, q_x in rising:
        inside_p, inside_q = inside_p + p_x, inside_q + q_x
        best = min(best, 2 - inside_p - (1 - inside_q) ** k)
    return best


def hits_iid(q: Masses, k: int) -> Callable[[Collection[int]], Number]:
    """P(one of k independent drafts is in H) = 1 - (1 - q(H))^k."""
    return lambda subset: 1 - (1 - sum(q[x] for x in subset)) ** k


def hits_without_replacement(q: Masses, k: int) -> Callable[[Collection[int]], Number]:
    """P(one of k drafts drawn without replacement is in H); k is cut to the support of q."""
    support = [x for x in range(len(q)) if q[x] > 0]
    drawn = min(k, len(support))

    def hits(subset: Collection[int]) -> Number:
        outside = [x for x in support if x not in subset]
        missed = (
            prod(q[x] / (1 - sum(q[y] for y in tokens[:place])) for place, x in enumerate(tokens))
            for tokens in permutations(outside, drawn)
        )
        return 1 - sum(missed)

    return hits


def recursive_acceptance(p: Masses, q: Masses, k: int, *, replace: bool) -> Number:
    """Chance that recursive rejection keeps one of k siblings drawn from q, with or without replacement."""
    kept = sum(min(p_x, q_x) for p_x, q_x in zip(p, q, strict=True))
    excess = [max(p_x - q_x, 0 * p_x) for p_x, q_x in zip(p, q)]
    total = sum(excess)
    if k == 1 or not total:
        return kept
    rest = [value / total for value in excess]
    if replace:
        return kept + (1 - kept) * recursive_acceptance(rest, q, k - 1, replace=True)
    later = 0 * kept
    for x, (p_x, q_x) in enumerate(zip(p, q)):
        if q_x > p_x and q_x < 1:
            left = [0 * q_x if y == x else q_y / (1 - q_x) for y, q_y in enumerate(q)]
            later += (q_x - p_x) * recursive_acceptance(rest, left, k - 1, replace=False)
    return kept + later


def kseq_acceptance(p: Masses, q: Masses, k: int, rho: Fraction) -> Number:
    """Chance that k-SEQ keeps one of k independent drafts: 1 - (1 - sum min(q, p / rho))^k."""
    beta = sum(min(q_x, p_x / rho) for p_x, q_x in zip(p, q, strict=True))
    return 1 - (1 - beta) ** k


def kseq_guarantee(k: int) -> Fraction:
    """The part of the optimum that k-SEQ reaches at least: 1 - (1 - 1/k)^k, above 1 - 1/e.

    Source: SpecTr, Sun et al. 2310.15141, theorem 3.
    """
    if k < 1:
        raise ValueError(f"k is {k}; expected at least 1 draft")
    return 1 - (1 - Fraction(1, k)) ** k


def expected_accepted_by_block(weights_of_paths: Sequence[tuple[Number, Sequence[Number]]]) -> Number:
    """Drafts kept a round by block verification: sum over draft paths of q(path) * sum of its weights w_1..w_K."""
    return sum(chance * sum(weights) for chance, weights in weights_of_paths)
