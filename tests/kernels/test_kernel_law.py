"""The joint law of texts made by the kernels from their own random numbers: certified, and lost by the mutants.

All figures are in docs/kernel_law.md: `specdec audit kernels`.
"""

import difflib
from importlib import import_module
import inspect

import numpy as np
import pytest
import torch

from specdec_core.coins.noise import NoiseKey
from specdec_labs.kernel_law.certified import certified, chosen
from specdec_labs.kernel_law.drafting import draft_noise, propose
from specdec_labs.kernel_law.pair import MEMORY, Contexts, law_of
from specdec_labs.kernel_law.subjects import (
    POSITION_KEYS,
    REUSED_NOISE,
    STALE_LAW,
    STALE_ROW,
    UNSCALED,
    check_interpreted,
    mutant_kernels,
    right_kernels,
)

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

MUTANTS = (REUSED_NOISE, POSITION_KEYS, STALE_ROW, UNSCALED, STALE_LAW)


def source_of(function) -> list[str]:
    """Its lines without the doc string and the comments beside arguments."""
    lines = inspect.getsource(getattr(function, "fn", function)).split("\n")
    text, inside, kept = iter(lines), False, []
    for line in text:
        quotes = line.count('"""')
        if inside or quotes:
            inside = inside != (quotes == 1)
            continue
        kept.append(line.split("  # ")[0].rstrip())
    return [line for line in kept if line]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.about)
def test_a_mutant_is_the_kernel_but_for_a_line(mutant):
    wrong = source_of(getattr(import_module(f"specdec_labs.kernel_law.{mutant.source}"), mutant.function))
    home = {"decision_triton": "decision_triton", "race_triton": "race_triton", "tree_walk_triton": "tree_walk_triton",
            "verify_block_triton": "race_triton"}[mutant.modules[0]]  # fmt: skip
    right = source_of(getattr(import_module(f"specdec_kernels.{home}"), mutant.function))
    changed = [line for line in difflib.ndiff(right, wrong) if line[0] in "+-"]
    assert [line[0] for line in changed] == ["-", "+"], changed


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.about)
def test_a_mutant_is_planted_and_taken_out_again(mutant):
    homes = [import_module(f"specdec_kernels.{module}") for module in mutant.modules]
    before = [getattr(home, mutant.function) for home in homes]
    with mutant.planted():
        assert all(getattr(home, mutant.function) not in before for home in homes)
    assert [getattr(home, mutant.function) for home in homes] == before


def test_mutants_need_the_interpreter(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match="TRITON_INTERPRET is not set"):
        check_interpreted()
    with pytest.raises(ValueError, match="TRITON_INTERPRET is not set"), REUSED_NOISE.planted():
        raise AssertionError("planted")


def test_drafts_are_drawn_by_the_noise_of_the_core():
    requests, lengths = np.array([3, 7]), np.array([5, 2])
    noise = draft_noise(requests, lengths, 2, 5)
    for row, (request, length) in enumerate(zip(requests, lengths)):
        key = NoiseKey(0, int(request), int(length), 2, "draft")
        assert np.array_equal(noise[row], key.exponentials(np.arange(5, dtype=np.uint32)))
    contexts = Contexts.of([[1, 4], [0, 2]])
    drafts = propose(MEMORY, contexts, (-1, -1, 0), "without_replacement", requests, lengths)
    assert bool((drafts.tokens[:, 0] != drafts.tokens[:, 1]).all())
    first = (draft_noise(requests, lengths, 0, 5) / law_of(MEMORY.draft_rows(contexts))).argmin(1)
    assert drafts.tokens[:, 0].tolist() == first.tolist()
    # the child hangs below the first node: its row is that of the text with it
    below = contexts.then(drafts.tokens[:, 0])
    assert torch.equal(drafts.target[:, 1], MEMORY.target_rows(below))
    assert torch.equal(drafts.draft[:, 2], MEMORY.draft_rows(below))


def test_the_pair_remembers_two_tokens_and_the_position():
    # another position, another token before, another last token
    for change in ((0, 0, 1, 3), (2, 2, 3), (1, 1, 2)):
        assert not np.array_equal(MEMORY.target_law((1, 1, 3)), MEMORY.target_law(change))
    assert np.array_equal(MEMORY.target_law((4, 0, 1, 3)), MEMORY.target_law((2, 2, 1, 3)))


def test_an_unknown_subject_is_named():
    with pytest.raises(ValueError, match="only is 'chian'; expected one of chain, "):
        chosen(["chian"])


def test_chain_passes_and_coins_by_position_are_caught_in_block():
    # the tiny form: 600 texts catch a distance of 0.18, and coins by position cost block verification 0.2
    for subject in chosen(["chain", "block-position-keys"]):
        finding = certified(subject, n=600)
        assert finding.coverage.fewest_rounds >= 2
        assert finding.certificate.rejected != subject.keeps_law, finding.certificate.sentence


@pytest.mark.slow
@pytest.mark.parametrize("subject", right_kernels() + mutant_kernels(), ids=lambda subject: subject.name)
def test_kernels_have_the_targets_law_and_mutants_have_not(subject):
    # as in docs/kernel_law.md, with other noise
    finding = certified(subject, seed=1)
    print(finding.certificate.sentence)
    assert finding.is_right
    assert finding.certificate.power >= 0.99
    assert finding.coverage.fewest_rounds >= 2
    assert min(finding.coverage.bonus, finding.coverage.rounds - finding.coverage.bonus) > 400
