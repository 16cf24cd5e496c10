"""The target's own answers to the bench prompts, written once: greedy, and sampled at temperature 1.

Many at a time and in float32, so that they are the engine's texts but for near-ties; every drafter is then replayed on
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
import hashlib
from pathlib import Path
from typing import Any

import torch

from specdec_core.models.llama import Llama
from specdec_core.models.tokenizer import GGUFTokenizer
from specdec_labs.acceptance.prompts import BenchPrompt
from specdec_labs.data.batch_decoder import BatchDecoder
from specdec_labs.data.generate import GenerateOptions, Generator, generate
from specdec_labs.data.recipes import Request
from specdec_labs.data.shards import read_records

TEMPERATURES = (0.0, 1.0)
_SLOTS = 48


@dataclass(frozen=True, slots=True)
class Text:
    """A recorded answer: `tokens` are prompt (in the chat template) and answer."""

    prompt: BenchPrompt
    temperature: float
    prompt_length: int
    tokens: tuple[int, ...]

    @property
    def answer(self) -> tuple[int, ...]:
        """The generated tokens."""
        return self.tokens[self.prompt_length :]


class FixedRequests:
    """The prompts as requests of a `Generator`: first all at temperature 0, then all at 1."""

    def __init__(self, prompts: Sequence[BenchPrompt]) -> None:
        self.prompts = prompts

    def __len__(self) -> int:
        return len(TEMPERATURES) * len(self.prompts)

    def request(self, index: int) -> Request:
        """The request of that number."""
        prompt = self.prompts[index % len(self.prompts)]
        return Request(index, prompt.task, prompt.text, TEMPERATURES[index // len(self.prompts)])


def record_texts(
    folder: Path,
    target: Llama,
    tokenizer: GGUFTokenizer,
    prompts: Sequence[BenchPrompt],
    *,
    target_sha256: str,
    max_new_tokens: int,
    seed: int = 0,
    slots: int = _SLOTS,
    progress: Callable[[int, int, float], None] = lambda records, tokens, seconds: None,
) -> list[Text]:
    """The texts in `folder`, those that were missing now written; in the order of `prompts`, temperature 0 first.

    Stop it at any time; the next call goes on. A prompt is one turn in the model's chat template.

    Raises:
        ValueError: the folder holds texts of other prompts, another target or another length: both are named.
    """
    requests = FixedRequests(prompts)
    longest = max(len(tokenizer.encode(prompt.text)) for prompt in prompts)
    options = GenerateOptions(seed=seed, longest_prompt=longest, longest_invented=1, longest_answer=max_new_tokens)
    done = {record.index for record in read_records(folder)} if folder.exists() else set()
    identity: dict[str, Any] = {"target_sha256": target_sha256, "prompts": _hash(prompts), "products": "float32"}
    if len(done) < len(requests):
        slots = min(slots, len(requests) - len(done))
        decoder = BatchDecoder(target, slots=slots, capacity=options.capacity, dtype=torch.float32)
        generator = Generator(decoder, tokenizer, requests, options)  # type: ignore[arg-type]
        generate(folder, generator, identity, requests=len(requests), progress=progress)
    records = {record.index: record for record in read_records(folder)}
    found = [records[index] for index in range(len(requests))]
    return [
        Text(prompts[record.index % len(prompts)], record.temperature, record.prompt_length, record.tokens)
        for record in found
    ]


def _hash(prompts: Sequence[BenchPrompt]) -> str:
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(f"{prompt.task}\0{prompt.number}\0{prompt.text}\0".encode())
    return digest.hexdigest()
