"""Rounds read off the laws of one pass are those of the replay: the same counts, the same coins."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from specdec_core.engine import Engine
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.llama import LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.trainable import TrainableLlama, reader_of
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams
from specdec_labs.acceptance.counters import by_eagle, by_medusa, by_model, by_perfect_copy, by_replay, longest_copy
from specdec_labs.acceptance.counts import Counts, counts_of
from specdec_labs.acceptance.local_ids import LocalDrafter, LocalIds
from specdec_labs.acceptance.prompts import BenchPrompt
from specdec_labs.acceptance.record import Text
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.replay import Replay, replay
from specdec_labs.acceptance.text_model import TextModel

CONFIG = LlamaConfig(vocab_size=40, width=32, ffn_width=48, layers=3, heads=4, kv_heads=2, head_dim=8, max_length=250)
CUT = CutVocabulary(tuple(range(0, 40, 2)), 40)
STOP = (7,)
TEXTS = ((0.0, [3, 1, 4, 1, 5]), (0.0, [8] * 9), (1.0, [3, 1, 4, 1, 5]), (1.0, [2, 8]))


def grown(module: torch.nn.Module, by: float) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.mul_(by)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    module = TrainableLlama(CONFIG, seed=4)
    grown(module, 6)
    target = llama_from_tensors(CONFIG, reader_of(module), tied=True)
    texts = []
    for number, (temperature, prompt) in enumerate(TEXTS):
        params = SamplingParams(temperature=temperature, seed=number, logit_bias={STOP[0]: -math.inf})
        answer = Engine(target).generate(prompt, params, 24).tokens
        # every other text ends itself: no rule of the replay asks who wrote it
        tokens = (*prompt, *answer[:16], *STOP) if number % 2 else (*prompt, *answer)
        texts.append(Text(BenchPrompt("chat", number, ""), temperature, len(prompt), tokens))
    return Recordings(texts, target, STOP, tmp_path_factory.mktemp("states"))


def replayed(recordings: Recordings, drafter: Drafter, budget: int, depth: int, index: int) -> Counts:
    """The rounds of the drafter itself in the engine, over the target's own vocabulary."""
    text = recordings.texts[index]
    params = SamplingParams(temperature=text.temperature, stop=STOP)
    logits, states = recordings.logits(index), recordings.states(index)

    def row_after(length: int) -> Any:
        place = length - text.prompt_length
        if drafter.proposal == "deterministic" or text.temperature == 0:
            return text.tokens[length] if length < len(text.tokens) else 0
        return logits[place] if place < len(logits) else 0

    target = TextModel(text.tokens, row_after, vocab_size=40, max_length=250, states=states)
    case = Replay(drafter, budget, depth)
    return counts_of(replay(case, target, text.tokens, text.prompt_length, params, request=index))


@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_a_model_is_counted_as_replayed(index: int, recordings: Recordings) -> None:
    model = recordings.target.shallow([0, 2])
    found = by_model(recordings, model, 3)(index)
    assert found == replayed(recordings, ModelDrafter(model), 3, 3, index)
    assert found.accepted > 0


@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_an_eagle_head_is_counted_as_replayed(index: int, recordings: Recordings) -> None:
    head = EagleHead(CONFIG, ffn_width=16, seed=2)
    grown(head, 6)
    drafter = EagleDrafter(recordings.target, head, CUT)
    assert by_eagle(recordings, head, CUT, 3)(index) == replayed(recordings, drafter, 3, 3, index)
    tree = EagleDrafter(recordings.target, head, CUT, DynamicTree(3, 3))
    found = by_replay(recordings, tree, 9, 3, reads_states=True)(index)
    assert found == replayed(recordings, tree, 9, 3, index)


@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_medusa_heads_are_counted_as_replayed(index: int, recordings: Recordings) -> None:
    torch.manual_seed(1)
    heads = MedusaHeads(3, CONFIG.width)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.normal_(0, 0.3)
    spec, shape = ((0,), (1,), (2,), (0, 0), (0, 1), (0, 0, 0)), (-1, -1, -1, 0, 0, 3)
    drafter = MedusaDrafter(recordings.target, heads, CUT, spec)
    found = by_medusa(recordings, heads, CUT, shape)(index)
    assert found == replayed(recordings, drafter, 6, 3, index)


@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_local_ids_change_nothing(index: int, recordings: Recordings) -> None:
    for drafter in (SuffixDrafter(), SuffixTreeDrafter()):
        found = by_replay(recordings, drafter, 6, 6, reads_states=False)(index)
        assert found == replayed(recordings, drafter, 6, 6, index)


def test_a_draft_the_text_does_not_contain_becomes_one_id() -> None:
    local = LocalIds([30, 10, 20, 10], [99])
    assert local.ids == [10, 20, 30, 99] and local.vocab_size == 5
    assert local.inward([20, 55, 99]) == (1, 4, 3) and local.outward([0, 3]) == (10, 99)
    with pytest.raises(ValueError, match="proposes 'chain'; its law is over the target's ids"):
        LocalDrafter(ModelDrafter(PrefixModel(3, lambda prefix: [0.0] * 3)), local)


def test_a_perfect_copy_is_never_beaten_by_a_chain_of_copies(recordings: Recordings) -> None:
    assert longest_copy([1, 2, 3, 9, 1, 2, 3, 4], 4, 16) == 3
    assert longest_copy([1, 2, 3, 9, 1, 2, 3, 4], 4, 2) == 2
    assert longest_copy([4, 4, 4, 4], 2, 16) == 2, "what has not come out yet cannot be copied"
    for index in range(len(TEXTS)):
        bound = by_perfect_copy(recordings, 6)(index)
        found = by_replay(recordings, NGramDrafter(), 6, 6, reads_states=False)(index)
        assert bound.emitted / bound.rounds >= found.emitted / found.rounds


def test_texts_of_both_kinds_are_here(recordings: Recordings, tmp_path: Path) -> None:
    assert {recordings.ends(index) for index in range(len(TEXTS))} == {False, True}
    assert float(recordings.chances(2).min()) > 0
