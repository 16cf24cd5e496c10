"""Mistake: rows of a batch are padded to one width, and the padded slots (-1) are judged like drafts."""

from collections.abc import Sequence
from fractions import Fraction

from specdec_core.coins import Coins, ScriptedCoins
from specdec_core.exact_drafts import ExactDraft, ExactLaw, Prefix, sampled_draft
from specdec_core.rules import Verdict, verify_block
from specdec_labs.museum.block import ended, laws_of_drafts, longest_passing, prefix_weights
from specdec_labs.museum.decoding import AnyRule, Laws, Method, memory_laws
from specdec_labs.museum.piece import Evidence, Instance, MakeMethod, Piece

WIDTH = 3
PADDING = -1


def ragged_draft(laws: Laws) -> ExactDraft:
    """One draft or two, by the length of the text: rows of a batch rarely have the same number."""
    longest = sampled_draft(laws.draft, 2)
    return lambda prefix, budget, coins: longest(prefix, min(budget, 1 + len(prefix) % 2), coins)


def in_rectangle(rule: AnyRule, width: int = WIDTH) -> AnyRule:
    """`rule` behind the batch's layout: tokens padded with -1, q rows with zeros, p rows with the last one."""

    def padded(
        draft_tokens: Prefix, draft_probs: Sequence[ExactLaw] | None, target_probs: Sequence[ExactLaw], coins: Coins
    ) -> Verdict:
        missing = width - len(draft_tokens)
        nothing = [0 * mass for mass in target_probs[0]]
        return rule(
            (*draft_tokens, *[PADDING] * missing),
            [*laws_of_drafts(draft_tokens, draft_probs, target_probs), *[nothing] * missing],
            [*target_probs, *[target_probs[-1]] * missing],
            coins,
        )

    return padded


def own_length(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw], target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """`verify_block` on the slots that hold a draft."""
    drafted = sum(token != PADDING for token in draft_tokens)
    return verify_block(draft_tokens[:drafted], draft_probs[:drafted], target_probs[: drafted + 1], coins)


def whole_width(
    draft_tokens: Prefix, draft_probs: Sequence[ExactLaw], target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """`verify_block` on the whole width; only the tokens that come out are cut to the row's own drafts.

    Slot -1 reads the last entry of its rows. Its q is 0, so its ratio is capped at 1: whatever came before, the
    padded prefix passes.
    """
    real = sum(token != PADDING for token in draft_tokens)
    weights = prefix_weights(draft_tokens, draft_probs, target_probs)
    kept = min(real, longest_passing(len(draft_tokens), weights, draft_probs, target_probs, coins))
    return ended(kept, real, draft_probs, target_probs, coins, weight=weights[kept])


def with_layout(rule: AnyRule) -> MakeMethod:
    """Ragged drafts, judged by `rule` behind the padded layout."""

    def make(laws: Laws) -> Method:
        return Method(ragged_draft(laws), in_rectangle(rule))

    return make


def padding_changes_nothing(make: MakeMethod) -> Evidence:
    """One draft in a rectangle three wide gets the verdict it gets alone, for the same coins."""
    p, q = (Fraction(1, 4), Fraction(3, 4)), (Fraction(3, 4), Fraction(1, 4))
    laws = Laws(lambda prefix: p, lambda prefix: q)
    rule = make(laws).rule
    for u in (0.1, 0.9):
        alone = verify_block((0,), (q,), (p, p), ScriptedCoins([u, 0.5]))
        padded = rule((0,), (q,), (p, p), ScriptedCoins([u, 0.5]))
        if padded != alone:
            return Evidence(False, f"u = {u}: alone {alone.num_accepted} kept, padded {padded.num_accepted}")
    return Evidence(True, "the same verdict with and without padding")


RIGHT = with_layout(own_length)
WRONG = with_layout(whole_width)

_RAGGED = Instance(memory_laws(0, 3), horizon=4)

PADDED_SLOTS = Piece(
    name="padded_slots",
    title="padded (-1) slots",
    symptom="Rows with fewer drafts than the widest row of the batch accept everything.",
    cause="The rule runs over the whole rectangle; index -1 reads the last entry, and q = 0 there caps the ratio at 1.",
    met_in="no report of this form known to us; a relative: padded lanes of a kernel tile, vllm-project/vllm #44744",
    fix="A row is as long as its own drafts; padding is cut off before any weight is computed.",
    wrong=WRONG,
    right=RIGHT,
    exact_check=_RAGGED.exact_check,
    property_check=padding_changes_nothing,
    certificate=_RAGGED.certificate(WRONG, 200),
)
