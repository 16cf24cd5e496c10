"""What a certificate says: the tests, the numbers to repeat it with, and the verdict in words."""

from dataclasses import asdict, dataclass
import math
from typing import Any, Literal

from specdec_core.goodness import Fit

Mode = Literal["fixed", "sequential"]
Conclusion = Literal["passed", "failed", "no verdict"]
Impossible = tuple[int, tuple[int, ...]]
Kind = Literal["text", "noise", "rank", "slot", "repeat"]
"""What a test counts: texts; u of one to three tokens; u in the order of probability; u by place in the batch; equal
tokens at two positions. See `specdec_core.partition` and `specdec_core.noise_cells`."""


@dataclass(frozen=True, slots=True)
class PositionTest:
    """A test of the tokens at `positions` (from 1) over `cells` cells.

    Attributes:
        fit: chi-square and distance over the cells.
        noise_tv: distance that a perfect sampler shows on average with this many samples: what `fit.tv` is to be
            compared with.
        e_value: sequential mode only: evidence against the law, a fair bet's winnings for a stake of 1.
        kind: what is counted.
    """

    positions: tuple[int, ...]
    cells: int
    fit: Fit
    noise_tv: float
    e_value: float | None = None
    kind: Kind = "text"

    @property
    def label(self) -> str:
        """Which tokens, in words."""
        first, last = self.positions[0], self.positions[-1]
        if self.kind == "repeat":
            return f"token {last} = token {first}"
        if self.kind != "text":
            named = f"token {last}" if len(self.positions) == 1 else f"tokens {', '.join(map(str, self.positions))}"
            return {"noise": f"u of {named}", "rank": f"u by rank, {named}", "slot": f"u by slot, {named}"}[self.kind]
        if len(self.positions) == 1:
            return f"token {last}"
        return f"tokens {first}-{last}" if len(self.positions) == last else f"tokens {first} and {last}"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The outcome of `certify` or `certify_callable`, with everything needed to repeat it.

    Attributes:
        tests: texts first (`specdec_core.partition`), then the noise behind them (`specdec_core.noise_cells`).
        n: samples taken; `seed` with the request index selects the noise of each.
        bias, power: a law at total variation distance `bias` over the cells of one of the tests is caught with this
            probability at least (the lowest over the tests).
        level: bound on the false-alarm probability of the whole certificate.
        p_value: fixed mode: smallest p-value times the number of tests, at most 1. Sequential mode: 1 / `e_value`,
            valid whenever the sampling stopped. 0 after an impossible sample.
        coverage: rounds by kind over all samples, and samples with a second round; None where rounds are not seen.
        settings: what was certified; for an engine rule, drafter, controller, prompt and sampling parameters.
        mode: "fixed" (n chosen beforehand) or "sequential" (looks as it goes, may stop early).
        n_planned: samples the plan allowed for; equal to `n` in fixed mode.
        e_value: sequential mode: the largest value the average of the tests' e-processes reached.
        impossible: number of samples with a token of probability 0; None where that was not checked.
        first_impossible: request index of the first of them and its tokens up to the impossible one.
    """

    tests: tuple[PositionTest, ...]
    n: int
    seed: int
    bias: float
    power: float
    level: float
    p_value: float
    coverage: dict[str, int] | None
    settings: dict[str, Any]
    mode: Mode
    n_planned: int
    e_value: float | None
    impossible: int | None
    first_impossible: Impossible | None

    @property
    def verdict(self) -> Conclusion:
        """ "failed" where the law is rejected; else "passed", but "no verdict" where the power is below 0.5."""
        if self.rejected:
            return "failed"
        return "passed" if self.conclusive else "no verdict"

    @property
    def passed(self) -> bool:
        """Whether the verdict is a pass: nothing rejects, and the stated bias would likely have been caught."""
        return self.verdict == "passed"

    @property
    def rejected(self) -> bool:
        """Whether the target's law is rejected. That stands whatever the power is."""
        return self.p_value <= self.level

    @property
    def conclusive(self) -> bool:
        """Whether no rejection means something: the stated bias would more likely than not have been caught."""
        return self.power >= 0.5

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Events a certificate of an engine should have seen and did not."""
        if self.coverage is None:
            return ()
        return tuple(name for name in ("recovered", "bonus", "second_round") if not self.coverage.get(name))

    @property
    def worst(self) -> PositionTest:
        """The test with the most evidence against the law."""
        if self.mode == "sequential":
            return max(self.tests, key=lambda test: test.e_value or 0.0)
        return min(self.tests, key=lambda test: (test.fit.p_value, -test.fit.tv))

    @property
    def horizon(self) -> int:
        """Tokens under test."""
        return max(test.positions[-1] for test in self.tests)

    @property
    def untested(self) -> tuple[str, ...]:
        """What a certificate may count and this one does not, for want of samples or of likely texts."""
        last_text = max((test.positions[-1] for test in self.tests if test.kind == "text"), default=0)
        texts = f"texts of more than {last_text} tokens" if last_text < self.horizon else None
        sizes = {(test.kind, len(test.positions)) for test in self.tests}
        wanted = (("token by token", 1), ("of two tokens", 2), ("of three tokens", 3))
        missing = [f"u {name}" for name, size in wanted if size <= self.horizon and ("noise", size) not in sizes]
        return (*filter(None, [texts]), *missing)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.rejected:
            return f"NOT the target's law: {self._finding}."
        if not self.conclusive:
            return (
                f"No verdict: nothing was found, but with n = {self.n} a distance of {self.bias:g} would be caught "
                f"with probability {self.power:.3f} only. Take more samples."
            )
        gaps = f" Not exercised: {', '.join(self.uncovered)}." if self.uncovered else ""
        gaps += f" Not tested: {', '.join(self.untested)}." if self.untested else ""
        return (
            f"Indistinguishable from the target's law over the first {self.horizon} tokens by {len(self.tests)} tests "
            f"({self._kinds}): p = {self.p_value:.2g}, {self._samples}; a distance of {self.bias:g} would be caught "
            f"with probability {self.power:.3f}, and the distance is at most "
            f"{max(test.fit.tv_upper for test in self.tests):.3f} (confidence {1 - self.level:.3f}), both over the "
            f"cells of a test: what stays inside the cells, such as a rare text, is not seen.{gaps}"
        )

    @property
    def _kinds(self) -> str:
        words = {
            "text": "texts",
            "noise": "u of 1 to 3 tokens",
            "rank": "u by rank",
            "slot": "u by slot of the batch",
            "repeat": "repeated tokens",
        }
        present = {test.kind for test in self.tests}
        return ", ".join(name for kind, name in words.items() if kind in present)

    @property
    def reading(self) -> str:
        """What the bound and the power say, in words: they answer two questions, and the bound can be larger."""
        return (
            '"TV at most" bounds the true distance over the cells whatever the true law is, from these samples, and '
            "shrinks only like 1/sqrt(n); the power is a promise about the tests: a law "
            f"{self.bias:g} away over the cells of one would be rejected with probability {self.power:.3f}. So the "
            f"bound may well exceed {self.bias:g}."
        )

    @property
    def _finding(self) -> str:
        if self.first_impossible is not None:
            request, tokens = self.first_impossible
            return (
                f"sample {request} has token {tokens[-1]} at position {len(tokens)}, which has probability 0 there "
                f"({self.impossible} of n = {self.n} samples hold such a token, seed {self.seed})"
            )
        found = f"p = {self.p_value:.2g} after {len(self.tests)} tests, {self._samples}"
        subject = "the joint law of " if self.worst.kind == "text" else ""
        return f"{subject}{self.worst.label} differs ({found})"

    @property
    def _samples(self) -> str:
        planned = f" of {self.n_planned} planned" if self.mode == "sequential" else ""
        return f"n = {self.n}{planned}, seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that strict JSON can hold, with `verdict`, `passed`, `rejected`, `conclusive` and `sentence`.

        A number that is not finite becomes a string ("inf": the e-value or chi-square after an impossible sample).
        """
        words = ("verdict", "passed", "rejected", "conclusive", "sentence")
        return _strict({**asdict(self), **{name: getattr(self, name) for name in words}})


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
