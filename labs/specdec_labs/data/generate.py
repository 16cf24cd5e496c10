"""Text in the target's own words: prompts and answers of a model, many at a time, resumable.

The next token of request i at step t depends on (seed, i, t) and the model alone, not on which requests run beside
it, up to rounding.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
import time
from typing import Any

from jaxtyping import Float
import numpy as np
import torch
from torch import Tensor

from specdec_core.models.tokenizer import GGUFTokenizer
from specdec_labs.data.batch_decoder import BatchDecoder
from specdec_labs.data.manifest import MANIFEST, read_manifest, write_manifest
from specdec_labs.data.recipes import INVENTED, Recipes, Request
from specdec_labs.data.shards import Record, ShardWriter, read_records

GENERATE_HINT = "make it with `specdec data generate`"
_PROMPT_TEMPERATURE = 0.8
_SHORTEST_PROMPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Limits in tokens: of an invented prompt, of a template's prompt (longer ones are skipped), of an answer."""

    seed: int = 0
    greedy: float = 0.5
    longest_prompt: int = 200
    longest_invented: int = 80
    longest_answer: int = 160

    @property
    def capacity(self) -> int:
        """Rows a sequence can need; the template around a prompt takes fewer than 40."""
        return 40 + max(self.longest_prompt, self.longest_invented) + self.longest_answer


@dataclass(slots=True)
class _Sequence:
    """A slot's request on its way. `forced` are template tokens still to be fed before the model may speak."""

    request: Request
    uniforms: np.ndarray
    tokens: list[int]
    prompt_length: int
    inventing: bool
    forced: list[int] = field(default_factory=list)
    spoken: int = 0


class Generator:
    """Runs requests through a `BatchDecoder`. `tokens_made` counts tokens of answers and invented prompts."""

    def __init__(
        self, decoder: BatchDecoder, tokenizer: GGUFTokenizer, recipes: Recipes, options: GenerateOptions
    ) -> None:
        self.decoder, self.tokenizer, self.recipes, self.options = decoder, tokenizer, recipes, options
        self.tokens_made = 0
        asked = tokenizer.chat("")
        end = tokenizer.eos_ids[0]
        # the empty prompt shows the template's two halves: before the user's words, and after them
        self._before, self._after = asked[: _last(asked, end)], asked[_last(asked, end) :]

    def run(self, indices: Iterator[int]) -> Iterator[Record]:
        """Finished records, in the order they end. Stops when `indices` is used up and all slots are done."""
        slots: list[_Sequence | None] = [None] * self.decoder.slots
        pending = torch.zeros(self.decoder.slots, dtype=torch.long)
        while True:
            for slot, sequence in enumerate(slots):
                if sequence is None:
                    slots[slot] = self._start(slot, indices, pending)
            if not any(slots):
                return
            for slot, sequence in enumerate(slots):
                if sequence is None:
                    self.decoder.lengths[slot] = 0
            chosen = self._choose(self.decoder.step(pending), slots)
            for slot, sequence in enumerate(slots):
                if sequence is not None:
                    pending[slot] = int(chosen[slot])
                    record = self._advance(sequence, pending, slot)
                    if record is not None:
                        slots[slot] = None
                        yield record

    def _start(self, slot: int, indices: Iterator[int], pending: Tensor) -> _Sequence | None:
        for index in indices:
            request = self.recipes.request(index)
            tokens = list(self._before)
            if request.prompt is not None:
                words = self.tokenizer.encode(request.prompt)
                if len(words) > self.options.longest_prompt:
                    continue
                tokens += [*words, *self._after]
            noise = np.random.Generator(np.random.Philox(key=[self.options.seed, index]))
            uniforms = noise.random(self.options.longest_invented + self.options.longest_answer + 1)
            self.decoder.prefill(slot, tokens[:-1])
            pending[slot] = tokens[-1]
            return _Sequence(request, uniforms, tokens, len(tokens), inventing=request.kind == INVENTED)
        return None

    def _choose(self, logits: Float[Tensor, "slots vocab"], slots: list[_Sequence | None]) -> Tensor:
        """The next token of every slot: the most probable one, or by the sequence's own uniform."""
        temperatures, uniforms = torch.ones(len(slots)), torch.zeros(len(slots), dtype=torch.float64)
        for slot, sequence in enumerate(slots):
            if sequence is not None:
                temperatures[slot] = _PROMPT_TEMPERATURE if sequence.inventing else sequence.request.temperature
                uniforms[slot] = sequence.uniforms[min(sequence.spoken, len(sequence.uniforms) - 1)]
        greedy = temperatures == 0
        scaled = logits / temperatures.masked_fill(greedy, 1.0)[:, None].to(logits.device)
        running = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
        wanted = uniforms.to(running)[:, None] * running[:, -1:]
        drawn = torch.searchsorted(running, wanted, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
        return torch.where(greedy.to(logits.device), logits.argmax(dim=-1), drawn).cpu()

    def _advance(self, sequence: _Sequence, pending: Tensor, slot: int) -> Record | None:
        """Takes the token chosen for `slot`, or the template's next one instead; a record when that ends it."""
        if sequence.forced:
            pending[slot] = sequence.forced.pop(0)
            sequence.tokens.append(int(pending[slot]))
            sequence.prompt_length = len(sequence.tokens)
            return None
        token = int(pending[slot])
        sequence.tokens.append(token)
        sequence.spoken += 1
        self.tokens_made += 1
        ended = token in self.tokenizer.eos_ids
        if sequence.inventing:
            return self._end_prompt(sequence, token, ended)
        if ended or len(sequence.tokens) - sequence.prompt_length >= self.options.longest_answer:
            return _record(sequence, "stop" if ended else "length")
        return None

    def _end_prompt(self, sequence: _Sequence, token: int, ended: bool) -> Record | None:
        words = len(sequence.tokens) - sequence.prompt_length
        if ended and words > _SHORTEST_PROMPT and token == self._after[0]:
            sequence.inventing = False
            sequence.forced = list(self._after[1:])
        elif ended or words >= self.options.longest_invented:
            return _record(sequence, "no_prompt")
        return None


def _last(tokens: list[int], token: int) -> int:
    return len(tokens) - 1 - tokens[::-1].index(token)


def _record(sequence: _Sequence, finish: str) -> Record:
    request = sequence.request
    return Record(
        request.index, request.kind, request.temperature, sequence.prompt_length, finish, tuple(sequence.tokens)
    )


def generate(
    folder: Path,
    generator: Generator,
    identity: dict[str, Any],
    *,
    requests: int,
    minutes: float | None = None,
    progress: Callable[[int, int, float], None] = lambda records, tokens, seconds: None,
) -> int:
    """Appends records to the shards in `folder` until there are `requests`, or the minutes are over; how many it made.

    `identity` (model, its hash, ...) and the options stand in the folder's manifest; a run that would mix two is
    refused. A request that ran when a run was stopped is made again, the same up to rounding.

    Raises:
        ValueError: the folder holds text of another model or other options: both are named.
    """
    described = {"format": 1, **identity, **asdict(generator.options)}
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        check_same(folder, read_manifest(folder, GENERATE_HINT), described)
    else:
        write_manifest(folder, described)
    done = {record.index for record in read_records(folder)}
    missing = (index for index in range(requests) if index not in done)
    made, start = 0, time.perf_counter()
    with ShardWriter(folder) as shards:
        for record in generator.run(missing):
            shards.write(record)
            made += 1
            elapsed = time.perf_counter() - start
            progress(made, generator.tokens_made, elapsed)
            if minutes is not None and elapsed >= 60 * minutes:
                break
    return made


def check_same(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """ValueError naming every entry in which the two descriptions differ."""
    differing = [
        f"{key} is {found.get(key)!r} there and {wanted.get(key)!r} here"
        for key in sorted(found.keys() | wanted.keys())
        if found.get(key) != wanted.get(key)
    ]
    if differing:
        raise ValueError(f"{folder}: made with other settings: {'; '.join(differing)}; use another folder")
