"""EAGLE: one layer that continues the target's states; a sampled chain, or a tree that follows its confidence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.arguments import check_budget, check_whole
from specdec_core.cache import ContiguousKVCache
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.draft_trees import Path, dynamic_tree
from specdec_core.drafters.branch_rows import BranchRows
from specdec_core.drafters.draft_law import draft_laws, has_mass, ranking_params
from specdec_core.drafters.medusa import last_state
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.eagle_layer import EagleLayer
from specdec_core.models.protocol import ForwardOutput, LanguageModel
from specdec_core.rules.verdict import Verdict
from specdec_core.warp import SamplingParams


@dataclass(frozen=True, slots=True)
class DynamicTree:
    """EAGLE-2: `depth` levels, at each the `top_k` best nodes grow `top_k` children; of all, the best fill the budget.

    `top_k` 1 is a chain of most probable tokens.
    """

    top_k: int = 4
    depth: int = 4

    def __post_init__(self) -> None:
        for name in ("top_k", "depth"):
            check_whole(name, getattr(self, name))
        if self.top_k < 1 or self.depth < 1:
            raise ValueError(f"top_k is {self.top_k} and depth {self.depth}; expected at least 1")


class EagleDrafter:
    """Drafts with an EAGLE head, over a cut vocabulary, from the target's states.

    Without `tree` it samples a chain with the request's parameters (`temperature` replaces the request's for drafting
    alone) and records q, zero outside the cut. With a `DynamicTree` the children are the most probable tokens and the
    proposal is deterministic; `temperature` then flattens or sharpens the ranking (default 1).

    Its cache holds a row for each pair (state of token t, token t + 1). Between rounds all of them were made from the
    target's states: what was drafted from the head's own is dropped, and the next round feeds the accepted tokens
    again with the states the target gave them.

    Source: EAGLE, Li et al. 2401.15077; the tree: EAGLE-2, 2406.16858.
    """

    reads_states = "all"
    max_length: int | None = None

    def __init__(
        self,
        target: LanguageModel,
        head: EagleHead,
        vocabulary: CutVocabulary,
        tree: DynamicTree | None = None,
        *,
        temperature: float | None = None,
        name: str = "eagle",
    ) -> None:
        """Raises ValueError for a head or a cut of another target, no `DynamicTree`, or a temperature out of range."""
        if temperature is not None:
            SamplingParams(temperature=temperature)
        if tree is not None and not isinstance(tree, DynamicTree):
            raise ValueError(f"tree is {tree!r}; expected a DynamicTree(top_k, depth), or None for a chain")
        self.layer = EagleLayer(head, target, vocabulary)
        self.tree, self.temperature, self.name = tree, temperature, name
        self.proposal: Proposal = "chain" if tree is None else "deterministic"
        self.branches = tree is not None
        self.vocabulary = vocabulary
        self.vocab_size: int | None = target.vocab_size
        self._device = target.device
        self._cache: ContiguousKVCache | None = None
        self._committed = 0

    @property
    def cache_rows(self) -> int | None:
        """Valid rows of the layer's cache: pairs."""
        return 0 if self._cache is None else len(self._cache)

    def start(self, capacity: int) -> None:
        """An empty cache for the next request, with room for the branches."""
        branches = 0 if self.tree is None else self.tree.top_k * self.tree.depth
        self._cache = self.layer.new_cache(capacity + branches)
        self._committed = 0

    def prefill(self, context: Context) -> None:
        """Feeds the prompt's pairs; a prompt of one token has none yet."""
        if context.hidden is not None and len(context.hidden):
            self._feed_committed(context)

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """A chain of samples, or the tree, of at most `budget` nodes; empty when all that the head knows is banned."""
        check_budget(budget)
        root = self._feed_committed(context)
        if budget == 0:
            return Draft.empty()
        if self.tree is None:
            return self._chain(context, root, budget, coins, may_continue)
        return self._grown(context, root, budget, may_continue)

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Drops every drafted row, the accepted ones too: they were made from the head's own states."""
        if self._cache is not None:
            self._cache.truncate(min(self._committed, len(self._cache)))

    def _feed_committed(self, context: Context) -> ForwardOutput:
        """The pairs of all committed tokens that are not in the cache yet; logits and state for the pending token."""
        if self._cache is None:
            raise ValueError("the drafter has no request; call start(capacity) before propose")
        last_state(context, self.layer.width)
        assert context.hidden is not None
        first = len(context.tokens) - 1 - len(context.hidden)
        if first != len(self._cache):
            raise ValueError(
                f"the drafter's cache holds {len(self._cache)} pairs, but the states that came begin at pair {first}: "
                "it serves another request; give each engine that runs at the same time a drafter of its own"
            )
        output = self._forward(context.hidden, context.tokens[first + 1 :], last_only=True)
        self._committed = len(self._cache)
        return ForwardOutput(output.logits, None if output.hidden is None else output.hidden[-1:])

    def _chain(
        self, context: Context, root: ForwardOutput, budget: int, coins: Coins, may_continue: MayContinue
    ) -> Draft:
        params = context.params
        if self.temperature is not None:
            params = replace(params, temperature=self.temperature)
        tokens: list[int] = []
        laws: list[Tensor] = []
        output = root
        while True:
            law = self.vocabulary.spread(self._laws(params, context, output.logits, [tokens])[0])
            if not has_mass(law) or not may_continue(len(tokens), law):
                break
            laws.append(law)
            tokens.append(coins.draw(law, node=len(tokens), purpose="draft"))
            if len(tokens) == budget:
                break
            assert output.hidden is not None
            output = self._forward(output.hidden, tokens[-1:])
        return Draft(DraftTree.chain(tokens), torch.stack(laws), "chain") if tokens else Draft.empty()

    def _grown(self, context: Context, root: ForwardOutput, budget: int, may_continue: MayContinue) -> Draft:
        assert self.tree is not None
        params = ranking_params(context.params, 1.0 if self.temperature is None else self.temperature)
        assert root.hidden is not None
        ids, rows = self.vocabulary.ids, BranchRows(self._committed)
        states: dict[Path, Tensor] = {(): root.hidden}

        def laws(paths: Sequence[Path]) -> list[Tensor]:
            """The laws over the cut after each path; a level that may not go on has no mass."""
            if paths[0] == ():
                output = root
            else:
                fed = torch.cat([states[path[:-1]] for path in paths])
                positions, mask = rows.feed(paths)
                output = self._forward(fed, [ids[path[-1]] for path in paths], positions, mask)
                assert output.hidden is not None
                states.update(zip(paths, output.hidden.split(1)))
            drafted = [[ids[token] for token in path] for path in paths]
            found = self._laws(params, context, output.logits, drafted)
            may = may_continue(len(states) - 1, self.vocabulary.spread(found[0]))
            return list(found if may else torch.zeros_like(found))

        depth = min(self.tree.depth, context.levels(budget))
        grown = dynamic_tree(laws, top_k=self.tree.top_k, depth=depth, nodes=budget)
        tree = DraftTree(tuple(ids[token] for token in grown.tokens), grown.parents)
        return Draft(tree, None, "deterministic")

    def _laws(
        self, params: SamplingParams, context: Context, logits: Tensor, drafted: Sequence[Sequence[int]]
    ) -> Float[Tensor, "rows cut"]:
        histories = [[*context.tokens, *path] for path in drafted] if params.uses_history else None
        return draft_laws(params, logits, histories, prompt_length=context.prompt_length, vocabulary=self.vocabulary)

    def _forward(
        self,
        states: Float[Tensor, "rows width"],
        tokens: Sequence[int],
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        last_only: bool = False,
    ) -> ForwardOutput:
        assert self._cache is not None
        fed = torch.tensor(tokens, dtype=torch.long, device=self._device)
        return self.layer.forward(states, fed, positions, mask, cache=self._cache, last_only=last_only)
