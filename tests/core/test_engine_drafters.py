"""Every drafter in the engine: greedy text, stop tokens, penalties, the ends of text and context, what is refused."""

from collections.abc import Callable
import contextlib
from typing import Any

import pytest
import torch

from specdec_core.controllers import Constant
from specdec_core.draft import Draft, DraftTree
from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    TreeDrafter,
)
from specdec_core.engine import Engine
from specdec_core.medusa_tree import medusa_spec
from specdec_core.models.cut_head import CutHead
from specdec_core.rules import RULES
from specdec_core.sequoia import sequoia_tree
from specdec_core.session import TREE_ROOM
from specdec_core.toy import PrefixModel, one_hot_logits
from specdec_core.warp import SamplingParams

TOKENS = 40
FULL = (-1, -1, 0, 0, 1, 1)
SEQUOIA = sequoia_tree([0.6, 0.2, 0.1], 12, 5)
ACCURACIES = torch.tensor([[0.7, 0.1, 0.05], [0.5, 0.2, 0.1], [0.4, 0.2, 0.1]])
Make = Callable[[Any], Drafter]

DRAFTERS: dict[str, Make] = {
    "ngram": lambda micro: NGramDrafter(),
    "model": lambda micro: ModelDrafter(micro.draft),
    "model over a cut": lambda micro: ModelDrafter(CutHead(micro.draft, micro.vocabulary)),
    "tree, independent": lambda micro: TreeDrafter(micro.draft, FULL, "iid"),
    "tree, without replacement": lambda micro: TreeDrafter(micro.draft, SEQUOIA, "without_replacement"),
    "tree, most probable": lambda micro: TreeDrafter(micro.draft, SEQUOIA, "deterministic"),
    "tree over a cut": lambda micro: TreeDrafter(CutHead(micro.draft, micro.vocabulary), FULL, "deterministic"),
    "medusa, sparse tree": lambda micro: MedusaDrafter(
        micro.target, micro.medusa, micro.vocabulary, medusa_spec(ACCURACIES, 12)
    ),
    "medusa, best first": lambda micro: MedusaDrafter(micro.target, micro.medusa, micro.vocabulary),
    "eagle, chain": lambda micro: EagleDrafter(micro.target, micro.eagle, micro.vocabulary),
    "eagle, tree": lambda micro: EagleDrafter(micro.target, micro.eagle, micro.vocabulary, DynamicTree(3, 4)),
    "eagle, line": lambda micro: EagleDrafter(micro.target, micro.eagle, micro.vocabulary, DynamicTree(1, 4)),
}
# these draw from laws; at temperature 0 a tree of independent siblings holds copies, which is allowed
PARAMS = {
    "greedy": SamplingParams(temperature=0),
    "penalties": SamplingParams(temperature=0, repetition_penalty=1.2, frequency_penalty=0.4),
    "bans": SamplingParams(temperature=0, bad_words=((4, 7), (11,)), logit_bias={3: 2.0, 9: -1.0}),
}


def rules_of(drafter: Drafter) -> list[str]:
    """Lossless rules that take its drafts; k-SEQ wants a single level."""
    return [
        rule.name
        for rule in RULES.values()
        if rule.lossless and drafter.proposal in rule.proposals and rule.name != "kseq"
        and (rule.takes_tree or not getattr(drafter, "branches", False))
    ]  # fmt: skip


@pytest.fixture(params=DRAFTERS)
def drafter(request: pytest.FixtureRequest, micro) -> Drafter:
    return DRAFTERS[request.param](micro)


@pytest.fixture(scope="module")
def plain(micro) -> Callable[..., tuple[int, ...]]:
    texts: dict[tuple[Any, ...], tuple[int, ...]] = {}

    def text(prompt: tuple[int, ...], kind: str) -> tuple[int, ...]:
        if (prompt, kind) not in texts:
            texts[prompt, kind] = Engine(micro.target).generate(prompt, PARAMS[kind], TOKENS).tokens
        return texts[prompt, kind]

    return text


@pytest.mark.parametrize("kind", PARAMS)
def test_greedy_text_equals_plain_decoding(micro, plain, drafter, kind: str) -> None:
    prompts = [micro.prompt, (20, 2, 9)]
    accepted = 0
    rules = rules_of(drafter)
    # four rules show what a drafter does; what penalties and bans do to its drafts does not depend on the rule
    for place, rule in enumerate([*rules[:3], rules[-1]] if kind == "greedy" else rules[:1]):
        prompt = prompts[place % 2]
        generation = Engine(micro.target, drafter, rule, 10).generate(prompt, PARAMS[kind], TOKENS)
        assert generation.tokens == plain(prompt, kind), rule
        accepted += sum(record.num_accepted for record in generation.trace.rounds)
    assert accepted > 0


def test_the_drafter_reads_the_prompt_with_the_prefill_not_in_round_1(micro, drafter) -> None:
    """Or round 1 would cost a prompt more than the others, under speeds that say they leave prompts out."""
    for prompt in (micro.prompt, (20,)):
        stream = Engine(micro.target, drafter, rules_of(drafter)[0], 4).stream(prompt, PARAMS["greedy"], TOKENS)
        next(stream)
        assert drafter.cache_rows is None or drafter.cache_rows >= len(prompt) - 1
        assert (stream.generation.trace.t_draft_prefill_s > 0) == hasattr(drafter, "prefill")
        assert len(list(stream)) > 1


@pytest.mark.parametrize(("gamma", "tokens"), [(0, 8), (4, 2)])
def test_a_drafter_that_will_not_draft_reads_no_prompt(micro, drafter, gamma: int, tokens: int) -> None:
    generation = Engine(micro.target, drafter, rules_of(drafter)[0], gamma).generate(
        micro.prompt, PARAMS["greedy"], tokens
    )
    assert generation.trace.t_draft_prefill_s == 0 and not drafter.cache_rows


def test_records_of_trees_add_up(micro, drafter) -> None:
    params = SamplingParams(temperature=1.0, seed=4)
    for rule in [rule for rule in rules_of(drafter) if not RULES[rule].greedy_only][-2:]:
        target = _Watched(micro.target)
        generation = Engine(target, drafter, rule, 8, record_top=3).generate(micro.prompt, params, 30)
        text = [*micro.prompt, *generation.tokens]
        for record in generation.trace.rounds:
            tree = DraftTree(record.draft_tokens, record.draft_parents)
            assert record.path == () or record.path in tree.paths(), "the path is one of the tree, from the top"
            assert record.emitted == (*(record.draft_tokens[node] for node in record.path), record.next_token)
            assert text[record.length : record.length + len(record.emitted)] == list(record.emitted)
            end = record.path[-1] if record.path else -1
            assert record.num_tested == record.num_accepted + bool(tree.children(end))
            assert record.target_rows == record.length + len(record.emitted) - 1
            assert record.top is not None and len(record.top) == len(tree) + 1
        assert target.rows_equal_a_fresh_prefill(text), "P46: the rows kept are those of the text, in place"


class _Watched:
    """A target that gives out one cache and can compare its rows with those of a plain pass over the text."""

    def __init__(self, model: Any) -> None:
        self._model, self.cache = model, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def new_cache(self, capacity: int) -> Any:
        self.cache = self._model.new_cache(capacity)
        return self.cache

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._model.forward(*args, **kwargs)

    def rows_equal_a_fresh_prefill(self, text: list[int]) -> bool:
        fresh = self._model.new_cache(96)
        self._model.forward(torch.tensor(text[:-1]), cache=fresh)
        return len(self.cache) == len(text) - 1 and all(
            float((own - other).abs().max()) < 1e-4
            for layer in range(self._model.config.layers)
            for own, other in zip(self.cache.rows(layer), fresh.rows(layer))
        )


def test_a_stop_token_ends_the_text_where_plain_decoding_does(micro, plain, drafter) -> None:
    text = plain(micro.prompt, "greedy")
    for stop, rule in zip((text[2], text[7]), rules_of(drafter)):
        params = SamplingParams(temperature=0, stop=(stop,))
        generation = Engine(micro.target, drafter, rule, 10).generate(micro.prompt, params, TOKENS)
        assert generation.tokens == text[: text.index(stop) + 1]
        assert generation.finish_reason == "stop"


@pytest.mark.parametrize("tokens", [1, 2, 3, 5])
def test_short_texts_have_their_length(micro, plain, drafter, tokens: int) -> None:
    for rule in rules_of(drafter)[:2]:
        generation = Engine(micro.target, drafter, rule, 40).generate(micro.prompt, PARAMS["greedy"], tokens)
        assert generation.tokens == plain(micro.prompt, "greedy")[:tokens]


def test_the_context_of_the_model_is_used_to_its_end(micro, drafter) -> None:
    whole = Engine(micro.target).generate(micro.prompt, PARAMS["greedy"], 500).tokens
    assert len(whole) == micro.target.max_length - len(micro.prompt)
    rule = rules_of(drafter)[-1]
    assert Engine(micro.target, drafter, rule, 12).generate(micro.prompt, PARAMS["greedy"], 500).tokens == whole


def test_near_the_end_a_tree_loses_levels_not_width(micro) -> None:
    """Two tokens to go: one level, of as many siblings as the budget holds."""
    drafter = TreeDrafter(micro.draft, (-1, -1, -1, -1, 0, 1), "deterministic")
    rounds = Engine(micro.target, drafter, "recursive", 6).generate(micro.prompt, PARAMS["greedy"], 3).trace.rounds
    assert rounds[0].draft_parents == (-1, -1, -1, -1)


def test_more_nodes_than_room_in_the_cache_are_not_asked_for(micro, fixed_drafter) -> None:
    budgets: list[int] = []

    class Wide(fixed_drafter):
        branches = True

    def wide(tokens: Any, budget: int) -> Draft:
        budgets.append(budget)
        return Draft(DraftTree((1,) * budget, (-1,) * budget), None, "deterministic")

    generation = Engine(micro.target, Wide(wide), "recursive", 500).generate(micro.prompt, PARAMS["greedy"], 5)
    assert budgets[0] == 5 - 1 - 1 + TREE_ROOM
    assert generation.tokens == Engine(micro.target).generate(micro.prompt, PARAMS["greedy"], 5).tokens


def test_a_draft_with_too_many_levels_is_refused(micro, fixed_drafter) -> None:
    class Deep(fixed_drafter):
        branches = True

    deep = Deep(lambda tokens, budget: [1] * 6)
    with pytest.raises(ValueError, match="proposed 6 levels; there is room for 3"):
        Engine(micro.target, deep, "recursive", 8).generate(micro.prompt, PARAMS["greedy"], 5)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_does_not_take_the_drafts_is_refused_at_once(micro, drafter, rule: str) -> None:
    if drafter.proposal in RULES[rule].proposals:
        Engine(micro.target, drafter, rule, 3)
    else:
        with pytest.raises(ValueError, match=f"rule '{rule}' does not take"):
            Engine(micro.target, drafter, rule, 3)


class _Nosy(NGramDrafter):
    """Spoils whatever it is handed."""

    reads_states = "all"

    def propose(self, context, budget, coins, may_continue):
        for part in (context.tokens, context.hidden):
            with contextlib.suppress(AttributeError):
                part.append(7) if isinstance(part, list) else part.zero_()
        return super().propose(context, budget, coins, may_continue)

    def observe(self, verdict, hidden):
        if hidden is not None:
            hidden.zero_()


class _Greedy(Constant):
    """A controller that empties the record it is shown."""

    def gamma(self, rounds):
        with contextlib.suppress(AttributeError):
            rounds.clear()
        return super().gamma(rounds)


def test_a_drafter_or_controller_that_spoils_what_it_is_handed_changes_no_text(micro) -> None:
    greedy = SamplingParams(temperature=0)
    expected = Engine(micro.target).generate(micro.prompt, greedy, 24)
    for drafter, controller in ((_Nosy(), 4), (_Nosy(), _Greedy(3)), (_Nosy(), 0)):
        found = Engine(micro.target, drafter, "chain", controller).generate(micro.prompt, greedy, 24)
        assert found.tokens == expected.tokens
        assert found.trace.tokens == (*micro.prompt, *expected.tokens), "every round is still on record"


def test_a_drafter_that_leaves_the_targets_cache_longer_or_shorter_is_refused(micro) -> None:
    class Cutter(NGramDrafter):
        def propose(self, context, budget, coins, may_continue):
            context.cache.truncate(2)
            return super().propose(context, budget, coins, may_continue)

    with pytest.raises(ValueError, match="drafter 'ngram' left 2 rows in the target's cache for 5 tokens"):
        Engine(micro.target, Cutter()).generate(micro.prompt, SamplingParams(temperature=0), 9)


def _states_held(stream) -> int:
    return sum(len(states) for states in stream._session._unseen)


@pytest.mark.parametrize(("reads", "longest", "held"), [(None, None, 0), ("last", None, 1), ("all", 10, 0)])
@pytest.mark.parametrize("gamma", [0, 2])
def test_states_nobody_will_read_are_not_kept(reads, longest, held, gamma: int, fixed_drafter) -> None:
    target = PrefixModel(10, lambda prefix: one_hot_logits(10, 3), state_of=lambda prefix: torch.ones(4))
    drafter = fixed_drafter(lambda tokens, budget: [])
    drafter.max_length, drafter.reads_states = longest, reads
    stream = Engine(target, drafter, "chain", gamma).stream([1, 2, 3], SamplingParams(temperature=0), 250)
    most = max(_states_held(stream) for step, _ in zip(stream, range(201)) if len(stream.generation.tokens) > 10)
    assert most <= held


@pytest.mark.parametrize("context", range(1, 10))
def test_every_row_of_a_short_drafter_context_is_used(context: int, spoken_model) -> None:
    # the last draft is drawn and never fed: with n tokens there, n - 1 + drafts rows are fed in all
    target = spoken_model(10, lambda prefix: len(prefix) % 10)
    draft = spoken_model(10, lambda prefix: len(prefix) % 10, max_length=context)
    trace = Engine(target, ModelDrafter(draft), "chain", 4).generate([1], SamplingParams(temperature=0), 16).trace
    for record in trace.rounds:
        room = context - record.length + 1
        assert len(record.draft_tokens) == min(4, max(0, room), 17 - record.length - 1)
    assert all(before + len(fed) <= context for before, fed in draft.fed)
