"""Text as it grows: only whole characters ever come out."""

from collections.abc import Iterable

from specdec_core.models.protocol import Tokenizer


class TextStream:
    """Turns ids that arrive in pieces into text.

    >>> from specdec_core.models.tokenizer import DigitTokenizer
    >>> stream = TextStream(DigitTokenizer())
    >>> stream.feed([2]), stream.feed([0, 5])
    ('2', '05')
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._length = 0

    def feed(self, ids: Iterable[int]) -> str:
        """The text these ids complete. A character split over ids appears with its last byte."""
        self._ids += ids
        # Decoding anew from the start is what every tokenizer family gets right: spaces and multi-byte characters
        # depend on the ids before.
        text = self._tokenizer.decode(self._ids)
        fresh, self._length = text[self._length :], max(self._length, len(text))
        return fresh
