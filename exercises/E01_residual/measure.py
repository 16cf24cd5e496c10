"""Measures the law your `residual` gives: many draft, accept, redraw rounds against the target's own law.

python exercises/E01_residual/measure.py work/E01_residual/residual.py [rounds] [seed]
"""

from collections import Counter
from collections.abc import Callable, Sequence
import importlib.util
import math
from pathlib import Path
import sys

from specdec_core.coins import PhiloxCoins

TOKENS = ("cat", "dog", "bee")
TARGET = (0.6, 0.4, 0.0)
DRAFT = (0.2, 0.3, 0.5)

Residual = Callable[[Sequence[float], Sequence[float]], Sequence[float]]


def count_outputs(residual: Residual, rounds: int, seed: int) -> Counter[int]:
    """How often each token came out of `rounds` rounds with one draft."""
    outputs: Counter[int] = Counter()
    redraw = residual(list(TARGET), list(DRAFT))
    source = PhiloxCoins(seed)
    for request in range(rounds):
        coins = source.at(request=request, length=0)
        token = coins.draw(DRAFT, node=0, purpose="draft")
        if not coins.accept(TARGET[token], DRAFT[token], node=0):
            token = coins.draw(redraw, node=0, purpose="recover")
        outputs[token] += 1
    return outputs


def standard_errors(count: int, rounds: int, mass: float) -> float:
    """How far a count is from `rounds * mass`, in standard errors; infinite for a token of mass 0 that came out."""
    spread = math.sqrt(rounds * mass * (1 - mass))
    gap = count - rounds * mass
    return gap / spread if spread else (0.0 if gap == 0 else math.inf)


def load_residual(path: Path) -> Residual:
    """The function `residual` of a file."""
    spec = importlib.util.spec_from_file_location("measured_residual", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.residual


def main(path: str, rounds: str = "20000", seed: str = "0") -> None:
    """Prints the measured law beside the target's."""
    outputs = count_outputs(load_residual(Path(path)), int(rounds), int(seed))
    print(f"{rounds} rounds, seed {seed}")
    print("token  draft  target  measured  standard errors off")
    for token, name in enumerate(TOKENS):
        share = outputs[token] / int(rounds)
        off = standard_errors(outputs[token], int(rounds), TARGET[token])
        print(f"{name:5}  {DRAFT[token]:5.3f}  {TARGET[token]:6.3f}  {share:8.4f}  {off:+.1f}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:4])
