"""The record of a generation: every round as it happened, with versioned JSON.

Widgets, metrics, graders and benchmarks read traces; nothing runs twice.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
import json
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from specdec_core.whole_file import write_whole

RoundKind = Literal["recovered", "bonus", "plain", "stopped"]
FinishReason = Literal["length", "stop", "interrupted"]
SCHEMA = "specdec.trace"
SCHEMA_VERSION = 2
"""Version 1 had no `t_draft_prefill_s`: a drafter read the prompt in round 1, and the time stands there."""


@dataclass(frozen=True, slots=True)
class SlotTop:
    """The most probable tokens of one slot: ids with their probabilities, largest first.

    Slot i < drafted judges draft i; slot `drafted` is the bonus slot (`draft` and `residual` are None there).
    `draft` is None too for a deterministic proposal. `residual` is the law a refusal of this draft redraws from.
    """

    target: tuple[tuple[int, float], ...]
    draft: tuple[tuple[int, float], ...] | None
    residual: tuple[tuple[int, float], ...] | None


@dataclass(frozen=True, slots=True)
class Round:
    """One verify pass.

    Attributes:
        index: rounds before this one.
        length: tokens in the sequence (prompt included) when the round started; the last one is pending.
        draft_tokens: what was sent to verification, in node order.
        draft_parents: the parent node of each (-1 = the pending token).
        proposal: how the drafts were made.
        target_probs: p of each drafted token in its own slot.
        draft_probs: q of each drafted token; None for a deterministic proposal (q = 1).
        uniforms: the uniform that judged each drafted token; None where the rule did not ask, or decides without.
        num_accepted: drafts kept *and* emitted (a stop token inside the block removes the rest).
        num_tested: drafts of the emitted part that were judged; accepted + 1 after a refusal.
        path: accepted nodes, root first.
        next_token: the recovered or bonus token; None when a stop token cut it off.
        kind: "recovered", "bonus", "plain" (nothing was drafted) or "stopped" (cut before `next_token`).
        emitted: the tokens this round added, in order.
        target_rows, draft_rows: cache rows after the round; `draft_rows` is None for a drafter without a cache.
        block_table: physical blocks of the target's cache when it is paged.
        top: the top tokens of every slot when the engine records them.
        t_draft_s, t_verify_s, t_host_s: seconds spent drafting, in the target's forward, and elsewhere.
    """

    index: int
    length: int
    draft_tokens: tuple[int, ...]
    draft_parents: tuple[int, ...]
    proposal: str
    target_probs: tuple[float, ...]
    draft_probs: tuple[float, ...] | None
    uniforms: tuple[float | None, ...]
    num_accepted: int
    num_tested: int
    path: tuple[int, ...]
    next_token: int | None
    kind: RoundKind
    emitted: tuple[int, ...]
    target_rows: int
    draft_rows: int | None
    block_table: tuple[int, ...] | None
    top: tuple[SlotTop, ...] | None
    t_draft_s: float
    t_verify_s: float
    t_host_s: float


@dataclass(slots=True)
class Trace:
    """Rounds of one request, with what is needed to read them later.

    `tokens` is the prompt followed by everything emitted: the prefill token, then each round's `emitted`.
    `settings` holds rule, drafter, gamma and sampling parameters; `hardware` the machine and versions.
    `t_prefill_s` are the seconds of the target's pass over the prompt, `t_draft_prefill_s` those of the drafter's own.
    `texts` (optional) maps token ids to printable strings, so that a reader needs no tokenizer.
    """

    prompt: tuple[int, ...]
    prefill_token: int | None = None
    t_prefill_s: float = 0.0
    t_draft_prefill_s: float = 0.0
    rounds: list[Round] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    @property
    def emitted(self) -> tuple[int, ...]:
        """Everything generated: the prefill token and each round's tokens."""
        first = () if self.prefill_token is None else (self.prefill_token,)
        return first + tuple(token for round_ in self.rounds for token in round_.emitted)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Prompt and everything generated."""
        return self.prompt + self.emitted

    def to_dict(self) -> dict[str, Any]:
        """Plain data with a schema name and version; `rounds` is a top-level list."""
        data: dict[str, Any] = {"schema": SCHEMA, "version": SCHEMA_VERSION}
        for entry in fields(self):
            data[entry.name] = getattr(self, entry.name)
        data["rounds"] = [asdict(round_) for round_ in self.rounds]
        data["texts"] = {str(token): text for token, text in self.texts.items()}
        return json.loads(json.dumps(data))

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def save(self, path: str | Path) -> Path:
        """Writes the JSON whole or not at all; see `write_whole` for what it refuses."""
        write_whole(path, self.to_json())
        return Path(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Trace":
        """Reads what `to_dict` wrote.

        Raises:
            ValueError: another schema, a newer version, a missing or unknown field, or a value of another kind.
        """
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if schema != SCHEMA:
            raise ValueError(f"schema is {schema!r}; expected {SCHEMA!r} - this is not a trace file")
        if data.get("version") not in (1, SCHEMA_VERSION):
            raise ValueError(
                f"version is {data.get('version')!r}; this release reads 1 and {SCHEMA_VERSION} - "
                "update the package or record the trace again"
            )
        if data["version"] == 1:
            data = {"t_draft_prefill_s": 0.0, **data}
        try:
            names = [entry.name for entry in fields(cls)]
            unknown = set(data) - {"schema", "version", *names}
            if unknown:
                raise KeyError(*sorted(unknown))
            content = {name: data[name] for name in names}
            content["prompt"] = tuple(content["prompt"])
            content["rounds"] = [_round(entry) for entry in content["rounds"]]
            content["texts"] = {int(token): text for token, text in content["texts"].items()}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"the trace is incomplete or has unknown fields: {error}") from error
        _check_kinds(cls, content, "trace")
        return cls(**content)

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Reads a trace file. ValueError when it is not one."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        return cls.from_dict(data)


@dataclass(frozen=True, slots=True)
class Generation:
    """The tokens a request produced (prompt excluded), why it ended, and its trace."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    trace: Trace


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _round(entry: Mapping[str, Any]) -> Round:
    content = {name: _tuples(value) for name, value in entry.items() if name != "top"}
    top = entry["top"]
    if top is not None:
        top = tuple(SlotTop(**{name: _tuples(value) for name, value in slot.items()}) for slot in top)
    record = Round(**content, top=top)
    _check_kinds(Round, content, f"rounds[{record.index}]")
    return record


def _check_kinds(cls: type, content: Mapping[str, Any], where: str) -> None:
    """ValueError unless every value is of the kind its field is declared with."""
    for name, kind in get_type_hints(cls).items():
        if name in content and not _fits(content[name], kind):
            raise ValueError(f"{name} of {where} is {content[name]!r}; expected {kind}")


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in inner
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is tuple and inner[-1:] == (Ellipsis,):
        return type(value) is tuple and all(_fits(item, inner[0]) for item in value)
    if origin in (list, dict):
        return isinstance(value, origin)
    # a JSON writer may leave the point out of a whole float; True is no number
    return type(value) in ((int, float) if kind is float else (kind,))
