"""The replay: its law in rational arithmetic, and its rounds against those of the engine with the real target."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
import random
from typing import Any

import pytest
import torch

from specdec_core.coins import EnumeratingCoins, branches
from specdec_core.draft import DraftTree
from specdec_core.drafters import (
    DynamicTree,
    EagleDrafter,
    EarlyExitDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    SuffixDrafter,
)
from specdec_core.engine import Engine
from specdec_core.metrics import summarize
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_core.random_laws import random_law
from specdec_core.rules import verify_chain
from specdec_core.rules.tree import verify_recursive
from specdec_core.trace import Round, Trace
from specdec_core.warp import SamplingParams
from specdec_labs.acceptance.counts import Counts, counts_of, mean_length
from specdec_labs.acceptance.replay import Replay, replay, verify_forced_chain
from specdec_labs.acceptance.rows import answer_logits, answer_states
from specdec_labs.acceptance.text_model import TextModel

F = Fraction
VOCAB, GAMMA = 3, 2
Outcome = tuple[int, tuple[int, ...]]
GREEDY = SamplingParams(temperature=0)


def law_of(run: Callable[[EnumeratingCoins], Outcome]) -> dict[Outcome, Fraction]:
    law: dict[Outcome, Fraction] = {}
    for weight, outcome in branches(run):
        law[outcome] = law.get(outcome, F(0)) + weight
    return law


@pytest.mark.parametrize("case", range(4))
def test_forced_chains_have_the_joint_law_of_text_and_acceptance(case: int) -> None:
    """For every text and every number of accepted drafts: the same probability as with rule `chain`."""
    p, q = random_law(("replay p", case), VOCAB), random_law(("replay q", case), VOCAB)
    prefix = (1, 0)

    def drafted(coins: EnumeratingCoins) -> Outcome:
        tokens: tuple[int, ...] = ()
        for node in range(GAMMA):
            tokens += (coins.draw(q(prefix + tokens), node=node, purpose="draft"),)
        laws = [[source(prefix + tokens[:n]) for n in range(GAMMA + 1)] for source in (q, p)]
        verdict = verify_chain(tokens, laws[0][:GAMMA], laws[1], coins)
        return verdict.num_accepted, (*tokens[: verdict.num_accepted], verdict.next_token)

    def replayed(coins: EnumeratingCoins) -> Outcome:
        text: tuple[int, ...] = ()
        for node in range(GAMMA + 1):
            text += (coins.draw(p(prefix + text), node=node, purpose="sample"),)
        laws = [[source(prefix + text[:n]) for n in range(GAMMA + 1)] for source in (q, p)]

        class Forced:
            events = ()

            def accept(self, one: Fraction, other: Fraction, *, node: int) -> bool:
                return coins.accept(one, other, node=node)

            def draw(self, weights: Any, *, node: int, purpose: str) -> int:
                return text[node]

        verdict = verify_forced_chain(text[:GAMMA], laws[0][:GAMMA], laws[1], Forced())
        assert (*text[: verdict.num_accepted], verdict.next_token) == text[: verdict.num_accepted + 1]
        return verdict.num_accepted, text[: verdict.num_accepted + 1]

    assert law_of(drafted) == law_of(replayed)


@pytest.mark.parametrize("case", range(4))
def test_deterministic_trees_are_accepted_when_the_text_follows_them(case: int) -> None:
    p, prefix = random_law(("replay tree", case), VOCAB), (2, 1)
    tree = DraftTree((0, 2, 1, 0, 1), (-1, -1, 0, 0, 1))

    def rows(source: Callable[[tuple[int, ...]], Any]) -> list[Any]:
        return [source(prefix), *(source((*prefix, *(tree.tokens[n] for n in path))) for path in tree.paths())]

    def drafted(coins: EnumeratingCoins) -> Outcome:
        verdict = verify_recursive(tree, None, rows(p), coins)
        return verdict.num_accepted, (*(tree.tokens[n] for n in verdict.path), verdict.next_token)

    def replayed(coins: EnumeratingCoins) -> Outcome:
        text: tuple[int, ...] = ()
        for node in range(3):
            text += (coins.draw(p(prefix + text), node=node, purpose="sample"),)

        def certain(seen: tuple[int, ...]) -> list[Fraction]:
            place = len(seen) - len(prefix)
            on_text = seen[len(prefix) :] == text[:place] and place < len(text)
            return [F(token == (text[place] if on_text else 0)) for token in range(VOCAB)]

        verdict = verify_recursive(tree, None, rows(certain), coins)
        return verdict.num_accepted, (*(tree.tokens[n] for n in verdict.path), verdict.next_token)

    assert law_of(drafted) == law_of(replayed)


CONFIG = LlamaConfig(vocab_size=40, width=32, ffn_width=48, layers=3, heads=4, kv_heads=2, head_dim=8, max_length=250)
CUT = CutVocabulary(tuple(range(0, 40, 2)), 40)


@pytest.fixture(scope="module")
def target() -> Llama:
    module = TrainableLlama(CONFIG, seed=4)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.mul_(9)
    return llama_from_tensors(CONFIG, reader_of(module), tied=True)


@pytest.fixture(scope="module")
def cases(target: Llama) -> dict[str, Replay]:
    torch.manual_seed(1)
    medusa = MedusaHeads(3, CONFIG.width)
    with torch.no_grad():
        for parameter in medusa.parameters():
            parameter.normal_(0, 0.2)
    eagle = EagleHead(CONFIG, ffn_width=16, seed=2)
    return {
        "ngram": Replay(NGramDrafter(), 5, 5),
        "suffix": Replay(SuffixDrafter(), 6, 6),
        "draft": Replay(ModelDrafter(target.shallow([0, 2])), 4, 4),
        "medusa": Replay(MedusaDrafter(target, medusa, CUT), 8, 3),
        "eagle": Replay(EagleDrafter(target, eagle, CUT), 3, 3),
        "eagle tree": Replay(EagleDrafter(target, eagle, CUT, DynamicTree(3, 3)), 9, 3),
    }


def told(rounds: list[Round]) -> list[tuple[Any, ...]]:
    return [(r.length, r.draft_parents, r.num_accepted, r.num_tested, r.emitted, r.kind) for r in rounds]


@pytest.mark.parametrize("name", ["ngram", "suffix", "draft", "medusa", "eagle", "eagle tree"])
@pytest.mark.parametrize("prompt", [[3, 1, 4, 1, 5], [8] * 12])
def test_greedy_rounds_are_the_engines(name: str, prompt: list[int], target: Llama, cases: dict[str, Replay]) -> None:
    """The recorded text in the target's place, and recorded rows in the draft model's: the same rounds."""
    case, length = cases[name], 24
    text = [*prompt, *Engine(target).generate(prompt, GREEDY, length).tokens]
    engine = Engine(target, case.drafter, "recursive", case.budget).generate(prompt, GREEDY, length + 64)
    expected = [r for r in engine.trace.rounds if r.length + case.depth + 1 <= len(text)]
    states = answer_states(target, text, len(prompt))
    recorded = TextModel.certain(text, vocab_size=40, max_length=250, states=states)
    assert told(replay(case, recorded, text, len(prompt), GREEDY)) == told(expected)
    if isinstance(case.drafter, ModelDrafter):
        logits = answer_logits(case.drafter.model, text, len(prompt))
        draft = TextModel(text, lambda n: logits[n - len(prompt)], vocab_size=40, max_length=250)
        again = replay(Replay(ModelDrafter(draft), 4, 4), recorded, text, len(prompt), GREEDY)
        assert told(again) == told(expected)


def test_a_text_that_ends_itself_counts_to_its_end(target: Llama, cases: dict[str, Replay]) -> None:
    prompt = [3, 1, 4, 1, 5]
    answer = Engine(target).generate(prompt, GREEDY, 25).tokens
    params = SamplingParams(temperature=0, stop=(answer[17],))
    text = [*prompt, *Engine(target).generate(prompt, params, 25).tokens]
    for name in ("ngram", "draft", "eagle tree"):
        case = cases[name]
        engine = Engine(target, case.drafter, "recursive", case.budget).generate(prompt, params, 90)
        states = answer_states(target, text, len(prompt))
        recorded = TextModel.certain(text, vocab_size=40, max_length=250, states=states)
        rounds = replay(case, recorded, text, len(prompt), params)
        assert told(rounds) == told(engine.trace.rounds)
        assert rounds[-1].emitted[-1] == answer[17]


def _row(logits: torch.Tensor, length: int) -> torch.Tensor:
    return logits[length - 5]


def sampled_counts(target: Llama, case: Replay, params: SamplingParams, samples: int) -> tuple[Counts, Counts]:
    """Rounds of the engine, and of replays on the texts of plain sampling."""
    engine, replayed = Counts(), Counts()
    prompt = [3, 1, 4, 1, 5]
    for request in range(samples):
        trace = Engine(target, case.drafter, "chain", case.budget).generate(prompt, params, 60, request=request).trace
        engine += counts_of([r for r in trace.rounds if r.length + case.depth + 1 <= 5 + 60])
        text = [*prompt, *Engine(target).generate(prompt, params, 60, request=request + samples).tokens]
        logits = answer_logits(target, text, 5)
        states = answer_states(target, text, 5)
        recorded = TextModel(text, partial(_row, logits), vocab_size=40, max_length=250, states=states)
        replayed += counts_of(replay(case, recorded, text, 5, params, request=request))
    return engine, replayed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["draft", "eagle"])
def test_sampled_rounds_are_the_engines_in_law(name: str, target: Llama, cases: dict[str, Replay]) -> None:
    from scipy.stats import chi2_contingency

    engine, replayed = sampled_counts(target, cases[name], SamplingParams(temperature=0.7, seed=3), 60)
    for mine, other in zip(engine.positions, replayed.positions, strict=True):
        table = [[accepted, tested - accepted] for _, tested, accepted in (mine, other)]
        assert min(map(min, table)) > 20
        assert chi2_contingency(table).pvalue > 1e-3


def test_a_sampled_text_that_ends_itself_is_replayed_to_its_end(target: Llama, cases: dict[str, Replay]) -> None:
    """Drafts behind the stop token are forced to something, and never count."""
    prompt, params = [3, 1, 4, 1, 5], SamplingParams(temperature=0.7, seed=3)
    answer = Engine(target).generate(prompt, params, 12).tokens
    stop = next(token for token in answer[5:] if token not in answer[:5])
    text = [*prompt, *answer[: answer.index(stop) + 1]]
    logits, states = answer_logits(target, text, 5), answer_states(target, text, 5)

    def row_after(length: int) -> torch.Tensor | int:
        return logits[length - 5] if length < len(text) else 0

    recorded = TextModel(text, row_after, vocab_size=40, max_length=250, states=states)
    ending = SamplingParams(temperature=0.7, seed=3, stop=(stop,))
    for name in ("draft", "eagle"):
        rounds = replay(cases[name], recorded, text, 5, ending)
        assert [token for r in rounds for token in r.emitted] == text[6:]


def test_an_early_exit_is_replayed_as_the_shallow_model(target: Llama) -> None:
    prompt = [3, 1, 4, 1, 5]
    text = [*prompt, *Engine(target).generate(prompt, GREEDY, 30).tokens]
    drafter = EarlyExitDrafter(target, 2)
    engine = Engine(target, drafter, "chain", 4).generate(prompt, GREEDY, 94)
    logits = answer_logits(target.shallow(range(2)), text, 5)
    draft = ModelDrafter(TextModel(text, lambda n: logits[n - 5], vocab_size=40, max_length=250))
    recorded = TextModel.certain(text, vocab_size=40, max_length=250)
    rounds = replay(Replay(draft, 4, 4), recorded, text, 5, GREEDY)
    assert told(rounds) == told([r for r in engine.trace.rounds if r.length + 5 <= 35])


def test_a_drafter_that_looks_off_the_text_is_found_out() -> None:
    model = TextModel.certain([5, 6, 7, 8], vocab_size=9, max_length=20, states=torch.ones(4, 2))
    cache = model.new_cache(20)
    output = model.forward(torch.tensor([5, 6]), cache=cache)
    assert output.logits.argmax(dim=-1).tolist() == [6, 7] and bool(output.hidden.isfinite().all())
    # a branch: 7 is the text, 3 is not, 8 follows 7
    tree = DraftTree((7, 3, 8), (-1, -1, 0))
    cache.rollback(1)
    output = model.forward(torch.tensor([6, *tree.tokens]), tree.position_ids(1), tree.attention_mask(1), cache=cache)
    assert output.logits.argmax(dim=-1).tolist() == [7, 8, 0, 0]
    assert output.hidden.isnan().any(dim=-1).tolist() == [False, False, True, False]
    cache.keep([0, 1, 3])
    assert cache.tokens == [5, 6, 7, 8]


def test_counts_are_the_metrics(target: Llama, cases: dict[str, Replay]) -> None:
    traces: list[Trace] = [
        Engine(target, case.drafter, "recursive", case.budget).generate([start, 2], GREEDY, 30).trace
        for case in cases.values()
        for start in (7,)
    ]
    total = sum((counts_of(trace.rounds) for trace in traces), Counts())
    metrics = summarize(traces)
    assert (total.rounds, total.accepted, total.tested) == (metrics.rounds, metrics.accepted, metrics.tested)
    assert total.mean_length == metrics.mean_acceptance_length
    assert total.survival == metrics.acceptance_per_position
    assert total.conditional == metrics.conditional_acceptance
    assert Counts.from_list(total.to_list()) == total


def test_the_interval_covers_the_mean_of_new_prompts() -> None:
    """A ratio of sums over prompts of unequal length: 95 % of intervals hold the true ratio."""
    generator = random.Random(5)
    covered, repeats = 0, 300
    for _ in range(repeats):
        found = []
        for _ in range(20):
            rounds, rate = generator.randrange(10, 60), 2.5 + generator.gauss(0, 0.6)
            found.append(Counts(rounds=rounds, emitted=round(rounds * rate)))
        mean, low, high = mean_length(found)
        assert low is not None and high is not None and mean is not None
        covered += low < 2.5 < high
    assert 0.92 < covered / repeats < 0.98
    assert mean_length([Counts(rounds=4, emitted=10)]) == (2.5, None, None)
    assert mean_length([]) == (None, None, None)
