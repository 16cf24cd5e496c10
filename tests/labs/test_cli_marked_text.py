"""The streamed text: every character keeps its origin, words stay whole, terminals stay unharmed."""

import io
import re

import pytest
from rich.console import Console

from specdec_core.engine import Step
from specdec_core.trace import Round
from specdec_labs.cli.marked_text import MarkedText, visible
from specdec_labs.cli.styles import ORIGINS, legend, origins


class PieceTokenizer:
    """Ids are places in a list of byte strings; an unfinished character is left out, as the protocol says."""

    vocab_size = 99
    eos_ids = ()

    def __init__(self, *pieces: bytes | str) -> None:
        self.pieces = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]

    def decode(self, ids) -> str:
        return b"".join(self.pieces[token] for token in ids).decode("utf-8", errors="ignore")


def round_of(emitted: list[int], *, drafted: int, accepted: int, kind: str) -> Round:
    return Round(
        index=0,
        length=1,
        draft_tokens=tuple(range(drafted)),
        draft_parents=tuple(range(-1, drafted - 1)),
        proposal="deterministic",
        target_probs=(1.0,) * drafted,
        draft_probs=None,
        uniforms=(None,) * drafted,
        num_accepted=accepted,
        num_tested=accepted,
        path=tuple(range(accepted)),
        next_token=None if kind == "stopped" else emitted[-1],
        kind=kind,
        emitted=tuple(emitted),
        target_rows=1,
        draft_rows=None,
        block_table=None,
        top=None,
        t_draft_s=0.0,
        t_verify_s=0.0,
        t_host_s=0.0,
    )


def shown(tokenizer: PieceTokenizer, steps: list[Step], *, width: int = 80, color: bool = False) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
    )
    writer = MarkedText(console, tokenizer)
    for step in steps:
        writer.write(step)
    writer.finish()
    return file.getvalue()


PIECES = PieceTokenizer("The", " old", " light", "house", " keeper", " slept", ".")
STEPS = [
    Step((0,), None),
    Step((1, 2, 3), round_of([1, 2, 3], drafted=3, accepted=2, kind="recovered")),
    Step((4, 5), round_of([4, 5], drafted=1, accepted=1, kind="bonus")),
    Step((6,), round_of([6], drafted=0, accepted=0, kind="plain")),
]


def test_marks_stand_under_their_words() -> None:
    assert shown(PIECES, STEPS) == "The old lighthouse keeper slept.\n... === =====^^^^^ ====== +++++.\n"


def test_lines_break_between_words() -> None:
    lines = shown(PIECES, STEPS, width=18).splitlines()
    assert lines == ["The old", "... ===", "lighthouse keeper", "=====^^^^^ ======", "slept.", "+++++."]


def test_a_word_longer_than_the_line_is_broken() -> None:
    output = shown(PieceTokenizer("x" * 25), [Step((0,), None)], width=11)
    assert output.splitlines() == ["x" * 10, "." * 10, "x" * 10, "." * 10, "x" * 5, "." * 5]


def test_a_line_of_the_text_ends_its_line() -> None:
    output = shown(PieceTokenizer("a\n\n", "b"), [Step((0, 1), None)])
    assert output == "a\n.\n\nb\n.\n"


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    first, second = "né".encode()[:2], "né".encode()[2:]
    tokenizer = PieceTokenizer(first, second + b" ok")
    steps = [
        Step((0,), None),
        Step((1,), round_of([1], drafted=1, accepted=0, kind="recovered")),
    ]
    assert shown(tokenizer, steps) == "né ok\n.^ ^^\n"


def test_wide_characters_have_marks_as_wide() -> None:
    output = shown(PieceTokenizer("灯台 a"), [Step((0,), None)])
    assert output == "灯台 a\n.... .\n"


def test_wide_characters_appear_without_waiting_for_a_space() -> None:
    file = io.StringIO()
    writer = MarkedText(Console(file=file, width=40), PieceTokenizer("灯台"))
    writer.write(Step((0,), None))
    assert file.getvalue() == "灯台"


def test_control_characters_never_reach_the_terminal() -> None:
    assert visible("a\x1b[31mb\x07\r\nc\td\x9b") == "a\ufffd[31mb\ufffd\nc    d\ufffd"
    assert "\x1b" not in shown(PieceTokenizer("\x1b[2J"), [Step((0,), None)])


def test_colour_adds_to_the_marks_and_changes_nothing_else() -> None:
    coloured = shown(PIECES, STEPS, color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(PIECES, STEPS)
    for style in ("32", "1;35", "1;36"):
        assert f"\x1b[{style}m" in coloured


def test_every_origin_differs_in_mark_and_in_style() -> None:
    assert len({origin.mark for origin in ORIGINS}) == len({origin.style for origin in ORIGINS}) == 4
    assert all(origin.mark.isascii() for origin in ORIGINS)


def test_the_legend_names_them_all() -> None:
    file = io.StringIO()
    Console(file=file, width=60).print(legend())
    for origin in ORIGINS:
        assert f"{origin.mark} {origin.name}: {origin.meaning}" in file.getvalue()


@pytest.mark.parametrize(
    ("emitted", "accepted", "kind", "names"),
    [
        ([1, 2], 1, "recovered", ["accepted", "recovered"]),
        ([1, 2], 1, "bonus", ["accepted", "bonus"]),
        ([1], 0, "plain", ["plain"]),
        ([1, 2], 2, "stopped", ["accepted", "accepted"]),
    ],
)
def test_origins_of_a_round(emitted: list[int], accepted: int, kind: str, names: list[str]) -> None:
    record = round_of(emitted, drafted=accepted + 1, accepted=accepted, kind=kind)
    assert [origin.name for origin in origins(record, len(emitted))] == names
