"""A language model as drafter: a chain of samples from its own law."""

from dataclasses import replace

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.arguments import check_budget, check_fresh, check_model
from specdec_core.coins.protocol import Coins
from specdec_core.draft import Draft, DraftTree, Proposal
from specdec_core.drafters.draft_law import draft_laws, has_mass
from specdec_core.drafters.protocol import Context, MayContinue
from specdec_core.models.protocol import KVCache, LanguageModel
from specdec_core.rules.verdict import Verdict
from specdec_core.warp import SamplingParams


class ModelDrafter:
    """Drafts by sampling from `model`, with the request's own sampling parameters.

    `temperature` replaces the request's for drafting alone: q changes, the output law does not. Its cache
    always holds a prefix of the sequence: after a full acceptance it is a row short (the last draft was
    sampled, never fed), and the next round feeds two tokens. With `coupled` a draft is drawn with the noise that
    the target's own draw of that position will read (Gumbel coupling): for rule `match` only, which keeps it more
    often then; any other rule would be biased.
    """

    def __init__(
        self, model: LanguageModel, *, temperature: float | None = None, coupled: bool = False, name: str = "model"
    ) -> None:
        check_model(model)
        if temperature is not None:
            SamplingParams(temperature=temperature)
        self.model = model
        self.temperature = temperature
        self.proposal: Proposal = "coupled" if coupled else "chain"
        self.name = name
        self.vocab_size: int | None = model.vocab_size
        self.max_length: int | None = model.max_length
        self._cache: KVCache | None = None
        self._context_length = 0
        self._drafted = 0

    @property
    def cache_rows(self) -> int | None:
        """Valid rows of the draft model's cache."""
        return 0 if self._cache is None else len(self._cache)

    def start(self, capacity: int) -> None:
        """An empty cache for the next request."""
        self._cache = self.model.new_cache(min(capacity, self.model.max_length))
        self._context_length = self._drafted = 0

    def prefill(self, context: Context) -> None:
        """Feeds the prompt, all of it: the token after it is there already."""
        check_fresh(self.cache_rows)
        if self._cache is not None and len(context.tokens) < self.model.max_length:
            fed = torch.tensor(context.tokens, dtype=torch.long, device=self.model.device)
            self.model.forward(fed, cache=self._cache, last_only=True)

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """Up to `budget` tokens, each drawn from the law of its slot (kept as `draft_probs`)."""
        check_budget(budget)
        if self._cache is None:
            raise ValueError("the drafter has no request; call start(capacity) before propose")
        if len(self._cache) >= len(context.tokens):
            raise ValueError(
                f"the drafter's cache holds {len(self._cache)} rows for {len(context.tokens)} tokens: it serves "
                "another request; give each engine that runs at the same time a drafter of its own"
            )
        params = context.params if self.temperature is None else replace(context.params, temperature=self.temperature)
        self._context_length, self._drafted = len(context.tokens), 0
        feed = list(context.tokens[len(self._cache) :])
        tokens: list[int] = []
        laws: list[Tensor] = []
        noise, purpose = (coins.coupled(), "sample") if self.proposal == "coupled" else (coins, "draft")
        while len(tokens) < budget:
            fed = torch.tensor(feed, dtype=torch.long, device=self.model.device)
            logits = self.model.forward(fed, cache=self._cache, last_only=True).logits
            history = [[*context.tokens, *tokens]] if params.uses_history else None
            law = draft_laws(params, logits, history, prompt_length=context.prompt_length)[0]
            if not has_mass(law) or not may_continue(len(tokens), law):
                break
            laws.append(law)
            tokens.append(noise.draw(law, node=len(tokens), purpose=purpose))
            feed = tokens[-1:]
        self._drafted = len(tokens)
        return Draft(DraftTree.chain(tokens), torch.stack(laws), self.proposal) if tokens else Draft.empty()

    def observe(self, verdict: Verdict, hidden: Float[Tensor, "rows width"] | None) -> None:
        """Drops the rows of refused drafts."""
        if self._cache is not None and self._drafted:
            # the last draft was never fed, so at most drafted - 1 of them have rows
            self._cache.truncate(min(len(self._cache), self._context_length + verdict.num_accepted))
