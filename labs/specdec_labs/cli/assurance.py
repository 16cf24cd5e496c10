"""What the demo can promise about the text it showed: one sentence, checked on the spot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
import math

import numpy as np
import torch

from specdec_core.certify import certify
from specdec_core.certify_greedy import NEAR_TIE, GreedyCertificate, certify_greedy
from specdec_core.coins.noise import NoiseKey
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.trace import Trace
from specdec_core.warp import SamplingParams

QUICK_TOP_K = 4
QUICK_GAMMA = 1
QUICK_SAMPLES = 1000
QUICK_BIAS = 0.15
"""The certificate of the demo: a few seconds, and it says what it can see."""

SAME_TEXT = ("match",)
"""Rules under which a seed has one text, whatever is drafted."""

# logits of 16 to 32 have neighbours 1/64 apart in float16 and 1/8 apart in bfloat16; four such steps
_ALLOWED_GAP = {torch.float16: 0.0625, torch.bfloat16: 0.5}


@dataclass(frozen=True, slots=True)
class Assurance:
    """A sentence, and whether what it reports is as it should be (None: nothing was checked)."""

    sentence: str
    holds: bool | None


def greedy_assurance(
    engine: Engine, prompt: Sequence[int], params: SamplingParams, max_new_tokens: int, runs: Sequence[Trace]
) -> Assurance:
    """Whether the text is the target's own greedy text.

    `runs` are plain and speculative runs of this very request; when all their texts are the same that settles it.
    With fewer than two, or when they differ, the two are decoded again and the first difference is measured.
    """
    gap = _ALLOWED_GAP.get(engine.target.dtype, NEAR_TIE)
    texts = {trace.emitted for trace in runs}
    if len(runs) > 1 and len(texts) == 1:
        certificate = GreedyCertificate(1, len(texts.pop()), (), gap)
    else:
        certificate = certify_greedy(engine, [prompt], max_new_tokens, params=params, allowed_gap=gap)
    return Assurance(certificate.sentence, certificate.passed)


def match_assurance(
    plain: Engine,
    engine: Engine,
    prompt: Sequence[int],
    params: SamplingParams,
    max_new_tokens: int,
    runs: Sequence[Trace],
) -> Assurance:
    """Whether the text is that of plain decoding under the same rule and seed, at any temperature.

    `runs` as in `greedy_assurance`. A difference is excused where the two tokens finished the race of their draw as
    close together as rounding can tell; their gap is that of the logarithms of their times.
    """
    texts = list(dict.fromkeys(trace.emitted for trace in runs))
    if len(runs) < 2 or len(texts) > 1:
        pair = [arm.generate(prompt, params, max_new_tokens) for arm in (plain, engine)]
        if any(run.finish_reason == "interrupted" for run in pair):
            raise KeyboardInterrupt
        texts = list(dict.fromkeys(run.tokens for run in pair))
    if len(texts) == 1:
        return Assurance(
            f"Same seed, same text: equals plain decoding under rule {plain.rule.name}, token for token "
            f"({len(texts[0])} tokens).",
            True,
        )
    place = next((i for i, (one, other) in enumerate(zip(*texts)) if one != other), min(map(len, texts)))
    where = f"token {place} of seed {params.seed}"
    if place == min(map(len, texts)):
        return Assurance(f"NOT the text of plain decoding: one ends at {where}, the other does not.", False)
    gap = _race_gap(plain, [*prompt, *texts[0][:place]], len(prompt), params, (texts[0][place], texts[1][place]))
    if gap <= (allowed := _ALLOWED_GAP.get(engine.target.dtype, NEAR_TIE)):
        return Assurance(f"Same seed, same text up to a near-tie: {where}, gap {gap:.2g}.", True)
    return Assurance(f"NOT the text of plain decoding: {where}, gap {gap:.2g}; rounding explains {allowed:g}.", False)


def _race_gap(
    engine: Engine, text: list[int], prompt_length: int, params: SamplingParams, tokens: tuple[int, int]
) -> float:
    """How far apart two tokens finished in the race that drew the token behind `text`: the logarithm of the ratio."""
    fed = torch.tensor(text, dtype=torch.long, device=engine.target.device)
    logits = engine.target.forward(fed, cache=engine.target.new_cache(len(text)), last_only=True).logits
    law = params.probs(logits, [text] if params.uses_history else None, prompt_length=prompt_length)[0]
    ids = np.array(sorted(tokens), dtype=np.uint32)
    exponentials = NoiseKey(params.seed or 0, 0, len(text), 0, "sample").exponentials(ids)
    times = [float(time) / mass if (mass := float(law[int(t)])) else math.inf for t, time in zip(ids, exponentials)]
    return math.inf if math.inf in times else abs(math.log(times[0] / times[1]))


@dataclass(frozen=True, slots=True)
class QuickSettings:
    """What is certified in place of the run itself, so that the partition is fine and seconds are enough."""

    params: SamplingParams
    gamma: int
    scope: str

    @classmethod
    def near(cls, params: SamplingParams, gamma: int) -> "QuickSettings":
        """Settings as close to the asked ones as possible; `scope` says where they are not the same."""
        top_k = min(params.top_k or QUICK_TOP_K, QUICK_TOP_K)
        chosen, changes = min(gamma, QUICK_GAMMA), []
        if top_k != params.top_k:
            changes.append(f"top_k {top_k} (not {params.top_k or 'the whole vocabulary'})")
        if chosen != gamma:
            changes.append(f"gamma {chosen} (not {gamma})")
        changes.append("logits remembered by prefix and no end-of-text stop")
        scope = f"Tested on this prompt with {', '.join(changes)}; all else as above"
        return cls(replace(params, top_k=top_k), chosen, scope)


def stochastic_assurance(
    engine: Engine, oracle: MemoisedModel, prompt: Sequence[int], quick: QuickSettings, seed: int
) -> Assurance:
    """A certificate of `engine`, which drafts `quick.gamma` tokens a round; the sentence says what it covers."""
    try:
        certificate = certify(
            engine,
            prompt,
            quick.params,
            gamma=quick.gamma,
            n=QUICK_SAMPLES,
            bias=QUICK_BIAS,
            seed=seed,
            oracle=oracle,
        )
    except ValueError as error:
        return Assurance(f"No certificate: {error}.", None)
    holds = None if certificate.verdict == "no verdict" else certificate.passed
    return Assurance(f"{quick.scope}: {certificate.sentence}", holds)
