"""Log-probabilities of what a round emitted, read from its record."""

import math

from specdec_core.trace import Round


def logprobs(record: Round) -> tuple[float, ...]:
    """ln p of each emitted token, in the law the target had at that token's slot: never the draft's, nor a residual's.

    Accepted drafts have their p on record. The recovered or bonus token has it among the slot's top tokens, so the
    engine must have kept these (`record_top`, at best the vocabulary's size). Refused drafts have no entry.

    Raises:
        ValueError: the probability of the last token was not recorded.
    """
    chances = [record.target_probs[node] for node in record.path]
    if record.next_token is not None:
        end = record.path[-1] if record.path else -1
        # a slot's row is its parent's: the row at the end of the walk is that of its children, or the bonus row
        slot = record.draft_parents.index(end) if end in record.draft_parents else -1
        recorded = {} if record.top is None else dict(record.top[slot].target)
        if record.next_token not in recorded:
            raise ValueError(
                f"round {record.index} did not record the probability of token {record.next_token}; run the engine "
                "with record_top=vocab_size to have that of every token"
            )
        chances.append(recorded[record.next_token])
    return tuple(math.log(chance) if chance > 0 else -math.inf for chance in chances)
