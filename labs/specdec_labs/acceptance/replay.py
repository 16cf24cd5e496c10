"""A drafter replayed on a text that the target has written: the rounds it would have had, without the target.

The engine runs as ever, with the recorded text in the target's place; the drafter sees the same contexts and verdicts.

* Temperature 0, any drafter, and temperature 1 with deterministic drafts: the target is taken to say the text with
  certainty. A deterministic draft is accepted exactly when it is what comes out, so the rounds are those of the run
  that wrote the text.
* Temperature 1 with sampled chains: given that token x came out where a draft was tested, the draft was accepted with
  probability min(1, q(x) / p(x)). Each draft is therefore set to the text's own token, which also leads the drafter
  along the text, and accepted by a coin with that probability. Text and accepted lengths then have the joint law of the
  engine with rule `chain` (tests/labs/test_acceptance_replay.py shows it in rational arithmetic).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdec_core.coins.noise import RoundCoins
from specdec_core.coins.protocol import Coins, Event, Purpose, Weights
from specdec_core.controllers import Constant
from specdec_core.drafters.protocol import Drafter
from specdec_core.engine import Engine
from specdec_core.models.protocol import LanguageModel
from specdec_core.rules import RULES, Rule
from specdec_core.rules.verdict import Verdict
from specdec_core.trace import Round
from specdec_core.warp import SamplingParams

_BEYOND = 64
"""Room behind the text, so that no round is cut short by the limit."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay: `budget` nodes a round at most, down to `depth` levels."""

    drafter: Drafter
    budget: int
    depth: int


def replay(
    case: Replay,
    target: LanguageModel,
    tokens: Sequence[int],
    prompt_length: int,
    params: SamplingParams,
    *,
    seed: int = 0,
    request: int = 0,
) -> list[Round]:
    """The rounds on `tokens` (prompt and answer). Of an answer that was cut, a round that could reach its end is left
    out; one that ends with a stop token of `params` counts to its end.

    `target` is a `TextModel`: `certain`, or with the recorded logits for sampled chains above temperature 0.
    """
    sampled = case.drafter.proposal == "chain" and not params.is_greedy
    rule = FORCED_CHAIN if sampled else RULES["recursive"]
    coins = ForcedCoins(seed, tokens) if sampled else None
    engine = Engine(target, case.drafter, rule, Constant(case.budget))
    stream = engine.stream(
        tokens[:prompt_length], params, len(tokens) - prompt_length + _BEYOND, request=request, coins=coins
    )
    rounds: list[Round] = []
    length, stops = prompt_length, tokens[-1] in params.stop
    for step in stream:
        length += len(step.tokens)
        if step.round is not None:
            rounds.append(step.round)
        if not stops and length + case.depth + 1 > len(tokens):
            break
    return rounds


def verify_forced_chain(
    draft_tokens: Sequence[int], draft_probs: Sequence[Any] | None, target_probs: Sequence[Any], coins: Coins
) -> Verdict:
    """The verdict on drafts that are the text itself: each accepted with probability min(1, q / p).

    The next token is the text's too: `coins.draw` has to give it.
    """
    if draft_probs is None and draft_tokens:
        raise ValueError("draft_probs is None; a forced chain is judged by the laws its tokens would be drawn from")
    draft_probs = () if draft_probs is None else draft_probs
    for node, token in enumerate(draft_tokens):
        # p and q change places: the question is how the known token came to be
        if not coins.accept(draft_probs[node][token], target_probs[node][token], node=node):
            return Verdict(node, tuple(range(node)), token, "recovered")
    count = len(draft_tokens)
    return Verdict(count, tuple(range(count)), coins.draw(target_probs[count], node=count, purpose="bonus"), "bonus")


FORCED_CHAIN = Rule(
    name="forced chain",
    verify=verify_forced_chain,
    lossless=True,
    needs_draft_probs=True,
    proposals=("chain",),
    takes_tree=False,
    source="the conditional law of Leviathan et al. 2211.17192, algorithm 1, given its output",
)


class ForcedCoins:
    """Coins whose draws are the text and whose acceptances are noise."""

    def __init__(self, seed: int, text: Sequence[int]) -> None:
        self.seed, self._text = seed, text

    def at(self, *, request: int, length: int) -> "_ForcedRoundCoins":
        """The coins of one round."""
        return _ForcedRoundCoins(self.seed, request, length, self._text)


class _ForcedRoundCoins(RoundCoins):
    def __init__(self, seed: int, request: int, length: int, text: Sequence[int]) -> None:
        super().__init__(seed, request, length)
        self._text, self._length = text, length

    def draw(self, weights: Weights, *, node: int, purpose: Purpose) -> int:
        """The text's token at this place, whatever the weights; 0 behind a stop token that ended it."""
        self.events.append(Event(purpose, node, None))
        place = self._length + node
        return self._text[place] if place < len(self._text) else 0
