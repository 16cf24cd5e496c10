"""Draws: the exponential race follows its weights, deep tails included; scripted draws; what cannot be drawn."""

from fractions import Fraction
import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import stats
import torch

from specdec_core.coins import EnumeratingCoins, NoiseKey, PhiloxCoins, ScriptedCoins, branches, inverse_cdf, noise


def draws(weights, count: int, seed: int = 3) -> np.ndarray:
    source = PhiloxCoins(seed)
    return np.array(
        [source.at(request=request, length=4).draw(weights, node=0, purpose="draft") for request in range(count)]
    )


@pytest.mark.parametrize(
    "weights",
    [
        [0.5, 0.5],
        [0.1, 0.2, 0.0, 0.3, 0.4],
        [5, 1, 1],
        [1e-3, 0.099, 0.9],
        [0.01] * 50 + [0.5],
    ],
)
def test_the_race_follows_the_weights(weights: list[float], bulk_noise: None) -> None:
    """6,000 draws, chi-square, alpha 1e-4 each."""
    support = np.flatnonzero(weights)
    counts = np.bincount(draws(weights, 6_000), minlength=len(weights))[support]
    expected = np.array(weights)[support] / np.sum(weights) * 6_000
    assert stats.chisquare(counts, expected).pvalue > 1e-4


def test_scale_and_kind_of_the_weights_do_not_matter() -> None:
    weights = [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    as_floats = [float(weight) for weight in weights]
    reference = draws(weights, 100)
    assert (draws(as_floats, 100) == reference).all()
    assert (draws([weight * 1000 for weight in as_floats], 100) == reference).all()
    assert (draws(torch.tensor(as_floats, dtype=torch.float64), 100) == reference).all()


def test_a_token_outside_the_support_does_not_change_the_winner() -> None:
    dense = [0.0] * 40
    dense[3], dense[17], dense[39] = 0.2, 0.5, 0.3
    longer = dense + [0.0] * 100
    assert (draws(dense, 200) == draws(longer, 200)).all()


@pytest.mark.parametrize("tiny", [1e-4, 1e-6, 1e-9])
def test_tiny_masses_win_at_their_rate(tiny: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importance sampling: the tiny token's word is drawn below 2^32 * c only, and a win counts c.

    A win needs E < tiny * (E of the rest / its mass), so words above c = 40 * tiny cannot win but once in e^-40.
    3,000 races, some 75 wins: the rate is known within 12 %; alpha 1e-4 (3.9 standard deviations, 45 %).
    """
    races, span = 3_000, 40 * tiny
    words = NoiseKey.words

    def low_words(key: NoiseKey, ids: np.ndarray) -> np.ndarray:
        answer = words(key, ids)
        if ids[0] == 0:
            # strata of the low end: k is the race's own share of 2^32 * span, real noise within it
            answer[0] = int((key.request + answer[0] * 2.0**-32) / races * span * 2**32)
        return answer

    monkeypatch.setattr(noise.NoiseKey, "words", low_words)
    wins = (draws([tiny, (1 - tiny) / 2, (1 - tiny) / 2], races) == 0).sum()
    estimate = wins / races * span
    assert estimate == pytest.approx(tiny, rel=0.45)


def test_the_low_end_of_the_noise_is_fine_and_uniform(bulk_noise: None) -> None:
    """2^20 words: how many fall below 2^-k for k = 6..16, chi-square over octaves, alpha 1e-4."""
    ids = np.arange(1 << 20, dtype=np.uint32)
    uniforms = -np.expm1(-NoiseKey(9, 0, 1, 0, "draft").exponentials(ids))
    edges = [0.0, *(2.0**-k for k in range(16, 0, -1)), 1.0]
    counts, _ = np.histogram(uniforms, edges)
    assert stats.chisquare(counts, np.diff(edges) * len(ids)).pvalue > 1e-4
    assert uniforms.min() > 0
    assert uniforms.min() < 2.0**-17


@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_the_extreme_words_give_finite_positive_times(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseKey, "words", lambda key, ids: np.full(len(ids), word, dtype=np.uint32))
    times = NoiseKey(0, 0, 0, 0, "draft").exponentials(np.arange(2, dtype=np.uint32))
    assert (times > 0).all()
    assert np.isfinite(times.astype(np.float32)).all()
    if word:
        assert times[0] == pytest.approx(24 * math.log(2))


def test_equal_times_go_to_the_lowest_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseKey, "words", lambda key, ids: np.full(len(ids), 7, dtype=np.uint32))
    assert (draws([0.0, 0.25, 0.25, 0.5, 0.5], 1) == 3).all()


def test_a_single_candidate_reads_no_noise(noise_reads: list) -> None:
    assert PhiloxCoins(1).at(request=0, length=1).draw([0.0, 0.0, 1e-30], node=0, purpose="bonus") == 2
    assert noise_reads == []


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1.0)), min_size=1, max_size=8).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_inverse_cdf_is_the_documented_search(weights: list[float], v: float) -> None:
    total, running, found = math.fsum(weights), 0.0, None
    for index, weight in enumerate(weights):
        running += weight
        if weight and running > v * total:
            found = index
            break
    answer = inverse_cdf(weights, v)
    assert weights[answer] > 0
    # within rounding of an edge the neighbour is as right
    edges = np.cumsum(weights) / total
    if np.abs(edges - v).min() > 1e-12:
        assert answer == found


@pytest.mark.parametrize(("v", "index"), [(0.25, 1), (0.2499, 0), (0.5, 3), (0.75, 4)])
def test_inverse_cdf_at_an_edge_takes_the_next_index_of_positive_weight(v: float, index: int) -> None:
    assert inverse_cdf([0.25, 0.25, 0.0, 0.25, 0.25], v) == index


def test_scripted_coins_take_their_numbers_in_order() -> None:
    coins = ScriptedCoins([0.4, 0.6, 0.0])
    assert coins.accept(0.5, 1.0, node=0)
    assert coins.draw([0.5, 0.5], node=0, purpose="recover") == 1
    assert coins.accept(0.1, 1.0, node=1)
    assert coins.used == [0.4, 0.6, 0.0]
    assert [(event.purpose, event.node, event.uniform) for event in coins.events] == [
        ("accept", 0, 0.4),
        ("recover", 0, 0.6),
        ("accept", 1, 0.0),
    ]
    with pytest.raises(ValueError, match="the script has 3 uniforms and all are used"):
        coins.accept(0.1, 1.0, node=2)


@pytest.mark.parametrize("u", [-0.1, 1.0, float("nan")])
def test_a_uniform_outside_its_interval_is_refused(u: float) -> None:
    with pytest.raises(ValueError, match=r"uniforms\[1\] is"):
        ScriptedCoins([0.5, u])
    with pytest.raises(ValueError, match="v is"):
        inverse_cdf([0.5, 0.5], u)


BAD_WEIGHTS = [
    ([0.5, -0.5], r"weights\[1\] is -0\.5"),
    ([0.5, float("nan")], r"weights\[1\] is nan"),
    ([float("inf"), 0.5], r"weights\[0\] is inf"),
    ([0.0, 0.0], "weights has no positive entry"),
    ([], "weights has no positive entry"),
]


@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS)
def test_weights_that_cannot_be_drawn_are_refused(weights: list[float], message: str) -> None:
    for coins in (PhiloxCoins(1).at(request=0, length=1), ScriptedCoins([0.5])):
        for kind in (weights, torch.tensor(weights)):
            with pytest.raises(ValueError, match=message):
                coins.draw(kind, node=0, purpose="sample")
            coins = PhiloxCoins(1).at(request=0, length=1)


def test_a_matrix_of_weights_is_refused() -> None:
    with pytest.raises(ValueError, match=r"weights has shape \(1, 2\)"):
        PhiloxCoins(1).at(request=0, length=1).draw(torch.full((1, 2), 0.5), node=0, purpose="sample")


@pytest.mark.parametrize("mass", [0.5, True, torch.tensor(0.5), np.float64(0.5)])
def test_enumeration_takes_exact_numbers_only(mass) -> None:
    coins = EnumeratingCoins([])
    with pytest.raises(ValueError, match="p holds"):
        coins.accept(mass, Fraction(1), node=0)
    with pytest.raises(ValueError, match="weights holds"):
        coins.draw([mass, Fraction(1)], node=0, purpose="draft")


@pytest.mark.parametrize(("p", "q", "answers"), [(0, 0, {False}), (1, 0, {True}), (0, 1, {False}), (2, 1, {True})])
def test_enumeration_agrees_with_the_strict_comparison_at_the_ends(p: int, q: int, answers: set[bool]) -> None:
    """For every u in [0, 1) the question u * q < p has one answer here, also where q is 0."""
    seen = {answer for _, answer in branches(lambda coins: coins.accept(p, q, node=0))}
    assert seen == answers
    assert {ScriptedCoins([u]).accept(p, q, node=0) for u in (0.0, 0.5, 0.999)} == answers


def test_enumeration_refuses_negative_and_empty_weights() -> None:
    coins = EnumeratingCoins([])
    with pytest.raises(ValueError, match="weights is .*not negative"):
        coins.draw([Fraction(1), Fraction(-1)], node=0, purpose="draft")
    with pytest.raises(ValueError, match="weights has no positive entry"):
        coins.draw([Fraction(0)], node=0, purpose="draft")
    with pytest.raises(ValueError, match="p is -1"):
        coins.accept(Fraction(-1), Fraction(1), node=0)
