"""Text as it streams, wrapped, with a line of marks under each line: words stay words, and a pipe shows it all."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
import unicodedata

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from specdec_core.engine import Step
from specdec_core.models.protocol import Tokenizer
from specdec_core.models.streaming import TextStream
from specdec_labs.cli.styles import Origin, origins

_TAB = "    "
_WIDEST = 100  # columns; longer lines are hard to read


@dataclass(frozen=True, slots=True)
class _Cell:
    char: str
    origin: Origin
    width: int


class MarkedText:
    """Writes the tokens of a generation to a console. Call `finish` after the last one."""

    def __init__(self, console: Console, tokenizer: Tokenizer) -> None:
        self._console = console
        self._stream = TextStream(tokenizer)
        self._width = min(max(console.width - 1, 10), _WIDEST)
        self._line: list[_Cell] = []
        self._gap: list[_Cell] = []
        self._word: list[_Cell] = []

    def write(self, step: Step) -> None:
        """The tokens of one step. A character split over tokens is credited to the token that completes it."""
        for token, origin in zip(step.tokens, origins(step.round, len(step.tokens))):
            for char in visible(self._stream.feed([token])):
                self._put(char, origin)
        self._console.file.flush()

    def finish(self) -> None:
        """Ends the last line and puts its marks under it."""
        self._place_word()
        if self._line:
            self._end_line()

    def _put(self, char: str, origin: Origin) -> None:
        if char == "\n":
            self._place_word()
            self._end_line()
        elif char == " ":
            self._place_word()
            self._gap.append(_Cell(char, origin, 1))
        else:
            self._word.append(_Cell(char, origin, cell_len(char)))
            # scripts with wide characters put no spaces between words; and a word as long as the line breaks anyway
            if cell_len(char) > 1 or _width(self._word) >= self._width:
                self._place_word()

    def _place_word(self) -> None:
        """Moves the finished word to the line, or to the next one when it does not fit."""
        if not self._word:
            return
        if self._line and _width(self._line) + _width(self._gap) + _width(self._word) > self._width:
            self._end_line()
        self._print(self._gap)
        fitting: list[_Cell] = []
        for cell in self._word:
            if _width(self._line) + _width(fitting) + cell.width > self._width:
                self._print(fitting)
                self._end_line()
                fitting = []
            fitting.append(cell)
        self._print(fitting)
        self._gap, self._word = [], []

    def _end_line(self) -> None:
        marks = _styled(self._line, lambda cell: (" " if cell.char == " " else cell.origin.mark) * cell.width)
        marks.rstrip()
        self._console.print("")
        if marks:
            self._console.print(marks, soft_wrap=True)
        self._line, self._gap = [], []

    def _print(self, cells: list[_Cell]) -> None:
        self._console.print(_styled(cells, lambda cell: cell.char), end="", soft_wrap=True)
        self._line += cells


def visible(text: str) -> str:
    """The text with tabs as spaces and without other control characters, which a terminal would obey."""
    text = text.replace("\r\n", "\n").replace("\t", _TAB)
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_control(char) else char for char in text)


def _is_control(char: str) -> bool:
    return char != "\n" and unicodedata.category(char) == "Cc"


def _styled(cells: Iterable[_Cell], shown: Callable[[_Cell], str]) -> Text:
    """What `shown` makes of each cell, a run of one origin in one piece."""
    text = Text()
    for origin, run in groupby(cells, lambda cell: cell.origin):
        text.append("".join(shown(cell) for cell in run), style=origin.style)
    return text


def _width(cells: Iterable[_Cell]) -> int:
    return sum(cell.width for cell in cells)
