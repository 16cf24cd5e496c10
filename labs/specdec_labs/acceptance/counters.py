"""Ways to count a drafter's rounds on a recorded text: by replay, or read off the laws of one pass over the text.

The second is for drafters whose laws along the text are known without drafting; it gives the replay's outcome
(tests/labs/test_acceptance_counters.py) at a fraction of its cost.
"""

from collections.abc import Callable, Sequence

from specdec_core.drafters import Drafter
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.medusa import MedusaHeads
from specdec_core.models.protocol import LanguageModel
from specdec_core.trace import Round
from specdec_core.tree_shapes import Parents, chain_shape
from specdec_core.warp import SamplingParams
from specdec_labs.acceptance.chain_rounds import Chances, rounds_of_chain
from specdec_labs.acceptance.counts import Counts, counts_of
from specdec_labs.acceptance.local_ids import LocalDrafter, LocalIds
from specdec_labs.acceptance.ranks import (
    chances_of_eagle,
    chances_of_model,
    eagle_ranks,
    eagle_steps,
    medusa_ranks,
    model_ranks,
)
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.replay import Replay, replay
from specdec_labs.acceptance.rows import answer_logits
from specdec_labs.acceptance.text_model import TextModel
from specdec_labs.acceptance.trees import TextRanks, rounds_of_shape

CountOf = Callable[[int], Counts]
"""Index of a text -> the drafter's rounds on it, at the temperature the text was written at."""


def by_replay(recordings: Recordings, drafter: Drafter, budget: int, depth: int, *, reads_states: bool) -> CountOf:
    """A deterministic drafter in the engine."""
    replayed = rounds_by_replay(recordings, drafter, budget, depth, reads_states=reads_states)
    return lambda index: counts_of(replayed(index))


def rounds_by_replay(
    recordings: Recordings, drafter: Drafter, budget: int, depth: int, *, reads_states: bool
) -> Callable[[int], list[Round]]:
    """The same, round by round."""

    def rounds(index: int) -> list[Round]:
        text = recordings.texts[index]
        local = LocalIds(text.tokens, recordings.stop)
        tokens = local.inward(text.tokens)
        states = recordings.states(index) if reads_states else None
        longest = recordings.target.max_length
        target = TextModel.certain(tokens, vocab_size=local.vocab_size, max_length=longest, states=states)
        params = SamplingParams(temperature=text.temperature, stop=local.inward(recordings.stop))
        case = Replay(LocalDrafter(drafter, local), budget, depth)
        return replay(case, target, tokens, text.prompt_length, params, request=index)

    return rounds


def by_model(recordings: Recordings, model: LanguageModel, depth: int) -> CountOf:
    """A model as drafter of a chain: its laws depend on the text before alone."""

    def count(index: int) -> Counts:
        text = recordings.texts[index]
        place = (text.tokens, text.prompt_length, depth)
        logits = answer_logits(model, text.tokens, text.prompt_length)
        if text.temperature == 0:
            return rounds_of_shape(chain_shape(depth), TextRanks(model_ranks(logits, *place), recordings.ends(index)))
        return _sampled(recordings, index, chances_of_model(logits, *place))

    return count


def by_eagle(recordings: Recordings, head: EagleHead, vocabulary: CutVocabulary, depth: int) -> CountOf:
    """An EAGLE head as drafter of a chain."""
    weights = recordings.target.weights
    cut_head = weights.head.weight[vocabulary.index]

    def count(index: int) -> Counts:
        text = recordings.texts[index]
        place = (recordings.states(index), text.tokens, text.prompt_length, depth)
        steps = eagle_steps(head, cut_head, weights.embedding, vocabulary, *place)
        starts = len(text.answer) - 1
        if text.temperature == 0:
            return rounds_of_shape(chain_shape(depth), TextRanks(eagle_ranks(steps, starts), recordings.ends(index)))
        return _sampled(recordings, index, chances_of_eagle(steps, starts))

    return count


def by_medusa(recordings: Recordings, heads: MedusaHeads, vocabulary: CutVocabulary, shape: Parents) -> CountOf:
    """Medusa heads with a fixed tree, siblings in the order of their ranks."""
    cut_head = recordings.target.weights.head.weight[vocabulary.index]

    def count(index: int) -> Counts:
        text = recordings.texts[index]
        place = (recordings.states(index), text.tokens, text.prompt_length)
        ranks = medusa_ranks(heads, cut_head, vocabulary, *place)
        return rounds_of_shape(shape, TextRanks(ranks, recordings.ends(index)))

    return count


def by_perfect_copy(recordings: Recordings, longest: int) -> CountOf:
    """No drafter but a bound: of all places before, the one whose continuation is right for longest is copied."""

    def count(index: int) -> Counts:
        text = recordings.texts[index]
        tokens, start, total = text.tokens, text.prompt_length + 1, Counts()
        while start < len(tokens) and (recordings.ends(index) or start + longest + 1 <= len(tokens)):
            accepted = longest_copy(tokens, start, longest)
            emitted = min(accepted + 1, len(tokens) - start)
            places = tuple((1, int(accepted + 1 >= depth), int(accepted >= depth)) for depth in range(1, longest + 1))
            tested = min(accepted + 1, longest)
            total += Counts(1, emitted, longest, accepted, tested, places)
            start += emitted
        return total

    return count


def longest_copy(tokens: Sequence[int], start: int, longest: int) -> int:
    """How many tokens from `start` on, at most `longest`, follow somewhere before it in the same order."""
    best = 0
    for place in range(start):
        length = 0
        while (
            length < longest
            and place + length < start
            and start + length < len(tokens)
            and tokens[place + length] == tokens[start + length]
        ):
            length += 1
        best = max(best, length)
    return best


def _sampled(recordings: Recordings, index: int, drafted: Chances) -> Counts:
    text = recordings.texts[index]
    target = recordings.chances(index)
    return rounds_of_chain(drafted, target, text.prompt_length, stops=recordings.ends(index), request=index)
