"""What the certificates of one pair share: the models behind memos, a prompt, sampling parameters, heads."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from specdec_core.memo import MemoisedModel
from specdec_core.models.cut_head import CutHead
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.llama import Llama
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.pairs import load_pair
from specdec_core.models.quantize import quantized
from specdec_core.warp import SamplingParams

PROMPTS = {"tiny": "It is a truth universally acknowledged, that the", "smollm2": "Once upon a time there was a"}
PARAMS = {"tiny": SamplingParams(temperature=1.0, top_k=4), "smollm2": SamplingParams(temperature=0.8, top_k=4)}
LONGEST = 20
"""Tokens behind the prompt that the memos have room for: what is tested, and the drafts behind it."""

TINY_HEADS = 2


@dataclass(eq=False)
class Parts:
    """A pair as certificates need it. Heads of `tiny` are not trained: the law does not depend on that."""

    name: str

    def __post_init__(self) -> None:
        pair = load_pair(self.name, device="cpu", dtype="float32")
        assert isinstance(pair.target, Llama)
        self.target = pair.target
        self.draft = pair.draft
        self.prompt = tuple(pair.tokenizer.encode(PROMPTS[self.name]))
        self.params = PARAMS[self.name]

    def remembered(self, model: Any, *, keep_states: bool = False) -> MemoisedModel:
        """`model` behind a memo."""
        return MemoisedModel(model, capacity=len(self.prompt) + LONGEST, keep_states=keep_states)

    @cached_property
    def memo(self) -> MemoisedModel:
        """The target behind a memo that all certificates of the pair share."""
        return self.remembered(self.target, keep_states=True)

    @cached_property
    def draft_memo(self) -> MemoisedModel:
        """The pair's draft behind a memo."""
        assert self.draft is not None
        return self.remembered(self.draft)

    @cached_property
    def cut_draft_memo(self) -> MemoisedModel:
        """The draft with a head over every third id, behind a memo."""
        assert isinstance(self.draft, Llama)
        ids = range(0, self.target.vocab_size, 3)
        return self.remembered(CutHead(self.draft, CutVocabulary(tuple(ids), self.target.vocab_size)))

    @cached_property
    def rounded_memo(self) -> MemoisedModel:
        """The target in int4 behind a memo."""
        return self.remembered(quantized(self.target, 4, group=32))

    @cached_property
    def eagle(self) -> tuple[EagleHead, CutVocabulary]:
        """The shipped EAGLE head of SmolLM2; for `tiny` a fresh one that hands the state and the token on."""
        if self.name == "smollm2":
            from specdec_core.models.shipped import load_eagle_head

            return load_eagle_head(self.target)
        head = EagleHead(replace(self.target.config), ffn_width=64, seed=1)
        width = self.target.config.width
        with torch.no_grad():
            head.join.weight.copy_(torch.cat((torch.eye(width), torch.eye(width)), dim=1))
            head.norm.weight.copy_(self.target.weights.norm)
        return head.requires_grad_(False), self._cut()

    @cached_property
    def medusa(self) -> tuple[MedusaHeads, CutVocabulary]:
        """The shipped Medusa heads of SmolLM2; for `tiny` fresh ones, which say what the target's head says."""
        if self.name == "smollm2":
            from specdec_core.models.shipped import load_medusa_head

            return load_medusa_head(self.target)
        return MedusaHeads(TINY_HEADS, self.target.config.width).requires_grad_(False), self._cut()

    def _cut(self) -> CutVocabulary:
        """Every other id: a cut that lacks many of the tokens the target wants."""
        return CutVocabulary(tuple(range(0, self.target.vocab_size, 2)), self.target.vocab_size)
