"""Printable strings for every token a trace mentions, so that its readers need no tokenizer."""

from specdec_core.models.protocol import Tokenizer
from specdec_core.trace import Trace


def name_tokens(trace: Trace, tokenizer: Tokenizer) -> Trace:
    """The same trace, with `texts` filled for prompt, output, drafts and recorded top tokens."""
    for token in _mentioned(trace):
        trace.texts[token] = tokenizer.token(token)
    return trace


def _mentioned(trace: Trace) -> set[int]:
    found = set(trace.tokens)
    for round_ in trace.rounds:
        found.update(round_.draft_tokens)
        for slot in round_.top or ():
            for law in (slot.target, slot.draft, slot.residual):
                found.update(token for token, _ in law or ())
    return found
