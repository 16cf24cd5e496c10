"""Tries the detectors of a piece: each must object to the wrong implementation and pass the right one."""

from collections.abc import Callable
from dataclasses import dataclass
import time

from specdec_core.certificate import Certificate
from specdec_core.certify_callable import CallableLaws, certify_callable
from specdec_core.certify_plan import Demand, plan
from specdec_core.laws import TokenLaw
from specdec_labs.museum.piece import CertificateCase, Evidence, Piece

LEVEL = 1e-3
"""False-alarm probability of a certificate."""

WANTED_POWER = 0.99

Progress = Callable[[int, int], None]
"""Called with (samples done, samples in all)."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What one detector said of the wrong and of the right implementation."""

    wrong: Evidence
    right: Evidence

    @property
    def holds(self) -> bool:
        """Caught, and the right code passes."""
        return not self.wrong.passes and self.right.passes


@dataclass(frozen=True, slots=True)
class CertificateKill:
    """The certificates of both implementations, and the power against the wrong one's own law."""

    wrong: Certificate
    right: Certificate
    power: float

    @property
    def holds(self) -> bool:
        """Caught with at least the wanted power, and the right code is not rejected."""
        return self.wrong.rejected and not self.right.rejected and self.power >= WANTED_POWER


@dataclass(frozen=True, slots=True)
class Finding:
    """All that the detectors said about a piece."""

    piece: Piece
    exact_kill: Kill
    property_kill: Kill
    certificate_kill: CertificateKill | None
    seconds: float

    @property
    def is_killed(self) -> bool:
        """Every detector that the piece claims has caught it and passes the right code."""
        by_samples = self.certificate_kill is None or self.certificate_kill.holds
        return self.exact_kill.holds and self.property_kill.holds and by_samples


def examine(piece: Piece, *, seed: int = 0, progress: Progress | None = None) -> Finding:
    """Runs every detector of the piece on its wrong and its right implementation."""
    start = time.perf_counter()
    exact = Kill(piece.exact_check(piece.wrong), piece.exact_check(piece.right))
    broken = Kill(piece.property_check(piece.wrong), piece.property_check(piece.right))
    certificate = None
    if (case := piece.certificate) is not None:
        certificate = CertificateKill(
            certified(case, piece.wrong, seed=seed, progress=progress),
            certified(case, piece.right, seed=seed, progress=progress),
            power_against(case, case.wrong_law()),
        )
    return Finding(piece, exact, broken, certificate, time.perf_counter() - start)


def certified(
    case: CertificateCase,
    implementation: object,
    *,
    seed: int = 0,
    n: int | None = None,
    level: float = LEVEL,
    progress: Progress | None = None,
) -> Certificate:
    """The certificate of one implementation."""
    return certify_callable(
        case.sampler(implementation),
        case.law,
        horizon=case.horizon,
        n=case.n if n is None else n,
        level=level,
        seed=seed,
        progress=progress,
    )


def power_against(case: CertificateCase, wrong_law: TokenLaw, *, level: float = LEVEL) -> float:
    """The probability that the certificate rejects samples of `wrong_law`, a lower bound.

    Each test has its real noncentrality n sum (d^2 / p) over its cells (d: wrong minus right); the most powerful
    one is taken. Texts that the target cannot say fail the certificate at once, if one of them is sampled.
    """
    from scipy import stats

    laws = CallableLaws(case.law)
    planned = plan(laws, Demand(horizon=case.horizon, n=case.n, level=level))
    impossible = sum(float(weight) for tokens, weight in wrong_law.items() if _is_impossible(laws, tokens))
    chances = [1 - (1 - impossible) ** case.n]
    for part in planned.parts:
        masses = [0.0] * part.cells
        for tokens, weight in wrong_law.items():
            masses[part.cell_of(tokens)] += float(weight)
        noncentrality = case.n * sum((m - p) ** 2 / p for m, p in zip(masses, part.probabilities))
        critical = stats.chi2.isf(planned.share, part.cells - 1)
        chances.append(float(stats.ncx2.sf(critical, part.cells - 1, noncentrality)))
    return max(chances)


def _is_impossible(laws: CallableLaws, tokens: tuple[int, ...]) -> bool:
    return any(laws(tokens[:place])[token] == 0 for place, token in enumerate(tokens))
