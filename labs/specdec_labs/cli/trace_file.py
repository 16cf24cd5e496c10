"""A trace as a file that a reader understands without the tokenizer."""

from pathlib import Path

from specdec_core.models.protocol import Tokenizer
from specdec_core.trace import Trace


def save_trace(trace: Trace, path: Path, tokenizer: Tokenizer) -> None:
    """Writes the trace with the printable string of every token id in it."""
    slots = (slot for round_ in trace.rounds for slot in round_.top or ())
    ids = {token for slot in slots for law in (slot.target, slot.draft, slot.residual) for token, _ in law or ()}
    ids.update(trace.tokens, *(round_.draft_tokens for round_ in trace.rounds))
    trace.texts = {token: tokenizer.token(token) for token in sorted(ids)}
    trace.save(path)
