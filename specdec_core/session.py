"""One request being decoded: its tokens, caches and rounds.

Invariant between rounds: the newest token is *pending* - emitted, not yet fed. The target's cache holds
prompt + emitted - 1 rows and the drafter's cache a prefix of those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import time

import torch

from specdec_core.arguments import check_whole
from specdec_core.coins.protocol import Coins, CoinSource
from specdec_core.controllers import Controller
from specdec_core.draft import Draft
from specdec_core.drafters.protocol import Context, Drafter
from specdec_core.models.protocol import ForwardOutput, LanguageModel
from specdec_core.recording import accept_uniforms, cut_at_stop, probs_of_drafts, round_kind, slot_tops
from specdec_core.rules import Rule, Verdict
from specdec_core.trace import Round, Trace
from specdec_core.warp import SamplingParams

TREE_ROOM = 64
"""Nodes that a branching draft may have beyond the tokens that are left to emit."""


@dataclass(frozen=True, slots=True)
class _Clock:
    """Moments of a round: its start, after drafting, before and after the target's forward."""

    start: float
    drafted: float
    verified: float


class Session:
    """Decodes one request round by round; `trace` is complete after every step."""

    def __init__(
        self,
        *,
        target: LanguageModel,
        drafter: Drafter | None,
        rule: Rule,
        controller: Controller,
        source: CoinSource,
        request: int,
        params: SamplingParams,
        trace: Trace,
        max_new_tokens: int,
        record_top: int,
    ) -> None:
        self.trace = trace
        self._tokens = list(trace.prompt)
        self._target, self._drafter, self._rule, self._controller = target, drafter, rule, controller
        self._source, self._request, self._params = source, request, params
        self._limit = min(len(trace.prompt) + max_new_tokens, target.max_length)
        self._record_top = record_top
        # a tree may have more nodes than there are tokens left to emit; its rows need room, its depth does not
        self._branches = drafter is not None and getattr(drafter, "branches", False)
        self._cache = target.new_cache(self._limit + (TREE_ROOM if self._branches else 0))
        # the target's states of committed rows that the drafter has not been shown yet, if it reads them
        self._reads_states = None if drafter is None else getattr(drafter, "reads_states", None)
        self._unseen: list[torch.Tensor] = []
        if drafter is not None:
            drafter.start(self._limit)

    @property
    def drafter(self) -> Drafter | None:
        """Who drafts this request."""
        return self._drafter

    def prefill(self) -> tuple[int, ...]:
        """Feeds the prompt and draws the first token from its last row."""
        start = time.perf_counter()
        output = self._forward(self._tokens, last_only=True)
        history = [self._tokens] if self._params.uses_history else None
        law = self._params.probs(output.logits, history, prompt_length=len(self._tokens))
        coins = self._source.at(request=self._request, length=len(self._tokens))
        token = coins.draw(law[0], node=0, purpose="sample")
        self._keep_states(output.hidden)
        self.trace.prefill_token = token
        self.trace.t_prefill_s = time.perf_counter() - start
        self._emit((token,))
        self._prefill_drafter()
        return (token,)

    def _prefill_drafter(self) -> None:
        """The drafter reads the prompt here, timed apart, so that round 1 costs what the others do."""
        prefill, room = getattr(self._drafter, "prefill", None), self._limit - len(self._tokens) - 1
        if prefill is None or self.trace.finish_reason is not None or room <= 0:
            return
        if self._gamma() <= 0:
            return
        start = time.perf_counter()
        # as if the prompt's last token were the pending one: its state is left for round 1
        hidden, self._unseen = (None, []) if not self._unseen else (self._unseen[0][:-1], [self._unseen[0][-1:]])
        prefill(Context(tuple(self._tokens[:-1]), len(self.trace.prompt), self._params, hidden, self._cache, room))
        if self._target.device.type == "cuda":
            torch.cuda.synchronize(self._target.device)
        self.trace.t_draft_prefill_s = time.perf_counter() - start

    def round(self) -> Round:
        """One round: draft, verify in a single forward, keep what was accepted."""
        start = time.perf_counter()
        length = len(self._tokens)
        coins = self._source.at(request=self._request, length=length)
        draft = self._propose(coins)
        drafted = time.perf_counter()
        output = self._verify_pass(draft)
        clock = _Clock(start, drafted, time.perf_counter())
        target_probs = self._params.probs(output.logits, self._histories(draft), prompt_length=len(self.trace.prompt))
        verdict = self._rule(draft, target_probs, coins)
        continuation = (*(draft.tokens[node] for node in verdict.path), verdict.next_token)
        emitted = cut_at_stop(continuation, self._params.stop)
        kept_rows = [0, *(node + 1 for node in verdict.path)][: len(emitted)]
        self._cache.keep(kept_rows)
        self._keep_states(None if output.hidden is None else output.hidden[kept_rows])
        if self._drafter is not None and len(draft.tree):
            # after a cut the stop token is the pending one, and what stood behind it never happened
            kept = len(emitted) - 1
            seen = Verdict(kept, verdict.path[:kept], emitted[-1], verdict.kind)
            self._drafter.observe(seen, output.hidden if self._reads_states else None)
        uniforms = accept_uniforms(coins.events, len(draft.tree))
        record = self._record(draft, verdict, emitted, target_probs, uniforms, clock)
        self.trace.rounds.append(record)
        self._emit(emitted)
        return record

    def _emit(self, tokens: Sequence[int]) -> None:
        self._tokens.extend(tokens)
        if tokens[-1] in self._params.stop:
            self.trace.finish_reason = "stop"
        elif len(self._tokens) >= self._limit:
            self.trace.finish_reason = "length"

    def _gamma(self) -> int:
        gamma = self._controller.gamma(tuple(self.trace.rounds))
        return check_whole(f"gamma of controller {getattr(self._controller, 'name', None)!r}", gamma)

    def _propose(self, coins: Coins) -> Draft:
        # what user code is handed is its own: a copy of the tokens, of the rounds, of the states
        budget = self._gamma()
        room = self._limit - len(self._tokens) - 1
        if self._drafter is None:
            return Draft.empty()
        if self._drafter.max_length is not None:
            # the last draft is drawn, never fed: it needs no row
            room = min(room, self._drafter.max_length - len(self._tokens) + 1)
        budget = min(budget, room + TREE_ROOM if self._branches else room)
        if min(budget, room) <= 0:
            return Draft.empty()
        hidden = torch.cat(self._unseen) if self._unseen else None
        self._unseen = []
        context = Context(tuple(self._tokens), len(self.trace.prompt), self._params, hidden, self._cache, room)
        draft = self._drafter.propose(context, budget, coins, self._controller.may_continue)
        self._check_draft(draft, budget, room)
        return draft

    def _check_draft(self, draft: Draft, budget: int, room: int) -> None:
        name, vocab = f"drafter {getattr(self._drafter, 'name', None)!r}", self._target.vocab_size
        if not isinstance(draft, Draft):
            raise ValueError(f"{name} proposed {draft!r}; expected a Draft (Draft.empty() for no tokens)")
        if len(draft.tree) > budget:
            raise ValueError(f"{name} proposed {len(draft.tree)} nodes; its budget is {budget}")
        if (levels := max(draft.tree.depths, default=0)) > room:
            raise ValueError(f"{name} proposed {levels} levels; there is room for {room}")
        for node, token in enumerate(draft.tokens):
            if not 0 <= token < vocab:
                raise ValueError(
                    f"{name} proposed tokens[{node}] is {token}; the vocabulary has ids 0..{vocab - 1} - is its model "
                    "or its corpus of another vocabulary?"
                )
        if len(self._cache) != len(self._tokens) - 1:
            raise ValueError(
                f"{name} left {len(self._cache)} rows in the target's cache for {len(self._tokens)} tokens; expected "
                "one row less than tokens - a drafter may read the cache, its length is the engine's"
            )

    def _keep_states(self, states: torch.Tensor | None) -> None:
        """Keeps what the drafter will read; nothing when it reads none, or its context is used up for good."""
        if self._drafter is None or states is None or self._reads_states is None:
            return
        longest = self._drafter.max_length
        if longest is not None and len(self._tokens) > longest:
            self._unseen = []
        elif self._reads_states == "last":
            self._unseen = [states[-1:].clone()]
        else:
            self._unseen.append(states)

    def _verify_pass(self, draft: Draft) -> ForwardOutput:
        fed = [self._tokens[-1], *draft.tokens]
        if draft.tree.is_chain:
            return self._forward(fed)
        cached = len(self._cache)
        return self._forward(fed, draft.tree.position_ids(cached), draft.tree.attention_mask(cached))

    def _forward(
        self,
        tokens: Sequence[int],
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        *,
        last_only: bool = False,
    ) -> ForwardOutput:
        fed = torch.tensor(tokens, dtype=torch.long, device=self._target.device)
        output = self._target.forward(fed, positions, mask, cache=self._cache, last_only=last_only)
        if self._target.device.type == "cuda":
            torch.cuda.synchronize(self._target.device)
        return output

    def _histories(self, draft: Draft) -> list[list[int]] | None:
        if not self._params.uses_history:
            return None
        paths = [[draft.tokens[node] for node in path] for path in draft.tree.paths()]
        return [self._tokens, *([*self._tokens, *path] for path in paths)]

    def _record(
        self,
        draft: Draft,
        verdict: Verdict,
        emitted: tuple[int, ...],
        target_probs: torch.Tensor,
        uniforms: tuple[float | None, ...],
        clock: _Clock,
    ) -> Round:
        was_cut = len(emitted) <= verdict.num_accepted
        num_accepted = min(verdict.num_accepted, len(emitted))
        end = verdict.path[-1] if verdict.path else -1
        # the walk ended here: at a node with children a draft was judged and refused
        has_children = bool(draft.tree.children(end))
        q = draft.draft_probs
        return Round(
            index=len(self.trace.rounds),
            length=len(self._tokens),
            draft_tokens=draft.tokens,
            draft_parents=draft.tree.parents,
            proposal=draft.proposal,
            target_probs=probs_of_drafts(draft, target_probs),
            draft_probs=None if q is None else tuple(float(q[n, token]) for n, token in enumerate(draft.tokens)),
            uniforms=uniforms,
            num_accepted=num_accepted,
            num_tested=num_accepted + (not was_cut and has_children),
            path=verdict.path[:num_accepted],
            next_token=None if was_cut else verdict.next_token,
            kind=round_kind(draft, verdict, was_cut),
            emitted=emitted,
            target_rows=len(self._cache),
            draft_rows=None if self._drafter is None else self._drafter.cache_rows,
            block_table=None,
            top=slot_tops(draft, target_probs, end, self._record_top) if self._record_top else None,
            t_draft_s=clock.drafted - clock.start,
            t_verify_s=clock.verified - clock.drafted,
            t_host_s=time.perf_counter() - clock.verified,
        )
