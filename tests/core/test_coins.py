"""The production noise: known answers, keys, order, uniformity."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy import stats
import torch

from specdec_core.coins import NoiseKey, PhiloxCoins, ScriptedCoins
from specdec_core.coins.philox import philox4x32
from specdec_core.draft import DraftTree
from specdec_core.rules import verify_chain

# Random123, known-answer vectors of philox4x32-10: counter, key, output
KNOWN_ANSWERS = [
    ([0, 0, 0, 0], (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
WORD = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_philox_known_answers(counter: list[int], key: tuple[int, int], output: list[int]) -> None:
    assert philox4x32(np.array([counter], dtype=np.uint32), key).tolist() == [output]


def scalar_philox(counter: list[int], key: tuple[int, int]) -> list[int]:
    """The generator as its paper writes it, in whole numbers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


@given(st.lists(st.lists(WORD, min_size=4, max_size=4), max_size=5), st.tuples(WORD, WORD))
def test_philox_blocks_are_independent_of_their_company(counters: list[list[int]], key: tuple[int, int]) -> None:
    rows = np.array(counters, dtype=np.uint32).reshape(-1, 4)
    assert philox4x32(rows, key).tolist() == [scalar_philox(counter, key) for counter in counters]


def test_key_layout_is_the_documented_one() -> None:
    key = NoiseKey(seed=0x1122334455667788, request=7, length=40, node=3, purpose="recover")
    for token in (0, 1, 5, 4093):
        word = scalar_philox([token // 4, 40, 7, 3 * 8 + 2], (0x55667788, 0x11223344))[token % 4]
        assert key.words(np.array([token], dtype=np.uint32)).tolist() == [word]


@given(st.lists(st.integers(0, 50_000), max_size=40), st.sampled_from(["draft", "accept", "sample"]))
def test_a_token_keeps_its_noise_whatever_else_is_asked(ids: list[int], purpose) -> None:
    key = NoiseKey(3, 1, 20, 2, purpose)
    alone = [int(key.words(np.array([token], dtype=np.uint32))[0]) for token in ids]
    assert key.words(np.array(ids, dtype=np.uint32)).tolist() == alone


def test_every_field_of_the_key_changes_the_noise() -> None:
    base = NoiseKey(seed=1, request=2, length=3, node=4, purpose="draft")
    ids = np.arange(8, dtype=np.uint32)
    others = [
        dataclasses.replace(base, **change)
        for change in (
            {"seed": 2},
            {"seed": 1 + 2**32},
            {"request": 3},
            {"length": 4},
            {"node": 5},
            {"purpose": "accept"},
            {"purpose": "sample"},
        )
    ]
    streams = [tuple(key.words(ids).tolist()) for key in (base, *others)]
    assert len(set(streams)) == len(streams)


def test_the_same_key_gives_the_same_number_in_any_order() -> None:
    weights = [0.2, 0.3, 0.5]

    def ask(order: list[int]) -> dict[int, tuple[int, float | None]]:
        coins = PhiloxCoins(11).at(request=4, length=9)
        answers = {}
        for node in order:
            token = coins.draw(weights, node=node, purpose="draft")
            coins.accept(0.3, 0.5, node=node)
            answers[node] = (token, coins.events[-1].uniform)
        return answers

    assert ask([0, 1, 2, 3]) == ask([3, 1, 0, 2])


def test_rounds_do_not_disturb_each_other() -> None:
    source = PhiloxCoins(11)
    first = source.at(request=0, length=5)
    source.at(request=0, length=6).accept(0.5, 1.0, node=0)
    first.accept(0.5, 1.0, node=0)
    again = PhiloxCoins(11).at(request=0, length=5)
    again.accept(0.5, 1.0, node=0)
    assert first.events == again.events


@pytest.mark.parametrize("purpose", ["draft", "recover", "bonus", "sample"])
def test_no_key_is_answered_twice(purpose) -> None:
    coins = PhiloxCoins(1).at(request=0, length=1)
    coins.draw([1.0, 1.0], node=0, purpose=purpose)
    coins.draw([1.0, 1.0], node=1, purpose=purpose)
    with pytest.raises(ValueError, match=f"purpose '{purpose}' at node 0 was already asked"):
        coins.draw([1.0, 1.0], node=0, purpose=purpose)


def test_no_accept_is_answered_twice() -> None:
    coins = PhiloxCoins(1).at(request=0, length=1)
    coins.accept(0.5, 1.0, node=0)
    with pytest.raises(ValueError, match="purpose 'accept' at node 0 was already asked"):
        coins.accept(0.5, 1.0, node=0)


@pytest.mark.parametrize(("vary", "count"), [("request", 10_000), ("length", 2_000), ("node", 2_000)])
def test_uniforms_lie_in_the_half_open_unit_interval_and_are_uniform(vary: str, count: int, bulk_noise: None) -> None:
    """Uniforms of consecutive keys; Kolmogorov-Smirnov and the correlation of neighbours, alpha 1e-4 each."""
    fields = {"seed": 8, "request": 1, "length": 1, "node": 1, "purpose": "accept"}
    uniforms = np.array([NoiseKey(**{**fields, vary: value}).uniform() for value in range(count)])
    assert uniforms.min() >= 0
    assert uniforms.max() < 1
    assert stats.kstest(uniforms, "uniform").pvalue > 1e-4
    assert stats.pearsonr(uniforms[:-1], uniforms[1:]).pvalue > 1e-4


@pytest.mark.parametrize(("word", "uniform"), [(0, 0.0), (2**31, 0.5), (2**32 - 1, 1 - 2**-32)])
def test_the_ends_of_the_uniform(word: int, uniform: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseKey, "words", lambda key, ids: np.full(len(ids), word, dtype=np.uint32))
    assert NoiseKey(0, 0, 0, 0, "accept").uniform() == uniform


def test_accept_is_the_strict_comparison_with_its_uniform() -> None:
    for node in range(50):
        coins = PhiloxCoins(2).at(request=0, length=1)
        probe = PhiloxCoins(2).at(request=0, length=1)
        probe.accept(1.0, 1.0, node=node)
        u = probe.events[0].uniform
        assert u is not None
        assert coins.accept(u, 1.0, node=node) is False, "u * q < p is strict"
        assert PhiloxCoins(2).at(request=0, length=1).accept(np.nextafter(u, 1), 1.0, node=node)


@pytest.mark.parametrize("node", [0, 1])
def test_draft_and_accept_noise_of_a_node_are_independent(node: int, bulk_noise: None) -> None:
    """Correlation of the draw's exponential and the accept's uniform over 4,000 rounds, alpha 1e-4."""
    ids = np.zeros(1, dtype=np.uint32)
    drawn = [NoiseKey(5, r, 7, node, "draft").exponentials(ids)[0] for r in range(4_000)]
    judged = [NoiseKey(5, r, 7, node, "accept").uniform() for r in range(4_000)]
    assert stats.spearmanr(drawn, judged).pvalue > 1e-4


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", -1), ("seed", 2**64), ("request", -1), ("request", 2**32), ("length", 2**32), ("node", 2**29)],
)
def test_a_key_out_of_range_is_refused(name: str, value: int) -> None:
    fields = {"seed": 0, "request": 0, "length": 0, "node": 0, "purpose": "draft"}
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        NoiseKey(**{**fields, name: value})


def test_the_largest_key_works() -> None:
    key = NoiseKey(2**64 - 1, 2**32 - 1, 2**32 - 1, 2**29 - 1, "sample")
    expected = scalar_philox([0x3FFFFFFF, 2**32 - 1, 2**32 - 1, (2**29 - 1) * 8 + 4], (0xFFFFFFFF, 0xFFFFFFFF))
    assert key.words(np.array([0xFFFFFFFF], dtype=np.uint32)).tolist() == [expected[3]]


def test_an_unknown_purpose_and_a_bad_seed_are_refused() -> None:
    with pytest.raises(ValueError, match="purpose is 'recovery'"):
        NoiseKey(0, 0, 0, 0, "recovery")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="seed is -1"):
        PhiloxCoins(-1)


def test_sources_without_a_seed_differ() -> None:
    assert len({PhiloxCoins().seed for _ in range(20)}) == 20


def test_a_script_runs_on_through_the_rounds_and_each_begins_its_events_anew():
    coins = ScriptedCoins([0.1, 0.9, 0.2])
    assert coins.at(request=0, length=3) is coins
    assert coins.accept(0.5, 1.0, node=0)
    assert [event.uniform for event in coins.events] == [0.1]
    assert coins.at(request=0, length=4).events == []
    assert not coins.accept(0.5, 1.0, node=0)
    assert [event.uniform for event in coins.events] == [0.9]
    assert coins.used == [0.1, 0.9]


def test_numbers_that_are_not_whole_are_refused() -> None:
    for call in (
        lambda: PhiloxCoins(1.0),
        lambda: PhiloxCoins(1).at(request=0, length=1.5),
        lambda: PhiloxCoins(1).at(request="0", length=1),
    ):
        with pytest.raises(ValueError, match="(seed|length|request) is .*; a noise key takes whole numbers"):
            call()
    with pytest.raises(ValueError, match=r"tokens\[0\] is 1.7; expected a whole number"):
        DraftTree.chain([1.7])
    for token in (0.0, True):
        with pytest.raises(ValueError, match="draft_tokens.0. is .*; expected a whole number"):
            verify_chain([token], None, torch.full((2, 2), 0.5), ScriptedCoins([0.5] * 2))


def test_laws_under_a_gradient_are_judged_without_a_warning() -> None:
    p = torch.full((2, 2), 0.5, requires_grad=True)
    assert verify_chain([0], p[:1], p, ScriptedCoins([0.1, 0.9])).num_accepted == 1
