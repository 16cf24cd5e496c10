"""The ranks of learned drafters on the recorded greedy texts."""

from collections.abc import Callable
from dataclasses import dataclass

from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.protocol import LanguageModel
from specdec_labs.acceptance.ranks import Ranks, eagle_ranks, eagle_steps, medusa_ranks, model_ranks
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.rows import answer_logits
from specdec_labs.acceptance.trees import TextRanks


@dataclass(frozen=True, slots=True)
class Choice:
    """Which greedy texts: the tuning ones, or of each task every so many of the measured ones, from `first`."""

    tuning: bool = False
    every: int = 1
    first: int = 0


def medusa_texts(
    recordings: Recordings, heads: MedusaHeads, vocabulary: CutVocabulary, choice: Choice
) -> list[TextRanks]:
    """The ranks of Medusa heads."""
    cut_head = recordings.target.weights.head.weight[vocabulary.index]

    def ranks(index: int) -> Ranks:
        text = recordings.texts[index]
        states = recordings.states(index)
        return medusa_ranks(heads, cut_head, vocabulary, states, text.tokens, text.prompt_length)

    return _texts(recordings, ranks, choice)


def eagle_texts(
    recordings: Recordings, head: EagleHead, vocabulary: CutVocabulary, choice: Choice, *, depth: int
) -> list[TextRanks]:
    """The ranks of an EAGLE head, `depth` tokens ahead."""
    weights = recordings.target.weights
    cut_head = weights.head.weight[vocabulary.index]

    def ranks(index: int) -> Ranks:
        text = recordings.texts[index]
        places = (recordings.states(index), text.tokens, text.prompt_length)
        steps = eagle_steps(head, cut_head, weights.embedding, vocabulary, *places, depth)
        return eagle_ranks(steps, len(text.answer) - 1)

    return _texts(recordings, ranks, choice)


def model_texts(recordings: Recordings, model: LanguageModel, choice: Choice, *, depth: int) -> list[TextRanks]:
    """The ranks of a draft model."""

    def ranks(index: int) -> Ranks:
        text = recordings.texts[index]
        logits = answer_logits(model, text.tokens, text.prompt_length)
        return model_ranks(logits, text.tokens, text.prompt_length, depth)

    return _texts(recordings, ranks, choice)


def greedy_texts(recordings: Recordings, choice: Choice) -> list[int]:
    """Indices of the chosen texts, task by task."""
    wanted = {"temperature": 0, "tuning": choice.tuning, "every": choice.every, "first": choice.first}
    return [index for task in recordings.tasks() for index in recordings.chosen(task=task, **wanted)]


def _texts(recordings: Recordings, ranks: Callable[[int], Ranks], choice: Choice) -> list[TextRanks]:
    return [
        TextRanks(ranks(index), recordings.texts[index].tokens[-1] in recordings.stop)
        for index in greedy_texts(recordings, choice)
    ]
