"""Mistake: the rows of a batch accept different numbers of drafts and are moved on by one common number.

The right loop is small: every row has its own length in the cache, its own position and its own noise.
"""

from collections.abc import Callable, Sequence

from specdec_core.coins import CoinSource, PhiloxCoins
from specdec_core.exact_drafts import ExactLaw, NextLaw, Prefix, sampled_draft
from specdec_core.laws import TokenLaw, target_law
from specdec_core.rules import Verdict, verify_chain
from specdec_labs.museum.bulk_noise import BulkCoins
from specdec_labs.museum.decoding import Laws, distance, law_of, memory_laws
from specdec_labs.museum.piece import CertificateCase, Evidence, Piece, law_evidence

GAMMA = 1
PROMPTS: tuple[Prefix, ...] = ((0,), (1, 0))
"""Two rows, of different length."""

Settle = Callable[[Sequence[int]], Sequence[int]]
"""From the drafts each row accepted to the drafts each row keeps in its cache."""


def own_count(accepted: Sequence[int]) -> Sequence[int]:
    """Right: every row keeps what it accepted."""
    return accepted


def common_count(accepted: Sequence[int]) -> Sequence[int]:
    """Wrong: every row keeps as many as the luckiest one, so the others keep refused drafts."""
    return [max(accepted)] * len(accepted)


class TokenRows:
    """The cache of a batch: a row of tokens each. A row's length is the position of its next token."""

    def __init__(self, prompts: Sequence[Prefix]) -> None:
        self.rows = [list(prompt[:-1]) for prompt in prompts]

    def feed(self, row: int, tokens: Prefix, law: NextLaw) -> list[ExactLaw]:
        """Writes `tokens`; the law after each, from what the cache holds."""
        laws = []
        for token in tokens:
            self.rows[row].append(token)
            laws.append(law(tuple(self.rows[row])))
        return laws

    def drop(self, row: int, count: int) -> None:
        """Drops the newest `count` tokens of a row."""
        del self.rows[row][len(self.rows[row]) - count :]


def decode_batch(
    laws: Laws, prompts: Sequence[Prefix], wanted: int, source: CoinSource, settle: Settle, *, first_request: int = 0
) -> list[Prefix]:
    """`wanted` tokens for each prompt, all rows in step; row r draws the noise of request `first_request` + r.

    A row that has all its tokens leaves the batch.
    """
    cache = TokenRows(prompts)
    texts = list(prompts)
    draft = sampled_draft(laws.draft, GAMMA)
    while active := [row for row, prompt in enumerate(prompts) if len(texts[row]) < len(prompt) + wanted]:
        drafts: list[Prefix] = []
        verdicts: list[Verdict] = []
        for row in active:
            coins = source.at(request=first_request + row, length=len(texts[row]))
            missing = len(prompts[row]) + wanted - len(texts[row])
            drafted, drawn_from = draft(texts[row], missing - 1, coins)
            assert isinstance(drafted, tuple)
            target_rows = cache.feed(row, (texts[row][-1], *drafted), laws.target)
            drafts.append(drafted)
            verdicts.append(verify_chain(drafted, drawn_from, target_rows, coins))
        kept = settle([verdict.num_accepted for verdict in verdicts])
        for row, drafted, verdict, count in zip(active, drafts, verdicts, kept):
            cache.drop(row, max(len(drafted) - count, 0))
            texts[row] += (*drafted[: verdict.num_accepted], verdict.next_token)
    return [text[len(prompt) :] for text, prompt in zip(texts, prompts)]


def rows_have_their_own_law(laws: Laws, wanted: int):
    """Exact check: the joint law of all rows is the product of the target's laws."""

    def check(settle: Settle) -> Evidence:
        joint = law_of(lambda coins: _joined(decode_batch(laws, PROMPTS, wanted, coins, settle)))
        first, second = (target_law(laws.target, prompt, wanted) for prompt in PROMPTS)
        product = {one + two: first[one] * second[two] for one in first for two in second}
        return law_evidence(distance(joint, product), "joint law of the rows")

    return check


def rows_decode_as_alone(laws: Laws, wanted: int = 4, tries: int = 20):
    """Property check: a row decoded in a batch is the row decoded alone, token for token."""

    def check(settle: Settle) -> Evidence:
        source = PhiloxCoins(0)
        for first in range(0, 2 * tries, 2):
            together = decode_batch(laws, PROMPTS, wanted, source, settle, first_request=first)
            for row, prompt in enumerate(PROMPTS):
                alone = decode_batch(laws, [prompt], wanted, source, settle, first_request=first + row)
                if alone != [together[row]]:
                    return Evidence(False, f"row {row}: {together[row]} in a batch, {alone[0]} alone")
        return Evidence(True, f"{2 * tries} rows equal in a batch and alone")

    return check


def certificate(laws: Laws, horizon: int, n: int, row: int = 1) -> CertificateCase:
    """The certificate of one row of the batch."""

    def sampler(settle: Settle):
        floats = laws.as_floats()

        def sample(first: int, count: int) -> list[Prefix]:
            source = BulkCoins(0, 2 * first, 2 * count)
            batches = range(2 * first, 2 * (first + count), 2)
            return [
                decode_batch(floats, PROMPTS, horizon, source, settle, first_request=request)[row]
                for request in batches
            ]

        return sample

    def wrong_law() -> TokenLaw:
        return law_of(lambda coins: decode_batch(laws, PROMPTS, horizon, coins, common_count)[row])

    return CertificateCase(sampler, lambda tokens: laws.target(PROMPTS[row] + tokens), horizon, n, wrong_law)


def _joined(rows: Sequence[Prefix]) -> Prefix:
    return tuple(token for row in rows for token in row)


_LAWS = memory_laws(6, 2)

TIED_POSITIONS = Piece(
    name="tied_positions",
    title="batch positions tied together",
    symptom="A request alone is fine; in a batch its text depends on how lucky its neighbours are.",
    cause="One common count of accepted drafts moves all rows on, so rows that accepted fewer keep refused drafts "
    "in their cache and count positions too far.",
    met_in="Blaizzy/mlx-vlm #1155",
    fix="Length, position and cache rows belong to a row; a test holds every row against the row decoded alone.",
    wrong=common_count,
    right=own_count,
    exact_check=rows_have_their_own_law(_LAWS, 3),
    property_check=rows_decode_as_alone(_LAWS),
    certificate=certificate(_LAWS, 4, 500),
)
