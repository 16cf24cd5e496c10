"""Mistakes in the keys of the noise, each a function from the right key to the wrong one, with its exact law."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from specdec_core.coins import CoinSource, NoiseKey
from specdec_core.exact_drafts import sampled_draft
from specdec_core.laws import TokenLaw, target_law
from specdec_core.rules import verify_block, verify_chain
from specdec_labs.museum.bulk_noise import BulkCoins, Rekey
from specdec_labs.museum.decoding import AnyRule, Laws, Method, decode, distance, fixed_law, law_of
from specdec_labs.museum.exact_noise import DraftRaceEnumeration, PositionKeyedEnumeration
from specdec_labs.museum.piece import CertificateCase, Evidence, Piece, law_evidence


@dataclass(frozen=True, slots=True)
class Noise:
    """How keys are rewritten, and the source that enumerates what comes of it."""

    rekey: Rekey
    enumerated: Callable[[CoinSource], CoinSource]


def as_it_is(key: NoiseKey) -> NoiseKey:
    """Right: (seed, request, length at round start, node, purpose)."""
    return key


def of_the_draft(key: NoiseKey) -> NoiseKey:
    """Wrong: the recovered token reads the noise that drew the refused draft."""
    return replace(key, purpose="draft") if key.purpose == "recover" else key


def by_position(key: NoiseKey) -> NoiseKey:
    """Wrong for rules that look ahead: noise belongs to the position in the text, whichever round asks."""
    return replace(key, length=0, node=key.length + key.node)


RIGHT = Noise(as_it_is, lambda coins: coins)
OF_THE_DRAFT = Noise(of_the_draft, DraftRaceEnumeration)
BY_POSITION = Noise(by_position, PositionKeyedEnumeration)


@dataclass(frozen=True, slots=True)
class NoiseCase:
    """A rule on laws without context, read with one noise or another; `wanted` tokens are decoded, `horizon` tested."""

    laws: Laws
    rule: AnyRule
    gamma: int
    horizon: int
    wanted: int

    def method(self, laws: Laws) -> Method:
        """Sampled drafts and the rule."""
        return Method(sampled_draft(laws.draft, self.gamma), self.rule)

    def law(self, noise: Noise) -> TokenLaw:
        """The exact law of the first `horizon` tokens."""
        method = self.method(self.laws)
        return law_of(
            lambda coins: decode(method, self.laws.target, (), self.wanted, noise.enumerated(coins))[: self.horizon]
        )

    def exact_check(self, noise: Noise) -> Evidence:
        """The law against the target's."""
        return law_evidence(distance(self.law(noise), target_law(self.laws.target, (), self.horizon)))

    def no_key_is_read_twice(self, noise: Noise) -> Evidence:
        """Property check: over all rounds of 50 requests of 8 tokens, no key is read twice."""
        keys: list[NoiseKey] = []
        source = BulkCoins(0, 0, 50, rekey=noise.rekey, keys_read=keys)
        floats = self.laws.as_floats()
        for request in range(50):
            decode(self.method(floats), floats.target, (), 8, source, request=request)
        twice = [key for key, reads in Counter(keys).items() if reads > 1]
        if not twice:
            return Evidence(True, f"{len(keys)} keys read, none twice")
        kind = Counter(key.purpose for key in twice).most_common(1)[0][0]
        return Evidence(False, f"{len(twice)} of {len(set(keys))} keys read twice, most of purpose {kind!r}")

    def certificate(self, wrong: Noise, n: int) -> CertificateCase:
        """The certificate; the samples are production noise under rewritten keys."""

        def sampler(noise: Noise):
            floats = self.laws.as_floats()

            def sample(first: int, count: int):
                source = BulkCoins(0, first, count, rekey=noise.rekey)
                return [
                    decode(self.method(floats), floats.target, (), self.wanted, source, request=request)
                    for request in range(first, first + count)
                ]

            return sample

        return CertificateCase(sampler, self.laws.target, self.horizon, n, lambda: self.law(wrong))


REUSE_CASE = NoiseCase(
    Laws(
        fixed_law(Fraction(1, 10), Fraction(6, 10), Fraction(3, 10)),
        fixed_law(Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)),
    ),
    verify_chain,
    gamma=1,
    horizon=1,
    wanted=2,
)
"""A law of three tokens on which 0.60 becomes exactly 0.63."""

POSITION_CASE = NoiseCase(
    Laws(fixed_law(Fraction(1, 3), Fraction(2, 3)), fixed_law(Fraction(2, 3), Fraction(1, 3))),
    verify_block,
    gamma=2,
    horizon=5,
    wanted=7,
)
"""The example of the block verification paper: five tokens at total variation distance exactly 1/12."""

REUSED_NOISE = Piece(
    name="reused_noise",
    title="random numbers reused between draft and recovery",
    symptom="Every number looks healthy; one token of probability 0.60 comes with 0.63.",
    cause="The noise that drew the refused draft also draws the token that replaces it. That the draft won makes the "
    "other tokens' numbers large, and then the likelier of them wins the second race too often.",
    met_in="vllm-project/vllm #47386, fixed by #54282 (2026-08)",
    fix="The purpose (draft, accept, recover, bonus) is part of the key, and no key is read twice.",
    wrong=OF_THE_DRAFT,
    right=RIGHT,
    exact_check=REUSE_CASE.exact_check,
    property_check=REUSE_CASE.no_key_is_read_twice,
    certificate=REUSE_CASE.certificate(OF_THE_DRAFT, 9000),
)

NOISE_BY_POSITION = Piece(
    name="noise_by_position",
    title="noise keyed by position with block verify",
    symptom="Every round on its own is right, and chain verification is right; the text of block verification is not.",
    cause="A dropped position is drafted again with the same noise, and block verification has already looked at it "
    "when it chose what to keep.",
    met_in="found while the keys of this lab were designed: keys by position make a text independent of its batch, "
    "which is why they are common; docs/audit.md tells what the audit of vLLM 0.32.0 found with its kernels",
    fix="The key holds the length at the start of the round instead of the position.",
    wrong=BY_POSITION,
    right=RIGHT,
    exact_check=POSITION_CASE.exact_check,
    property_check=POSITION_CASE.no_key_is_read_twice,
    certificate=POSITION_CASE.certificate(BY_POSITION, 2000),
)
