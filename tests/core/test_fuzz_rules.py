"""Fuzz of every rule, scalar and batched: a verdict inside the vocabulary and the support, or a ValueError that names.

Each test runs a few examples in `make test` and the many in `make test-all`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch
from torch import Tensor

from specdec_core.coins import PhiloxCoins, ScriptedCoins
from specdec_core.draft import DraftTree
from specdec_core.rules import RULES, Rule
from specdec_core.rules.batched.coins import ScriptedBatchCoins
from specdec_core.rules.batched.philox_coins import PhiloxBatchCoins
from specdec_core.rules.verdict import Verdict

EXAMPLES = [pytest.param(6, id="few"), pytest.param(190, id="many", marks=pytest.mark.slow)]
BATCHES = [pytest.param(3, id="few"), pytest.param(60, id="many", marks=pytest.mark.slow)]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16, None)
"""None stands for exact Fractions."""
STYLES = ("plain", "zeros", "one-hot", "tiny", "denormal", "steep")
FAULTS = ("nan", "negative", "inf", "sum 2", "all zero", "logits", "row missing", "row too many", "other vocabulary",
          "q missing", "q of another vocabulary", "token -1", "token V")  # fmt: skip
EDGES = (0.0, 1 - 2.0**-53, 1 - 2.0**-24, 0.5, 2.0**-32)


@dataclass(frozen=True)
class _Case:
    """What a rule is given; rows are lists of floats until `rows` makes them tensors or Fractions."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    q: list[list[float]] | None
    p: list[list[float]]
    dtype: torch.dtype | None
    uniforms: tuple[float, ...]
    vocab: int

    def rows(self, laws: list[list[float]]) -> Any:
        if self.dtype is None:
            return [[Fraction(mass) for mass in law] for law in laws]
        ragged = [torch.tensor(law, dtype=torch.float64).to(self.dtype) for law in laws]
        return torch.stack(ragged) if len({len(row) for row in ragged}) == 1 else ragged


def law(rng: random.Random, vocab: int, style: str) -> list[float]:
    heavy = rng.randrange(vocab)
    weights = {
        "plain": lambda x: rng.random() + 1e-3,
        "zeros": lambda x: float(rng.choice([0, 0, 1, 2]) or x == heavy),
        "one-hot": lambda x: float(x == heavy),
        "tiny": lambda x: 1.0 if x == heavy else 1e-38 * rng.choice([0, 1, rng.random()]),
        "denormal": lambda x: 1.0 if x == heavy else rng.choice([0.0, 5e-324, 1e-310, 1e-45, 1e-40, 6e-8]),
        "steep": lambda x: 10.0 ** -rng.uniform(0, 18),
    }[style]
    row = [weights(x) for x in range(vocab)]
    return [mass / sum(row) for mass in row]


@st.composite
def cases(draw: st.DrawFn, takes_tree: bool, levels: int | None = None) -> _Case:
    rng = random.Random(draw(st.integers(0, 2**32)))
    vocab, size = draw(st.integers(1, 9)), draw(st.integers(0, 5))
    styles = draw(st.lists(st.sampled_from(STYLES), min_size=1, max_size=3))
    parents = tuple(range(-1, size - 1))
    if takes_tree:
        parents = tuple(-1 if levels == 1 else rng.randrange(-1, node) for node in range(size))
    p = [law(rng, vocab, rng.choice(styles)) for _ in range(size + 1)]
    # siblings share their parent's q; often it is the target's law itself
    own = {n: p[n + 1] if rng.random() < 0.3 else law(rng, vocab, rng.choice(styles)) for n in range(-1, size)}
    return _Case(
        tokens=tuple(rng.randrange(vocab) for _ in range(size)),
        parents=parents,
        q=None if draw(st.booleans()) and levels is None else [own[parent] for parent in parents],
        p=p,
        dtype=draw(st.sampled_from(DTYPES)),
        uniforms=tuple(rng.choice([rng.random(), rng.choice(EDGES)]) for _ in range(3 * size + 3)),
        vocab=vocab,
    )


def spoilt(case: _Case, fault: str, row: int) -> _Case:
    """The case with one thing wrong; faults of a row are put into the target's, which every rule reads."""
    p = [list(law) for law in case.p]
    at = row % len(p)
    wrong = {"nan": float("nan"), "negative": -0.25, "inf": float("inf"), "sum 2": 2.0}
    if fault in wrong:
        p[at][0] = wrong[fault]
    elif fault in ("all zero", "logits"):
        p[at] = [0.0 if fault == "all zero" else 3.0 + x for x in range(case.vocab)]
    elif fault == "row missing":
        p = p[:-1]
    elif fault == "row too many":
        p.append(p[0])
    elif fault == "other vocabulary":
        p[-1] = [*p[-1], 0.0]
    q = case.q
    if q is not None and fault == "q missing":
        q = q[:-1]
    if q is not None and fault == "q of another vocabulary":
        q = [*q[:-1], [*q[-1], 0.0]]
    tokens = case.tokens
    if fault.startswith("token"):
        tokens = (*tokens[:-1], -1 if fault == "token -1" else case.vocab)
    return replace(case, p=p, q=q, tokens=tokens)


def judge(rule: Rule, case: _Case, coins: Any) -> Verdict:
    drafted = DraftTree(case.tokens, case.parents) if rule.takes_tree else case.tokens
    return rule.verify(drafted, None if case.q is None else case.rows(case.q), case.rows(case.p), coins)


def check_verdict(rule: Rule, case: _Case, verdict: Verdict) -> None:
    """Nodes of one path from the root, ids of the vocabulary, and nothing the target rules out at its slot."""
    assert verdict.num_accepted == len(verdict.path) <= len(case.tokens)
    assert verdict.kind in ("recovered", "bonus")
    end = -1
    for node in verdict.path:
        assert case.parents[node] == end
        assert mass(case, end + 1, case.tokens[node]) > 0
        end = node
    assert 0 <= verdict.next_token < case.vocab
    assert mass(case, end + 1, verdict.next_token) > 0


def mass(case: _Case, row: int, token: int) -> float:
    given = case.p[row][token]
    return given if case.dtype is None else float(torch.tensor(given, dtype=torch.float64).to(case.dtype))


def levels_of(rule: Rule) -> int | None:
    return 1 if rule.name == "kseq" else None


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_laws_of_any_shape_give_a_verdict_inside_the_support(rule: Rule, examples: int) -> None:
    """Good input is never refused: denormal masses, one-hot rows, p = q, u at the ends, every dtype."""

    @settings(max_examples=examples)
    @given(cases(rule.takes_tree, levels_of(rule)), st.booleans())
    def run(case: _Case, production: bool) -> None:
        coins = PhiloxCoins(1).at(request=0, length=1) if production else ScriptedCoins(case.uniforms)
        check_verdict(rule, case, judge(rule, case, coins))

    run()


@pytest.mark.parametrize("examples", BATCHES)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_bad_input_is_refused_by_name_or_judged_as_it_is(rule: Rule, examples: int) -> None:
    @settings(max_examples=examples)
    @given(cases(rule.takes_tree, levels_of(rule)), st.sampled_from(FAULTS), st.integers(0, 5))
    def run(case: _Case, fault: str, row: int) -> None:
        if case.dtype is None and fault in ("nan", "inf"):
            return
        bad = spoilt(case, fault, row)
        try:
            verdict = judge(rule, bad, ScriptedCoins(case.uniforms))
        except ValueError as error:
            assert_names(error)
            return
        # what was wrong was not read: no q is, or there was none, or the row may hold anything an argmax is taken of
        assert fault.startswith("q") or rule.name == "greedy" or not case.tokens
        check_verdict(rule, bad, verdict) if rule.name != "greedy" else None

    run()


def assert_names(error: ValueError) -> None:
    named = ("target_probs", "draft_probs", "draft_tokens", "token ", "parents", "weights", "p or q", "cu_num_draft")
    assert any(name in str(error) for name in named), f"the message does not say what is wrong: {error}"


# --- batched forms ---

BATCHED = {name: rule for name, rule in RULES.items() if rule.batched is not None}


def judge_batch(rule: Rule, batch: Sequence[_Case], coins: Any = None) -> Any:
    counts = torch.tensor([0, *(len(case.tokens) for case in batch)])
    dtype = batch[0].dtype

    def flat(laws: list[list[float]], width: int) -> Tensor:
        return torch.tensor(laws, dtype=torch.float64).reshape(len(laws), width).to(dtype)

    has_q = all(case.q is not None for case in batch)
    q = flat([row for case in batch for row in case.q or ()], batch[0].vocab) if has_q else None
    more = (
        {"parents": torch.tensor([x for case in batch for x in case.parents], dtype=torch.long)}
        if rule.takes_tree
        else {}
    )
    return rule.batched(
        torch.tensor([token for case in batch for token in case.tokens], dtype=torch.long),
        counts.cumsum(0),
        q,
        flat([row for case in batch for row in case.p], batch[0].vocab),
        coins or ScriptedBatchCoins([case.uniforms for case in batch]),
        **more,
    )


@st.composite
def batches(draw: st.DrawFn, rule: Rule) -> list[_Case]:
    """Cases of one vocabulary, dtype and kind of draft."""
    found = draw(st.lists(cases(rule.takes_tree, levels_of(rule)), min_size=1, max_size=6))
    first = replace(found[0], dtype=found[0].dtype or torch.float64)
    alike = [replace(case, dtype=first.dtype) for case in found if case.vocab == first.vocab]
    if first.q is None:
        return [replace(case, q=None) for case in alike]
    # where a case has none, the target's law after the parent, which siblings share
    return [replace(case, q=case.q or [case.p[parent + 1] for parent in case.parents]) for case in alike]


@pytest.mark.parametrize("examples", BATCHES)
@pytest.mark.parametrize("rule", BATCHED.values(), ids=BATCHED)
def test_batches_give_the_verdicts_of_the_scalar_rule(rule: Rule, examples: int) -> None:
    @settings(max_examples=examples)
    @given(batches(rule), st.booleans())
    def run(batch: list[_Case], production: bool) -> None:
        size = len(batch)
        keyed = PhiloxBatchCoins([3] * size, requests=list(range(size)), lengths=[5] * size) if production else None
        found = judge_batch(rule, batch, keyed)
        for request, case in enumerate(batch):
            verdict = found.verdict(request)
            check_verdict(rule, case, verdict)
            coins = PhiloxCoins(3).at(request=request, length=5) if production else ScriptedCoins(case.uniforms)
            assert verdict == judge(rule, case, coins)

    run()


@pytest.mark.parametrize("examples", BATCHES)
@pytest.mark.parametrize("rule", BATCHED.values(), ids=BATCHED)
def test_a_bad_request_in_a_batch_is_refused_by_name(rule: Rule, examples: int) -> None:
    @settings(max_examples=examples)
    @given(batches(rule), st.sampled_from(FAULTS), st.integers(0, 5))
    def run(batch: list[_Case], fault: str, row: int) -> None:
        if "vocabulary" in fault or (fault == "q missing" and (batch[0].q is None or not batch[0].tokens)):
            return
        batch[0] = spoilt(batch[0], fault, row)
        try:
            found = judge_batch(rule, batch)
        except ValueError as error:
            assert_names(error)
            return
        assert rule.name == "greedy" or (fault == "q missing" and not rule.needs_draft_probs)
        assert all(0 <= int(token) < batch[0].vocab for token in found.next_token)

    run()
