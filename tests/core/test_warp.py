"""`SamplingParams.probs` against a slow reference in float64, filter by filter and together."""

from collections.abc import Sequence
import math
import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.warp import GREEDY_BELOW, SamplingParams

NEAR = 1e-5


def reference(
    logits: Sequence[float], params: SamplingParams, history: Sequence[int] = (), prompt_length: int = 0
) -> list[float] | None:
    """The documented definition, step by step; None when a filter's edge is too near to call in float32.

    An empty list when everything is banned.
    """
    scores = list(logits)
    for token in set(history):
        scores[token] *= 1 / params.repetition_penalty if scores[token] > 0 else params.repetition_penalty
    for token in set(history[prompt_length:]):
        count = list(history[prompt_length:]).count(token)
        scores[token] -= params.frequency_penalty * count + params.presence_penalty
    for token, bias in params.logit_bias.items():
        scores[token] += bias
    if params.allowed_ids is not None:
        scores = [score if token in params.allowed_ids else -math.inf for token, score in enumerate(scores)]
    for *before, last in params.bad_words:
        if before == list(history)[len(history) - len(before) :]:
            scores[last] = -math.inf
    if max(scores) == -math.inf:
        return []
    if params.temperature < GREEDY_BELOW:
        return [float(token == scores.index(max(scores))) for token in range(len(scores))]
    scores = [score / params.temperature for score in scores]
    if params.top_k:
        smallest = sorted(scores, reverse=True)[: params.top_k][-1]
        if any(0 < abs(score - smallest) < NEAR for score in scores):
            return None
        scores = [score if score >= smallest else -math.inf for score in scores]
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    probs = [weight / sum(weights) for weight in weights]
    probs = _nucleus(probs, params.top_p)
    if probs is None:
        return None
    edge = params.min_p * max(probs)
    if params.min_p and any(0 < abs(prob - edge) < NEAR and prob != max(probs) for prob in probs):
        return None
    probs = [prob if prob >= edge else 0.0 for prob in probs]
    return [prob / sum(probs) for prob in probs]


def _nucleus(probs: list[float], top_p: float) -> list[float] | None:
    kept, before = [0.0] * len(probs), 0.0
    for token in sorted(range(len(probs)), key=lambda t: (-probs[t], t)):
        if top_p < 1 and abs(before - top_p) < NEAR:
            return None
        if top_p < 1 and before >= top_p:
            break
        kept[token] = probs[token]
        before += probs[token]
    return [prob / sum(kept) for prob in kept]


# few distinct values, so that ties are common
LOGITS = st.lists(st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0, 3.5]), min_size=1, max_size=9)
FILTERS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.9]),
    top_k=st.integers(0, 10),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 1.0)),
    min_p=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
)


@given(LOGITS, FILTERS)
def test_filters_match_the_slow_reference(logits: list[float], params: SamplingParams) -> None:
    expected = reference(logits, params)
    assume(expected is not None)
    probs = params.probs(torch.tensor([logits]))[0].tolist()
    assert probs == pytest.approx(expected, abs=2e-6)
    assert [prob > 0 for prob in probs] == [prob > 0 for prob in expected or ()]


@given(st.data(), LOGITS)
def test_penalties_and_bias_match_the_slow_reference(data: st.DataObject, logits: list[float]) -> None:
    token = st.integers(0, len(logits) - 1)
    history = data.draw(st.lists(token, max_size=8))
    prompt_length = data.draw(st.integers(0, len(history)))
    params = SamplingParams(
        repetition_penalty=data.draw(st.sampled_from([1.0, 1.3, 0.8])),
        frequency_penalty=data.draw(st.sampled_from([0.0, 0.5, -0.25])),
        presence_penalty=data.draw(st.sampled_from([0.0, 0.4, -1.0])),
        logit_bias=data.draw(st.dictionaries(token, st.sampled_from([-1.5, 0.5, 2.0]), max_size=3)),
    )
    expected = reference(logits, params, history, prompt_length)
    probs = params.probs(torch.tensor([logits]), [history], prompt_length=prompt_length)[0].tolist()
    assert probs == pytest.approx(expected, abs=2e-6)


@st.composite
def whole_params(draw: st.DrawFn, vocab: int) -> SamplingParams:
    """Every parameter at once, in numbers that float32 adds and halves exactly, so that ties stay ties."""
    token = st.integers(0, vocab - 1)
    words = st.lists(st.lists(token, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple)
    return SamplingParams(
        repetition_penalty=draw(st.sampled_from([1.0, 2.0, 0.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.5, -0.25])),
        presence_penalty=draw(st.sampled_from([0.0, 0.5, -1.0])),
        logit_bias=draw(st.dictionaries(token, st.sampled_from([-1.5, 0.5, 2.0, -math.inf]), max_size=3)),
        allowed_ids=draw(st.none() | st.lists(token, min_size=1, max_size=4).map(tuple)),
        bad_words=draw(words),
        temperature=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        top_k=draw(st.integers(0, 5)),
        top_p=draw(st.sampled_from([1.0, 0.9, 0.6, 0.2])),
        min_p=draw(st.sampled_from([0.0, 0.1, 0.6])),
    )


@settings(max_examples=120)
@given(st.data(), LOGITS)
def test_all_steps_together_are_taken_in_the_documented_order(data: st.DataObject, logits: list[float]) -> None:
    params = data.draw(whole_params(len(logits)))
    history = data.draw(st.lists(st.integers(0, len(logits) - 1), max_size=6))
    prompt_length = data.draw(st.integers(0, len(history)))
    expected = reference(logits, params, history, prompt_length)
    assume(expected is not None)
    rows = torch.tensor([logits])
    if not expected:
        with pytest.raises(ValueError, match="everything is banned in row 0"):
            params.probs(rows, [history], prompt_length=prompt_length)
        return
    probs = params.probs(rows, [history], prompt_length=prompt_length)[0].tolist()
    assert probs == pytest.approx(expected, abs=2e-6)
    assert [prob > 0 for prob in probs] == [prob > 0 for prob in expected]


@given(st.lists(LOGITS.filter(lambda row: len(row) >= 3).map(lambda row: row[:3]), min_size=1, max_size=5), FILTERS)
def test_rows_do_not_influence_each_other(rows: list[list[float]], params: SamplingParams) -> None:
    together = params.probs(torch.tensor(rows))
    alone = torch.cat([params.probs(torch.tensor([row])) for row in rows])
    assert torch.equal(together, alone), "the same bits: a drafter's row and the verifier's are compared strictly"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.7, top_k=50),
        SamplingParams(top_p=0.9),
        SamplingParams(min_p=1e-4),
        SamplingParams(temperature=1.5, top_k=3000, top_p=0.95, min_p=1e-3),
    ],
)
def test_rows_of_a_real_vocabulary_are_the_same_bits_alone_and_together(params: SamplingParams, threads: int) -> None:
    """The size at which torch splits a sum over threads, which changes its rounding."""
    before = torch.get_num_threads()
    logits = torch.randn(5, 49_152, generator=torch.Generator().manual_seed(1)) * 3
    try:
        torch.set_num_threads(threads)
        together = params.probs(logits)
        alone = torch.cat([params.probs(row[None]) for row in logits])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(together, alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_law_is_float32_and_sums_to_one(dtype: torch.dtype) -> None:
    logits = torch.linspace(-5, 5, 1000, dtype=torch.float32).repeat(3, 1).to(dtype)
    for params in (SamplingParams(), SamplingParams(temperature=0.4, top_k=50, top_p=0.9, min_p=0.01)):
        probs = params.probs(logits)
        assert probs.dtype == torch.float32
        assert probs.sum(-1).tolist() == pytest.approx([1.0] * 3, abs=1e-5)


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("spread", [0.0, 0.001, 1.0, 5.0])
def test_top_p_over_a_vocabulary_larger_than_its_first_look(top_p: float, spread: float) -> None:
    logits = torch.arange(3000, dtype=torch.float64).mul(0.7).sin().mul(spread)
    probs = SamplingParams(top_p=top_p).probs(logits[None])[0]
    exact = torch.softmax(logits.float(), -1).double()
    order = torch.sort(exact, descending=True, stable=True)
    before = order.values.cumsum(0) - order.values
    sure = (before - top_p).abs() > 1e-4
    kept = torch.zeros(3000, dtype=torch.bool)
    kept[order.indices] = before < top_p
    clear = torch.zeros(3000, dtype=torch.bool)
    clear[order.indices] = sure
    assert torch.equal((probs > 0)[clear], kept[clear])
    assert clear.float().mean() > 0.5, "the comparison must cover most of the vocabulary"


def test_top_p_keeps_the_token_that_crosses_and_stops_exactly_at_the_edge() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()

    def support(top_p: float) -> list[int]:
        return SamplingParams(top_p=top_p).probs(logits)[0].nonzero()[:, 0].tolist()

    assert support(0.5) == [0]
    assert support(0.51) == [0, 1]
    assert support(0.75) == [0, 1]
    assert support(0.76) == [0, 1, 2], "of two equal tokens the lower id enters first"
    assert support(1e-9) == [0]


def test_top_k_keeps_ties_with_the_last() -> None:
    logits = torch.tensor([[1.0, 2.0, 2.0, 3.0, 0.0]])

    def support(k: int) -> list[int]:
        return SamplingParams(top_k=k).probs(logits)[0].nonzero()[:, 0].tolist()

    assert support(1) == [3]
    assert support(2) == [1, 2, 3]
    assert support(3) == [1, 2, 3]
    assert support(4) == [0, 1, 2, 3]
    assert support(0) == support(5) == support(50) == [0, 1, 2, 3, 4]


def test_top_k_among_banned_tokens_draws_none_of_them() -> None:
    logits = torch.tensor([[-math.inf, 1.0, -math.inf, -math.inf]])
    assert SamplingParams(top_k=3).probs(logits).tolist() == [[0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=0), SamplingParams(top_p=0.9)])
def test_a_bias_of_minus_infinity_bans_a_token(params: SamplingParams) -> None:
    banned = SamplingParams(temperature=params.temperature, top_p=params.top_p, logit_bias={0: -math.inf, 2: -math.inf})
    law = banned.probs(torch.tensor([[5.0, 1.0, 9.0, 0.0]]))[0]
    assert law[[0, 2]].tolist() == [0.0, 0.0]
    assert float(law.sum()) == pytest.approx(1.0)


def test_a_ban_survives_penalties() -> None:
    params = SamplingParams(
        logit_bias={0: -math.inf}, repetition_penalty=0.5, frequency_penalty=-2.0, presence_penalty=-2.0
    )
    law = params.probs(torch.tensor([[5.0, 1.0]]), [[0, 0, 1]])[0]
    assert law.tolist() == [0.0, 1.0]
    # a model that rules a token out keeps doing so, whatever the penalties add
    by_model = params.probs(torch.tensor([[5.0, 1.0, -math.inf]]), [[2, 2, 1]])[0]
    assert by_model.tolist() == [0.0, 1.0, 0.0]


def test_the_logits_are_not_written_to() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    before = logits.clone()
    SamplingParams(temperature=0.5, top_k=2, top_p=0.5, min_p=0.1, repetition_penalty=1.5, logit_bias={0: 1.0}).probs(
        logits, [[0, 1]]
    )
    assert torch.equal(logits, before)


def test_greedy_starts_at_the_stated_temperature() -> None:
    logits = torch.tensor([[1.0, 2.0, 1.9999]])
    assert SamplingParams(temperature=GREEDY_BELOW / 2).is_greedy
    assert not SamplingParams(temperature=GREEDY_BELOW).is_greedy
    assert SamplingParams(temperature=GREEDY_BELOW / 2).probs(logits).tolist() == [[0.0, 1.0, 0.0]]
    cold = SamplingParams(temperature=GREEDY_BELOW).probs(logits)[0]
    assert torch.isfinite(cold).all()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([1.0, math.nan], "a NaN or \\+inf"),
        ([1.0, math.inf], "a NaN or \\+inf"),
        ([-math.inf, -math.inf], "nothing but -inf"),
    ],
)
def test_a_row_without_a_law_is_refused_by_name(row: list[float], fault: str, temperature: float) -> None:
    logits = torch.tensor([[0.0, 1.0], [2.0, -math.inf], row])
    with pytest.raises(ValueError, match=f"logits row 2 holds {fault}"):
        SamplingParams(temperature=temperature).probs(logits)


def test_banning_everything_is_refused() -> None:
    params = SamplingParams(logit_bias={0: -math.inf, 1: -math.inf})
    with pytest.raises(ValueError, match="everything is banned in row 0"):
        params.probs(torch.tensor([[0.0, 1.0]]))


@pytest.mark.parametrize("stop", [(-5,), (3, -5)])
def test_a_negative_stop_id_is_refused_by_name(stop: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="stop holds -5; expected token ids, at least 0"):
        SamplingParams(stop=stop)


@pytest.mark.parametrize("token", [-1, 2])
def test_a_bias_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(ValueError, match=f"logit_bias names token {token}"):
        SamplingParams(logit_bias={token: 1.0}).probs(torch.tensor([[0.0, 1.0]]))


@pytest.mark.parametrize("history", [None, [[0]]])
def test_penalties_without_a_history_for_each_row_are_refused(history) -> None:
    with pytest.raises(ValueError, match="history has"):
        SamplingParams(presence_penalty=0.1).probs(torch.zeros(2, 3), history)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("frequency_penalty", math.inf),
        ("presence_penalty", math.nan),
        ("temperature", 1e39),
        ("repetition_penalty", 1e39),
        ("seed", -1),
        ("seed", 2**64),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(f"{name} is {value}")):
        SamplingParams(**{name: value})


def test_parameters_become_plain_data() -> None:
    data = SamplingParams(temperature=0.5, logit_bias={3: -math.inf, 1: 2.0}, stop=(7, 8), seed=5).to_dict()
    assert data["logit_bias"] == {"3": "-inf", "1": 2.0}
    assert data["stop"] == [7, 8]
    assert (data["temperature"], data["seed"]) == (0.5, 5)
