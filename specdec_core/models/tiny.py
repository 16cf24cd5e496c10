"""Two tiny random Llamas on disk: the smallest pair that goes the whole way through transformers."""

from pathlib import Path

import torch

WORDS = ("<s>", "</s>", "<unk>", "the", "a", "cat", "dog", "sat", "ran", "on", "mat", ".")


def save_tiny_pair(folder: str | Path) -> str:
    """Saves a target and a draft with one tokenizer of twelve words below `folder`; returns the name for `load_pair`.

    The weights are random: the text is nonsense, every step that leads to it is real.
    """
    folder = Path(folder)
    for name, layers, seed in (("target", 2, 1), ("draft", 1, 2)):
        _save_llama(folder / name, layers, seed)
        _save_tokenizer(folder / name)
    return f"{folder / 'target'},{folder / 'draft'}"


def _save_llama(folder: Path, layers: int, seed: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)


def _save_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
