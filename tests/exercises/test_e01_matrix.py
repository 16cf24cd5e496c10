"""E01: the starter is red, the reference green, each wrong answer is caught by the property meant for it."""

import ast
from collections.abc import Callable
import doctest
import importlib.util
import inspect
from pathlib import Path
import sys
from types import ModuleType
from typing import Any

import pytest

from specdec_labs.grade import check
from specdec_labs.grade.checks.e01 import SUITE

FOLDER = Path(__file__).resolve().parents[2] / "exercises" / "E01_residual"
SEEDS = range(40)


def load(name: str) -> ModuleType:
    """One file of the exercise as a module, registered because its dataclass looks itself up."""
    module_name = f"e01_{name}"
    spec = importlib.util.spec_from_file_location(module_name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


STARTER, SOLUTION, WRONG = load("starter"), load("solution"), load("wrong_answers")
PROPERTIES = [entry.name for entry in SUITE.properties]


def with_mistake(wrong: Any) -> dict[str, Callable[..., Any]]:
    """The solution with one function replaced."""
    return {name: getattr(SOLUTION, name) for name in SUITE.functions} | {wrong.replaces: wrong.answer}


def test_starter_is_red_and_reads_as_not_started() -> None:
    report = check("E01", STARTER, hidden_seed=3)
    assert {result.status for result in report.results} == {"not started"}
    assert not report.ok and report.score == 0 and not report.diagnoses
    assert all("NotImplementedError: E01" in result.detail for result in report.results)


@pytest.mark.parametrize("seed", SEEDS)
def test_reference_is_green(seed: int) -> None:
    report = check("E01", SOLUTION, hidden_seed=seed)
    assert report.ok and report.score == 1, str(report)
    assert [result.name for result in report.results] == PROPERTIES * 2
    assert not report.diagnoses


@pytest.mark.parametrize("wrong", WRONG.WRONG_ANSWERS, ids=lambda wrong: wrong.name)
def test_wrong_answer_is_caught_and_named(wrong: Any) -> None:
    report = check("E01", with_mistake(wrong))
    caught = report.result(wrong.caught_by)
    assert caught.status in ("failed", "error") and caught.detail, str(report)
    assert [text.split(":")[0] for text in report.diagnoses] == [wrong.name]
    others = [result for result in report.results if result.function != wrong.replaces]
    assert all(result.status == "passed" for result in others)


@pytest.mark.parametrize("wrong", WRONG.WRONG_ANSWERS, ids=lambda wrong: wrong.name)
def test_wrong_answer_is_caught_by_fresh_cases_too(wrong: Any) -> None:
    for seed in SEEDS[:12]:
        report = check("E01", with_mistake(wrong), hidden_seed=seed)
        assert report.result(wrong.caught_by, "hidden").status in ("failed", "error"), f"seed {seed}\n{report}"


def test_every_property_is_meant_for_some_wrong_answer() -> None:
    assert {wrong.caught_by for wrong in WRONG.WRONG_ANSWERS} == set(PROPERTIES)


def test_every_diagnosis_has_its_wrong_answer() -> None:
    assert {wrong.name for wrong in WRONG.WRONG_ANSWERS} == {mistake.name for mistake in SUITE.mistakes}


def test_starter_differs_from_the_solution_only_in_bodies() -> None:
    def shell(name: str) -> str:
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert ast.get_docstring(node), f"{name}.{node.name} has no docstring"
                node.body = node.body[:1]
        return ast.unparse(tree)

    assert shell("starter") == shell("solution")
    for function in SUITE.functions:
        starter, solution = getattr(STARTER, function), getattr(SOLUTION, function)
        assert inspect.signature(starter) == inspect.signature(solution)
        assert len(inspect.getsource(solution)) != len(inspect.getsource(starter))


def test_doctests_of_the_solution_hold() -> None:
    result = doctest.testmod(SOLUTION)
    assert result.attempted == 2 and result.failed == 0


def test_a_single_function_is_asked_only_about_itself() -> None:
    report = check("e01", SOLUTION.residual)
    assert report.ok and [result.name for result in report.results] == PROPERTIES[1:]
    nameless = check("E01", lambda p, q: list(SOLUTION.residual(p, q)))
    assert nameless.ok and len(nameless.results) == len(PROPERTIES) - 1


def test_names_that_another_exercise_rebinds_do_not_matter() -> None:
    """P69: only the functions of the exercise are read from the namespace."""
    clean = check("E01", with_mistake(WRONG.WRONG_ANSWERS[0]))
    rebound = {"Fraction": int, "p": 3, "beta": None, "max": min, "check": 4, "isinstance": lambda *_: True}
    assert check("E01", rebound | with_mistake(WRONG.WRONG_ANSWERS[0])).to_dict() == clean.to_dict()
