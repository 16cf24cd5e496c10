"""Mistake: the bonus (or recovered) token is counted among the accepted drafts, and 1 is added once more."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import Metrics, summarize
from specdec_core.toy import toy_pair
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams
from specdec_labs.museum.piece import Evidence, Piece

Summarize = Callable[[Trace], Metrics]


def counting_the_bonus(trace: Trace) -> Metrics:
    """`summarize` with every emitted token called accepted, and the "+1" for the bonus added to that."""
    right = summarize(trace)
    accepted = sum(len(round_.emitted) for round_ in trace.rounds)
    return replace(
        right,
        accepted=accepted,
        acceptance_rate=accepted / right.drafted,
        mean_acceptance_length=accepted / right.rounds + 1,
    )


def toy_trace() -> Trace:
    """The TOY pair, gamma 4, 16 tokens: 5 rounds, 17 drafted, 10 accepted."""
    target, draft = toy_pair()
    return Engine(target, ModelDrafter(draft), "chain", 4).generate((1, 2, 3), SamplingParams(temperature=0), 16).trace


def tokens_a_round(count: Summarize) -> Evidence:
    """Exact count: 15 tokens came out of 5 rounds."""
    length = Fraction(count(toy_trace()).mean_acceptance_length or 0)
    return Evidence(length == 3, f"mean acceptance length {length}; tokens from rounds / rounds = 15/5")


def emitted_adds_up(count: Summarize) -> Evidence:
    """The rule of every uncut run: emitted = 1 + rounds + accepted."""
    found = count(toy_trace())
    total = 1 + found.rounds + found.accepted
    return Evidence(total == found.emitted, f"emitted {found.emitted}, 1 + rounds + accepted = {total}")


BONUS_COUNTED_TWICE = Piece(
    name="bonus_counted_twice",
    title="bonus counted twice",
    symptom="Acceptance lengths are one too long, so predicted speed-ups never arrive.",
    cause="The token after the drafts is counted as accepted, and the +1 for it is added as well.",
    met_in="SafeAILab/EAGLE #146",
    fix="accepted counts drafts only; tokens a round is emitted / rounds; two numbers with two names.",
    wrong=counting_the_bonus,
    right=summarize,
    exact_check=tokens_a_round,
    property_check=emitted_adds_up,
    certificate=None,
    instead="the tokens are right, only their count is not; exact counts on the TOY pair",
)
