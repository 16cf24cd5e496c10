"""Mistake: a recurrent (or window) state that refused drafts have changed is not put back.

The right cache keeps the state after every token since the last settled one: a state cannot be cut like rows.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from specdec_core.coins import CoinSource
from specdec_core.exact_drafts import ExactLaw, Prefix, sampled_draft
from specdec_core.laws import TokenLaw, target_law
from specdec_core.random_laws import random_law
from specdec_core.rules import verify_chain
from specdec_labs.museum.bulk_noise import BulkCoins
from specdec_labs.museum.decoding import Laws, distance, law_of
from specdec_labs.museum.piece import CertificateCase, Evidence, Piece, law_evidence

GAMMA = 2
STATES = 5

Readout = tuple[tuple[Fraction, ...], ...]
"""The next-token law of each state."""


def step(state: int, token: int) -> int:
    """The next state of the toy recurrent model: it remembers the whole text, folded into one number."""
    return (2 * state + token + 1) % STATES


def fold(tokens: Sequence[int]) -> int:
    """The state after `tokens`."""
    state = 0
    for token in tokens:
        state = step(state, token)
    return state


class SnapshotCache:
    """The state after every token fed; rolling back returns to an older one."""

    def __init__(self) -> None:
        self.states = [0]

    def feed(self, token: int) -> int:
        """The new state."""
        self.states.append(step(self.states[-1], token))
        return self.states[-1]

    def rollback(self, num_removed: int) -> None:
        """Drops the newest `num_removed` tokens."""
        del self.states[len(self.states) - num_removed :]


class LengthOnlyCache(SnapshotCache):
    """The mistake: rolling back moves the length, as for rows of keys and values; the state stays where it was."""

    def rollback(self, num_removed: int) -> None:
        """Drops tokens but not what they did to the state."""
        newest = self.states[-1]
        super().rollback(num_removed)
        self.states[-1] = newest


MakeCache = Callable[[], SnapshotCache]


def recurrent_laws(readout: Readout, draft_readout: Readout) -> Laws:
    """The laws as functions of the text, for the exact side."""
    return Laws(lambda prefix: readout[fold(prefix)], lambda prefix: draft_readout[fold(prefix)])


def decode_recurrent(
    laws: Laws,
    readout: Sequence[ExactLaw],
    prompt: Prefix,
    wanted: int,
    source: CoinSource,
    make_cache: MakeCache,
    *,
    request: int = 0,
) -> Prefix:
    """`wanted` tokens after `prompt`; the target's laws are read from the state in its cache."""
    cache = make_cache()
    for token in prompt[:-1]:
        cache.feed(token)
    text = prompt
    draft = sampled_draft(laws.draft, GAMMA)
    while (missing := len(prompt) + wanted - len(text)) > 0:
        coins = source.at(request=request, length=len(text))
        drafted, drawn_from = draft(text, missing - 1, coins)
        assert isinstance(drafted, tuple)
        target_rows = [readout[cache.feed(token)] for token in (text[-1], *drafted)]
        verdict = verify_chain(drafted, drawn_from, target_rows, coins)
        cache.rollback(len(drafted) - verdict.num_accepted)
        text += (*drafted[: verdict.num_accepted], verdict.next_token)
    return text[len(prompt) :]


def law_is_the_targets(laws: Laws, readout: Readout, prompt: Prefix, wanted: int):
    """Exact check of the output law."""

    def check(make_cache: MakeCache) -> Evidence:
        law = law_of(lambda coins: decode_recurrent(laws, readout, prompt, wanted, coins, make_cache))
        return law_evidence(distance(law, target_law(laws.target, prompt, wanted)))

    return check


def rollback_restores_the_state(make_cache: MakeCache) -> Evidence:
    """Seven tokens fed, three rolled back: the state is that of the first four."""
    tokens, cache = (1, 0, 1, 1, 0, 1, 0), make_cache()
    for token in tokens:
        cache.feed(token)
    cache.rollback(3)
    state, expected = cache.states[-1], fold(tokens[:4])
    return Evidence(state == expected, f"after rolling back: state {state}, of the tokens kept: {expected}")


def certificate(laws: Laws, readout: Readout, prompt: Prefix, horizon: int, n: int) -> CertificateCase:
    """The certificate of the loop with a given cache."""

    def sampler(make_cache: MakeCache):
        floats = laws.as_floats()
        rows = [[float(mass) for mass in law] for law in readout]

        def sample(first: int, count: int) -> list[Prefix]:
            source = BulkCoins(0, first, count)
            return [
                decode_recurrent(floats, rows, prompt, horizon, source, make_cache, request=request)  # type: ignore[arg-type]
                for request in range(first, first + count)
            ]

        return sample

    def wrong_law() -> TokenLaw:
        return law_of(lambda coins: decode_recurrent(laws, readout, prompt, horizon, coins, LengthOnlyCache))

    return CertificateCase(sampler, lambda tokens: laws.target(prompt + tokens), horizon, n, wrong_law)


def random_readout(seed: str) -> Readout:
    """A law of two tokens for each state."""
    law = random_law(seed, 2, zeros=False)
    return tuple(tuple(law((state,))) for state in range(STATES))


_READOUT = random_readout("target 16")
_LAWS = recurrent_laws(_READOUT, random_readout("draft 16"))

STATE_NOT_ROLLED_BACK = Piece(
    name="state_not_rolled_back",
    title="recurrent/window state not rolled back",
    symptom="Acceptance looks healthy while the text turns to nonsense after the first refusals.",
    cause="Rolling back moves the length only; a recurrent state (or a full window) still holds the refused drafts.",
    met_in="vllm-project/vllm #39273, #52942, #53505; ml-explore/mlx-lm #1446",
    fix="Keep the state of every position of the round and return to the accepted one, or refuse to draft.",
    wrong=LengthOnlyCache,
    right=SnapshotCache,
    exact_check=law_is_the_targets(_LAWS, _READOUT, (0,), 4),
    property_check=rollback_restores_the_state,
    certificate=certificate(_LAWS, _READOUT, (0,), 4, 200),
)
