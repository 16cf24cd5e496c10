"""The formulas whose display the seed documents lost, each checked exactly on a law in fractions."""

from collections.abc import Callable
from fractions import Fraction

from specdec_core.draft import DraftTree
from specdec_core.laws import acceptance
from specdec_core.residual import residual
from specdec_core.speed_formulas import expected_accepted, expected_tokens, speedup
from specdec_labs.seeds.finding import Finding

P = (Fraction(5, 10), Fraction(3, 10), Fraction(2, 10))
Q = (Fraction(2, 10), Fraction(3, 10), Fraction(5, 10))
ALPHA, K, C = Fraction(7, 10), 4, Fraction(1, 20)


def _accepts() -> bool:
    distance = sum((abs(p - q) for p, q in zip(P, Q)), Fraction(0)) / 2
    return acceptance(P, Q) == sum(q * min(1, p / q) for p, q in zip(P, Q)) == 1 - distance


def _residual() -> bool:
    left = [max(Fraction(0), p - q) for p, q in zip(P, Q)]
    return list(residual(P, Q)) == [each / sum(left) for each in left]


def _rejects() -> bool:
    return 1 - acceptance(P, Q) == sum((max(Fraction(0), p - q) for p, q in zip(P, Q)), Fraction(0))


def _accepted() -> bool:
    return expected_accepted(ALPHA, K) == ALPHA * (1 - ALPHA**K) / (1 - ALPHA)


def _tokens() -> bool:
    return expected_tokens(ALPHA, K) == (1 - ALPHA ** (K + 1)) / (1 - ALPHA)


def _speedup() -> bool:
    return speedup(ALPHA, K, C) == (1 - ALPHA ** (K + 1)) / ((1 - ALPHA) * (K * C + 1))


def _mask() -> bool:
    tree = DraftTree((1, 2, 3, 4), (-1, -1, 0, 2))
    seen = tree.attention_mask(1)
    # columns: one committed row, the pending token, then the nodes
    expected = [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 1, 0], [1, 1, 1, 0, 1, 1]]
    return seen.int().tolist() == expected


FORMULAS: tuple[tuple[int, str, str, Callable[[], bool]], ...] = (
    (0, "acceptance", "a(x) = min(1, p/q); its mean is sum min(p, q) = 1 - TV(p, q)", _accepts),
    (0, "residual", "max(0, p - q) / sum max(0, p - q)", _residual),
    (0, "rejection mass", "1 - sum min(p, q) = sum max(0, p - q)", _rejects),
    (3, "expected accepted drafts", "a (1 - a^K) / (1 - a)", _accepted),
    (0, "expected tokens per round", "(1 - a^(K+1)) / (1 - a)", _tokens),
    (0, "speed-up", "(1 - a^(K+1)) / ((1 - a)(K c + 1))", _speedup),
    (0, "tree mask", "0 for itself, its ancestors and the committed prefix, else -inf", _mask),
)


def formula_findings() -> list[Finding]:
    """One finding a formula; a formula that did not hold would be called wrong."""
    return [
        Finding(
            document,
            f"formula: {name}",
            "(display lost)",
            text,
            "restored" if holds() else "wrong",
            "equal as fractions on an example with three tokens"
            if name != "tree mask"
            else "equal on a tree of 4 nodes",
        )
        for document, name, text, holds in FORMULAS
    ]
