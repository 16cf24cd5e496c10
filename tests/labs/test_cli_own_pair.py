"""`--pair TARGET,DRAFT`: two folders that transformers saved, used as they are."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from specdec_core.trace import Trace
from specdec_labs.cli.app import app

WORDS = ["<unk>", "<s>", "</s>", *(f"w{index}" for index in range(37))]


def save_model(folder: Path, *, seed: int, words: list[str] = WORDS) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    backend = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    specials = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **specials).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=1.0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    return save_model(root / "target", seed=0), save_model(root / "draft", seed=1)


def test_a_pair_of_folders(folders: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    pair = ",".join(str(folder) for folder in folders)
    arguments = ["--drafter", "model", "--prompt", "w1 w2 w3", "--max-new-tokens", "20", "--json", str(path)]
    result = CliRunner().invoke(app, ["demo", "--pair", pair, *arguments])
    assert result.exit_code == 0, result.output
    assert "Greedy text equals plain decoding" in result.stdout
    trace = Trace.load(path)
    assert any(entry.draft_tokens for entry in trace.rounds)
    assert trace.texts[trace.prompt[-1]] == "w3"


def test_a_target_alone_looks_its_drafts_up(folders: tuple[Path, Path]) -> None:
    arguments = ["--prompt", "w1 w2 w1 w2", "--max-new-tokens", "20", "--repeats", "1"]
    result = CliRunner().invoke(app, ["demo", "--pair", str(folders[0]), *arguments])
    assert result.exit_code == 0, result.output
    assert "drafter: prompt lookup (ngram" in result.stdout


def test_a_prompt_longer_than_the_context(folders: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    arguments = ["--prompt", "w1 " * 100, "--json", str(path)]
    result = CliRunner().invoke(app, ["demo", "--pair", str(folders[0]), *arguments])
    assert result.exit_code == 2, result.output
    assert "the context is 64" in result.stderr
    assert not path.exists()


def test_tokenizers_that_differ_are_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    other = save_model(tmp_path / "other", seed=2, words=[*WORDS[:-2], "x", "y"])
    result = CliRunner().invoke(app, ["demo", "--pair", f"{folders[0]},{other}", "--prompt", "w1"])
    assert result.exit_code == 2, result.output
    assert "differ in 2 of 40 ids" in result.stderr
