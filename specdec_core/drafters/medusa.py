"""Medusa: heads on the target's last state guess the next positions, all at once."""

from collections.abc import Sequence

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.arguments import check_budget
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.draft_trees import best_first_tree, most_probable
from specdec_core.drafters.draft_law import draft_laws, has_mass, ranking_params
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.medusa_tree import medusa_tree
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle_layer import check_head
from specdec_core.models.ends import ends_of
from specdec_core.models.linear import Linear
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.protocol import LanguageModel
from specdec_core.models.routes import choose_routes
from specdec_core.rules.verdict import Verdict


class MedusaDrafter:
    """Proposes a tree of the heads' best guesses; deterministic, one small pass a round.

    The state of the token before the pending one is read: the target's own head drew the pending token from it, head k
    (from 0) guesses the k-th token after that. With `spec` the tree is fixed (`medusa_spec` builds one from measured
    accuracies; of one larger than the budget the first nodes are kept); without, each round takes the paths of largest
    product of the heads' own probabilities.

    Source: Medusa-1, Cai et al. 2401.10774.
    """

    branches = True
    proposal: Proposal = "deterministic"
    reads_states = "last"
    max_length: int | None = None
    cache_rows: int | None = None

    def __init__(
        self,
        target: LanguageModel,
        heads: MedusaHeads,
        vocabulary: CutVocabulary,
        spec: Sequence[Sequence[int]] | None = None,
        *,
        name: str = "medusa",
    ) -> None:
        """Raises ValueError for heads or a cut of another target, or a tree deeper than there are heads."""
        _, output = ends_of(target)
        if not isinstance(heads, MedusaHeads):
            raise ValueError(
                f"heads is a {type(heads).__name__}; expected MedusaHeads, as `load_medusa_head` gives them"
            )
        check_head(heads.width, vocabulary, target, output)
        self.tree = None if spec is None else medusa_tree(spec)
        depth = 0 if self.tree is None else max(self.tree.depths, default=0)
        if depth > len(heads.layers):
            raise ValueError(f"spec has paths of {depth} ranks; there are {len(heads.layers)} heads")
        self.name = name
        self.vocabulary = vocabulary
        self.vocab_size: int | None = target.vocab_size
        self._width = output.shape[1]
        self._heads = heads.to(target.device)
        self._head = Linear(output[vocabulary.index.to(target.device)])
        choose_routes([self._head])

    def start(self, capacity: int) -> None:
        """Nothing is kept between requests, nor between rounds."""

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """The tree of best guesses; empty when everything the heads know is banned."""
        check_budget(budget)
        state = last_state(context, self._width)
        laws = self._laws(state, context)
        if not has_mass(laws[0]) or not may_continue(0, self.vocabulary.spread(laws[0])):
            return Draft.empty()
        laws = laws[: context.levels(budget)]
        tree = best_first_tree(list(laws), budget) if self.tree is None else _filled(self.tree, laws, budget)
        ids = self.vocabulary.ids
        return Draft(DraftTree(tuple(ids[token] for token in tree.tokens), tree.parents), None, "deterministic")

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Nothing to learn: the state of the last token kept comes with the next context."""

    def _laws(self, state: Float[Tensor, "1 width"], context: Context) -> Float[Tensor, "heads cut"]:
        with torch.inference_mode():
            guessed = self._heads(state.float())[:, 0]
            logits = self._head(guessed.to(self._head.dtype)).to(torch.float32, copy=True)
        params = ranking_params(context.params, 1.0)
        histories = [context.tokens] * len(logits) if params.uses_history else None
        return draft_laws(params, logits, histories, prompt_length=context.prompt_length, vocabulary=self.vocabulary)


def last_state(context: Context, width: int) -> Float[Tensor, "1 width"]:
    """The target's state of the token before the pending one.

    Raises:
        ValueError: a target that gives no states, or states of another width.
    """
    if context.hidden is None:
        raise ValueError(
            "the target gave no hidden states; this drafter reads them - use a Llama or an HFModel as target"
        )
    if context.hidden.shape[1] != width:
        raise ValueError(f"the target's states have width {context.hidden.shape[1]}, this drafter's head {width}")
    return context.hidden[-1:]


def _filled(tree: DraftTree, laws: Float[Tensor, "heads cut"], budget: int) -> DraftTree:
    """The first `budget` nodes at most as deep as there are laws, the token of its rank in each; none without mass."""
    ranked = [
        most_probable(law, 1 + max((rank for rank, own in zip(tree.tokens, tree.depths) if own == depth), default=-1))
        for depth, law in enumerate(laws, start=1)
    ]
    number = {-1: -1}
    tokens: list[int] = []
    parents: list[int] = []
    for node, (rank, depth, parent) in enumerate(zip(tree.tokens, tree.depths, tree.parents)):
        if len(tokens) == budget:
            break
        if parent in number and depth <= len(ranked) and rank < len(ranked[depth - 1]):
            number[node] = len(tokens)
            tokens.append(ranked[depth - 1][rank][0])
            parents.append(number[parent])
    return DraftTree(tuple(tokens), tuple(parents))
