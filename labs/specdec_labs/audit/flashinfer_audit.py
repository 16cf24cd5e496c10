"""The audit of FlashInfer's CUDA sampler, where a GPU and the package are there."""

from importlib import import_module
from typing import Any

import torch

from specdec_labs.audit.subject import Subject
from specdec_labs.audit.tables import Tables, memory_example

HORIZON = 5
DRAFTED = 2


def subjects() -> list[Subject]:
    """The audit of `flashinfer.sampling.chain_speculative_sampling`.

    Raises:
        ValueError: no CUDA device, or flashinfer is not installed.
    """
    if not torch.cuda.is_available():
        raise ValueError("the audit of FlashInfer needs a CUDA device; torch finds none here")
    try:
        flashinfer = import_module("flashinfer")
        sampling = import_module("flashinfer.sampling")
    except ImportError as error:
        raise ValueError(
            "flashinfer is not installed; install flashinfer-python beside a CUDA build of torch"
        ) from error
    pair = memory_example()
    sampler = ChainSampler(sampling.chain_speculative_sampling, pair, torch.device("cuda"))
    settings = {"flashinfer": flashinfer.__version__, "drafted": DRAFTED, "tables": pair.to_dict()}
    about = "chain_speculative_sampling, drafts from torch.multinomial, all requests of a batch in one call"
    return [Subject("chain", about, sampler, pair.target_after, HORIZON, settings)]


class ChainSampler:
    """Rounds of `DRAFTED` drafts; `judge` is called once a round for all requests that are not finished.

    `judge(draft_probs [B, K, V], draft_token_ids [B, K], target_probs [B, K + 1, V], generator=...)` returns the
    emitted tokens [B, K + 1], padded with -1, alone or before two counters that are not used.

    Source: the documentation of FlashInfer, `flashinfer.sampling.chain_speculative_sampling`.
    """

    def __init__(self, judge: Any, pair: Tables, device: torch.device) -> None:
        self._judge, self._pair, self._device = judge, pair, device
        self._rows = {
            side: torch.tensor([[float(p) for p in row] for row in getattr(pair, side)], device=device)
            for side in ("target", "draft")
        }

    def __call__(self, first: int, count: int) -> list[list[int]]:
        """The texts of a batch; its noise is that of a generator seeded with `first`."""
        generator = torch.Generator(device=self._device).manual_seed(first)
        texts: list[list[int]] = [[] for _ in range(count)]
        while active := [text for text in texts if len(text) < HORIZON]:
            for text, emitted in zip(active, self._round(active, generator)):
                text.extend(token for token in emitted if token >= 0)
        return [text[:HORIZON] for text in texts]

    def _round(self, texts: list[list[int]], generator: torch.Generator) -> list[list[int]]:
        drafts: list[list[int]] = [[] for _ in texts]
        q = []
        for _ in range(DRAFTED):
            q.append(self._laws("draft", [text + draft for text, draft in zip(texts, drafts)]))
            tokens = torch.multinomial(q[-1], 1, generator=generator)[:, 0].tolist()
            drafts = [[*draft, token] for draft, token in zip(drafts, tokens)]
        p = [
            self._laws("target", [text + draft[:step] for text, draft in zip(texts, drafts)])
            for step in range(DRAFTED + 1)
        ]
        ids = torch.tensor(drafts, dtype=torch.int32, device=self._device)
        answer = self._judge(torch.stack(q, 1), ids, torch.stack(p, 1), generator=generator)
        return (answer[0] if isinstance(answer, tuple) else answer).tolist()

    def _laws(self, side: str, texts: list[list[int]]) -> torch.Tensor:
        return self._rows[side][[self._pair.context(text) for text in texts]]
