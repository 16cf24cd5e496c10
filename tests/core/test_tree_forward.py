"""A pass over a draft tree: every node has the logits of its path run alone, and no branch sees another."""

from collections.abc import Iterator
import random

import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_core.models.hf import HFModel
from specdec_core.models.llama import Llama
from specdec_core.models.llama_load import llama_from_hf
from specdec_core.models.protocol import LanguageModel

VOCAB, PREFIX, TREES, FOLDS, LARGEST = 97, 7, 50, 5, 64
LIMIT, UNSEEN = 2e-4, 1e-6


@pytest.fixture(scope="module", params=["own", "sdpa", "eager"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
    )
    attention = "eager" if request.param == "eager" else "sdpa"
    hf_llama = LlamaForCausalLM._from_config(config, attn_implementation=attention)
    return llama_from_hf(hf_llama) if request.param == "own" else HFModel(hf_llama)


def is_eager(model: LanguageModel) -> bool:
    return isinstance(model, HFModel) and model.model.config._attn_implementation == "eager"


def random_trees(count: int, seed: int) -> Iterator[DraftTree]:
    """Trees of 1 to 64 nodes, from bushes (any node may get the next child) to near-chains (mostly the last one)."""
    rng = random.Random(seed)
    for index in range(count):
        nodes = LARGEST if index == 0 else rng.randint(1, LARGEST)
        window = rng.choice([1, 2, 4, LARGEST])
        parents = [max(-1, rng.randint(node - 1 - window, node - 1)) for node in range(nodes)]
        yield DraftTree(tuple(rng.randrange(VOCAB) for _ in range(nodes)), tuple(parents))


def tree_logits(model: LanguageModel, prompt: list[int], tree: DraftTree) -> torch.Tensor:
    cache = model.new_cache(128)
    model.forward(torch.tensor(prompt[:-1]), cache=cache)
    fed = torch.tensor([prompt[-1], *tree.tokens])
    return model.forward(fed, tree.position_ids(PREFIX - 1), tree.attention_mask(PREFIX - 1), cache=cache).logits


@pytest.mark.parametrize("seed", range(FOLDS))
def test_every_node_has_the_logits_of_its_path_alone(model: LanguageModel, seed: int) -> None:
    prompt = torch.randint(VOCAB, (PREFIX,), generator=torch.Generator().manual_seed(seed)).tolist()
    # eager attention is the same model with the mask written another way: a few trees show that it is right
    for tree in random_trees(2 if is_eager(model) else TREES // FOLDS, seed):
        found = tree_logits(model, prompt, tree)
        checked = set()
        for node in reversed(range(len(tree))):
            if node in checked:
                continue
            # a plain pass over a leaf's path has the rows of all its ancestors too
            path = tree.paths()[node]
            line = torch.tensor([*prompt, *(tree.tokens[step] for step in path)])
            alone = model.forward(line, cache=model.new_cache(128)).logits[PREFIX - 1 :]
            rows = found[[0, *(step + 1 for step in path)]]
            assert float((rows - alone).abs().max()) < LIMIT
            checked.update(path)
        assert checked == set(range(len(tree)))


@pytest.mark.parametrize("seed", [10, 11])
def test_a_changed_branch_leaves_all_other_rows_as_they_were(model: LanguageModel, seed: int) -> None:
    prompt = torch.randint(VOCAB, (PREFIX,), generator=torch.Generator().manual_seed(seed)).tolist()
    for tree in random_trees(5, seed):
        changed = len(tree) // 2
        tokens = list(tree.tokens)
        tokens[changed] = (tokens[changed] + 1) % VOCAB
        before = tree_logits(model, prompt, tree)
        after = tree_logits(model, prompt, DraftTree(tuple(tokens), tree.parents))
        touched = [changed in path for path in ((), *tree.paths())]
        moved = (before - after).abs().amax(dim=-1)
        assert float(moved[~torch.tensor(touched)].max()) <= UNSEEN
        assert float(moved[torch.tensor(touched)].min()) > LIMIT


def test_a_wrong_mask_would_be_seen() -> None:
    """The control: a lower triangle lets siblings see each other, and the limit above notices."""
    torch.manual_seed(0)
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
        initializer_range=0.3,
    )  # fmt: skip
    llama: Llama = llama_from_hf(LlamaForCausalLM(config))
    tree = DraftTree((5, 6), (-1, -1))
    fed = torch.tensor([1, *tree.tokens])
    triangle = torch.ones(3, 3, dtype=torch.bool).tril()
    right = llama.forward(fed, tree.position_ids(0), tree.attention_mask(0), cache=llama.new_cache(8)).logits
    wrong = llama.forward(fed, tree.position_ids(0), triangle, cache=llama.new_cache(8)).logits
    assert float((right - wrong)[2].abs().max()) > 10 * LIMIT
