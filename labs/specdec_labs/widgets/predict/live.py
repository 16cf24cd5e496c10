"""The live prediction card: a question, a button an answer, and what to say now."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import traitlets

from specdec_labs.widgets.panel import LiveView, front_end
from specdec_labs.widgets.predict import Prediction
from specdec_labs.widgets.predictions import note_prediction
from specdec_labs.widgets.twin import paragraph


class Card(LiveView):
    """Traits: `settings` with the `answer` chosen on the page (None before), `view` as `view_of` makes it."""

    _esm, _css = front_end(Path(__file__).parent, "predict")

    settings = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, prediction: Prediction) -> None:
        self._prediction = prediction
        self._is_noted = False
        super().__init__(settings={"answer": None}, view=view_of(prediction))
        self.observe(self._chosen, names="settings")

    def refresh(self) -> None:
        """Shows what the prediction says now, and notes it for the passport once it is revealed."""
        prediction = self._prediction
        self.view = view_of(prediction)
        if prediction.answer is None or prediction.measured is None or self._is_noted:
            return
        self._is_noted = True
        right = prediction.truth == prediction.answer
        note_prediction(prediction.question, prediction.answer, prediction.measured, right)

    def _chosen(self, change: dict[str, Any]) -> None:
        answer = change["new"].get("answer")
        if answer is not None:
            self._prediction.record(answer)
            self.refresh()
        self.send("answered")

    def twin(self) -> str:
        return render(self.view)


def view_of(prediction: Prediction) -> dict[str, Any]:
    """The card as plain data."""
    return {
        "question": prediction.question,
        "options": list(prediction.options),
        "answer": prediction.answer,
        "say": prediction.verdict(),
        "is_revealed": prediction.is_revealed,
    }


def render(view: Mapping[str, Any]) -> str:
    """HTML of what `view_of` returned."""
    options = "; ".join(f"{'● ' if option == view['answer'] else ''}{option}" for option in view["options"])
    return paragraph(view["question"]) + paragraph(options) + paragraph(view["say"])
