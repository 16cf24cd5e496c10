"""Verification rules: one readable scalar function each, and a table of what each promises."""

from collections.abc import Callable
from dataclasses import dataclass

from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, Proposal
from specdec_core.residual import Law
from specdec_core.rules.chain import verify_chain
from specdec_core.rules.greedy import verify_greedy
from specdec_core.rules.verdict import Verdict

__all__ = ["RULES", "Rule", "Verdict", "verify_chain", "verify_greedy"]

Verify = Callable[..., Verdict]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with what it promises and needs.

    Attributes:
        name: its key in `RULES`.
        verify: (draft_tokens, draft_probs, target_probs, coins) -> Verdict.
        lossless: the output has exactly the target's law, for any draft of an accepted proposal.
        needs_draft_probs: whether the rule reads q.
        proposals: the proposal kinds it accepts.
        takes_tree: whether it judges branching drafts.
        source: paper and section.
        greedy_only: lossless at temperature 0 only; the engine refuses it above.
    """

    name: str
    verify: Verify
    lossless: bool
    needs_draft_probs: bool
    proposals: tuple[Proposal, ...]
    takes_tree: bool
    source: str
    greedy_only: bool = False

    def __call__(self, draft: Draft, target_probs: Law, coins: Coins) -> Verdict:
        """The verdict on `draft`. ValueError when its proposal or shape is not one this rule accepts."""
        if len(draft.tree) > 0 and draft.proposal not in self.proposals:
            raise ValueError(
                f"rule {self.name!r} does not take {draft.proposal!r} drafts; it accepts {', '.join(self.proposals)}"
            )
        if not self.takes_tree and not draft.tree.is_chain:
            raise ValueError(f"rule {self.name!r} judges chains; this draft branches (parents {draft.tree.parents})")
        return self.verify(draft.tokens, draft.draft_probs, target_probs, coins)


RULES: dict[str, Rule] = {
    "chain": Rule(
        name="chain",
        verify=verify_chain,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "deterministic"),
        takes_tree=False,
        source="Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2",
    ),
    "greedy": Rule(
        name="greedy",
        verify=verify_greedy,
        lossless=True,
        needs_draft_probs=False,
        proposals=("chain", "deterministic"),
        takes_tree=False,
        source="Leviathan et al. 2211.17192, section 2.2 (temperature 0 only)",
        greedy_only=True,
    ),
}
