"""A byte-level BPE tokenizer of our own: trained, stored as tokenizer.json, read back without transformers."""

from collections.abc import Iterable
import json
from pathlib import Path
from typing import Any

from specdec_core.models.tokenizer import GGUFTokenizer

START = "<|endoftext|>"
_CONTROL, _NORMAL = 3, 1  # token types of the GGUF specification


class TextTokenizer(GGUFTokenizer):
    """Byte-level BPE for plain text; its one control token stands before every document."""

    @property
    def start_id(self) -> int:
        """The control token's id. It also ends a text, since the next document starts there."""
        return self.eos_ids[0]

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        """The text as the start of a document: a model of plain text has no chat format.

        Raises:
            ValueError: a system line, which has no place there.
        """
        if system is not None:
            raise ValueError("a model of plain text takes no system line; put it into the prompt")
        return [self.start_id, *self.encode(prompt)]


def train_byte_bpe(texts: Iterable[str], vocabulary: int, path: Path) -> None:
    """Learns `vocabulary` entries, the control token and all 256 bytes among them; writes tokenizer.json to `path`.

    Raises:
        ValueError: a vocabulary too small for the bytes.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if vocabulary <= 257:
        raise ValueError(f"vocabulary is {vocabulary}; 256 bytes and a control token need more than 257")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[START],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))


def load_text_tokenizer(path: str | Path) -> TextTokenizer:
    """The tokenizer of a tokenizer.json that `train_byte_bpe` wrote.

    Raises:
        ValueError: no such file, or one of another kind.
    """
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        vocabulary, merges = data["model"]["vocab"], data["model"]["merges"]
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: no tokenizer.json with a byte-level BPE ({error})") from error
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    if (
        START not in vocabulary
        or vocabulary[START] != 0
        or [vocabulary[piece] for piece in pieces] != list(range(len(pieces)))
    ):
        raise ValueError(
            f"{path}: expected ids 0..{len(pieces) - 1} with {START} as id 0; train it with train_byte_bpe"
        )
    return TextTokenizer(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in merges],
            "tokenizer.ggml.token_type": [_CONTROL if piece == START else _NORMAL for piece in pieces],
            "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 0,
        }
    )
