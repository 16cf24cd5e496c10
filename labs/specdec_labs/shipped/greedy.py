"""Greedy text of SmolLM2 under every drafter, against plain decoding: 20 prompts of 64 tokens, decoded plainly once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import time
from typing import Any

from specdec_core.certify_greedy import certify_greedy
from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    EarlyExitDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    QuantizedDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
    TreeDrafter,
)
from specdec_core.engine import Engine
from specdec_core.models.cut_head import CutHead
from specdec_core.models.llama import Llama
from specdec_core.models.pairs import load_pair
from specdec_core.models.protocol import Tokenizer
from specdec_core.models.shipped import load_eagle_head, load_medusa_head, load_smollm2_draft
from specdec_core.prompts import TASKS, load_prompts
from specdec_core.sequoia import sequoia_tree
from specdec_core.warp import SamplingParams

TOKENS = 64
PROMPTS = 20
GREEDY = SamplingParams(temperature=0)
ACCEPTED = (0.5, 0.15, 0.08, 0.05)
"""A round number for the shape of the draft model's tree; any shape must leave the text as it is."""


@dataclass(frozen=True, slots=True)
class GreedyCase:
    """A drafter for SmolLM2, a rule that takes its drafts, and its nodes a round."""

    make: Callable[[Llama], Drafter]
    rule: str
    nodes: int


CASES: dict[str, GreedyCase] = {
    "eagle tree": GreedyCase(lambda t: EagleDrafter(t, *load_eagle_head(t), DynamicTree(4, 5)), "recursive", 16),
    "eagle chain": GreedyCase(lambda t: EagleDrafter(t, *load_eagle_head(t)), "greedy", 4),
    "medusa tree": GreedyCase(lambda t: MedusaDrafter(t, *load_medusa_head(t)), "traversal", 16),
    "draft chain": GreedyCase(lambda t: ModelDrafter(load_smollm2_draft(t)[0]), "block", 4),
    "draft tree": GreedyCase(
        lambda t: TreeDrafter(CutHead(*load_smollm2_draft(t)), sequoia_tree(ACCEPTED, 16, 6), "deterministic"),
        "target_only",
        16,
    ),
    "ngram": GreedyCase(lambda t: NGramDrafter(), "chain", 8),
    "suffix": GreedyCase(lambda t: SuffixDrafter(), "chain", 16),
    "suffix tree": GreedyCase(lambda t: SuffixTreeDrafter(), "recursive", 16),
    "early exit": GreedyCase(lambda t: EarlyExitDrafter(t, 24), "chain", 4),
    "int4": GreedyCase(lambda t: QuantizedDrafter(t, 4, group=32), "chain", 4),
}


class SmolLM2Texts:
    """The target, the prompts, and the plain greedy text of each, decoded when first asked for."""

    def __init__(self) -> None:
        pair = load_pair("smollm2", device="cpu", dtype="float32")
        assert isinstance(pair.target, Llama)
        self.target = pair.target
        self.prompts = prompts(pair.tokenizer)
        self._plain: dict[int, tuple[int, ...]] = {}

    def plain(self, index: int) -> tuple[int, ...]:
        """The text of prompt `index` without drafts."""
        if index not in self._plain:
            self._plain[index] = Engine(self.target).generate(self.prompts[index], GREEDY, TOKENS).tokens
        return self._plain[index]


def prompts(tokenizer: Tokenizer) -> list[list[int]]:
    """Twenty of our own: two of each task, and a third of chat and code."""
    chosen = [prompt for task in TASKS for prompt in load_prompts(task)[: 3 if task in ("chat", "code") else 2]]
    return [tokenizer.chat(prompt.turns[0]) for prompt in chosen][:PROMPTS]


def greedy_entry(name: str, texts: SmolLM2Texts, which: range = range(PROMPTS)) -> dict[str, Any]:
    """How the drafter's texts compare with the plain ones; a difference is judged by `certify_greedy`."""
    case = CASES[name]
    engine = Engine(texts.target, case.make(texts.target), case.rule, case.nodes)
    start, rounds, emitted, equal = time.perf_counter(), 0, 0, 0
    partings: list[dict[str, Any]] = []
    for index in which:
        found = engine.generate(texts.prompts[index], GREEDY, TOKENS)
        if found.finish_reason == "interrupted":
            raise KeyboardInterrupt
        rounds += len(found.trace.rounds)
        emitted += len(found.tokens) - 1
        if found.tokens == texts.plain(index):
            equal += 1
        else:
            partings += list(_partings(engine, texts.prompts[index], index))
    return {
        "rule": case.rule,
        "nodes": case.nodes,
        "prompts": len(which),
        "equal": equal,
        "near_ties": [parting for parting in partings if parting["is_near_tie"]],
        "wrong": [parting for parting in partings if not parting["is_near_tie"]],
        "mean_acceptance_length": round(emitted / rounds, 3),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _partings(engine: Engine, prompt: list[int], index: int) -> Iterator[dict[str, Any]]:
    certificate = certify_greedy(engine, [prompt], TOKENS)
    for parting in certificate.partings:
        yield {
            "prompt": index,
            "position": parting.position,
            "gap": parting.gap,
            "is_near_tie": parting.gap <= certificate.allowed_gap,
        }
