"""Mistake: after a full acceptance the drafter's cache lacks the last draft, and nobody feeds it."""

from collections.abc import Callable
from dataclasses import replace

from specdec_core.coins import Coins
from specdec_core.draft import Draft
from specdec_core.drafters import Context, ModelDrafter
from specdec_core.drafters.protocol import MayContinue
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.models.protocol import LanguageModel
from specdec_core.toy import PrefixModel, TokenCache, one_hot_logits, toy_target_next
from specdec_core.warp import SamplingParams
from specdec_labs.museum.piece import Evidence, Piece

PROMPT = (1, 2, 3)
TOKENS = 24
GAMMA = 4

MakeDrafter = Callable[[LanguageModel], ModelDrafter]


class LeavesAHole(ModelDrafter):
    """Feeds one token a round, the newest; after a full acceptance two are missing."""

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: MayContinue) -> Draft:
        """The real proposal, made to believe that the cache holds everything but the newest token."""
        cached = self.cache_rows or 0
        tokens = [*context.tokens[:cached], context.tokens[-1]] if cached else context.tokens
        return super().propose(replace(context, tokens=tokens), budget, coins, may_continue)


class Watched(PrefixModel):
    """A model that keeps hold of its latest cache."""

    latest: TokenCache | None = None

    def new_cache(self, capacity: int) -> TokenCache:
        """An empty cache, remembered."""
        self.latest = super().new_cache(capacity)
        return self.latest


def toy_target(kind: type[PrefixModel] = PrefixModel) -> PrefixModel:
    """The TOY target, which is sensitive to every row and position."""
    return kind(10, lambda prefix: one_hot_logits(10, toy_target_next(prefix)))


def twins_accept_all(make_drafter: MakeDrafter) -> Evidence:
    """Exact counts: the TOY target drafts for itself. Every draft is kept; the text is plain greedy either way."""
    target = toy_target()
    engine = Engine(target, make_drafter(toy_target()), "chain", GAMMA)
    generation = engine.generate(PROMPT, SamplingParams(temperature=0), TOKENS)
    metrics = summarize(generation.trace)
    plain = Engine(target).generate(PROMPT, SamplingParams(temperature=0), TOKENS)
    same = "same text" if generation.tokens == plain.tokens else "another text"
    return Evidence(
        metrics.accepted == metrics.tested and generation.tokens == plain.tokens,
        f"q = p: {metrics.accepted} of {metrics.tested} tested drafts kept, {metrics.rounds} rounds; {same} as plain",
    )


def cache_is_a_prefix(make_drafter: MakeDrafter) -> Evidence:
    """After every round the drafter's cached tokens are a prefix of the text."""
    model = toy_target(Watched)
    assert isinstance(model, Watched)
    engine = Engine(toy_target(), make_drafter(model), "chain", GAMMA)
    stream = engine.stream(PROMPT, SamplingParams(temperature=0), TOKENS)
    for _ in stream:
        cached = [] if model.latest is None else model.latest.tokens
        text = list(stream.generation.trace.tokens)
        if cached != text[: len(cached)]:
            place = next(i for i, (row, token) in enumerate(zip(cached, text)) if row != token)
            return Evidence(False, f"cache row {place} holds token {cached[place]}, the text has {text[place]}")
    return Evidence(True, "cached tokens are a prefix of the text after every round")


DRAFT_CACHE_HOLE = Piece(
    name="draft_cache_hole",
    title="draft-KV hole after full acceptance",
    symptom="Acceptance is high in the first rounds and sinks over the run; the text is right.",
    cause="The last draft is sampled and never fed; when it is accepted, its row is missing from the draft's cache.",
    met_in="vllm-project/vllm #9730, #5765; xLLM-AI/xllm #960; lablup/mlxcel #994, #1002",
    fix="Feed whatever the cache lacks: two tokens after a full acceptance, one otherwise.",
    wrong=LeavesAHole,
    right=ModelDrafter,
    exact_check=twins_accept_all,
    property_check=cache_is_a_prefix,
    certificate=None,
    instead="the law stays the target's whatever the draft says; counts on a model drafting for itself, "
    "and the rows of the cache",
)
