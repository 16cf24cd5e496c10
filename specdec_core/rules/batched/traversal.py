"""Traversal verification of many trees at once: each request judges its leftmost leaf, all of them at the same time."""

from jaxtyping import Float, Float64, Int, Int64
import torch
from torch import Tensor

from specdec_core.coins.protocol import Purpose
from specdec_core.residual import wide
from specdec_core.rules.batched.block import capped_ratios
from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.forest import Forest, checked_forest, judge_in_groups
from specdec_core.rules.batched.laws import Laws
from specdec_core.rules.batched.rows import law_rows, scaled_excess_rows, without_rows
from specdec_core.rules.batched.verdict import BatchVerdict


def verify_traversal_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    parents: Int[Tensor, " slots"],
    validate: bool = True,
) -> BatchVerdict:
    """`verify_tree(..., method="traversal")` for every request; `draft_probs` None: deterministic children.

    `parents` are numbered within each request, -1 for the pending token. Shapes and errors as in `verify_chain_batch`.
    """
    forest = checked_forest(draft_tokens, cu_num_draft, parents, draft_probs, target_probs, coins, validate=validate)
    return _traverse_all(forest, draft_probs, target_probs, coins, replace=True)


def verify_traversal_without_replacement_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    parents: Int[Tensor, " slots"],
    validate: bool = True,
) -> BatchVerdict:
    """`verify_traversal_batch` for siblings drawn without replacement: a refused token leaves q too."""
    forest = checked_forest(draft_tokens, cu_num_draft, parents, draft_probs, target_probs, coins, validate=validate)
    return _traverse_all(forest, draft_probs, target_probs, coins, replace=False)


def _traverse_all(
    forest: Forest,
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "rows vocab"],
    coins: BatchCoins,
    *,
    replace: bool,
) -> BatchVerdict:
    return judge_in_groups(
        forest,
        target_probs.shape[1],
        coins,
        lambda requests: _Descent(forest, requests, draft_probs, target_probs, replace),
    )


class _Descent:
    """A group of requests, each with the nodes between the root and the leaf it judges, indexed by depth.

    At every depth: the row of the node, its weight, its first child that is left, and its laws once a refusal has worn
    them (`p_worn`, `q_worn`); before, they are rows of the inputs.
    """

    def __init__(
        self,
        forest: Forest,
        requests: Int64[Tensor, " group"],
        draft_probs: Float[Tensor, "slots vocab"] | None,
        target_probs: Float[Tensor, "rows vocab"],
        replace: bool,
    ) -> None:
        self.forest, self.draft_probs, self.target_probs = forest, draft_probs, target_probs
        self.requests = requests
        law = wide(target_probs[:0])
        size = (len(requests), forest.deepest + 1)
        self.row = torch.zeros(size, dtype=torch.int64, device=requests.device)
        self.child, self.slot = torch.zeros_like(self.row), torch.zeros_like(self.row)
        self.weight = law.new_ones(size)
        self.p_worn = torch.zeros_like(self.row, dtype=torch.bool)
        self.q_worn, self.recovered = torch.zeros_like(self.p_worn), torch.zeros_like(self.p_worn)
        self.p = law.new_empty(*size, law.shape[1])
        self.q = None if replace or draft_probs is None else torch.empty_like(self.p)
        self.depth, self.asked = torch.zeros_like(requests), torch.zeros_like(requests)
        self.next_token, self.is_bonus = torch.zeros_like(requests), torch.zeros_like(requests, dtype=torch.bool)
        self.row[:, 0] = forest.batch.first_row[requests]
        self.child[:, 0] = forest.first_child[self.row[:, 0]]

    @property
    def path(self) -> Int64[Tensor, "group deepest"]:
        """The nodes below the root down to each request's leaf, padded with -1."""
        places = torch.arange(self.forest.deepest, device=self.depth.device)
        return torch.where(places < self.depth[:, None], self.forest.node(self.slot[:, 1:]), -1)

    @property
    def num_accepted(self) -> Int64[Tensor, " group"]:
        """The depth of each request's leaf."""
        return self.depth

    def run(self, coins: BatchCoins) -> None:
        """Judges leaves until every request has accepted one; the root always passes."""
        left = torch.arange(len(self.requests), device=self.depth.device)
        while len(left):
            self._descend(left)
            depth = self.depth[left]
            passes, below = depth == 0, torch.nonzero(depth > 0)[:, 0]
            leaf = self.forest.node(self.slot[left[below], depth[below]])
            u = coins.uniforms(Questions(self.requests[left[below]], leaf, self.asked[left[below]]))
            self.asked[left[below]] += 1
            passes[below] = u < self.weight[left[below], depth[below]]
            self._finish(left[passes], coins)
            left = left[~passes]
            self._refuse(left)

    def _descend(self, who: Tensor) -> None:
        """Down to the leftmost leaf that is left."""
        while len(who := who[self.child[who, self.depth[who]] >= 0]):
            depth = self.depth[who]
            child = self.child[who, depth]
            p, q = self._masses(who, depth, self.forest.batch.draft_tokens[child])
            row = self.forest.row[child]
            self.depth[who] += 1
            below = (who, depth + 1)
            self.weight[below] = capped_ratios(self.weight[who, depth] * p, q)
            self.slot[below], self.row[below], self.child[below] = child, row, self.forest.first_child[row]
            for flags in (self.p_worn, self.q_worn, self.recovered):
                flags[below] = False

    def _masses(
        self, who: Tensor, depth: Tensor, token: Tensor
    ) -> tuple[Float64[Tensor, " who"], Float64[Tensor, " who"]]:
        row = self.row[who, depth]
        p = torch.where(self.p_worn[who, depth], self.p[who, depth, token], wide(self.target_probs[row, token]))
        if self.draft_probs is None:
            return p, torch.ones_like(p)
        q = wide(self.draft_probs[self.forest.first_child[row], token])
        if self.q is None:
            return p, q
        return p, torch.where(self.q_worn[who, depth], self.q[who, depth, token], q)

    def _target_law(self, who: Tensor, depth: Tensor) -> Float64[Tensor, "who vocab"]:
        law = law_rows(self.target_probs, self.row[who, depth])
        worn = self.p_worn[who, depth]
        return torch.where(worn[:, None], self.p[who, depth], law) if bool(worn.any()) else law

    def _finish(self, who: Tensor, coins: BatchCoins) -> None:
        recovered = self.recovered[who, self.depth[who]]
        self.is_bonus[who] = ~recovered
        self._draw(who[recovered], coins, "recover")
        self._draw(who[~recovered], coins, "bonus")

    def _draw(self, who: Tensor, coins: BatchCoins, purpose: Purpose) -> None:
        if len(who):
            depth = self.depth[who]
            nodes = self.row[who, depth] - self.forest.batch.first_row[self.requests[who]]
            questions = Questions(self.requests[who], nodes, self.asked[who])
            self.next_token[who] = coins.draw(Laws.of(self._target_law(who, depth)), questions, purpose)

    def _refuse(self, who: Tensor) -> None:
        """Takes each request's leaf away, and what it stood for out of its parent's laws."""
        if len(who) == 0:
            return
        slot = self.slot[who, self.depth[who]]
        token = self.forest.batch.draft_tokens[slot]
        self.depth[who] -= 1
        depth = self.depth[who]
        parent = (who, depth)
        p, weight, first = self._target_law(who, depth), self.weight[parent], self.forest.first_child[self.row[parent]]
        q = self._draft_law(who, depth, first)
        excess = scaled_excess_rows(p, weight, q, token)
        total = excess.sum(-1)
        self.weight[parent] = torch.where((total > 0) | (weight < 1), total / (total + (1 - weight)), 1.0)
        self.p[parent] = torch.where((total > 0)[:, None], excess / total[:, None], p)
        self.p_worn[parent] = self.recovered[parent] = True
        self.child[parent] = self.forest.next_sibling[slot]
        if self.q is not None and q is not None:
            self.q[parent], is_left = without_rows(q, token)
            self.q_worn[parent] = True
            self.child[who[~is_left], depth[~is_left]] = -1

    def _draft_law(self, who: Tensor, depth: Tensor, first: Tensor) -> Float64[Tensor, "who vocab"] | None:
        """The law of each node's next child; None: one-hot at the child's token."""
        if self.draft_probs is None:
            return None
        law = law_rows(self.draft_probs, first)
        if self.q is None:
            return law
        worn = self.q_worn[who, depth]
        return torch.where(worn[:, None], self.q[who, depth], law)
