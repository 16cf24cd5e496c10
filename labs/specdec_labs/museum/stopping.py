"""Mistake: the end-of-text token is looked for at the end of a round's tokens only."""

from collections.abc import Sequence
from fractions import Fraction

from specdec_core.coins import CoinSource
from specdec_core.exact_drafts import NextLaw, Prefix, deterministic_draft, sampled_draft
from specdec_core.laws import TokenLaw, target_law
from specdec_core.recording import cut_at_stop
from specdec_core.rules import verify_chain
from specdec_core.toy import toy_draft_next, toy_target_next
from specdec_labs.museum.bulk_noise import BulkCoins
from specdec_labs.museum.decoding import Cut, Laws, Method, decode, distance, law_of, memory_laws
from specdec_labs.museum.piece import CertificateCase, Evidence, Piece, law_evidence

GAMMA = 2
EOS = 2
"""The last token of the instance's vocabulary of three."""

RIGHT: Cut = cut_at_stop
"""The engine's own function: up to the first stop token."""


def cut_nothing(tokens: Prefix, stop: Sequence[int]) -> Prefix:
    """Wrong: all tokens of the round. A stop token ends the text only when it happens to be the last."""
    return tokens


def ending_law(law: NextLaw, prompt: Prefix) -> NextLaw:
    """The target's law when EOS ends the text; what comes after is EOS again, so that texts have one length."""

    def ending(text: Prefix):
        masses = law(text)
        if EOS not in text[len(prompt) :]:
            return masses
        return [Fraction(token == EOS) for token in range(len(masses))]

    return ending


def text_of(laws: Laws, prompt: Prefix, horizon: int, source: CoinSource, cut: Cut, request: int = 0) -> Prefix:
    """The text, filled up with EOS to the horizon."""
    method = Method(sampled_draft(laws.draft, GAMMA), verify_chain)
    text = decode(method, laws.target, prompt, horizon, source, request=request, stop=(EOS,), cut=cut)
    return text + (EOS,) * (horizon - len(text))


def law_ends_at_eos(laws: Laws, prompt: Prefix, horizon: int):
    """Exact check: the law of texts that end."""

    def check(cut: Cut) -> Evidence:
        law = law_of(lambda coins: text_of(laws, prompt, horizon, coins, cut))
        return law_evidence(distance(law, target_law(ending_law(laws.target, prompt), prompt, horizon)))

    return check


def nothing_after_eos(cut: Cut) -> Evidence:
    """The TOY pair, gamma 4, EOS 5: plain decoding says 2, 0, 5, and EOS falls inside an accepted block."""

    def one_hot(next_token) -> NextLaw:
        return lambda prefix: [Fraction(token == next_token(prefix)) for token in range(10)]

    method = Method(deterministic_draft(toy_draft_next, 4), verify_chain)
    law = law_of(lambda coins: decode(method, one_hot(toy_target_next), (1, 2, 3), 16, coins, stop=(5,), cut=cut))
    (text,) = law
    return Evidence(text == (2, 0, 5), f"EOS 5: {len(text)} tokens, {list(text[:6])}; plain decoding: [2, 0, 5]")


def certificate(laws: Laws, prompt: Prefix, horizon: int, n: int) -> CertificateCase:
    """The certificate on texts that end."""

    def sampler(cut: Cut):
        floats = laws.as_floats()

        def sample(first: int, count: int) -> list[Prefix]:
            source = BulkCoins(0, first, count)
            return [text_of(floats, prompt, horizon, source, cut, request) for request in range(first, first + count)]

        return sample

    def wrong_law() -> TokenLaw:
        return law_of(lambda coins: text_of(laws, prompt, horizon, coins, cut_nothing))

    ending = ending_law(laws.target, prompt)
    return CertificateCase(sampler, lambda tokens: ending(prompt + tokens), horizon, n, wrong_law)


_LAWS = memory_laws(0, 3)

EOS_INSIDE = Piece(
    name="eos_inside_the_prefix",
    title="EOS inside the accepted prefix",
    symptom="Texts run on behind their end, but only sometimes, and only with speculation.",
    cause="The whole block is appended and its last token alone compared with EOS.",
    met_in="huggingface/transformers #47912, #48981; LostRuins/koboldcpp #1276",
    fix="Cut a round's tokens behind the first stop token, and count only what is left.",
    wrong=cut_nothing,
    right=RIGHT,
    exact_check=law_ends_at_eos(_LAWS, (0,), 4),
    property_check=nothing_after_eos,
    certificate=certificate(_LAWS, (0,), 4, 200),
)
