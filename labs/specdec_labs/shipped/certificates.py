"""Runs the certificates one by one and keeps each in a file at once: a stop loses one at most."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
import json
from pathlib import Path
import time
from typing import Any
import zlib

from specdec_core.certificate import Certificate
from specdec_core.certify import Progress, certify
from specdec_core.engine import Engine
from specdec_core.models.shipped import (
    SMOLLM2_DRAFT,
    SMOLLM2_EAGLE,
    SMOLLM2_MEDUSA,
    TINY_DRAFT,
    TINY_TARGET,
    read_card,
)
from specdec_core.whole_file import check_destination
from specdec_labs.cli.json_file import write_json
from specdec_labs.shipped.combinations import Combination
from specdec_labs.shipped.parts import PARAMS, PROMPTS, Parts

WEIGHTS = {"tiny": (TINY_TARGET, TINY_DRAFT), "smollm2": (SMOLLM2_MEDUSA, SMOLLM2_EAGLE)}
GREEDY_WEIGHTS = (SMOLLM2_DRAFT, SMOLLM2_MEDUSA, SMOLLM2_EAGLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """What each certificate is asked for. `level` is small, because there are many of them."""

    bias: float = 0.15
    power: float = 0.99
    level: float = 1e-4
    max_cells: int = 12
    n: int | None = None
    seed: int = 0


def certificate_of(
    combination: Combination, parts: Parts, strength: Strength, progress: Progress | None = None
) -> Certificate:
    """The certificate of one combination: the drafter as it is, the target (and a draft model) behind a memo."""
    kind = combination.kind
    engine = Engine(parts.target if kind.reads_cache else parts.memo, kind.make(parts), combination.rule, kind.nodes)
    return certify(
        engine,
        parts.prompt,
        parts.params,
        gamma=kind.depth,
        n=strength.n,
        bias=strength.bias,
        wanted_power=strength.power,
        level=strength.level,
        # each its own noise: what one shows says nothing about the next
        seed=strength.seed + zlib.crc32(combination.name.encode()),
        max_cells=strength.max_cells,
        oracle=parts.memo,
        progress=progress,
    )


def entry_of(certificate: Certificate, seconds: float) -> dict[str, Any]:
    """What the report keeps of a certificate."""
    return {
        "verdict": certificate.verdict,
        "n": certificate.n,
        "seed": certificate.seed,
        "power": round(certificate.power, 5),
        "p_value": certificate.p_value,
        "tokens": certificate.horizon,
        "tests": len(certificate.tests),
        "tv": round(max(test.fit.tv for test in certificate.tests), 4),
        "noise_tv": round(max(test.noise_tv for test in certificate.tests), 4),
        "impossible": certificate.impossible,
        "coverage": certificate.coverage,
        "seconds": round(seconds, 1),
    }


class Report:
    """The certificates of a file, and what they were asked for; other settings or weights begin it anew."""

    def __init__(self, path: Path | None, strength: Strength) -> None:
        """Raises ValueError for a place where no file can be written, or a file that is no such report."""
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        self.greedy: dict[str, dict[str, Any]] = {}
        self._strength = {name: getattr(strength, name) for name in strength.__slots__}
        if path is not None:
            check_destination(path)
            if path.exists():
                self._read(path)

    def _read(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            same = found["asked"] == json.loads(json.dumps(self._asked()))
            self.entries = dict(found["certificates"]) if same else {}
            self.greedy = dict(found.get("greedy", {}))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no report of certificates ({error}); name another file") from error

    def _asked(self) -> dict[str, Any]:
        params = {name: own.to_dict() for name, own in PARAMS.items()}
        return {"strength": self._strength, "prompts": PROMPTS, "params": params}

    def lacks(self, combination: Combination) -> bool:
        """Whether it has still to be certified, with the weights that are there now."""
        entry = self.entries.get(combination.name)
        return entry is None or entry["weights"] != _hashes(WEIGHTS[combination.pair])

    def add(self, combination: Combination, certificate: Certificate, seconds: float) -> None:
        """Keeps a certificate, in the file too."""
        self.entries[combination.name] = {
            **entry_of(certificate, seconds),
            "weights": _hashes(WEIGHTS[combination.pair]),
        }
        self._write()

    def lacks_greedy(self, name: str) -> bool:
        """Whether the drafter's greedy text has still to be compared, with the weights that are there now."""
        entry = self.greedy.get(name)
        return entry is None or entry["weights"] != _hashes(GREEDY_WEIGHTS)

    def add_greedy(self, name: str, entry: dict[str, Any]) -> None:
        """Keeps a comparison, in the file too."""
        self.greedy[name] = {**entry, "weights": _hashes(GREEDY_WEIGHTS)}
        self._write()

    def _write(self) -> None:
        if self.path is not None:
            data = {"asked": self._asked(), "certificates": self.entries, "greedy": self.greedy}
            write_json(self.path, data)


def run_all(
    wanted: Iterable[Combination],
    report: Report,
    strength: Strength,
    tell: Callable[[Combination, Certificate], None],
    progress: Progress | None = None,
) -> None:
    """Certifies what `report` lacks, pair by pair; `tell` is called after each."""
    parts: Parts | None = None
    for combination in wanted:
        if not report.lacks(combination):
            continue
        if parts is None or parts.name != combination.pair:
            parts = Parts(combination.pair)
        start = time.perf_counter()
        certificate = certificate_of(combination, parts, strength, progress)
        report.add(combination, certificate, time.perf_counter() - start)
        tell(combination, certificate)


def _hashes(names: Sequence[str]) -> dict[str, str]:
    """Hashes of shipped weights: what a result is about."""
    return {name: read_card(name)["sha256"] for name in names}
