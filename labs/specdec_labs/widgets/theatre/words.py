"""Each step of the theatre as a sentence with its numbers. `name` turns a token id into quoted text."""

from collections.abc import Callable

from specdec_core.trace import FinishReason, Round
from specdec_labs.widgets.theatre.numbers import short, told_apart

Name = Callable[[int], str]

_FINISH: dict[FinishReason | None, str] = {
    "length": "The token limit was reached",
    "stop": "A stop token came up",
    "interrupted": "The run was interrupted",
    None: "The trace ends here",
}


def counted(count: int, noun: str) -> str:
    """The count with its noun, plural unless it is one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def draft_prob(round_: Round, draft: int) -> float:
    """q of a drafted token: 1 for a deterministic proposal."""
    return 1.0 if round_.draft_probs is None else round_.draft_probs[draft]


def is_greedy(round_: Round, draft: int) -> bool:
    """Whether the draft was judged by comparing tokens: no uniform, and a one-hot target."""
    return round_.uniforms[draft] is None and round_.target_probs[draft] in (0.0, 1.0)


def follows_ratio_test(round_: Round, draft: int) -> bool:
    """Whether the recorded verdict is the one of `u * q < p` (up to rounding); True without a uniform."""
    uniform = round_.uniforms[draft]
    if uniform is None:
        return True
    p, q = round_.target_probs[draft], draft_prob(round_, draft)
    accepted = draft < round_.num_accepted
    return abs(uniform * q - p) <= 1e-6 * p or (uniform * q < p) == accepted


def drafted(round_: Round, name: Name) -> str:
    """What the round proposes, and how."""
    tokens = ", ".join(name(token) for token in round_.draft_tokens)
    source = "proposed without drawing (q is one-hot)" if round_.draft_probs is None else "drawn from the draft's law q"
    return f"{counted(len(round_.draft_tokens), 'draft')} {source}: {tokens}. One pass of the target judges them all."


def judged(round_: Round, draft: int, name: Name) -> str:
    """Accepted or refused, with p, q, the ratio and the uniform that decided."""
    token = name(round_.draft_tokens[draft])
    accepted = draft < round_.num_accepted
    verdict = f"{token} is {'accepted' if accepted else 'refused'}"
    uniform = round_.uniforms[draft]
    p = round_.target_probs[draft]
    if is_greedy(round_, draft):
        return f"{verdict}: it is {'' if accepted else 'not '}the target's own first choice. Greedy needs no uniform."
    if uniform is None:
        return f"{verdict}: p = {short(p)}. This rule used no uniform here."
    if not follows_ratio_test(round_, draft):
        sign = "<" if uniform * draft_prob(round_, draft) < p else "≥"
        return f"{verdict}, although u·q {sign} p: this rule tests otherwise."
    if p == 0.0:
        return f"{verdict}: the target gives it p = 0, so no uniform can accept it."
    return f"{verdict}: {_comparison(uniform, p, draft_prob(round_, draft), round_.draft_probs is None)}"


def _comparison(uniform: float, p: float, q: float, deterministic: bool) -> str:
    if p >= q:
        needle = f"p = {short(p)} is at least q = {short(q)}, so the ratio is capped at 1"
        return f"{needle} and every uniform accepts (u = {short(uniform)})."
    left, right = told_apart(uniform, p / q)
    sign = "<" if uniform * q < p else "≥"
    if deterministic:
        return f"u = {left} {sign} {right} = p, because q = 1."
    return f"u = {left} {sign} {right} = p/q = {short(p)}/{short(q)}."


def recovered(round_: Round, name: Name) -> str:
    """Where the token after a refusal comes from."""
    token, refused = name(next_token(round_)), round_.num_accepted
    if is_greedy(round_, refused):
        return f"{token} takes its place: the target's own first choice."
    law = "p without the refused token" if round_.draft_probs is None else "the residual max(p − q, 0)"
    dropped = len(round_.draft_tokens) - refused - 1
    rest = f"; {counted(dropped, 'later draft')} dropped" if dropped else ""
    return f"{token} is redrawn from {law}, rescaled to sum to 1{rest}."


def bonus(round_: Round, name: Name) -> str:
    """Why there is one more token when nothing was refused."""
    count = len(round_.draft_tokens)
    kept = {1: "The draft was", 2: "Both drafts were"}.get(count, f"All {count} drafts were")
    return f"{kept} kept, and the same pass already holds the next law p: {name(next_token(round_))} comes on top."


def plain(round_: Round, name: Name) -> str:
    """A round without drafts."""
    return f"{name(next_token(round_))} comes from p: one pass, one token."


def stopped(round_: Round, name: Name) -> str:
    """A stop token among the accepted drafts."""
    dropped = len(round_.draft_tokens) - round_.num_accepted
    rest = f" and {counted(dropped, 'later draft')}" if dropped else ""
    return f"{name(round_.emitted[-1])} is a stop token: the text ends there, without the round's extra token{rest}."


def finished(generated: int, reason: FinishReason | None) -> str:
    """Why the text ended."""
    return f"{_FINISH[reason]}: {counted(generated, 'token')} generated."


def next_token(round_: Round) -> int:
    """The round's last token. ValueError for a record without one that should have it."""
    if round_.next_token is None:
        raise ValueError(
            f"round {round_.index} is {round_.kind!r} but has no next_token; only a 'stopped' round has none"
        )
    return round_.next_token
