"""What a piece of the museum is: a mistake, its story, and the three detectors that are tried on it."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specdec_core.certify_callable import Sampler
from specdec_core.coins import CoinSource
from specdec_core.exact_drafts import ExactLaw, NextLaw, Prefix
from specdec_core.laws import TokenLaw, output_law, target_law
from specdec_labs.museum.bulk_noise import BulkCoins, Rekey
from specdec_labs.museum.decoding import Laws, Method, decode, distance


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a detector says of one implementation: whether it found nothing wrong, and the finding in words."""

    passes: bool
    says: str


Check = Callable[[Any], Evidence]
"""A detector: handed the wrong implementation it must not pass, handed the right one it must."""


@dataclass(frozen=True, slots=True)
class CertificateCase:
    """How the certificate is run on a piece.

    Attributes:
        sampler: from an implementation to what `certify_callable` samples.
        law: the target's law of the next token, after the tokens so far.
        horizon: tokens under test.
        n: samples.
        wrong_law: the exact law of what the wrong implementation emits, from which its power is computed.
    """

    sampler: Callable[[Any], Sampler]
    law: NextLaw
    horizon: int
    n: int
    wrong_law: Callable[[], TokenLaw]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One mistake, as a minimal variant of the right code, and what catches it.

    Attributes:
        name: what `specdec museum NAME` is called with.
        title: the mistake in a few words.
        symptom, cause, fix: its story.
        met_in: where it was reported, by reference; all reports may have been settled since.
        wrong, right: implementations; `exact_check` and `property_check` tell them apart.
        exact_check: compares exact numbers: a law that is enumerated, or counts.
        property_check: one observable rule that the mistake breaks.
        certificate: None for a mistake that samples cannot show.
        instead: for those, why not, and what does catch it.
    """

    name: str
    title: str
    symptom: str
    cause: str
    met_in: str
    fix: str
    wrong: Any
    right: Any
    exact_check: Check
    property_check: Check
    certificate: CertificateCase | None
    instead: str = ""

    def __post_init__(self) -> None:
        if (self.certificate is None) != bool(self.instead):
            raise ValueError(f"piece {self.name!r}: give `instead` exactly when there is no certificate")

    @property
    def visible_to_sampling(self) -> bool:
        """Whether the output's law differs enough for samples to show it."""
        return self.certificate is not None


MakeMethod = Callable[[Laws], Method]


@dataclass(frozen=True, slots=True)
class Instance:
    """Laws, a prompt and a horizon: where a way to decode is tried."""

    laws: Laws
    horizon: int
    prompt: Prefix = (0,)

    def target_law(self) -> TokenLaw:
        """The exact law that the output should have."""
        return target_law(self.laws.target, self.prompt, self.horizon)

    def output_law(self, make: MakeMethod) -> TokenLaw:
        """The exact law that the output has."""
        method = make(self.laws)
        return output_law(method.rule, self.laws.target, method.draft, self.prompt, self.horizon)

    def exact_check(self, make: MakeMethod) -> Evidence:
        """`output_law == target_law`, with the total variation distance."""
        return law_evidence(distance(self.output_law(make), self.target_law()))

    def certificate(self, wrong: MakeMethod, n: int) -> CertificateCase:
        """The certificate on this instance; `wrong` is the mutant whose power is stated."""
        return CertificateCase(self.sampler, self.after_prompt, self.horizon, n, lambda: self.output_law(wrong))

    def after_prompt(self, tokens: Prefix) -> ExactLaw:
        """The target's law after the prompt and `tokens`."""
        return self.laws.target(self.prompt + tokens)

    def sampler(self, make: MakeMethod, *, rekey: Rekey | None = None) -> Sampler:
        """Samples with production noise, its keys rewritten by `rekey`."""
        floats = self.laws.as_floats()
        method = make(floats)

        def sample(first: int, count: int) -> list[Prefix]:
            source: CoinSource = BulkCoins(0, first, count, rekey=rekey)
            return [
                decode(method, floats.target, self.prompt, self.horizon, source, request=request)
                for request in range(first, first + count)
            ]

        return sample


def law_evidence(tv: Fraction, of: str = "output law") -> Evidence:
    """Passes when the distance to the target's law is exactly 0."""
    if tv == 0:
        return Evidence(True, f"{of} == target law")
    exact = f" = {tv}" if tv.denominator < 10_000 else ""
    return Evidence(False, f"TV {float(tv):.4f}{exact}")
