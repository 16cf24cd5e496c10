"""The certificate of each subject: the kernels have the target's law, the mutants have not."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
import time
from typing import Any

from specdec_core.certificate import Certificate
from specdec_core.certify_callable import certify_callable
from specdec_labs.kernel_law.subjects import Subject, check_interpreted, subjects
from specdec_labs.kernel_law.texts import HORIZON, Coverage

BATCH = 8192
"""Texts made at a time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A subject's certificate, what occurred while it was sampled, and the seconds it took."""

    subject: Subject
    certificate: Certificate
    coverage: Coverage
    seconds: float

    @property
    def is_right(self) -> bool:
        """A kernel passes with enough power, a mutant is rejected."""
        return self.certificate.passed if self.subject.keeps_law else self.certificate.rejected

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        mutant = self.subject.mutant
        return {
            "name": self.subject.name,
            "pair": self.subject.pair.name,
            "mutant": None if mutant is None else mutant.about,
            "keeps_law": self.subject.keeps_law,
            "is_right": self.is_right,
            "coverage": self.coverage.to_dict(),
            "seconds": round(self.seconds, 1),
            "certificate": self.certificate.to_dict(),
        }


def certified(subject: Subject, *, n: int | None = None, seed: int = 0) -> Finding:
    """The finding for a subject; n None takes what a power of 0.99 against a distance of 0.06 needs."""
    check_interpreted()
    texts, start = subject.texts(), time.perf_counter()
    with nullcontext() if subject.mutant is None else subject.mutant.planted():
        certificate = certify_callable(
            texts,
            subject.pair.target_law,
            horizon=HORIZON,
            n=n,
            seed=seed,
            batch=BATCH,
            settings={"subject": subject.name},
        )
    return Finding(subject, certificate, texts.coverage, time.perf_counter() - start)


def chosen(only: Sequence[str] = ()) -> list[Subject]:
    """The subjects of these names, all when none is given. ValueError for an unknown name."""
    known = {subject.name: subject for subject in subjects()}
    for name in only:
        if name not in known:
            raise ValueError(f"only is {name!r}; expected one of {', '.join(known)}")
    return [known[name] for name in only] if only else list(known.values())
