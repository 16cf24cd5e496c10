"""How the origin of a token is shown: a mark that needs no colour, a colour that suits light and dark terminals."""

from dataclasses import dataclass

from rich.columns import Columns
from rich.text import Text

from specdec_core.trace import Round


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a token came from. `mark` stands under each of its characters; `style` is a rich style."""

    name: str
    mark: str
    style: str
    meaning: str


ACCEPTED = Origin("accepted", "=", "green", "drafted and kept")
RECOVERED = Origin("recovered", "^", "bold magenta", "redrawn after a refusal")
BONUS = Origin("bonus", "+", "bold cyan", "free, after a draft kept whole")
PLAIN = Origin("plain", ".", "", "nothing was drafted")
ORIGINS = (ACCEPTED, RECOVERED, BONUS, PLAIN)

_BY_KIND = {"recovered": RECOVERED, "bonus": BONUS, "plain": PLAIN}


def origins(record: Round | None, count: int) -> tuple[Origin, ...]:
    """The origin of each of the `count` tokens a step emitted; the step of the prefill has no round."""
    if record is None:
        return (PLAIN,) * count
    kept = (ACCEPTED,) * record.num_accepted
    return kept if record.kind == "stopped" else (*kept, _BY_KIND[record.kind])


def legend() -> Columns:
    """What marks and colours mean, in as many columns as the console is wide."""
    entries = []
    for origin in ORIGINS:
        entries.append(Text.assemble((f"{origin.mark} {origin.name}", origin.style), f": {origin.meaning}"))
    return Columns(entries, padding=(0, 3))
