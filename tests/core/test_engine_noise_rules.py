"""Noise of engine runs under every rule and every kind of draft: no number twice, no memory from round to round."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from scipy import stats
import torch

from specdec_core.coins import Coins, CoinSource, PhiloxCoins
from specdec_core.draft import Draft
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.drafters.protocol import Context
from specdec_core.engine import Engine
from specdec_core.exact_drafts import deterministic_tree, tree_draft
from specdec_core.rules import RULES, Rule
from specdec_core.warp import SamplingParams

VOCAB = 6
SHAPE = (-1, -1, 0, 0, 1)
ONE_LEVEL = (-1, -1, -1)
COMBINATIONS = [(rule.name, proposal) for rule in RULES.values() for proposal in rule.proposals]


class _TreeDrafter:
    """Fills a fixed shape from `law(prefix)`: siblings iid, without replacement, or its most probable tokens."""

    name = "tree"
    max_length: int | None = None
    cache_rows: int | None = None
    vocab_size: int | None = None

    def __init__(self, law: Any, parents: Sequence[int], proposal: Any) -> None:
        self.proposal = proposal
        self._size = len(parents)
        if proposal == "deterministic":
            self._fill = deterministic_tree(
                lambda text: sorted(range(VOCAB), key=lambda x: (-law(text)[x], x)), parents
            )
        else:
            self._fill = tree_draft(law, parents, proposal)

    def start(self, capacity: int) -> None: ...

    def propose(self, context: Context, budget: int, coins: Coins, may_continue: Any) -> Draft:
        if budget < self._size:
            return Draft.empty()
        tree, laws = self._fill(tuple(context.tokens), budget, coins)
        probs = None if laws is None else torch.tensor([[float(mass) for mass in law] for law in laws])
        return Draft(tree, probs, self.proposal)

    def observe(self, verdict: Any, hidden: Any) -> None: ...


@pytest.fixture
def make_engine(random_law, model_of):
    """The engine of a rule and a proposal; the laws are given or have a memory of the whole text."""

    def make(rule: str, proposal: str, p: Any = None, q: Any = None) -> Engine:
        p = p or random_law("noise of rules p", VOCAB, zeros=False)
        q = q or random_law("noise of rules q", VOCAB, zeros=False)
        if proposal in ("chain", "coupled"):
            drafter: Any = ModelDrafter(model_of(q, VOCAB), coupled=proposal == "coupled")
        elif proposal == "deterministic" and not RULES[rule].takes_tree:
            drafter = NGramDrafter()
        else:
            drafter = _TreeDrafter(q, ONE_LEVEL if rule == "kseq" else SHAPE, proposal)
        return Engine(model_of(p, VOCAB), drafter, rule, 5)

    return make


def params_of(rule: Rule, **kwargs: Any) -> SamplingParams:
    return SamplingParams(temperature=0.0 if rule.greedy_only else 1.0, **kwargs)


@pytest.mark.parametrize(("rule", "proposal"), COMBINATIONS)
def test_no_number_is_read_twice_under_any_rule(rule: str, proposal: str, make_engine, noise_reads: list) -> None:
    """Two requests of many rounds each; in coupled mode once for each side."""
    engine, params, texts = make_engine(rule, proposal), params_of(RULES[rule], seed=5), []
    with _sides(engine, noise_reads) as drafted:
        for request in range(2):
            generation = engine.generate([1, 2, 1, 2], params, 32, request=request)
            assert len(generation.trace.rounds) >= 5
            assert any(r.draft_tokens for r in generation.trace.rounds)
            texts.append(generation.tokens)
    if RULES[rule].greedy_only and proposal != "coupled":
        assert noise_reads == [], "one-hot laws need no noise"
        return
    judged = [key for key, of_drafter in zip(noise_reads, drafted) if not of_drafter]
    assert len(judged) > 10
    assert len(set(judged)) == len(judged)
    assert {key[:2] for key in noise_reads} == {(5, 0), (5, 1)}
    if proposal == "coupled":
        _check_coupled(noise_reads, drafted)
    else:
        assert len(set(noise_reads)) == len(noise_reads)
    assert len(set(texts)) == 2


class _sides:
    """While open, notes for every read whether the drafter made it."""

    def __init__(self, engine: Engine, reads: list) -> None:
        self._engine, self._reads, self._marks = engine, reads, []

    def __enter__(self) -> "_sides":
        drafter = self._engine.drafter
        propose = drafter.propose

        def marked(*args: Any) -> Draft:
            before = len(self._reads)
            draft = propose(*args)
            self._marks.append((before, len(self._reads)))
            return draft

        drafter.propose = marked  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: Any) -> None: ...

    def __iter__(self) -> Iterator[bool]:
        inside = {index for before, after in self._marks for index in range(before, after)}
        return iter([index in inside for index in range(len(self._reads))])


def _check_coupled(reads: list, drafted: Any) -> None:
    """The drafter reads nothing but what the target's own draws read, each key once in a round.

    A refused position is drafted again in the next round with the same noise: that is what the coupling is for, since
    the target's draw there has not been made yet. Only the target's draws are emitted.
    """
    by_drafter = [key for key, of_drafter in zip(reads, drafted) if of_drafter]
    assert by_drafter
    assert {key[4] for key in by_drafter} == {"sample"}
    assert {key[4] for key in reads} == {"sample"}
    assert {key[3] for key in reads} == {0}, "keyed by the position in the text alone"
    common = set(by_drafter) & {key for key, of_drafter in zip(reads, drafted) if not of_drafter}
    assert len(common) > 0.8 * len(set(by_drafter)), "but for positions past the end of the text"


@pytest.mark.parametrize(("rule", "proposal"), COMBINATIONS)
def test_a_request_does_not_depend_on_what_else_is_served(rule: str, proposal: str, make_engine) -> None:
    """The same request index gives the same tokens with any neighbours, before and after, of any prompt."""
    params, engine = params_of(RULES[rule], seed=3), make_engine(rule, proposal)
    alone = make_engine(rule, proposal).generate([1, 2, 1], params, 15, request=7).tokens
    for neighbours in ([], [3, 1]):
        for request in neighbours:
            engine.generate([request % VOCAB, 2], params, 6, request=request)
        assert engine.generate([1, 2, 1], params, 15, request=7).tokens == alone
    if not RULES[rule].greedy_only:
        fresh = {engine.generate([1, 2, 1], params_of(RULES[rule]), 15).tokens for _ in range(2)}
        assert len(fresh) == 2, "requests without a seed share nothing"


# --- independence across rounds and requests ---

UNIFORM = [1.0 / VOCAB] * VOCAB
SLANTED = [0.4, 0.2, 0.1, 0.1, 0.1, 0.1]
LAGS = range(1, 9)
LOSSLESS = [(rule, proposal) for rule, proposal in COMBINATIONS if RULES[rule].lossless and not RULES[rule].greedy_only]


def serial_p_value(texts: Sequence[Sequence[int]]) -> float:
    """The smallest p-value over lags, times their number.

    For independent uniform tokens the differences x_(t+lag) - x_t mod VOCAB are independent and uniform themselves, so
    each lag is one exact chi-square test of all rounds together.
    """
    values = []
    for lag in LAGS:
        differences = [(b - a) % VOCAB for text in texts for a, b in zip(text, text[lag:])]
        values.append(stats.chisquare([differences.count(x) for x in range(VOCAB)]).pvalue)
    return min(values) * len(values)


def texts_of(engine: Engine, requests: int, length: int, source: CoinSource | None = None) -> list[tuple[int, ...]]:
    params = SamplingParams(seed=11)
    return [engine.generate([0], params, length, request=r, coins=source).tokens for r in range(requests)]


@pytest.mark.parametrize("size", [(2, 60), pytest.param((20, 200), marks=pytest.mark.slow)], ids=["120", "4000"])
@pytest.mark.parametrize(("rule", "proposal"), LOSSLESS)
def test_tokens_of_different_rounds_and_requests_are_independent(
    rule: str, proposal: str, size: tuple[int, int], make_engine
) -> None:
    """An i.i.d. uniform target, drafts from another law; alpha 1e-5 for each of the two tests."""
    engine = make_engine(rule, proposal, lambda prefix: UNIFORM, lambda prefix: SLANTED)
    texts = texts_of(engine, *size)
    assert serial_p_value(texts) > 1e-5
    across = [(b - a) % VOCAB for one, two in zip(texts, texts[1:]) for a, b in zip(one, two)]
    assert stats.chisquare([across.count(x) for x in range(VOCAB)]).pvalue > 1e-5


class _SameEveryRound:
    """The planted bug: noise made once for a prompt and used again in every round (Sequoia's tree)."""

    def __init__(self, seed: int) -> None:
        self._source = PhiloxCoins(seed)

    def at(self, *, request: int, length: int) -> Coins:
        return self._source.at(request=request, length=1)


@pytest.mark.parametrize(("rule", "proposal"), [("chain", "chain"), ("traversal", "iid")])
def test_noise_used_again_in_each_round_shows_in_the_joint_alone(rule: str, proposal: str, make_engine) -> None:
    """Single tokens keep their law over many requests; lagged pairs give it away at once."""
    engine = make_engine(rule, proposal, lambda prefix: UNIFORM, lambda prefix: UNIFORM)
    reused = texts_of(engine, 4, 60, _SameEveryRound(11))
    assert serial_p_value(reused) < 1e-12
    second_round = [
        engine.generate([0], SamplingParams(), 9, request=r, coins=_SameEveryRound(5)).tokens[-1] for r in range(100)
    ]
    assert stats.chisquare([second_round.count(x) for x in range(VOCAB)]).pvalue > 1e-3


def test_one_noise_for_all_requests_shows_across_them(make_engine) -> None:
    """The planted bug of engine-wide streams: the test above sees it."""

    class Shared(PhiloxCoins):
        def at(self, *, request: int, length: int) -> Any:
            return super().at(request=0, length=length)

    engine = make_engine("chain", "chain", lambda prefix: UNIFORM, lambda prefix: SLANTED)
    one, two = texts_of(engine, 2, 60, Shared(11))
    assert one == two
