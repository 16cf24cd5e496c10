"""Ranks, and what they say about tree shapes, against drafters that are really replayed."""

import pytest
import torch

from specdec_core.drafters import DynamicTree, EagleDrafter, MedusaDrafter, TreeDrafter
from specdec_core.engine import Engine
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_core.tree_shapes import chain_shape, sibling_ranks
from specdec_core.warp import SamplingParams
from specdec_labs.acceptance.counts import Counts, counts_of
from specdec_labs.acceptance.ranks import (
    NEVER,
    NO_TOKEN,
    eagle_ranks,
    eagle_steps,
    medusa_ranks,
    model_ranks,
    token_ranks,
)
from specdec_labs.acceptance.replay import Replay, replay
from specdec_labs.acceptance.rows import answer_logits, answer_states
from specdec_labs.acceptance.text_model import TextModel
from specdec_labs.acceptance.trees import (
    CHILDREN,
    TextRanks,
    acceptance_vector,
    expected_tokens,
    expected_tokens_by_depth,
    marginal_accuracies,
    ordered,
    rounds_of_shape,
    shapes,
    tokens_from_every_place,
    vectors_by_depth,
)

GREEDY = SamplingParams(temperature=0)
CONFIG = LlamaConfig(vocab_size=30, width=32, ffn_width=48, layers=3, heads=4, kv_heads=2, head_dim=8, max_length=250)
CUT = CutVocabulary(tuple(range(0, 30, 2)), 30)
PROMPT = [3, 1, 4, 1, 5]


@pytest.fixture(scope="module")
def target() -> Llama:
    module = TrainableLlama(CONFIG, seed=4)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.mul_(9)
    return llama_from_tensors(CONFIG, reader_of(module), tied=True)


@pytest.fixture(scope="module")
def text(target: Llama) -> list[int]:
    return [*PROMPT, *Engine(target).generate(PROMPT, SamplingParams(temperature=0.6, seed=2), 60).tokens]


@pytest.fixture(scope="module")
def states(target: Llama, text: list[int]) -> torch.Tensor:
    return answer_states(target, text, len(PROMPT))


@pytest.fixture(scope="module")
def medusa() -> MedusaHeads:
    torch.manual_seed(1)
    heads = MedusaHeads(3, CONFIG.width)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_(0, 0.3)
    return heads


def recorded(text: list[int], states: torch.Tensor) -> TextModel:
    return TextModel.certain(text, vocab_size=30, max_length=250, states=states)


def cut_head(target: Llama) -> torch.Tensor:
    return target.weights.head.weight[CUT.index]


def test_a_rank_counts_what_would_be_proposed_before() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0]] * 5)
    assert token_ranks(logits, torch.tensor([0, 1, 2, 3, -1])).tolist() == [3, 0, 1, 2, NEVER]


SHAPES = {
    "chain": chain_shape(3),
    "three children": (-1, -1, -1),
    "bushy": (-1, -1, 0, 0, 0, 1, 2, 2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_draft_models_tree_fares_as_its_ranks_say(name: str, target: Llama, text: list[int], states) -> None:
    model, shape = target.shallow([0, 2]), SHAPES[name]
    depth = 3
    ranks = model_ranks(answer_logits(model, text, 5), text, 5, depth)
    case = Replay(TreeDrafter(model, shape, "deterministic"), len(shape), max(map(int, _depths(shape))))
    found = counts_of(replay(case, recorded(text, states), text, 5, GREEDY))
    assert rounds_of_shape(shape, TextRanks(ranks, False)) == found
    assert found.accepted > 3


def _depths(shape: tuple[int, ...]) -> list[int]:
    depths: list[int] = []
    for parent in shape:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return depths


def test_a_medusa_tree_fares_as_its_ranks_say(target: Llama, text: list[int], states, medusa: MedusaHeads) -> None:
    ranks = medusa_ranks(medusa, cut_head(target), CUT, states, text, 5)
    spec = ((0,), (1,), (0, 0), (0, 1), (0, 0, 0), (2,), (3,))
    drafter = MedusaDrafter(target, medusa, CUT, spec)
    found = counts_of(replay(Replay(drafter, len(spec), 3), recorded(text, states), text, 5, GREEDY))
    shape = (-1, -1, -1, -1, 0, 0, 4)
    assert rounds_of_shape(shape, TextRanks(ranks, False)) == found
    assert found.accepted > 3


def test_an_eagle_chain_fares_as_its_ranks_say(target: Llama, text: list[int], states) -> None:
    """The passes over the whole text are the drafts from every start at once."""
    head = EagleHead(CONFIG, ffn_width=16, seed=2)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.mul_(8)
    embedding = target.weights.embedding
    steps = eagle_steps(head, cut_head(target), embedding, CUT, states, text, 5, 4)
    ranks = eagle_ranks(steps, len(text) - 6)
    drafter = EagleDrafter(target, head, CUT, DynamicTree(top_k=1, depth=4))
    found = counts_of(replay(Replay(drafter, 4, 4), recorded(text, states), text, 5, GREEDY))
    assert rounds_of_shape(chain_shape(4), TextRanks(ranks, False)) == found
    # the ranks themselves, at every start: drafts forced along the text see the same laws
    forced = _forced_ranks(EagleDrafter(target, head, CUT), text, states, 3)
    assert ranks[: len(forced), :3].tolist() == forced


def _forced_ranks(drafter: EagleDrafter, text: list[int], states: torch.Tensor, depth: int) -> list[list[int]]:
    from specdec_core.drafters import Context
    from specdec_core.rules import Verdict
    from specdec_labs.acceptance.replay import ForcedCoins

    drafter.start(200)
    found, shown = [], 0
    for length in range(6, len(text) - depth):
        context = Context(text[:length], 5, SamplingParams(), states[shown : length - 1], None)
        shown = length - 1
        coins = ForcedCoins(0, text).at(request=0, length=length)
        draft = drafter.propose(context, depth, coins, lambda drafted, law: True)
        assert draft.draft_probs is not None and list(draft.tokens) == text[length : length + depth]
        drafter.observe(Verdict(0, (), text[length], "recovered"), None)
        own = CUT.inverse[torch.tensor(draft.tokens)]
        found.append(token_ranks(draft.draft_probs[:, CUT.index], own).tolist())
    return found


def test_a_text_that_ends_itself_counts_to_its_end() -> None:
    ranks = torch.tensor([[0, 0], [0, 0], [0, NO_TOKEN]])
    assert rounds_of_shape(chain_shape(2), TextRanks(ranks, True)) == Counts(1, 3, 2, 2, 2, ((1, 1, 1), (1, 1, 1)))
    assert rounds_of_shape(chain_shape(2), TextRanks(ranks, False)).rounds == 1
    assert rounds_of_shape((), TextRanks(ranks, True)) == Counts(3, 3, 0, 0, 0, ())


def drawn(vectors: torch.Tensor, starts: int) -> TextRanks:
    """Ranks drawn independently with a law for each depth; the rest is never proposed."""
    rest = 1 - vectors.sum(dim=-1, keepdim=True)
    law = torch.cat([vectors, rest], dim=-1)
    generator = torch.Generator().manual_seed(3)
    columns = [torch.multinomial(row, starts, replacement=True, generator=generator) for row in law]
    ranks = torch.stack(columns, dim=1)
    return TextRanks(ranks.masked_fill(ranks == vectors.shape[1], NEVER), False)


def test_with_one_vector_for_all_depths_sequoia_gets_what_it_expects() -> None:
    vector = torch.tensor([0.5, 0.2, 0.1, 0.05, *[0.0] * 6])
    text = drawn(vector.expand(6, CHILDREN), 60_000)
    found = acceptance_vector([text])
    assert found == pytest.approx(vector.tolist(), abs=0.01)
    assert torch.allclose(vectors_by_depth([text]), vector.double().expand(6, CHILDREN), atol=0.03)
    chosen = shapes([text], 16)
    expected = {name: expected_tokens(parents, found) for name, parents in chosen.items()}
    assert expected["sequoia"] >= max(expected.values()) - 1e-9
    for name, parents in chosen.items():
        measured = rounds_of_shape(parents, text).mean_length
        assert measured == pytest.approx(expected[name], rel=0.02)
        assert expected_tokens_by_depth(parents, vectors_by_depth([text])) == pytest.approx(expected[name], rel=0.03)
        assert tokens_from_every_place(parents, [text]) == pytest.approx(expected[name], rel=0.02)


def test_rounds_that_start_behind_failures_emit_less_than_places_do_on_average() -> None:
    """Failures in clusters: a stretch of right drafts is passed in few rounds, a stretch of wrong ones in many."""
    rights = torch.tensor(([True] * 12 + [False] * 12) * 50)
    ranks = torch.stack([torch.where(rights.roll(-ahead), 0, NEVER) for ahead in range(3)], dim=1)
    text = TextRanks(ranks, False)
    assert rounds_of_shape(chain_shape(3), text).mean_length == pytest.approx(24 / 15, abs=0.01)
    assert tokens_from_every_place(chain_shape(3), [text]) == pytest.approx(1 + 33 / 24, abs=0.01)


def test_a_vector_that_falls_with_depth_breaks_the_expectation_and_the_one_by_depth_holds() -> None:
    falling = torch.stack([torch.tensor([0.6, 0.15, 0.05, *[0.0] * 7]) * 0.6**depth for depth in range(6)])
    text = drawn(falling, 60_000)
    shape = shapes([text], 16)["sequoia"]
    measured = rounds_of_shape(shape, text).mean_length
    assert expected_tokens(shape, acceptance_vector([text])) > 1.05 * measured
    assert expected_tokens_by_depth(shape, vectors_by_depth([text])) == pytest.approx(measured, rel=0.02)


def test_shapes_are_of_the_size_and_kind_asked_for() -> None:
    vector = torch.tensor([0.5, 0.2, 0.1, 0.05, *[0.0] * 6])
    chosen = shapes([drawn(vector.expand(16, CHILDREN), 2000)], 16)
    assert all(len(parents) <= 16 for parents in chosen.values())
    assert chosen["chain"] == chain_shape(16)
    assert chosen["full"][:7] == (-1, -1, 0, 0, 1, 1, 2)
    assert sibling_ranks(ordered((-1, -1, 0, -1), [1, 0, 0, 2])) == (0, 1, 2, 0)
    assert ordered((-1, -1, 0, -1), [1, 0, 0, 2]) == (-1, -1, -1, 1)
    with pytest.raises(ValueError, match=r"have ranks \[1\]"):
        ordered((-1,), [1])
    accuracies = marginal_accuracies([drawn(vector.expand(2, CHILDREN), 5000)])
    assert accuracies.shape == (2, CHILDREN) and bool((accuracies.sum(dim=-1) <= 1).all())
