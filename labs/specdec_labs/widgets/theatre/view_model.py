"""A trace as a story: every decision of every round in reading order, as plain JSON data.

Nothing is recomputed: p, q, the uniform and the verdict are the recorded ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specdec_core.trace import Round, SlotTop, Trace
from specdec_labs.widgets.theatre import bars, tree_rounds, words
from specdec_labs.widgets.theatre.numbers import rounded

ORIGINS = ("prompt", "prefill", "plain", "accepted", "recovered", "bonus")
Step = dict[str, Any]


def view_model(trace: Trace) -> dict[str, Any]:
    """Steps, tokens with their origin and totals of a trace, ready for `json.dumps`.

    `steps[i]` has: kind (start, prefill, round, judge, recovered, bonus, plain, stopped, end); round (counted
    from 1, None outside); label; say (the sentence); shown (generated tokens on the page by then); drafts (each
    drafted token and its state); tree (None for a chain, else [depth, lane, is first child] of each drafted token);
    draft (the one being judged); token (what the step added without a draft); bars; coin (p, q, ratio, u, accepted);
    counters (finished rounds only). `opens_at` is the step to begin with, the first refusal. `tokens` lists what was
    generated as [id, origin, round]; `texts` maps ids to printable strings.

    Raises:
        ValueError: the record of a round contradicts itself.
    """
    for round_ in trace.rounds:
        _check(round_)
    story = _Story(trace)
    steps = list(story.steps())
    return {
        "version": 1,
        "steps": steps,
        "opens_at": _opening(steps),
        "tokens": provenance(trace),
        "prompt": list(trace.prompt),
        "texts": {str(token): story.text(token) for token in sorted(_mentioned(trace, steps))},
        "counters": story.counters.as_dict(),
    }


def _opening(steps: list[Step]) -> int:
    """The first refusal; where nothing was refused the first judged draft, else the last step of the first round."""
    judged = [place for place, step in enumerate(steps) if step["kind"] == "judge"]
    refused = [place for place in judged if steps[place]["drafts"][steps[place]["draft"]][1] == "refused"]
    told = [place for place, step in enumerate(steps) if step["round"] is not None]
    return next(iter([*refused, *judged, *told, len(steps) - 1]))


def provenance(trace: Trace) -> list[tuple[int, str, int | None]]:
    """Every generated token with where it came from (one of `ORIGINS`) and its round, counted from 1."""
    tokens: list[tuple[int, str, int | None]] = []
    if trace.prefill_token is not None:
        tokens.append((trace.prefill_token, "prefill", None))
    for round_ in trace.rounds:
        origins = ["accepted"] * round_.num_accepted
        if round_.next_token is not None:
            origins.append(round_.kind)
        tokens.extend((token, origin, round_.index + 1) for token, origin in zip(round_.emitted, origins))
    return tokens


def token_text(trace: Trace, token: int) -> str:
    """The printable string of a token: the trace's own, else its number."""
    return trace.texts.get(token) or f"#{token}"


@dataclass(slots=True)
class Counters:
    """Totals over finished rounds; the prefill token is in none of them."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0

    def add(self, round_: Round) -> None:
        """Counts one finished round."""
        self.rounds += 1
        self.drafted += len(round_.draft_tokens)
        self.accepted += round_.num_accepted
        self.emitted += len(round_.emitted)

    def as_dict(self) -> dict[str, Any]:
        """With the mean acceptance length (None before the first round)."""
        mean = rounded(self.emitted / self.rounds) if self.rounds else None
        return {
            "rounds": self.rounds,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "mean_acceptance_length": mean,
        }


class _Story:
    """Walks a trace once, keeping how much of the text is on the page and the counters so far."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.counters = Counters()
        self.shown = 0

    def text(self, token: int) -> str:
        return token_text(self.trace, token)

    def name(self, token: int) -> str:
        return f"“{self.text(token)}”"

    def steps(self) -> Iterator[Step]:
        trace = self.trace
        yield self._step("start", "Start", f"The prompt has {words.counted(len(trace.prompt), 'token')}.")
        if trace.prefill_token is not None:
            self.shown += 1
            say = f"Reading the prompt gives the first token, {self.name(trace.prefill_token)}. It belongs to no round."
            yield self._step("prefill", "Prefill", say)
        for round_ in trace.rounds:
            yield from self._round(round_)
        yield self._step("end", "End", words.finished(len(trace.emitted), trace.finish_reason))

    def _round(self, round_: Round) -> Iterator[Step]:
        if not tree_rounds.is_chain(round_):
            yield from self._tree_round(round_)
            return
        count = len(round_.draft_tokens)
        if count:
            label = f"Round {round_.index + 1}: the draft"
            yield self._step("round", label, words.drafted(round_, self.name), round_, judged=0)
        for draft in range(round_.num_tested):
            self.shown += draft < round_.num_accepted
            label = f"Round {round_.index + 1}: draft {draft + 1} of {count}"
            step = self._step("judge", label, words.judged(round_, draft, self.name), round_, judged=draft + 1)
            q = None if round_.draft_probs is None else round_.draft_probs[draft]
            chart = bars.pair_bars(_slot(round_, draft), round_.draft_tokens[draft], round_.target_probs[draft], q)
            yield {**step, "draft": draft, "bars": chart, "coin": _coin(round_, draft)}
        self.shown += round_.next_token is not None
        self.counters.add(round_)
        yield self._last(round_)

    def _tree_round(self, round_: Round) -> Iterator[Step]:
        """The same steps, one for every judged node, in the order the rule judges them."""
        layout = [list(place) for place in tree_rounds.layout(round_)]
        rule = str(self.trace.settings.get("rule", ""))
        label = f"Round {round_.index + 1}: "
        for told in tree_rounds.told(round_, rule, self.name):
            self.shown += told.emits
            if told.ends_round:
                self.counters.add(round_)
            step = self._step(told.kind, label + told.label, told.say, round_)
            yield {**step, "tree": layout, "drafts": told.states, "draft": told.node, "token": told.token} | {
                "bars": told.bars,
                "coin": told.coin,
            }

    def _last(self, round_: Round) -> Step:
        kind, token = round_.kind, round_.next_token
        say = {
            "recovered": words.recovered,
            "bonus": words.bonus,
            "plain": words.plain,
            "stopped": words.stopped,
        }[kind](round_, self.name)
        label = (
            f"Round {round_.index + 1}: "
            + {
                "recovered": "redraw",
                "bonus": "bonus token",
                "plain": "plain step",
                "stopped": "stop",
            }[kind]
        )
        step = self._step(kind, label, say, round_, judged=len(round_.draft_tokens))
        slot = _slot(round_, round_.num_accepted)
        if kind == "recovered":
            chart = bars.residual_bars(slot, token)
        else:
            chart = None if kind == "stopped" else bars.target_bars(slot, token)
        return {**step, "token": token, "bars": chart}

    def _step(self, kind: str, label: str, say: str, round_: Round | None = None, judged: int = 0) -> Step:
        return {
            "kind": kind,
            "round": None if round_ is None else round_.index + 1,
            "label": label,
            "say": say,
            "shown": self.shown,
            "drafts": [] if round_ is None else _draft_states(round_, judged),
            "tree": None,
            "draft": None,
            "token": None,
            "bars": None,
            "coin": None,
            "counters": self.counters.as_dict(),
        }


def _check(round_: Round) -> None:
    count = len(round_.draft_tokens)
    if not round_.num_accepted <= round_.num_tested <= count:
        raise ValueError(
            f"round {round_.index} has {round_.num_accepted} accepted and {round_.num_tested} tested of {count} "
            "drafts; expected accepted <= tested <= drafted"
        )
    if len(round_.emitted) != round_.num_accepted + (round_.next_token is not None):
        raise ValueError(
            f"round {round_.index} emitted {len(round_.emitted)} tokens; expected its {round_.num_accepted} "
            "accepted drafts and next_token"
        )


def _slot(round_: Round, index: int) -> SlotTop | None:
    return None if round_.top is None or index >= len(round_.top) else round_.top[index]


def _draft_states(round_: Round, judged: int) -> list[tuple[int, str]]:
    """Each drafted token: accepted, refused, waiting, or dropped once the round no longer needs it."""
    refused = round_.num_accepted if round_.num_tested > round_.num_accepted else None
    states: list[tuple[int, str]] = []
    for draft, token in enumerate(round_.draft_tokens):
        if draft < min(judged, round_.num_accepted):
            state = "accepted"
        elif draft < judged and draft == refused:
            state = "refused"
        else:
            state = "waiting" if judged <= round_.num_accepted and judged < len(round_.draft_tokens) else "dropped"
        states.append((token, state))
    return states


def _coin(round_: Round, draft: int) -> Step:
    """What decided: the uniform (None: none was asked) against the capped ratio (None: another test decided)."""
    uniform = round_.uniforms[draft]
    p, q = round_.target_probs[draft], words.draft_prob(round_, draft)
    ratio = min(1.0, p / q) if q > 0 and uniform is not None and words.follows_ratio_test(round_, draft) else None
    return {
        "p": rounded(p),
        "q": rounded(q),
        "ratio": None if ratio is None else rounded(ratio),
        "u": None if uniform is None else rounded(uniform),
        "accepted": draft < round_.num_accepted,
    }


def _mentioned(trace: Trace, steps: list[Step]) -> set[int]:
    found = set(trace.tokens)
    for step in steps:
        found.update(token for token, _ in step["drafts"])
        found.update(row[0] for row in (step["bars"] or {"rows": ()})["rows"])
    return found
