"""What rounds add up to: counts by prompt, rates by position, and an interval over prompts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
import math

from specdec_core.draft import DraftTree
from specdec_core.trace import Round

Rates = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over rounds, as in `specdec_core.metrics`; `positions[d]` are (drafted, tested, accepted) at depth d + 1."""

    rounds: int = 0
    emitted: int = 0
    drafted: int = 0
    accepted: int = 0
    tested: int = 0
    positions: tuple[tuple[int, int, int], ...] = ()

    def __add__(self, other: "Counts") -> "Counts":
        depth = max(len(self.positions), len(other.positions))
        pairs = zip(_padded(self.positions, depth), _padded(other.positions, depth))
        return Counts(
            self.rounds + other.rounds,
            self.emitted + other.emitted,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
            self.tested + other.tested,
            tuple((a + x, b + y, c + z) for (a, b, c), (x, y, z) in pairs),
        )

    @property
    def mean_length(self) -> float | None:
        """Tokens emitted a round (plain decoding: 1)."""
        return self.emitted / self.rounds if self.rounds else None

    @property
    def alpha(self) -> float | None:
        """Accepted / tested."""
        return self.accepted / self.tested if self.tested else None

    @property
    def survival(self) -> Rates:
        """Accepted at each depth / rounds that drafted it."""
        return tuple(accepted / drafted if drafted else None for drafted, _, accepted in self.positions)

    @property
    def conditional(self) -> Rates:
        """Accepted at each depth / rounds that drafted it and accepted everything before it."""
        return tuple(accepted / tested if tested else None for _, tested, accepted in self.positions)

    def to_list(self) -> list[int]:
        """All numbers in a row."""
        sums = [self.rounds, self.emitted, self.drafted, self.accepted, self.tested]
        return sums + [number for position in self.positions for number in position]

    @classmethod
    def from_list(cls, numbers: Sequence[int]) -> "Counts":
        """What `to_list` made."""
        rounds, emitted, drafted, accepted, tested, *rest = numbers
        positions = tuple((rest[i], rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3))
        return cls(rounds, emitted, drafted, accepted, tested, positions)


def counts_of(rounds: Iterable[Round]) -> Counts:
    """The sums over these rounds."""
    total = Counts()
    for entry in rounds:
        depth = max(DraftTree(entry.draft_tokens, entry.draft_parents).depths, default=0)
        positions = tuple(
            (1, int(entry.num_tested >= place), int(entry.num_accepted >= place)) for place in range(1, depth + 1)
        )
        drafted = len(entry.draft_tokens)
        total += Counts(1, len(entry.emitted), drafted, entry.num_accepted, entry.num_tested, positions)
    return total


def mean_length(by_prompt: Sequence[Counts], level: float = 0.95) -> tuple[float | None, float | None, float | None]:
    """Tokens a round over all prompts, and the ends of its interval over prompts; None where there is too little.

    The interval is that of a ratio of two sums, with the prompt as the unit and Student's t: new prompts of the same
    kind, not new rounds on the same ones. Source: Cochran, Sampling Techniques, section 6.4.
    """
    from scipy.stats import t

    count = len(by_prompt)
    rounds, emitted = sum(c.rounds for c in by_prompt), sum(c.emitted for c in by_prompt)
    if not rounds:
        return None, None, None
    mean = emitted / rounds
    if count < 2:
        return mean, None, None
    squares = sum((c.emitted - mean * c.rounds) ** 2 for c in by_prompt)
    half = float(t.ppf((1 + level) / 2, count - 1)) * math.sqrt(count / (count - 1) * squares) / rounds
    return mean, mean - half, mean + half


def _padded(positions: Sequence[tuple[int, int, int]], depth: int) -> list[tuple[int, int, int]]:
    return [*positions, *[(0, 0, 0)] * (depth - len(positions))]
