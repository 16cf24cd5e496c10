"""A file is written whole or not at all, and nothing but a plain file is ever replaced."""

import os

import pytest

from specdec_core.whole_file import check_destination, write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.json"
    for text in ("first", "zweite ä"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink() and target.read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="not a plain file"):
        write_whole(pipe, "text")
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["missing/a.json", ".", "x" * 300])
def test_what_cannot_be_a_file_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="cannot write"):
        check_destination(tmp_path / name)
