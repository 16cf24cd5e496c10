"""Mistake: how many drafts are verified is chosen after looking at them."""

from collections.abc import Callable
from fractions import Fraction

from specdec_core.coins import Coins, branches
from specdec_core.exact_drafts import ExactDraft, ExactLaw, Prefix, sampled_draft
from specdec_core.residual import acceptance
from specdec_core.rules import verify_chain
from specdec_labs.museum.decoding import Laws, Method, fixed_law
from specdec_labs.museum.piece import Evidence, Instance, MakeMethod, Piece

GAMMA = 2
LEAST_CONFIDENCE = Fraction(13, 20)

Confidence = Callable[[ExactLaw, ExactLaw, int], Fraction]
"""(p, q, drafted token) -> how likely the draft is to be kept."""


def of_the_token(p: ExactLaw, q: ExactLaw, token: int) -> Fraction:
    """Looks at the token: min(1, p / q). A perfect confidence head, and still the mistake."""
    return min(Fraction(1), p[token] / q[token])


def of_the_slot(p: ExactLaw, q: ExactLaw, token: int) -> Fraction:
    """Looks at the laws only: sum min(p, q), the same for every token that could be drawn."""
    return Fraction(acceptance(p, q))


def cut_by(confidence: Confidence, laws: Laws) -> ExactDraft:
    """Sampled drafts, cut in front of the first one that is not confident enough."""
    sampled = sampled_draft(laws.draft, GAMMA)

    def propose(prefix: Prefix, budget: int, coins: Coins):
        tokens, drawn_from = sampled(prefix, budget, coins)
        assert isinstance(tokens, tuple) and drawn_from is not None
        for node, token in enumerate(tokens):
            if confidence(laws.target(prefix + tokens[:node]), drawn_from[node], token) < LEAST_CONFIDENCE:
                return tokens[:node], drawn_from[:node]
        return tokens, drawn_from

    return propose


def retrospective(laws: Laws) -> Method:
    """Drops a draft because of the token that was drawn."""
    return Method(cut_by(of_the_token, laws), verify_chain)


def non_anticipating(laws: Laws) -> Method:
    """Drops a draft because of the laws it would be drawn from."""
    return Method(cut_by(of_the_slot, laws), verify_chain)


def length_ignores_the_dropped_token(laws: Laws, prefix: Prefix = (0,)):
    """Property check: after the same tokens x_1 .. x_k-1, whether slot k is verified is the same for every x_k."""

    def check(make: MakeMethod) -> Evidence:
        draft = make(laws).draft
        lengths: dict[Prefix, set[bool]] = {}
        for _, (sent, asked) in branches(lambda coins: _sent_and_asked(draft, prefix, coins)):
            for k in range(1, min(len(sent) + 1, asked) + 1):
                lengths.setdefault(sent[: k - 1], set()).add(k <= len(sent))
        anticipating = [tokens for tokens, answers in lengths.items() if len(answers) > 1]
        says = f"after {anticipating[0]} the next slot is verified for some tokens only" if anticipating else ""
        return Evidence(not anticipating, says or "the length does not depend on the tokens it drops")

    return check


def _sent_and_asked(draft: ExactDraft, prefix: Prefix, coins: Coins) -> tuple[Prefix, int]:
    sent, _ = draft(prefix, GAMMA, coins)
    assert isinstance(sent, tuple)
    return sent, len(coins.events)


DSPARK = Instance(
    Laws(fixed_law(Fraction(7, 10), Fraction(3, 10)), fixed_law(Fraction(1, 2), Fraction(1, 2))), horizon=4
)
"""The counterexample of DSpark 2607.05147, appendix A: the first token becomes (.85, .15)."""

RETROSPECTIVE = Piece(
    name="length_after_the_draft",
    title="choosing length after seeing the draft",
    symptom="Acceptance rises, since doubtful drafts are never judged, and likely tokens come too often.",
    cause="Whether x_k is verified depends on x_k itself; the tokens that would have been refused get a second draw.",
    met_in="described in DSpark 2607.05147, appendix A; no report known to us. A relative: "
    "ikawrakow/ik_llama.cpp #1820 drops a drafted token of low probability, harmless where the draft is its own argmax",
    fix="Decide on slot k before its token is drawn, from the laws and from x_1 .. x_k-1.",
    wrong=retrospective,
    right=non_anticipating,
    exact_check=DSPARK.exact_check,
    property_check=length_ignores_the_dropped_token(DSPARK.laws),
    certificate=DSPARK.certificate(retrospective, 200),
)
