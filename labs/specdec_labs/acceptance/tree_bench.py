"""The comparison of tree shapes on SmolLM2's drafters, as data for the page and the plot."""

from collections.abc import Callable, Mapping, Sequence
import json
from pathlib import Path
from typing import Any

from specdec_core.cost_curve import CostCurve
from specdec_core.drafters import DynamicTree, EagleDrafter
from specdec_core.models.cut_head import CutHead
from specdec_core.models.shipped import (
    SMOLLM2_DRAFT,
    SMOLLM2_EAGLE,
    SMOLLM2_MEDUSA,
    load_eagle_head,
    load_medusa_head,
    load_smollm2_draft,
    read_card,
)
from specdec_core.sequoia import sequoia_size, sequoia_tree
from specdec_core.speed_formulas import expected_tokens_of_tree
from specdec_core.trace import Round
from specdec_core.tree_shapes import Parents, shape_of, sibling_ranks
from specdec_core.whole_file import write_whole
from specdec_labs.acceptance.counters import rounds_by_replay
from specdec_labs.acceptance.counts import Counts, counts_of, mean_length
from specdec_labs.acceptance.families import LEVELS, NODES, TOP_K
from specdec_labs.acceptance.measure import texts_hash
from specdec_labs.acceptance.rank_texts import Choice, eagle_texts, greedy_texts, medusa_texts, model_texts
from specdec_labs.acceptance.recordings import Recordings
from specdec_labs.acceptance.trees import (
    TextRanks,
    acceptance_vector,
    expected_tokens,
    expected_tokens_by_depth,
    rounds_of_shape,
    shapes,
    tokens_from_every_place,
    vectors_by_depth,
)

DEPTH = 8
SMALL = (8, 4)
"""Nodes and levels of the tree the seed documents put a number to."""

CHOSEN_ON, MEASURED_ON = Choice(every=3, first=1), Choice(every=3)
"""Different prompts of the same tasks, so that a vector's error is that of its assumption, not of other tasks."""

_TIMED = {"draft": "distilled", "eagle": "eagle"}
"""Names of `specdec bench curve`."""

_CONTEXT, _LARGEST = 256, 32
Made = Callable[[Choice], list[TextRanks]]


def compare_trees(
    recordings: Recordings, folder: Path, *, progress: Callable[[str], None] = lambda what: None
) -> dict[str, Any]:
    """Expected and measured tokens a round of every shape on every drafter; held in `folder` until weights change."""
    path = folder / "trees.json"
    names = (SMOLLM2_DRAFT, SMOLLM2_MEDUSA, SMOLLM2_EAGLE)
    identity = {
        "format": 2,
        "top_k": TOP_K,
        "weights": [read_card(name)["sha256"] for name in names],
        "texts": texts_hash(recordings),
    }
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["identity"] == identity:
            return held["trees"]
    except (OSError, ValueError, KeyError):
        pass
    progress("trees: draft")
    drafters = [compared("draft", "distilled draft", *_draft(recordings))]
    progress("trees: Medusa")
    drafters.append(compared("medusa", "Medusa heads", *_medusa(recordings)))
    progress("trees: EAGLE")
    drafters.append(_eagle(recordings))
    trees = {"nodes": NODES, "prompts": len(greedy_texts(recordings, MEASURED_ON)), "drafters": drafters}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"identity": identity, "trees": trees}) + "\n")
    return json.loads(json.dumps(trees))


def compared(name: str, title: str, chosen_on: list[TextRanks], measured_on: list[TextRanks]) -> dict[str, Any]:
    """One drafter: its acceptance vectors, and every shape chosen on the one set of texts and measured on the other."""
    vector, by_depth = acceptance_vector(chosen_on), vectors_by_depth(chosen_on)

    def entry(kind: str, parents: Parents) -> dict[str, Any]:
        expected = expected_tokens(parents, vector), expected_tokens_by_depth(parents, by_depth)
        found = [rounds_of_shape(parents, text) for text in measured_on]
        places = tokens_from_every_place(parents, measured_on)
        return {"parents": list(parents), "every_place": places, **_entry(kind, expected, found)}

    entries = [entry(kind, parents) for kind, parents in shapes(chosen_on, NODES).items()]
    small = entry("sequoia", sequoia_tree(vector, *SMALL))
    vectors = {"vector": vector, "by_depth": by_depth.tolist()}
    return {"name": name, "title": title, **vectors, "shapes": entries, "small": small}


def size_by_cost(trees: Mapping[str, Any], curve: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each drafter whose drafting was timed, the size of Sequoia's tree with fewest seconds a token.

    `curve` is what `specdec bench curve --json` wrote: the target's passes by rows, and seconds to draft K tokens, of
    which a level of a tree is taken to cost a K-th.
    """
    passes = CostCurve.from_dict(curve["curves"][0])
    plain = passes.seconds(1, _CONTEXT)
    sized = []
    for drafter in trees["drafters"]:
        timed = [
            cost for cost in curve["drafting"] if cost["drafter"] == _TIMED.get(drafter["name"]) and cost["rounds"]
        ]
        if not timed:
            continue
        longest = max(timed, key=lambda cost: cost["gamma"])
        level, host = longest["draft_s"] / longest["gamma"], longest["host_s"]
        seconds = [passes.seconds(1 + nodes, _CONTEXT) + host for nodes in range(_LARGEST + 1)]
        sizes = {"nodes": _LARGEST, "depth": DEPTH, "draft_seconds": level}
        nodes, depth = sequoia_size(drafter["vector"], **sizes, verify_seconds=seconds.__getitem__)
        tokens = expected_tokens(sequoia_tree(drafter["vector"], nodes, depth), drafter["vector"])
        speedup = tokens * (plain + host) / (depth * level + seconds[nodes])
        entry = {"title": drafter["title"], "nodes": nodes, "depth": depth, "level_s": level, "plain_s": plain}
        sized.append({**entry, "expected": tokens, "predicted_speedup": speedup})
    return sized


def expected_of_rounds(rounds: Sequence[Round], by_depth: Any) -> float:
    """Tokens a round if every node of the trees that were drafted had the mean chance of its rank and depth."""
    total = 0.0
    for entry in rounds:
        parents = entry.draft_parents
        places = zip(sibling_ranks(parents), shape_of(parents).depths)
        total += float(expected_tokens_of_tree(parents, [float(by_depth[depth - 1][rank]) for rank, depth in places]))
    return total / len(rounds)


def _entry(kind: str, expected: tuple[float, float], found: list[Counts]) -> dict[str, Any]:
    mean, low, high = mean_length(found)
    chances = {"expected": expected[0], "expected_by_depth": expected[1]}
    return {"kind": kind, **chances, "measured": mean, "low": low, "high": high}


def _draft(recordings: Recordings) -> tuple[list[TextRanks], list[TextRanks]]:
    model = CutHead(*load_smollm2_draft(recordings.target))
    return _both(lambda choice: model_texts(recordings, model, choice, depth=DEPTH))


def _medusa(recordings: Recordings) -> tuple[list[TextRanks], list[TextRanks]]:
    heads, vocabulary = load_medusa_head(recordings.target)
    return _both(lambda choice: medusa_texts(recordings, heads, vocabulary, choice))


def _eagle(recordings: Recordings) -> dict[str, Any]:
    head, vocabulary = load_eagle_head(recordings.target)
    texts = _both(lambda choice: eagle_texts(recordings, head, vocabulary, choice, depth=DEPTH))
    entry = compared("eagle", "EAGLE head", *texts)
    drafter = EagleDrafter(recordings.target, head, vocabulary, DynamicTree(TOP_K, LEVELS))
    replayed = rounds_by_replay(recordings, drafter, NODES, LEVELS, reads_states=True)
    by_text = [replayed(index) for index in greedy_texts(recordings, MEASURED_ON)]
    found = [counts_of(rounds) for rounds in by_text]
    rounds = [entry for own in by_text for entry in own]
    pooled = [entry["vector"]] * len(entry["by_depth"])
    expected = expected_of_rounds(rounds, pooled), expected_of_rounds(rounds, entry["by_depth"])
    entry["shapes"].append(_entry("eagle-2", expected, found))
    return entry


def _both(made: Made) -> tuple[list[TextRanks], list[TextRanks]]:
    return made(CHOSEN_ON), made(MEASURED_ON)
