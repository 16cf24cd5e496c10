"""Everything that is handed rounds, verdicts or drafts meets the empty, undrawn, cut and full ones too."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
import re
from typing import Any

import pytest
import torch

from specdec_core.coins import PhiloxCoins
from specdec_core.draft import DraftTree
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.drafters.tree import TreeDrafter
from specdec_core.engine import Engine
from specdec_core.metrics import speedup, summarize
from specdec_core.rules import RULES, Rule, Verdict
from specdec_core.speed_formulas import expected_tokens_of_tree
from specdec_core.toy import PrefixModel
from specdec_core.trace import Round, Trace
from specdec_core.tree_shapes import sibling_ranks
from specdec_core.warp import SamplingParams
from specdec_labs.acceptance.replay import FORCED_CHAIN
from specdec_labs.grade.checking import reference
from specdec_labs.grade.tasks import TASKS
from specdec_labs.museum import MUSEUM, RECOVERY_FROM_TARGET
from specdec_labs.museum.decoding import Method, memory_laws
from specdec_labs.widgets.race import race_figure, race_text, race_view
from specdec_labs.widgets.theatre import static_theatre
from specdec_labs.widgets.tree import frames_of_trace

ROOT = Path(__file__).resolve().parents[2]
THIRD = [Fraction(1, 3)] * 3
Judge = Callable[..., Any]


class InTurn:
    """Drafts 0, 1, 2, 3 tokens in turn."""

    name = "in turn"

    def gamma(self, rounds: Sequence[Round]) -> int:
        return len(rounds) % 4

    def may_continue(self, drafted: int, law: object) -> bool:
        return True


def wavy_model(shift: float) -> PrefixModel:
    """Six tokens, none sure and none impossible, by the last token and the length."""

    def logits(prefix: Sequence[int]) -> torch.Tensor:
        return 2 * torch.sin(torch.arange(6.0) * (1 + prefix[-1]) + len(prefix) + shift)

    return PrefixModel(6, logits)


def museum_rules() -> dict[str, Judge]:
    """Both rules of every piece that is a way to judge drafts."""
    found = {}
    for name, piece in MUSEUM.items():
        for side in ("wrong", "right"):
            try:
                method = getattr(piece, side)(memory_laws(0, 3))
            except (TypeError, ValueError):
                continue  # not a way to judge drafts: noise, counters, caches, endings
            if isinstance(method, Method):
                found[f"{name}, {side}"] = method.rule
    return found


def from_notebook(page: str, *names: str, **given: Any) -> list[Any]:
    """These functions as the notebook's source defines them, with the imports of its cells and what is `given`."""
    tree = ast.parse((ROOT / "notebooks" / "src" / f"{page}.py").read_text(encoding="utf-8"))
    wanted = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.FunctionDef) and node.name in names)
    ]
    space = dict(given)
    exec(compile(ast.Module(wanted, []), page, "exec"), space)
    return [space[name] for name in names]


def judge_of_notebook_02() -> Judge:
    overlaps: list[float] = []
    given = {"verify_drafts": reference(TASKS["E03.chain"], "verify_drafts"), "overlaps": overlaps}
    return from_notebook("02_rejection_sampling", "judge", **given)[0]


def emitting(function: Judge) -> Judge:
    """A rule in the shape the exercises ask for, as a verdict."""

    def verify(draft_tokens: Sequence[int], draft_probs: Any, target_probs: Any, coins: Any) -> Verdict:
        emitted = function(list(draft_tokens), draft_probs, target_probs, coins)
        kept = len(emitted) - 1
        kind = "bonus" if kept == len(draft_tokens) else "recovered"
        return Verdict(kept, tuple(range(kept)), emitted[-1], kind)

    return verify


RULES_OF_CHAINS = {name: rule.verify for name, rule in RULES.items() if not rule.takes_tree}
RULES_OF_TREES = {name: rule.verify for name, rule in RULES.items() if rule.takes_tree}
MUSEUM_RULES = museum_rules()
JUDGES = {
    **RULES_OF_CHAINS,
    **RULES_OF_TREES,
    **MUSEUM_RULES,
    "recovery_from_target": RECOVERY_FROM_TARGET.verify,
    "forced chain": FORCED_CHAIN.verify,
    **{
        f"{name} of the exercises": emitting(reference(TASKS[task], name))
        for task, name in (
            ("E03.chain", "verify_drafts"),
            ("E04.block_residual", "mended_block"),
            ("E04.block_residual", "block_with_the_chains_residual"),
        )
    },
}
TREES = (*RULES_OF_TREES, *(name for name in MUSEUM_RULES if name.startswith(("replacement", "duplicate"))))


@pytest.mark.parametrize("draft_probs", [[], None], ids=["empty", "None"])
@pytest.mark.parametrize("name", JUDGES)
def test_a_round_without_drafts_is_a_plain_step(name: str, draft_probs: list[Any] | None) -> None:
    drafted = DraftTree((), ()) if name in TREES else ()
    coins = PhiloxCoins(0).at(request=0, length=3)
    verdict = JUDGES[name](drafted, draft_probs, [THIRD], coins)
    assert (verdict.num_accepted, verdict.path, verdict.kind) == (0, (), "bonus") and 0 <= verdict.next_token < 3


def test_the_museum_holds_the_rules_that_are_looked_for() -> None:
    assert len(MUSEUM_RULES) >= 20


@pytest.mark.parametrize("name", [*(name for name in MUSEUM_RULES if name not in TREES), "recovery_from_target"])
def test_drafts_that_were_not_drawn_are_judged_as_sure_things(name: str) -> None:
    certain = [[Fraction(token == 1) for token in range(3)]] * 2
    for seed in range(20):
        verdicts = [
            JUDGES[name]((1, 1), q, [THIRD] * 3, PhiloxCoins(seed).at(request=0, length=3)) for q in (None, certain)
        ]
        assert verdicts[0] == verdicts[1]


MINE = replace(RULES["chain"], name="mine", verify=judge_of_notebook_02())


@pytest.mark.parametrize("rule", [MINE, *(RULES[name] for name in RULES_OF_CHAINS)], ids=lambda rule: rule.name)
@pytest.mark.parametrize("drafter", ["model", "lookup"])
def test_a_rule_in_the_engine_meets_rounds_of_every_kind(rule: Rule, drafter: str) -> None:
    traces = traces_of(rule, drafter, 0.0 if rule.greedy_only else 1.0)
    kinds = {kind for trace in traces for round_ in trace.rounds for kind in kinds_of(round_)}
    # a lookup never proposes a stop token, so none of its rounds is cut by one
    assert kinds == {"empty", "full", "refused", *(["drawn", "cut"] if drafter == "model" else ["undrawn"])}
    if rule is MINE:
        assert [trace.emitted for trace in traces] == [trace.emitted for trace in traces_of("chain", drafter, 1.0)]


def kinds_of(round_: Round) -> set[str]:
    drafted = len(round_.draft_tokens)
    if not drafted:
        return {"empty"}
    drawn = "undrawn" if round_.draft_probs is None else "drawn"
    if round_.next_token is None:
        return {drawn, "cut"}
    return {drawn, "full" if round_.kind == "bonus" else "refused"}


def traces_of(rule: Rule | str, drafter: str, temperature: float) -> list[Trace]:
    """Texts that end by their length and by a stop token, one of them with its very first token."""
    target, draft = wavy_model(0.0), wavy_model(0.6)
    made = ModelDrafter(draft) if drafter == "model" else NGramDrafter()
    engine = Engine(target, made, rule, InTurn())
    return [
        engine.generate(
            [(seed + place * (1 + 4 * (seed // 6 % 2))) % 6 for place in range(12)],
            SamplingParams(temperature=temperature, seed=seed, stop=(seed // 2 % 6,)),
            1 + 5 * seed % 18,
        ).trace
        for seed in range(72)
    ]


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    found = [*traces_of("chain", "model", 1.0), *traces_of("chain", "lookup", 1.0)]
    assert any(not trace.rounds for trace in found), "a text that ended with its first token"
    return found


def test_what_reads_traces_takes_every_kind(traces: list[Trace]) -> None:
    for some in ([trace] for trace in traces[::3]):
        metrics = summarize(some)
        assert metrics.accepted <= metrics.tested <= metrics.drafted
        assert (metrics.alpha is None) == (metrics.tested == 0)
        assert speedup([], some) is None and frames_of_trace(some[0]) is not None
        if some[0].rounds:
            view = race_view({"plain": some, "mine": some})
            assert "tokens/s" in race_text(view) and race_figure(view).data
            assert static_theatre(some[0]).html
    assert summarize([]).alpha is None


def test_the_functions_of_the_notebooks_take_every_kind(traces: list[Trace]) -> None:
    (rounds_of,) = from_notebook("05_draft_and_target", "rounds_of")
    for some in ([], *([trace] for trace in traces), traces):
        assert reference(TASKS["E06.alpha"], "alpha_of_rounds")(rounds_of(some)) == pytest.approx(summarize(some).alpha)
    (show,) = from_notebook("00_start_here", "show")
    assert show(None) == "-" and show(0.5) == "0.50"


def test_the_tree_page_takes_every_kind() -> None:
    names = ("chance_by_rank", "measured", "predicted", "with_range")
    given = {"expected_tokens_of_tree": expected_tokens_of_tree, "sibling_ranks": sibling_ranks}
    chance_by_rank, measured, predicted, with_range = from_notebook("06_trees_and_masks", *names, **given)
    shape = (-1, -1, 0)
    target, draft = wavy_model(0.0), wavy_model(0.6)
    drafter = TreeDrafter(draft, shape, "without_replacement")
    engine = Engine(target, drafter, "recursive_without_replacement", controller=3)
    some = [engine.generate([1], SamplingParams(seed=seed, stop=(2,)), 6).trace for seed in range(30)]
    assert {len(round_.draft_tokens) for trace in some for round_ in trace.rounds} >= {0, 3}
    assert chance_by_rank([]) == {} and predicted([], shape) == 1
    assert all(0 <= chance <= 1 for chance in chance_by_rank(some).values())
    value, low, high = with_range(lambda texts: measured(texts, shape), some)
    assert 1 <= low <= value <= high <= 3


@pytest.mark.parametrize("drafted", [0, 1, 3, 8])
@pytest.mark.parametrize("laws", ["the rows", "None"])
def test_the_snippet_of_the_readme_takes_any_number_of_drafts(drafted: int, laws: str) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- snippet: verifier -->\n```python run\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    code, changed = re.subn(r"drafted, vocab = 3, 100", f"drafted, vocab = {drafted}, 100", found[1])
    assert changed == 1
    if laws == "None":
        code, changed = re.subn(r"verify_chain\(draft_tokens, draft_probs,", "verify_chain(draft_tokens, None,", code)
        assert changed == 1
    space: dict[str, Any] = {}
    exec(code, space)
    assert 0 <= space["verdict"].num_accepted <= drafted
