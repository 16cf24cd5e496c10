"""docs/kernel_law.md shows what docs/results/kernel-law.json holds, and that holds every kernel and mutant."""

import json
from pathlib import Path

import pytest

from specdec_labs.kernel_law.page import law_table, mutant_table
from specdec_labs.kernel_law.subjects import mutant_kernels, right_kernels

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "kernel_law.md").read_text(encoding="utf-8")
FILE = json.loads((DOCS / "results" / "kernel-law.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("marker", "table"), [("law", law_table(FILE)), ("mutants", mutant_table(FILE))])
def test_the_tables_are_those_of_the_file(marker, table):
    assert PAGE.split(f"<!-- {marker} -->\n\n")[1].startswith(table + "\n\n")


def test_the_file_has_every_kernel_and_all_are_as_they_should_be():
    subjects = right_kernels() + mutant_kernels()
    assert [finding["name"] for finding in FILE["findings"]] == [subject.name for subject in subjects]
    for finding, subject in zip(FILE["findings"], subjects):
        certificate, coverage = finding["certificate"], finding["coverage"]
        assert finding["is_right"]
        assert certificate["rejected"] != subject.keeps_law
        assert certificate["power"] >= 0.99
        assert certificate["tests"][-1]["positions"][-1] == 6
        assert coverage["fewest_rounds"] >= 2
        assert 0 < coverage["bonus"] < coverage["rounds"]
        assert (finding["mutant"] is None) == (subject.mutant is None)


def test_the_file_says_what_was_run_where_and_when():
    assert FILE["command"] == "specdec audit kernels --seed 0"
    assert FILE["hardware"]["processor"]
    assert FILE["hardware"]["date"]
