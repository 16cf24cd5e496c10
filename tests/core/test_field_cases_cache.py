"""Reported cases on cache rows and masks at toy level: P20, P23, P24, P25."""

import pytest
import torch

from specdec_core.cache import ContiguousKVCache
from specdec_core.draft import DraftTree
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import PrefixModel, TokenCache
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)


def summing(prefix: tuple[int, ...]) -> list[float]:
    """Logits that depend on every token and its place."""
    weighted = sum((place + 1) * (token + 1) for place, token in enumerate(prefix))
    return [((weighted * (index + 3)) % 17) / 4 for index in range(6)]


@pytest.fixture
def model() -> PrefixModel:
    return PrefixModel(6, summing)


def fed(*tokens: int) -> torch.Tensor:
    return torch.tensor(tokens, dtype=torch.long)


def test_p20_rows_do_not_see_later_drafts(model: PrefixModel) -> None:
    rows = []
    for last in (3, 5):
        cache = model.new_cache(10)
        model.forward(fed(1, 2, 4), cache=cache)
        rows.append(model.forward(fed(0, 1, 2, last), cache=cache).logits)
    assert torch.equal(rows[0][:3], rows[1][:3])
    assert not torch.equal(rows[0][3], rows[1][3])


# (5, 3) are siblings; node 2 branches again: paths 0 - 1, 2 - 3, 2 - 4 and the lone 5
TREE = DraftTree((1, 2, 3, 4, 5, 0), (-1, 0, -1, 2, 2, -1))


def test_p20_a_tree_mask_shows_each_node_its_own_path_alone(model: PrefixModel) -> None:
    prefix = (2, 2, 5)
    cache = model.new_cache(20)
    model.forward(fed(*prefix[:-1]), cache=cache)
    together = model.forward(
        fed(prefix[-1], *TREE.tokens), TREE.position_ids(2), TREE.attention_mask(2), cache=cache
    ).logits
    for node, path in enumerate(TREE.paths()):
        alone = model.forward(fed(*prefix, *(TREE.tokens[n] for n in path)), cache=model.new_cache(20)).logits
        assert torch.equal(together[node + 1], alone[-1])
        assert torch.equal(together[0], alone[2])


def test_p20_keeping_a_branch_leaves_the_cache_of_that_path(model: PrefixModel) -> None:
    cache = model.new_cache(20)
    model.forward(fed(2, 2), cache=cache)
    model.forward(fed(5, *TREE.tokens), TREE.position_ids(2), TREE.attention_mask(2), cache=cache)
    cache.keep([0, 3, 5])
    assert cache.tokens == [2, 2, 5, 3, 5]
    assert cache.rows_moved == 2
    after = model.forward(fed(4), cache=cache).logits
    assert torch.equal(after, model.forward(fed(2, 2, 5, 3, 5, 4), cache=model.new_cache(6)).logits[-1:])


def test_p20_a_wrong_mask_or_position_is_noticed_at_toy_level(model: PrefixModel) -> None:
    cache = model.new_cache(20)
    model.forward(fed(2, 2), cache=cache)
    triangular = torch.ones(7, 9, dtype=torch.bool).tril(2)
    with pytest.raises(ValueError, match=r"positions\[3\] is 3, but that row sees 6 tokens"):
        model.forward(fed(5, *TREE.tokens), TREE.position_ids(2), triangular, cache=cache)
    with pytest.raises(ValueError, match=r"positions\[0\] is 3"):
        model.forward(fed(5, *TREE.tokens), TREE.position_ids(3), TREE.attention_mask(2), cache=cache)
    with pytest.raises(ValueError, match=r"mask has shape \(7, 8\); expected \(7, 9\)"):
        model.forward(fed(5, *TREE.tokens), TREE.position_ids(2), TREE.attention_mask(1), cache=cache)
    assert len(cache) == 2, "a refused forward leaves the cache as it was"


@pytest.mark.parametrize(("kept", "drafter_rows", "fed_next"), [(0, 6, 1), (1, 7, 1), (2, 8, 1), (3, 9, 1), (4, 9, 2)])
def test_p23_rows_after_partial_and_full_acceptance(kept: int, drafter_rows: int, fed_next: int, spoken_model) -> None:
    """Prompt 5, gamma 4: the drafter is right `kept` times, then wrong once."""
    target = spoken_model(9, lambda prefix: len(prefix) % 9)
    draft = spoken_model(9, lambda prefix: (len(prefix) + (len(prefix) == 6 + kept)) % 9)
    stream = Engine(target, ModelDrafter(draft), "chain", 4).stream([1, 2, 3, 4, 5], GREEDY, 20)
    next(stream)
    first = next(stream).round
    assert first is not None
    assert (len(first.draft_tokens), first.num_accepted) == (4, kept)
    assert target.fed[-1] == (5, (5, *first.draft_tokens)), "10 rows after verify"
    assert (first.target_rows, first.draft_rows) == (6 + kept, drafter_rows)
    assert (len(target.caches[0]), len(draft.caches[0])) == (6 + kept, drafter_rows)
    calls = len(draft.fed)
    next(stream)
    before, tokens = draft.fed[calls]
    assert (before, len(tokens)) == (drafter_rows, fed_next)
    text = stream.generation.trace.tokens
    assert tokens == text[drafter_rows : drafter_rows + fed_next]
    if kept == 4:
        assert tokens == (first.draft_tokens[-1], first.next_token), "d_4 and the bonus token"


@pytest.mark.parametrize("gamma", range(1, 6))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_p23_a_drafter_equal_to_the_target_is_accepted_in_every_round(
    gamma: int, temperature: float, model_of, random_law
) -> None:
    law = random_law("p23", 5, zeros=False)
    engine = Engine(model_of(law, 5), ModelDrafter(model_of(law, 5)), "chain", gamma)
    generation = engine.generate([1, 2, 3, 4, 0], SamplingParams(temperature=temperature, seed=1), 40)
    assert all(r.num_accepted == len(r.draft_tokens) for r in generation.trace.rounds)
    assert sum(len(r.draft_tokens) for r in generation.trace.rounds) > 0


def kv_cache(capacity: int = 12) -> ContiguousKVCache:
    return ContiguousKVCache(layers=2, heads=3, head_dim=4, capacity=capacity)


def write(cache: ContiguousKVCache, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random rows in every layer; what was written, [layers, heads, rows, head_dim]."""
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 2, 3, rows, 4, generator=generator)
    for layer in range(2):
        cache.append(layer, keys[layer], values[layer])
    return keys, values


def test_p24_rolling_back_keeps_the_first_rows_bit_for_bit() -> None:
    cache = kv_cache()
    keys, values = write(cache, 7, seed=1)
    cache.rollback(3)
    assert len(cache) == 4
    for layer in range(2):
        kept_keys, kept_values = cache.rows(layer)
        assert torch.equal(kept_keys, keys[layer, :, :4])
        assert torch.equal(kept_values, values[layer, :, :4])
    more_keys, _ = write(cache, 2, seed=2)
    assert torch.equal(cache.rows(1)[0], torch.cat([keys[1, :, :4], more_keys[1]], dim=1))


def test_p24_after_a_rollback_the_next_forward_equals_a_fresh_prefill(model: PrefixModel) -> None:
    cache = model.new_cache(10)
    model.forward(fed(1, 2, 3, 4, 5, 0, 1), cache=cache)
    cache.rollback(3)
    assert cache.tokens == [1, 2, 3, 4]
    after = model.forward(fed(2), cache=cache).logits
    assert torch.equal(after, model.forward(fed(1, 2, 3, 4, 2), cache=model.new_cache(5)).logits[-1:])


@pytest.fixture(params=["tokens", "keys and values"])
def seven_rows(request: pytest.FixtureRequest) -> TokenCache | ContiguousKVCache:
    if request.param == "tokens":
        tokens = TokenCache(12)
        tokens.append([0, 1, 2, 3, 4, 5, 6])
        return tokens
    cache = kv_cache()
    write(cache, 7, seed=1)
    return cache


@pytest.mark.parametrize(
    ("method", "count", "left"),
    [("truncate", 4, 4), ("truncate", 7, 7), ("truncate", 0, 0), ("rollback", 0, 7), ("rollback", 7, 0)],
)
def test_p25_keep_and_remove_mean_what_they_say(seven_rows, method: str, count: int, left: int) -> None:
    getattr(seven_rows, method)(count)
    assert len(seven_rows) == left
    assert seven_rows.capacity == 12, "rewound in place, not made anew"


@pytest.mark.parametrize(
    ("method", "count", "name"),
    [
        ("rollback", 8, "num_removed"),
        ("rollback", -1, "num_removed"),
        ("truncate", 8, "length"),
        ("truncate", -1, "length"),
    ],
)
def test_p25_counts_out_of_range_are_refused(seven_rows, method: str, count: int, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is {count}; the cache has 7 rows, so expected 0..7"):
        getattr(seven_rows, method)(count)
    assert len(seven_rows) == 7
