"""A language model as drafter of trees: siblings drawn from its law, or its most probable tokens."""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.arguments import check_budget, check_fresh, check_model
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.draft_trees import most_probable
from specdec_core.drafters.branch_rows import BranchRows
from specdec_core.drafters.draft_law import draft_laws, has_mass, ranking_params
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.models.protocol import KVCache, LanguageModel
from specdec_core.residual import Law, without
from specdec_core.rules.verdict import Verdict
from specdec_core.tree_shapes import Parents, shape_of
from specdec_core.warp import SamplingParams

TREE_PROPOSALS: tuple[Proposal, ...] = ("iid", "without_replacement", "deterministic")


class TreeDrafter:
    """Fills a tree of fixed shape from `model`, one pass a level under a tree mask.

    The shape is chosen before anything is drawn, which keeps every rule exact. Of a shape larger than the budget the
    first nodes are kept, near the end of a text the first levels. Siblings are drawn independently ("iid"), without
    replacement, or are the model's most probable tokens ("deterministic"). `may_continue` is asked once, before the
    first level: to stop one branch for what was drawn on another would bias rules that look ahead.

    Between rounds the cache holds committed tokens only; accepted drafts are fed again with the next pending token.
    """

    branches = True

    def __init__(
        self,
        model: LanguageModel,
        shape: Sequence[int],
        proposal: Proposal = "without_replacement",
        *,
        temperature: float | None = None,
        name: str | None = None,
    ) -> None:
        """`shape` are the parents of the nodes; `temperature` replaces the request's for drafting (deterministic: 1).

        Raises:
            ValueError: no language model, a shape that is no tree or empty, another proposal, or a temperature out of
                range.
        """
        check_model(model)
        if proposal not in TREE_PROPOSALS:
            raise ValueError(f"proposal is {proposal!r}; a tree is one of {', '.join(TREE_PROPOSALS)}")
        if temperature is not None:
            SamplingParams(temperature=temperature)
        if not isinstance(shape, Sequence) or not all(isinstance(parent, Integral) for parent in shape):
            raise ValueError(f"shape is {shape!r}; expected the parents of the nodes, such as (-1, -1, 0)")
        self.shape: Parents = shape_of(tuple(shape)).parents
        if not self.shape:
            raise ValueError("shape is empty; give the parents of at least one node")
        self.model, self.temperature = model, temperature
        self.proposal: Proposal = proposal
        self.name = name or f"tree ({proposal.replace('_', ' ')})"
        self.vocab_size: int | None = model.vocab_size
        self.max_length: int | None = model.max_length
        self._cache: KVCache | None = None
        self._committed = 0

    @property
    def cache_rows(self) -> int | None:
        """Valid rows of the draft model's cache."""
        return 0 if self._cache is None else len(self._cache)

    def start(self, capacity: int) -> None:
        """An empty cache for the next request, with room for the branches."""
        self._cache = self.model.new_cache(min(capacity, self.model.max_length) + len(self.shape))
        self._committed = 0

    def prefill(self, context: Context) -> None:
        """Feeds the prompt, all of it: the token after it is there already."""
        check_fresh(self.cache_rows)
        if self._cache is not None and len(context.tokens) < self.model.max_length:
            fed = torch.tensor(context.tokens, dtype=torch.long, device=self.model.device)
            self.model.forward(fed, cache=self._cache, last_only=True)
            self._committed = len(self._cache)

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """The tree, smaller where the budget or the law has no more; empty when the law has nothing."""
        check_budget(budget)
        cache = _ready(self._cache, len(context.tokens))
        fed = torch.tensor(context.tokens[len(cache) :], dtype=torch.long, device=self.model.device)
        logits = self.model.forward(fed, cache=cache, last_only=True).logits
        self._committed = len(cache)
        growth = _Growth(self, _cut(self.shape, budget, context.levels(budget)), context, BranchRows(self._committed))
        growth.add_laws([()], logits)
        if () in growth.laws and may_continue(0, growth.laws[()]):
            for level in growth.levels():
                growth.fill(level, coins)
                growth.feed(level, cache)
        return growth.draft()

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Drops the rows of the branches."""
        if self._cache is not None:
            self._cache.truncate(min(self._committed, len(self._cache)))


class _Growth:
    """One tree while it grows. Nodes are known by their paths in the shape; `laws` has the paths that can go on."""

    def __init__(self, drafter: TreeDrafter, shape: Parents, context: Context, rows: BranchRows) -> None:
        self._drafter, self._shape, self._context, self._rows = drafter, shape, context, rows
        self._tree = shape_of(shape)
        self._paths = self._tree.paths()
        if drafter.proposal == "deterministic":
            self._params = ranking_params(context.params, drafter.temperature or 1.0)
        elif drafter.temperature is not None:
            self._params = replace(context.params, temperature=drafter.temperature)
        else:
            self._params = context.params
        self.laws: dict[tuple[int, ...], Tensor] = {}
        self._tokens: dict[int, int] = {}
        self._left: dict[tuple[int, ...], Law | None] = {}
        self._ranked: dict[tuple[int, ...], list[int]] = {}

    def add_laws(self, paths: Sequence[tuple[int, ...]], logits: Float[Tensor, "rows vocab"]) -> None:
        """Keeps the law after each path."""
        histories = None
        if self._params.uses_history:
            histories = [[*self._context.tokens, *(self._tokens[node] for node in path)] for path in paths]
        prompt_length = self._context.prompt_length
        laws = draft_laws(self._params, logits, histories, prompt_length=prompt_length)
        self.laws.update((path, law) for path, law in zip(paths, laws) if has_mass(law))

    def levels(self) -> list[list[int]]:
        """The nodes by depth."""
        depths = self._tree.depths
        return [[node for node, own in enumerate(depths) if own == depth] for depth in sorted(set(depths))]

    def fill(self, level: Sequence[int], coins: Coins) -> None:
        """Chooses the tokens of one level's nodes; a node for which nothing is left stays out."""
        for node in level:
            parent = self._paths[node][:-1]
            law = self.laws.get(parent)
            if law is not None:
                token = self._child(node, parent, law, coins)
                if token is not None:
                    self._tokens[node] = token

    def _child(self, node: int, parent: tuple[int, ...], law: Tensor, coins: Coins) -> int | None:
        if self._drafter.proposal == "iid":
            return coins.draw(law, node=node, purpose="draft")
        if self._drafter.proposal == "deterministic":
            if parent not in self._ranked:
                count = self._shape.count(parent[-1] if parent else -1)
                self._ranked[parent] = [token for token, _ in most_probable(law, count)][::-1]
            return self._ranked[parent].pop() if self._ranked[parent] else None
        left = self._left.get(parent, law)
        if left is None:
            return None
        token = coins.draw(left, node=node, purpose="draft")
        self._left[parent] = without(left, token)
        return token

    def feed(self, level: Sequence[int], cache: KVCache) -> None:
        """One pass over the level's nodes that have children."""
        inner = [node for node in level if node in self._tokens and node in self._shape]
        if not inner:
            return
        paths = [self._paths[node] for node in inner]
        device = self._drafter.model.device
        positions, mask = self._rows.feed(paths)
        fed = torch.tensor([self._tokens[node] for node in inner], device=device)
        output = self._drafter.model.forward(fed, positions.to(device), mask.to(device), cache=cache)
        self.add_laws(paths, output.logits)

    def draft(self) -> Draft:
        """What has grown, renumbered."""
        if not self._tokens:
            return Draft.empty()
        kept = sorted(self._tokens)
        number = {-1: -1, **{node: place for place, node in enumerate(kept)}}
        tree = DraftTree(tuple(self._tokens[node] for node in kept), tuple(number[self._shape[node]] for node in kept))
        if self._drafter.proposal == "deterministic":
            return Draft(tree, None, "deterministic")
        laws = torch.stack([self.laws[self._paths[node][:-1]] for node in kept])
        return Draft(tree, laws, self._drafter.proposal)


def _ready(cache: KVCache | None, tokens: int) -> KVCache:
    """The cache of the running request. ValueError without one, or when it holds another request's rows."""
    if cache is None:
        raise ValueError("the drafter has no request; call start(capacity) before propose")
    if len(cache) >= tokens:
        raise ValueError(
            f"the drafter's cache holds {len(cache)} rows for {tokens} tokens: it serves another request; give each "
            "engine that runs at the same time a drafter of its own"
        )
    return cache


def _cut(shape: Parents, nodes: int, levels: int) -> Parents:
    """The first `nodes` nodes of the shape that stand on its first `levels` levels."""
    kept = [node for node, depth in enumerate(shape_of(shape).depths) if depth <= levels][:nodes]
    number = {-1: -1, **{node: place for place, node in enumerate(kept)}}
    return tuple(number[shape[node]] for node in kept)
