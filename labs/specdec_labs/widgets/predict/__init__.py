"""Predict first, then measure: a card that keeps an answer and shows the measured value only after it."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from typing import Any

from specdec_labs.widgets.needs import require


@dataclass(slots=True)
class Prediction:
    """One question about a number, answered by picking a range, revealed once.

    `edges` cut the number line into `options`: option i holds the values from edges[i-1] up to (without) edges[i].
    """

    question: str
    options: tuple[str, ...]
    edges: tuple[float, ...]
    answers: list[str] = field(default_factory=list)
    measured: float | None = None
    refused: str = ""

    def __post_init__(self) -> None:
        if len(self.options) != len(self.edges) + 1 or list(self.edges) != sorted(self.edges):
            raise ValueError(
                f"edges is {self.edges} for {len(self.options)} options; expected rising numbers, one fewer"
            )

    @property
    def answer(self) -> str | None:
        """The latest answer given before the reveal."""
        return self.answers[-1] if self.answers else None

    @property
    def is_revealed(self) -> bool:
        """Whether both the answer and the measured value are in."""
        return self.answer is not None and self.measured is not None

    def record(self, option: str) -> None:
        """Keeps an answer; ignored once revealed, so that nobody predicts the past."""
        if option not in self.options:
            raise ValueError(f"option is {option!r}; expected one of {', '.join(self.options)}")
        if not self.is_revealed:
            self.answers.append(option)

    @property
    def truth(self) -> str | None:
        """The range that holds the measured value; None before it is in."""
        return None if self.measured is None else self.options[bisect_right(self.edges, self.measured)]

    def verdict(self) -> str:
        """What to say now: pick one, wait for the measurement, prediction beside measurement, or why there is none."""
        if self.refused:
            said = f"You said {self.answer}. " if self.answer else ""
            return f"{said}The measurement was refused: {self.refused}."
        if self.answer is None:
            return "Pick one." if self.measured is None else "Pick one: the measured value is in and waits for you."
        if self.measured is None:
            return f"Recorded: {self.answer}. Run on to measure."
        close = "That is it." if self.truth == self.answer else f"The range was {self.truth}."
        return f"You said {self.answer}. Measured: {self.measured:.2f}. {close}"


class PredictionCard:
    """A prediction with its buttons.

    Raises:
        ImportError: ipywidgets or anywidget is missing; `Prediction` works without them.
    """

    def __init__(self, question: str, options: Sequence[str], edges: Sequence[float]) -> None:
        require(
            "ipywidgets", "anywidget", what="the prediction card", instead="Prediction(...) keeps answers without it"
        )
        from specdec_labs.widgets.predict.live import Card

        self.prediction = Prediction(question, tuple(options), tuple(edges))
        self.card = Card(self.prediction)

    def reveal(self, measured: float | None, refused: str = "") -> None:
        """Hands over the measured value, or why it cannot be; the card shows it as soon as there is an answer."""
        self.prediction.measured, self.prediction.refused = None if refused else measured, refused
        self.card.refresh()

    @contextmanager
    def covered(self) -> Iterator[None]:
        """What is printed within stands in a fold while there is no answer: Run All Cells would give it away else."""
        from IPython.display import display

        if self.prediction.answer is not None:
            yield
            return
        said = StringIO()
        try:
            with redirect_stdout(said):
                yield
        finally:
            if said.getvalue():
                display({"text/html": _fold(said.getvalue()), "text/plain": said.getvalue()}, raw=True)

    def _ipython_display_(self, **kwargs: Any) -> None:
        self.card._ipython_display_(**kwargs)


def _fold(text: str) -> str:
    """The text behind a line that opens with a click or Enter; JupyterLab's shortcuts leave that key alone."""
    line = "The measurement. Choose on the card above first, then open this."
    return f'<details><summary data-lm-suppress-shortcuts="true">{line}</summary><pre>{escape(text)}</pre></details>'
