"""Mistakes about q: the law handed to the rule is not the law the draft was drawn from.

All are one function: the drafts of `draft`, with another law reported beside them.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
import math

import torch

from specdec_core.coins import Coins, EnumeratingCoins, Purpose, Weights, branches
from specdec_core.exact_drafts import ExactDraft, ExactLaw, NextLaw, Prefix, deterministic_draft, sampled_draft
from specdec_core.residual import residual
from specdec_core.rules import Verdict, verify_chain
from specdec_labs.museum.block import laws_of_drafts
from specdec_labs.museum.decoding import Laws, Method, memory_laws
from specdec_labs.museum.piece import Evidence, Instance, MakeMethod, Piece
from specdec_labs.museum.through_coins import ThroughCoins

GAMMA = 2


def reporting(draft: ExactDraft, reported: NextLaw) -> ExactDraft:
    """`draft`, but q is said to be `reported`. The real drafters report what they drew from."""

    def propose(prefix: Prefix, budget: int, coins: Coins) -> tuple[Prefix, Sequence[ExactLaw]]:
        tokens, _ = draft(prefix, budget, coins)
        assert isinstance(tokens, tuple)
        return tokens, [reported(prefix + tokens[:node]) for node in range(len(tokens))]

    return propose


def argmax_draft(laws: Laws) -> ExactDraft:
    """Proposes the draft model's most probable token: a deterministic proposal, q one-hot."""
    return deterministic_draft(lambda prefix: _argmax(laws.draft(prefix)), GAMMA)


def argmax_right(laws: Laws) -> Method:
    """No draft laws: the rule takes q as one-hot."""
    return Method(argmax_draft(laws), verify_chain)


def argmax_wrong(laws: Laws) -> Method:
    """The same tokens with the softmax of the draft model as q."""
    return Method(reporting(argmax_draft(laws), laws.draft), verify_chain)


def dtype_right(laws: Laws) -> Method:
    """Drawn from the bfloat16 law, and the same law is q."""
    return Method(sampled_draft(in_bfloat16(laws.draft), GAMMA), verify_chain)


def dtype_wrong(laws: Laws) -> Method:
    """Drawn from the bfloat16 law, the float32 one handed over."""
    return Method(reporting(sampled_draft(in_bfloat16(laws.draft), GAMMA), in_float32(laws.draft)), verify_chain)


def temperature_right(laws: Laws) -> Method:
    """Drawn at temperature 1/2, and that law is q."""
    return Method(sampled_draft(at_half_temperature(laws.draft), GAMMA), verify_chain)


def temperature_wrong(laws: Laws) -> Method:
    """Drawn at temperature 1/2, q taken at temperature 1."""
    return Method(reporting(sampled_draft(at_half_temperature(laws.draft), GAMMA), laws.draft), verify_chain)


def pruned_right(laws: Laws) -> Method:
    """Drawn from the kept part of the vocabulary, q normalised over it."""
    return Method(sampled_draft(pruned(laws.draft), GAMMA), verify_chain)


def pruned_wrong(laws: Laws) -> Method:
    """Drawn from the kept part, q still holds the full softmax's values there; nobody checks that q sums to 1."""
    kept_part = sampled_draft(pruned(laws.draft), GAMMA)
    return Method(reporting(kept_part, restricted(laws.draft)), chain_without_checks)


def chain_without_checks(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw] | None, target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """`verify_chain` without the check that its rows are laws."""
    laws = laws_of_drafts(draft_tokens, draft_probs, target_probs)
    for i, (token, p, q) in enumerate(zip(draft_tokens, target_probs, laws)):
        if not coins.accept(p[token], q[token], node=i):
            return Verdict(i, tuple(range(i)), coins.draw(residual(p, q), node=i, purpose="recover"), "recovered")
    drafted = len(draft_tokens)
    bonus = coins.draw(target_probs[drafted], node=drafted, purpose="bonus")
    return Verdict(drafted, tuple(range(drafted)), bonus, "bonus")


def at_half_temperature(law: NextLaw) -> NextLaw:
    """The law at temperature 1/2: squared and normalised, which stays rational."""
    return lambda prefix: _normalised([mass * mass for mass in law(prefix)])


def restricted(law: NextLaw) -> NextLaw:
    """The law without its last token, not normalised."""
    return lambda prefix: [*law(prefix)[:-1], 0 * law(prefix)[-1]]


def pruned(law: NextLaw) -> NextLaw:
    """The law without its last token, normalised: a pruned draft vocabulary."""
    return lambda prefix: _normalised(restricted(law)(prefix))


def in_float32(law: NextLaw) -> NextLaw:
    """The softmax in float32 of float32 logits near 90."""
    return cache(lambda prefix: _softmax(_logits(law(prefix)), law(prefix)))


def in_bfloat16(law: NextLaw) -> NextLaw:
    """The same logits rounded to bfloat16, whose steps there are a half."""
    return cache(lambda prefix: _softmax(_logits(law(prefix)).bfloat16(), law(prefix)))


def _logits(law: ExactLaw) -> torch.Tensor:
    return torch.tensor([90 + math.log(mass) for mass in law], dtype=torch.float32)


def _softmax(logits: torch.Tensor, like: ExactLaw) -> ExactLaw:
    masses = torch.softmax(logits.float(), dim=-1).tolist()
    exact = isinstance(like[0], Fraction)
    # a float is an exact rational; the law is what a draw makes of the weights, so it is normalised exactly
    return _normalised([Fraction(mass) for mass in masses] if exact else masses)


def _normalised(masses: Sequence[Fraction]) -> list[Fraction]:
    total = sum(masses)
    return [mass / total for mass in masses]


def _argmax(law: ExactLaw) -> int:
    return max(range(len(law)), key=lambda token: law[token])


class DrawnLaws(ThroughCoins):
    """Coins that note the weights every draft was drawn from; the answers are those of `coins`."""

    def __init__(self, coins: Coins) -> None:
        super().__init__(coins)
        self.drawn: dict[int, Weights] = {}

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """As `coins`; the weights of a draft are kept under its node."""
        if purpose == "draft":
            self.drawn[node] = weights
        return super().draw(weights, node=node, purpose=purpose)


def q_is_what_was_drawn(laws: Laws, prefix: Prefix = (0,)):
    """The property check: every law reported is the one its token was drawn from, and a law sums to 1."""

    def check(make: MakeMethod) -> Evidence:
        draft = make(laws).draft

        def compare(coins: EnumeratingCoins) -> str | None:
            watched = DrawnLaws(coins)
            tokens, reported = draft(prefix, GAMMA, watched)
            if reported is None:
                return f"{len(watched.drawn)} drafts drawn and no q" if watched.drawn else None
            for node, q in enumerate(reported):
                if node not in watched.drawn:
                    return "a draft that was not drawn comes with q"
                if sum(q) != 1:
                    return f"q sums to {sum(q)}"
                if list(q) != list(watched.drawn[node]):
                    return "q is not the law drawn from"
            return None

        faults = sorted({fault for _, fault in branches(compare) if fault is not None})
        return Evidence(not faults, "; ".join(faults) or "q is the law drawn from")

    return check


def _piece(make_wrong: MakeMethod, make_right: MakeMethod, *, seed: int, n: int, **story: str) -> Piece:
    case = Instance(memory_laws(seed, 3), horizon=4)
    return Piece(
        wrong=make_wrong,
        right=make_right,
        exact_check=case.exact_check,
        property_check=q_is_what_was_drawn(case.laws),
        certificate=case.certificate(make_wrong, n),
        **story,
    )


SOFTMAX_Q = _piece(
    argmax_wrong,
    argmax_right,
    seed=0,
    n=200,
    name="softmax_q",
    title="softmax q with argmax draft",
    symptom="Tokens the draft model is sure of come too often; acceptance looks fine.",
    cause="The draft is the argmax, a sure thing (q = 1), but the rule is handed the softmax value as q.",
    met_in="jaymody/speculative-sampling #3, #4; huggingface/transformers #47961; apple/ml-recurrent-drafter #6",
    fix="A deterministic proposal has no q: pass draft_probs=None, which the rules read as one-hot.",
)

OTHER_DTYPE = _piece(
    dtype_wrong,
    dtype_right,
    seed=22,
    n=2700,
    name="q_in_another_dtype",
    title="q in another dtype than drawn",
    symptom="A small, silent bias that grows with the size of the logits.",
    cause="The draft is drawn from bfloat16 logits, the ratio uses the float32 ones: two different laws.",
    met_in="deepseek-ai/DeepSpec #31",
    fix="The tensor handed over as q is the very tensor that was sampled from.",
)

DRAFT_TEMPERATURE = _piece(
    temperature_wrong,
    temperature_right,
    seed=5,
    n=500,
    name="draft_temperature_ignored",
    title="draft temperature ignored",
    symptom="Acceptance looks healthy and the output leans towards the draft's favourites.",
    cause="Drafts are drawn at one temperature, q is computed at another.",
    met_in="vllm-project/vllm #9834, #10198; huggingface/transformers #47932, #48007",
    fix="One call makes the law, and both the draw and the rule read its result.",
)

PRUNED_VOCABULARY = _piece(
    pruned_wrong,
    pruned_right,
    seed=0,
    n=200,
    name="pruned_vocabulary",
    title="pruned vocabulary with unnormalised q",
    symptom="The drafter with the smaller vocabulary is accepted more often, and says what it likes.",
    cause="q is cut out of the full softmax and no longer sums to 1, so every ratio p / q is too large.",
    met_in="vocabularies of different size: vllm-project/vllm #5203, #7252, #13849",
    fix="Normalise q over the kept tokens (zeros elsewhere); the rules refuse a row whose sum is more than 2 % off 1 "
    "(`SUM_SLACK`, since rows of bfloat16 are off by up to a percent), so a small cut passes them.",
)
