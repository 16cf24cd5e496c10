"""Text to token ids and back: from a GGUF file, from transformers, and the digits of the toy pair.

In all of them text is only text: a control token that a user typed is spelled out, never obeyed.
"""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
import re
from typing import Any

from specdec_core.models.gguf import GGUFFile

_CONTROL = 3  # token type of the GGUF specification
_VISIBLE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})
_DEFAULT_SYSTEM = re.compile(r"<\|im_start\|>system\n(.*?)<\|im_end\|>", re.DOTALL)


@cache
def _byte_of() -> dict[str, int]:
    """The byte each character of a byte-level vocabulary stands for.

    Printable Latin-1 characters stand for themselves, the other bytes in order for the code points from 256 on.
    Source: GPT-2's `bytes_to_unicode`.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return table


def _piece_bytes(piece: str) -> bytes:
    """The bytes a vocabulary entry stands for; an entry that is no byte-level string stands for itself."""
    table = _byte_of()
    return bytes(table[char] for char in piece) if all(char in table for char in piece) else piece.encode()


def printable(data: bytes) -> str:
    """The bytes as text with whitespace shown (␣ ↵ ⇥) and bytes that are no whole character as <C3>."""
    text = data.decode("utf-8", errors="surrogateescape")
    # surrogateescape maps an undecodable byte b to U+DC00 + b
    shown = (f"<{ord(char) - 0xDC00:02X}>" if "\udc80" <= char <= "\udcff" else char for char in text)
    return "".join(shown).translate(_VISIBLE)


def check_ids(ids: Iterable[int], vocab_size: int) -> None:
    """ValueError unless every id is one of the vocabulary."""
    for token_id in ids:
        if not 0 <= token_id < vocab_size:
            raise ValueError(f"token id {token_id} is outside the vocabulary; expected 0..{vocab_size - 1}")


class GGUFTokenizer:
    """The byte-level BPE tokenizer stored in a GGUF file's metadata."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """Builds it from `GGUFFile.metadata`.

        Raises:
            ValueError: the file has no byte-level BPE tokenizer of a kind known here.
        """
        kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "gpt-2")
        if kind != "gpt2" or pre not in ("smollm", "gpt-2"):
            raise ValueError(
                f"tokenizer.ggml.model is {kind!r} with pre-tokenizer {pre!r}; "
                "expected 'gpt2' with 'smollm' or 'gpt-2' - load this model through transformers instead"
            )
        for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
            if key not in metadata:
                raise ValueError(f"metadata has no {key!r}; this file carries no whole tokenizer")
        self._pieces: list[str] = metadata["tokenizer.ggml.tokens"]
        types = metadata.get("tokenizer.ggml.token_type", [])
        self._control = frozenset(index for index, entry in enumerate(types) if entry == _CONTROL)
        self._template: str = metadata.get("tokenizer.chat_template", "")
        self._bytes_of: dict[int, bytes] = {}
        self._ids = {piece: index for index, piece in enumerate(self._pieces)}
        self._bpe = _byte_level_bpe(self._ids, metadata["tokenizer.ggml.merges"], split_digits=pre == "smollm")
        self.vocab_size = len(self._pieces)
        names = {"bos": "tokenizer.ggml.bos_token_id", "eos": "tokenizer.ggml.eos_token_id"}
        self.special_ids = {name: metadata.get(key) for name, key in names.items()}
        self.eos_ids = self._end_tokens()

    @classmethod
    def from_file(cls, path: str | Path) -> "GGUFTokenizer":
        """The tokenizer of the GGUF file at `path`."""
        return cls(GGUFFile(path).metadata)

    def _end_tokens(self) -> tuple[int, ...]:
        end_of_text = self._ids.get("<|endoftext|>")
        ends = (self.special_ids["eos"], end_of_text if end_of_text in self._control else None)
        return tuple(dict.fromkeys(token_id for token_id in ends if token_id is not None))

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; control tokens in it are spelled out."""
        return self._bpe.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids. An incomplete UTF-8 tail and control tokens are left out; bytes that can never become
        a character are shown as U+FFFD."""
        check_ids(ids, self.vocab_size)
        data = b"".join(self._bytes(token_id) for token_id in ids if token_id not in self._control)
        return codecs.getincrementaldecoder("utf-8")("replace").decode(data)

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        """Ids of a ChatML prompt with the system line the model's template has by default.

        Raises:
            ValueError: the model has no ChatML template; feed it `encode(prompt)` instead.
        """
        default = _DEFAULT_SYSTEM.search(self._template)
        if default is None:
            raise ValueError("this model has no ChatML chat template; use encode(prompt) for plain text")
        start, end = self._ids["<|im_start|>"], self._ids["<|im_end|>"]
        newline = self.encode("\n")
        turns = (("system", default[1] if system is None else system), ("user", prompt))
        ids: list[int] = []
        for role, content in turns:
            ids += [start, *self.encode(f"{role}\n{content}"), end, *newline]
        return [*ids, start, *self.encode("assistant\n")]

    def token(self, token_id: int) -> str:
        """One id in printable form."""
        check_ids([token_id], self.vocab_size)
        if token_id in self._control:
            return self._pieces[token_id]
        return printable(self._bytes(token_id))

    def piece(self, token_id: int) -> str:
        """The vocabulary's own string for the id."""
        return self._pieces[token_id]

    def _bytes(self, token_id: int) -> bytes:
        if token_id not in self._bytes_of:
            self._bytes_of[token_id] = _piece_bytes(self._pieces[token_id])
        return self._bytes_of[token_id]


def _byte_level_bpe(ids: dict[str, int], merges: Sequence[str], *, split_digits: bool) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    if split_digits:
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return tokenizer


class HFTokenizer:
    """A transformers tokenizer behind the lab's protocol."""

    def __init__(self, tokenizer: Any, *, eos_ids: Iterable[int] = ()) -> None:
        """Wraps a loaded `PreTrainedTokenizerBase`; `eos_ids` are further ids that end an answer."""
        self._hf = tokenizer
        self.vocab_size = len(tokenizer)
        self.special_ids = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id}
        ends = (tokenizer.eos_token_id, *eos_ids)
        self.eos_ids = tuple(dict.fromkeys(token_id for token_id in ends if token_id is not None))

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, nothing added; special tokens in it are spelled out."""
        return self._hf(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out. A U+FFFD at the end counts as an unfinished character."""
        # a model's vocabulary may be padded past the tokenizer's; such ids stand for nothing
        known = [token_id for token_id in ids if token_id < self.vocab_size]
        check_ids(known, self.vocab_size)
        text = self._hf.decode(known, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.rstrip("\ufffd")

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        """Ids of a one-turn chat by the model's template; without a template the plain text after the start token.

        Raises:
            ValueError: a system line for a template that has no place for one.
        """
        if self._hf.chat_template is None:
            bos = self.special_ids["bos"]
            starts = self._hf("x")["input_ids"][:1] == [bos]
            return ([bos] if starts else []) + self.encode(prompt if system is None else f"{system}\n\n{prompt}")
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return self._template_ids(messages)

    def token(self, token_id: int) -> str:
        """One id in printable form; an id of the model that the tokenizer does not have shows its number."""
        if token_id >= self.vocab_size:
            return f"<unused {token_id}>"
        check_ids([token_id], self.vocab_size)
        piece = self.piece(token_id)
        if token_id in self._hf.all_special_ids:
            return piece
        return printable(_piece_bytes(piece.replace("▁", " ")))

    def piece(self, token_id: int) -> str:
        """The vocabulary's own string for the id; empty for an id without one."""
        return self._hf.convert_ids_to_tokens(token_id) or ""

    def _template_ids(self, messages: list[dict[str, str]]) -> list[int]:
        """Renders the template, then parses control tokens in its own parts but not in what the user wrote."""
        from jinja2.exceptions import TemplateError

        typed = [message["content"] for message in messages]
        specials = self._hf.all_special_tokens
        risky = any(special in content for special in specials for content in typed)
        marks = [f"\x02{index}\x03" for index in range(len(typed))]
        if risky:
            messages = [{**message, "content": mark} for message, mark in zip(messages, marks)]
        try:
            text = self._hf.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except TemplateError as error:
            raise ValueError(f"the model's chat template refuses these messages: {error}") from error
        if not risky:
            return self._hf(text, add_special_tokens=False)["input_ids"]
        ids: list[int] = []
        for part in re.split(r"(\x02\d\x03)", text):
            plain = part in marks
            part = typed[marks.index(part)] if plain else part
            ids += self.encode(part) if plain else self._hf(part, add_special_tokens=False)["input_ids"]
        return ids


class DigitTokenizer:
    """Digits are their own ids: the vocabulary of the toy pair."""

    vocab_size = 10
    eos_ids: tuple[int, ...] = ()

    def encode(self, text: str) -> list[int]:
        """Ids of the digits in "1 2 3" or "123". ValueError when anything but digits and spaces is there."""
        for char in text:
            if not (char.isspace() or char in "0123456789"):
                raise ValueError(f"text contains {char!r}; the toy pair reads digits and spaces only, e.g. '1 2 3'")
        return [int(char) for char in text if not char.isspace()]

    def decode(self, ids: Sequence[int]) -> str:
        """The digits, joined."""
        check_ids(ids, self.vocab_size)
        return "".join(str(token_id) for token_id in ids)

    def chat(self, prompt: str, system: str | None = None) -> list[int]:
        """`encode(prompt)`: the toy pair has no chat format. ValueError for a system line."""
        if system is not None:
            raise ValueError("the toy pair takes no system line; leave system out")
        return self.encode(prompt)

    def token(self, token_id: int) -> str:
        """The digit."""
        return self.decode([token_id])
