"""Bug: the draft temperature is applied on one side only.

The drafts are drawn at one temperature, the rule is handed q at another. Symptom: acceptance looks healthy and the
output law is bent. Met wherever warpers are applied in the sampler and not in the verifier, or the other way round
(vLLM #9834, #10198; transformers #47932).
"""

from dataclasses import replace

from specdec_core.coins import Coins
from specdec_core.draft import Draft
from specdec_core.drafters import Context, ModelDrafter
from specdec_core.drafters.protocol import MayContinue
from specdec_core.models.protocol import LanguageModel


class OneSidedTemperature(ModelDrafter):
    """Draws at the request's temperature and reports q at `reported` times that."""

    def __init__(self, model: LanguageModel, *, reported: float, temperature: float | None = None) -> None:
        super().__init__(model, temperature=temperature, name="one_sided_temperature")
        self.reported = reported

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """The right draft with the wrong q."""
        draft = super().propose(context, budget, coins, may_continue)
        if draft.draft_probs is None:
            return draft
        other = draft.draft_probs ** (1 / self.reported)
        return replace(draft, draft_probs=other / other.sum(dim=-1, keepdim=True))
