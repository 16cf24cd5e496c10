"""Recursive rejection on many trees at once: each request walks down its tree, all of them one child a step."""

from jaxtyping import Bool, Float, Float64, Int, Int64
import torch
from torch import Tensor

from specdec_core.residual import wide
from specdec_core.rules.batched.coins import BatchCoins, Questions
from specdec_core.rules.batched.forest import Forest, checked_forest, judge_in_groups
from specdec_core.rules.batched.laws import Laws
from specdec_core.rules.batched.rows import (
    draw_from_rows,
    law_rows,
    residual_of_one_hot_rows,
    residual_rows,
    without_rows,
)
from specdec_core.rules.batched.verdict import BatchVerdict


def verify_recursive_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    parents: Int[Tensor, " slots"],
    validate: bool = True,
) -> BatchVerdict:
    """`verify_tree(..., method="recursive")` for every request; `draft_probs` None: deterministic children.

    `parents` are numbered within each request, -1 for the pending token. Shapes and errors as in `verify_chain_batch`.
    """
    forest = checked_forest(draft_tokens, cu_num_draft, parents, draft_probs, target_probs, coins, validate=validate)
    return _walk_all(forest, draft_probs, target_probs, coins, replace=True)


def verify_recursive_without_replacement_batch(
    draft_tokens: Int[Tensor, " slots"],
    cu_num_draft: Int[Tensor, " batch+1"],
    draft_probs: Float[Tensor, "slots vocab"] | None,
    target_probs: Float[Tensor, "slots+batch vocab"],
    coins: BatchCoins,
    *,
    parents: Int[Tensor, " slots"],
    validate: bool = True,
) -> BatchVerdict:
    """`verify_recursive_batch` for siblings drawn without replacement: a refused token leaves q too."""
    forest = checked_forest(draft_tokens, cu_num_draft, parents, draft_probs, target_probs, coins, validate=validate)
    return _walk_all(forest, draft_probs, target_probs, coins, replace=False)


def _walk_all(
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
        lambda requests: _Walk(forest, requests, draft_probs, target_probs, replace),
    )


class _Walk:
    """Where a group of requests stands: the row each has reached, the child it judges next, and what is left there.

    `p` and `q` hold a request's laws once a refusal has worn them; before, they are rows of the inputs.
    """

    def __init__(
        self,
        forest: Forest,
        requests: Int64[Tensor, " group"],
        draft_probs: Float[Tensor, "slots vocab"] | None,
        target_probs: Float[Tensor, "rows vocab"],
        replace: bool,
    ) -> None:
        self.forest, self.draft_probs, self.target_probs, self.replace = forest, draft_probs, target_probs, replace
        self.requests = requests
        self.row = forest.batch.first_row[requests]
        self.child = forest.first_child[self.row]
        self.asked, self.num_accepted = torch.zeros_like(requests), torch.zeros_like(requests)
        self.next_token = torch.zeros_like(requests)
        self.path = torch.full((len(requests), forest.deepest), -1, dtype=torch.int64, device=requests.device)
        self.worn = torch.zeros_like(requests, dtype=torch.bool)
        law = wide(target_probs[:0])
        self.p = law.new_empty(len(requests), law.shape[1])
        # with replacement q stays what it was
        self.q = None if replace or draft_probs is None else torch.empty_like(self.p)

    @property
    def is_bonus(self) -> Bool[Tensor, " group"]:
        """Whether a request's path ends where nothing was drafted; settled when no child is left."""
        return self.forest.first_child[self.row] < 0

    def run(self, coins: BatchCoins) -> None:
        """Walks until no request has a child to judge, and draws the next tokens."""
        while self.step(coins):
            pass
        self.next_token = self.draw(coins)

    def step(self, coins: BatchCoins) -> bool:
        """Judges one child of every request that has one; false when none has."""
        who = torch.nonzero(self.child >= 0)[:, 0]
        if len(who) == 0:
            return False
        child = self.child[who]
        token = self.forest.batch.draft_tokens[child]
        u = coins.uniforms(Questions(self.requests[who], self.forest.node(child), self.asked[who]))
        self.asked[who] += 1
        p, q = self._masses(who, token)
        kept = u * q < p
        self._enter(who[kept], child[kept])
        self._refuse(who[~kept], child[~kept], token[~kept])
        return True

    def draw(self, coins: BatchCoins) -> Int64[Tensor, " group"]:
        """The token after each path: from what is left of p where all children were refused."""
        tokens = torch.empty_like(self.row)
        nodes = self.row - self.forest.batch.first_row[self.requests]
        questions = Questions(self.requests, nodes, self.asked)
        is_bonus = self.is_bonus
        left, leaf = torch.nonzero(~is_bonus)[:, 0], torch.nonzero(is_bonus)[:, 0]
        if len(left):
            tokens[left] = coins.draw(Laws.of(self.p[left]), questions[left], "recover")
        tokens[leaf] = draw_from_rows(self.target_probs, self.row[leaf], coins, questions[leaf], "bonus")
        return tokens

    def _masses(self, who: Tensor, token: Tensor) -> tuple[Float64[Tensor, " who"], Float64[Tensor, " who"]]:
        worn = self.worn[who]
        p = wide(self.target_probs[self.row[who], token])
        p = torch.where(worn, self.p[who, token], p)
        if self.draft_probs is None:
            return p, torch.ones_like(p)
        # siblings share the law that their first was drawn from
        q = wide(self.draft_probs[self.forest.first_child[self.row[who]], token])
        return p, q if self.q is None else torch.where(worn, self.q[who, token], q)

    def _enter(self, who: Tensor, child: Tensor) -> None:
        self.path[who, self.num_accepted[who]] = self.forest.node(child)
        self.num_accepted[who] += 1
        self.row[who] = self.forest.row[child]
        self.child[who] = self.forest.first_child[self.row[who]]
        self.worn[who] = False

    def _refuse(self, who: Tensor, child: Tensor, token: Tensor) -> None:
        if len(who) == 0:
            return
        worn = self.worn[who]
        p = torch.where(worn[:, None], self.p[who], law_rows(self.target_probs, self.row[who]))
        self.child[who] = self.forest.next_sibling[child]
        if self.draft_probs is None:
            self.p[who] = residual_of_one_hot_rows(p, token).values()
        else:
            q = law_rows(self.draft_probs, self.forest.first_child[self.row[who]])
            if self.q is not None:
                q = torch.where(worn[:, None], self.q[who], q)
            self.p[who] = residual_rows(p, q).values()
            if self.q is not None:
                self.q[who], is_left = without_rows(q, token)
                self.child[who[~is_left]] = -1
        self.worn[who] = True
