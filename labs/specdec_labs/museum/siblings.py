"""Mistakes with several drafts for one position: the wrong way of drawing, and a duplicate judged again."""

from collections.abc import Sequence
from fractions import Fraction

import torch

from specdec_core.coins import Coins, ScriptedCoins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.exact_drafts import ExactDraft, ExactLaw, Prefix, deterministic_tree, tree_draft
from specdec_core.residual import residual_of_one_hot
from specdec_core.rules import RULES, Verdict
from specdec_core.rules.tree import verify_recursive, verify_recursive_without_replacement
from specdec_labs.museum.decoding import Laws, Method, memory_laws
from specdec_labs.museum.piece import Evidence, Instance, MakeMethod, Piece

PAIR_THEN_ONE = (-1, -1, 0)
"""Two siblings, the first of which has a child."""

PAIR = DraftTree((0, 0), (-1, -1))


def without_replacement_right(laws: Laws) -> Method:
    """Siblings drawn without replacement, and the rule for such siblings."""
    draft = tree_draft(laws.draft, PAIR_THEN_ONE, "without_replacement")
    return Method(draft, verify_recursive_without_replacement)


def without_replacement_wrong(laws: Laws) -> Method:
    """The same siblings, judged as if each had been drawn from the whole of q."""
    return Method(tree_draft(laws.draft, PAIR_THEN_ONE, "without_replacement"), verify_recursive)


def rule_takes_the_proposal(make: MakeMethod) -> Evidence:
    """The rule's entry in `RULES` takes drafts made this way; the engine refuses it otherwise, with a ValueError."""
    law = [Fraction(1, 2), Fraction(1, 2)]
    verify = make(Laws(lambda prefix: law, lambda prefix: law)).rule
    rule = next(rule for rule in RULES.values() if rule.verify is verify)
    proposal: Proposal = "without_replacement"
    rows = torch.full((2, 2), 0.5)
    draft = Draft(DraftTree((0, 1), (-1, -1)), rows, proposal)
    try:
        rule(draft, torch.full((3, 2), 0.5), ScriptedCoins([0.5] * 4))
    except ValueError as error:
        return Evidence(False, f"{error}")
    return Evidence(True, f"rule {rule.name!r} takes {proposal!r} drafts")


def duplicates_right(laws: Laws) -> Method:
    """Two proposals for one position that may agree, each judged against what the ones before it left."""
    return Method(two_lookups(laws), verify_recursive)


def duplicates_wrong(laws: Laws) -> Method:
    """The same proposals; a token that comes twice gets its chance twice."""
    return Method(two_lookups(laws), duplicate_judged_again)


def two_lookups(laws: Laws) -> ExactDraft:
    """Proposals of two lookups, one by the last token alone and one by the whole text: deterministic, often equal."""

    def children(prefix: Prefix) -> tuple[int, int]:
        return (_argmax(laws.draft(prefix[-1:])), _argmax(laws.draft(prefix)))

    return deterministic_tree(children, (-1, -1))


def duplicate_judged_again(
    tree: DraftTree, draft_probs: None, target_probs: Sequence[ExactLaw], coins: Coins
) -> Verdict:
    """`verify_recursive` at one level: x is kept with p(x) over what *other* refused tokens left, its own share again.

    Right for distinct siblings. A refused token that is proposed again should have nothing left.
    """
    p, refused = target_probs[0], set[int]()
    for child, token in enumerate(tree.tokens):
        left = 1 - sum(p[other] for other in refused - {token})
        if coins.accept(p[token], left, node=child):
            bonus = coins.draw(target_probs[child + 1], node=child + 1, purpose="bonus")
            return Verdict(1, (child,), bonus, "bonus")
        refused.add(token)
    rest = p
    for token in sorted(refused):
        rest = residual_of_one_hot(rest, token)
    purpose, kind = ("recover", "recovered") if len(tree) else ("bonus", "bonus")
    return Verdict(0, (), coins.draw(rest, node=0, purpose=purpose), kind)


def refuses_the_second_copy(make: MakeMethod) -> Evidence:
    """Children 0 and 0, p(0) = 1/2: the first is refused at u = 0.9, and then the copy even at u = 0."""
    law = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    rule = make(Laws(lambda prefix: law, lambda prefix: law)).rule
    kept = rule(PAIR, None, [law] * 3, ScriptedCoins([0.9, 0.0, 0.9])).num_accepted
    return Evidence(kept == 0, f"a refused token proposed again: {'refused' if kept == 0 else 'kept'}")


def _argmax(law: ExactLaw) -> int:
    return max(range(len(law)), key=lambda token: law[token])


_MIX_UP = Instance(memory_laws(7, 3), horizon=4)
_DUPLICATES = Instance(memory_laws(1, 3), horizon=4)

REPLACEMENT_MIX_UP = Piece(
    name="replacement_mix_up",
    title="with/without-replacement mix-up",
    symptom="The second sibling is accepted at the wrong rate; trees look good and the law is off by a little.",
    cause="Siblings are drawn without replacement and judged as if the refused ones were still in q.",
    met_in="no report known to us; the rules of SpecInfer 2305.09781 and RSD 2402.14160 differ in this one line",
    fix="After a refusal without replacement the token leaves q too; a draft names its kind, and rules check it.",
    wrong=without_replacement_wrong,
    right=without_replacement_right,
    exact_check=_MIX_UP.exact_check,
    property_check=rule_takes_the_proposal,
    certificate=_MIX_UP.certificate(without_replacement_wrong, 800),
)

DUPLICATE_SIBLINGS = Piece(
    name="duplicate_siblings",
    title="duplicate siblings judged twice",
    symptom="With several candidates for a position, tokens that are proposed twice come too often.",
    cause="A candidate that equals a refused one is judged with its own share of p again, p (2 - p) in all.",
    met_in="foundation-model-stack/fms-extras #12, #17 (a draw for every candidate row)",
    fix="A refused token has nothing left: judge each candidate against what the earlier ones left of p.",
    wrong=duplicates_wrong,
    right=duplicates_right,
    exact_check=_DUPLICATES.exact_check,
    property_check=refuses_the_second_copy,
    certificate=_DUPLICATES.certificate(duplicates_wrong, 300),
)
