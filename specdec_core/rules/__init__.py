"""Verification rules: one readable scalar function each, and a table of what each promises."""

from collections.abc import Callable
from dataclasses import dataclass

from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, Proposal
from specdec_core.residual import Law
from specdec_core.rules.batched import (
    BatchVerdict,
    verify_block_batch,
    verify_chain_batch,
    verify_greedy_batch,
    verify_match_batch,
    verify_recursive_batch,
    verify_recursive_without_replacement_batch,
    verify_target_only_batch,
    verify_traversal_batch,
    verify_traversal_without_replacement_batch,
)
from specdec_core.rules.block import verify_block
from specdec_core.rules.chain import verify_chain
from specdec_core.rules.greedy import verify_greedy
from specdec_core.rules.kseq import verify_kseq
from specdec_core.rules.lossy import verify_relaxed, verify_typical
from specdec_core.rules.match import verify_match
from specdec_core.rules.traversal import verify_traversal, verify_traversal_without_replacement
from specdec_core.rules.tree import (
    verify_recursive,
    verify_recursive_without_replacement,
    verify_target_only,
    verify_tree,
)
from specdec_core.rules.verdict import Verdict

__all__ = [
    "RULES",
    "Rule",
    "Verdict",
    "verify_block",
    "verify_chain",
    "verify_greedy",
    "verify_match",
    "verify_relaxed",
    "verify_tree",
    "verify_typical",
]

Verify = Callable[..., Verdict]
VerifyBatch = Callable[..., BatchVerdict]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with what it promises and needs.

    Attributes:
        name: its key in `RULES`.
        verify: (draft_tokens, draft_probs, target_probs, coins) -> Verdict; a tree rule takes the tree first.
        lossless: the output has exactly the target's law, for any draft of an accepted proposal.
        needs_draft_probs: whether the rule reads q.
        proposals: the proposal kinds it accepts.
        takes_tree: whether it judges branching drafts.
        source: paper and section.
        greedy_only: lossless at temperature 0 only; the engine refuses it above.
        batched: the same verdicts for many requests at once, or None: (draft_tokens, cu_num_draft, draft_probs,
            target_probs, coins) -> BatchVerdict; a tree rule also takes `parents=`.
    """

    name: str
    verify: Verify
    lossless: bool
    needs_draft_probs: bool
    proposals: tuple[Proposal, ...]
    takes_tree: bool
    source: str
    greedy_only: bool = False
    batched: VerifyBatch | None = None

    def __call__(self, draft: Draft, target_probs: Law, coins: Coins) -> Verdict:
        """The verdict on `draft`. ValueError when its proposal or shape is not one this rule accepts."""
        if len(draft.tree) > 0 and draft.proposal not in self.proposals:
            raise ValueError(
                f"rule {self.name!r} does not take {draft.proposal!r} drafts; it accepts {', '.join(self.proposals)}"
            )
        if not self.takes_tree and not draft.tree.is_chain:
            raise ValueError(f"rule {self.name!r} judges chains; this draft branches (parents {draft.tree.parents})")
        drafted = draft.tree if self.takes_tree else draft.tokens
        return self.verify(drafted, draft.draft_probs, target_probs, coins)


RULES: dict[str, Rule] = {
    "chain": Rule(
        name="chain",
        verify=verify_chain,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "deterministic"),
        takes_tree=False,
        source="Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2",
        batched=verify_chain_batch,
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
        batched=verify_greedy_batch,
    ),
    "block": Rule(
        name="block",
        verify=verify_block,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "deterministic"),
        takes_tree=False,
        source="Sun et al. 2403.10444, algorithm 2",
        batched=verify_block_batch,
    ),
    "match": Rule(
        name="match",
        verify=verify_match,
        lossless=True,
        needs_draft_probs=False,
        proposals=("chain", "coupled", "deterministic"),
        takes_tree=False,
        source="sampling and comparing, as llama.cpp does; coupling: Daliri et al. 2408.07978",
        batched=verify_match_batch,
    ),
    "recursive": Rule(
        name="recursive",
        verify=verify_recursive,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "iid", "deterministic"),
        takes_tree=True,
        source="SpecInfer 2305.09781, section 4.3; EAGLE 2401.15077 for deterministic children",
        batched=verify_recursive_batch,
    ),
    "recursive_without_replacement": Rule(
        name="recursive_without_replacement",
        verify=verify_recursive_without_replacement,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "without_replacement"),
        takes_tree=True,
        source="RSD 2402.14160, algorithm 1; Sequoia 2402.12374, algorithm 2",
        batched=verify_recursive_without_replacement_batch,
    ),
    "kseq": Rule(
        name="kseq",
        verify=verify_kseq,
        lossless=True,
        needs_draft_probs=True,
        proposals=("iid",),
        takes_tree=True,
        source="SpecTr 2310.15141, algorithm 3 (one level)",
    ),
    "target_only": Rule(
        name="target_only",
        verify=verify_target_only,
        lossless=True,
        needs_draft_probs=False,
        proposals=("chain", "iid", "without_replacement", "deterministic"),
        takes_tree=True,
        source="SpecInfer 2305.09781, section 4.3 (naive sampling)",
        batched=verify_target_only_batch,
    ),
    "traversal": Rule(
        name="traversal",
        verify=verify_traversal,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "iid", "deterministic"),
        takes_tree=True,
        source="Weng et al. 2505.12398, algorithm 1",
        batched=verify_traversal_batch,
    ),
    "traversal_without_replacement": Rule(
        name="traversal_without_replacement",
        verify=verify_traversal_without_replacement,
        lossless=True,
        needs_draft_probs=True,
        proposals=("chain", "without_replacement"),
        takes_tree=True,
        source="Weng et al. 2505.12398, algorithm 1",
        batched=verify_traversal_without_replacement_batch,
    ),
    "typical": Rule(
        name="typical",
        verify=verify_typical,
        lossless=False,
        needs_draft_probs=False,
        proposals=("chain", "deterministic"),
        takes_tree=False,
        source="Medusa 2401.10774, section 2.3.1",
    ),
    "relaxed": Rule(
        name="relaxed",
        verify=verify_relaxed,
        lossless=False,
        needs_draft_probs=True,
        proposals=("chain", "deterministic"),
        takes_tree=False,
        source="acceptance thresholds of serving engines, for instance SGLang",
    ),
}
