"""What is audited: a sampler of somebody else's, the law it should have, and the certificate that compares them."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
import time
from typing import Any

from specdec_core.certificate import Certificate
from specdec_core.certify_callable import Law, Sampler, certify_callable

REQUESTS_PER_SEED = 1 << 20
"""`certify_callable` numbers the requests of seed s from s * 2^20."""

MOST_TEXTS = 300
"""More different texts than these are not written to a file one by one."""

Progress = Callable[[str, int, int], None]
"""Called with (name of the subject, samples done, samples in all)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One audit.

    Attributes:
        name: short, without spaces.
        about: what is run and under which settings, in words.
        sample, law, horizon: as in `specdec_core.certify_callable`.
        settings: what is needed to repeat it.
    """

    name: str
    about: str
    sample: Sampler
    law: Law
    horizon: int
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """A subject's certificate, how often each text came, and the seconds it took."""

    name: str
    about: str
    certificate: Certificate
    texts: Counter[tuple[int, ...]]
    seconds: float

    @property
    def worst_distance(self) -> float:
        """Largest observed total variation distance over the partitions of the tests."""
        return max(test.fit.tv for test in self.certificate.tests)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the texts only when there are few different ones."""
        data = {"name": self.name, "about": self.about, "seconds": round(self.seconds, 1)}
        if len(self.texts) <= MOST_TEXTS:
            data["texts"] = {" ".join(map(str, text)): count for text, count in sorted(self.texts.items())}
        return {**data, "worst_tv": self.worst_distance, "certificate": self.certificate.to_dict()}


def audit(
    subject: Subject,
    *,
    n: int | None,
    bias: float = 0.06,
    seed: int = 0,
    batch: int = 64,
    progress: Progress | None = None,
) -> Finding:
    """The finding for a subject. Arguments and errors as in `certify_callable`."""
    started = time.perf_counter()
    texts: Counter[tuple[int, ...]] = Counter()

    def sample(first: int, count: int) -> list[Sequence[int]]:
        samples = list(subject.sample(first, count))
        texts.update(tuple(text[: subject.horizon]) for text in samples)
        return samples

    certificate = certify_callable(
        sample,
        subject.law,
        horizon=subject.horizon,
        n=n,
        bias=bias,
        seed=seed,
        batch=batch,
        settings={"subject": subject.name, **subject.settings},
        progress=None if progress is None else lambda done, total: progress(subject.name, done, total),
    )
    return Finding(subject.name, subject.about, certificate, texts, time.perf_counter() - started)
