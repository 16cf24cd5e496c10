"""The routes of matrix products: all give one result, the fastest measured is taken, and no row count is a cliff."""

from collections.abc import Iterator
import json
from pathlib import Path
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

from specdec_core.models import linear as linear_module
from specdec_core.models import routes
from specdec_core.models.linear import PLAN_ROWS, ROUTES, Linear, Plan, can_pack, read_plan
from specdec_core.models.llama import Llama
from specdec_core.models.pairs import load_pair

HAS_BLOCKS = torch.backends.mkldnn.is_available()
needs_blocks = pytest.mark.skipif(not HAS_BLOCKS, reason="this torch has no oneDNN, so there is one route only")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Trials are kept apart from the user's own, and no setting of the shell counts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(routes.VARIABLE, raising=False)
    yield tmp_path


def weight(out: int, inner: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(out, inner, generator=torch.Generator().manual_seed(0)).to(dtype)


def flat_times(seconds: dict[str, float]) -> dict[str, dict[int, float]]:
    return {route: dict.fromkeys(routes.GRID, of) for route, of in seconds.items()}


@needs_blocks
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.3)])
def test_every_route_with_every_fill_gives_the_plain_product(dtype: torch.dtype, tolerance: float) -> None:
    product = Linear(weight(70, 50, dtype))
    product.follow(product.plan, keep=tuple(ROUTES))
    for rows in (1, 2, 3, 5, 16, 33, 130):
        x = torch.randn(rows, 50, generator=torch.Generator().manual_seed(rows)).to(dtype)
        expected = x @ product.weight.t()
        for route in ROUTES:
            for run in (0, rows, rows + 1, rows + 7):
                found = product.through(route, x, run)
                assert found.shape == (rows, 70) and found.is_contiguous()
                assert float((found.float() - expected.float()).abs().max()) < tolerance


@needs_blocks
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_layout_is_kept_where_one_serves_and_the_weight_comes_back_to_the_bit(dtype: torch.dtype) -> None:
    kept = weight(70, 50, dtype)
    product = Linear(kept.clone())
    once = kept.numel() * kept.element_size()
    assert product.num_bytes == once
    product.follow(read_plan("packed"))
    assert product.num_bytes == once
    assert torch.equal(product.weight, kept)
    with pytest.raises(ValueError, match="dropped"):
        product.through("linear", torch.ones(1, 50))
    product.follow(read_plan("4=left,packed"))
    assert product.num_bytes == 2 * once
    product.follow(read_plan("linear"))
    assert product.num_bytes == once and torch.equal(product.weight, kept)
    tied = Linear(kept.clone(), shared=True)
    tied.follow(read_plan("packed"))
    assert tied.num_bytes == 2 * once


@pytest.mark.parametrize("text", ["linear", "packed", "1=left:2,32=packed,linear", "2=left,3=left:4,9=packed:12,left"])
def test_a_plan_reads_back_as_it_is_written(text: str) -> None:
    plan = read_plan(text)
    assert read_plan(str(plan)) == plan
    assert str(plan) == text


@pytest.mark.parametrize(
    "text",
    ["", "fast", "packed,", "1=left:2", "x=left,packed", "4=left,2=packed,linear", "5=left:3,linear", "90=left,packed"],
)
def test_a_plan_that_is_none_is_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected for example"):
        read_plan(text)


def test_fills_say_how_many_rows_are_run() -> None:
    plan = read_plan("1=left:2,32=packed,linear")
    assert plan.calls[1] == ("left", 2)
    assert plan.calls[2] == ("packed", 2)
    assert plan.calls[32] == ("packed", 32)
    assert plan.calls[33] == ("linear", 33)
    assert plan.beyond == "linear"
    assert plan.routes == {"left", "packed", "linear"}
    assert len(plan.calls) == PLAN_ROWS + 1


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_plan_lets_fewer_rows_cost_more_than_more_rows(data: st.DataObject) -> None:
    times = {
        route: {rows: data.draw(st.floats(1e-5, 1e-3)) for rows in routes.GRID}
        for route in data.draw(st.sets(st.sampled_from(sorted(ROUTES)), min_size=1))
    }
    plan = routes.plan_of(times)
    few = [rows for rows in routes.GRID if rows <= 12]
    cost = {rows: times[plan.calls[rows][0]][plan.calls[rows][1]] for rows in routes.GRID}
    fastest = {rows: min(of[rows] for of in times.values()) for rows in routes.GRID}
    assert cost[1] <= 1.05 * min(fastest[rows] for rows in few)  # a near-tie, and one layout alone
    # one layout alone, or the route of fewer rows, may cost 3 % each
    for rows in few:
        assert cost[rows] <= 1.09 * min(fastest[more] for more in few if more >= rows)
    for rows in routes.GRID:
        assert cost[rows] <= 1.09 * fastest[rows]


def test_the_curve_of_the_machine_that_broke_the_promise_now_has_an_honest_plain_arm() -> None:
    """Measured on an AMD EPYC (family 25, model 17), one thread, ms of eight layers: one row costs more than two."""
    rows = (1, 2, 4, 6, 8, 9, 12, 16, 24, 32, 64)
    milliseconds = {
        "linear": (10.3, 16.2, 12.8, 15.5, 15.2, 17.1, 18.1, 19.9, 24.5, 28.5, 46.8),
        "left": (10.2, 5.8, 9.8, 15.5, 16.2, 21.5, 28.9, 21.2, 25.5, 30.0, 47.3),
        "packed": (9.5, 9.0, 6.4, 6.9, 8.6, 8.6, 10.4, 11.6, 15.7, 19.8, 35.4),
    }
    plan = routes.plan_of({route: dict(zip(rows, of)) for route, of in milliseconds.items()})
    assert plan.calls[1] == ("left", 2)
    assert plan.calls[2] == ("left", 2)
    assert plan.calls[3] == ("packed", 4)
    assert plan.calls[33][0] == plan.beyond == "packed"


def test_one_layout_alone_where_it_costs_next_to_nothing_but_never_at_the_plain_step() -> None:
    near = flat_times({"linear": 1.0, "left": 1.5, "packed": 1.021})
    near["packed"] |= {rows: 0.99 for rows in routes.GRID if rows > 12}
    assert routes.plan_of(near).routes == {"linear"}
    slower_alone = flat_times({"linear": 1.05, "left": 1.5, "packed": 1.0})
    slower_alone["linear"][64] = 0.5
    plan = routes.plan_of(slower_alone)
    assert plan.calls[1] == ("packed", 1)


def test_filling_up_has_its_own_price() -> None:
    times = flat_times({"linear": 1.0})
    times["linear"][2] = 0.9
    assert routes.plan_of(times).calls[1] == ("linear", 2)
    assert routes.plan_of({**times, "fill": {1: 0.2}}).calls[1] == ("linear", 1)


def test_times_with_holes_are_no_plan() -> None:
    with pytest.raises(ValueError, match="measure again"):
        routes.plan_of({"linear": {1: 1.0}, "packed": {}})


@needs_blocks
def test_a_route_that_is_slow_here_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for slow in ROUTES:
        reads_blocks, product = ROUTES[slow]

        def late(kept: torch.Tensor, x: torch.Tensor, run: Any = product) -> torch.Tensor:
            until = time.perf_counter() + 5e-4
            while time.perf_counter() < until:
                pass
            return run(kept, x)

        monkeypatch.setitem(linear_module.ROUTES, slow, (reads_blocks, late))  # type: ignore[arg-type]
        times = routes.trial([Linear(weight(64, 48))])
        assert slow not in routes.plan_of(times[64, 48]).routes
        monkeypatch.undo()


@needs_blocks
def test_trials_are_made_at_the_first_loads_and_kept(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = routes.trial

    def counted(linears: Any) -> Any:
        calls.append(len(linears))
        return real(linears)

    monkeypatch.setattr(routes, "trial", counted)
    loads = [[Linear(weight(40, 30)), Linear(weight(20, 30)), Linear(weight(40, 30))] for _ in range(5)]
    for load in loads:
        routes.choose_routes(load)
    assert calls == [3, 3, 3]
    kept = json.loads((own_folder / "specdec-lab" / "routes.json").read_text())
    assert list(kept["machines"]) == [routes.machine_key(torch.float32)]
    assert [one.plan for one in loads[2]] == [two.plan for two in loads[4]]
    routes.choose_routes([Linear(weight(10, 30))])
    assert calls == [3, 3, 3, 1]
    monkeypatch.setenv(routes.VARIABLE, "measure")
    routes.choose_routes(loads[0])
    assert calls == [3, 3, 3, 1, 3]


@needs_blocks
def test_other_threads_and_other_dtypes_are_measured_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = flat_times({"linear": 1.0, "left": 2.0, "packed": 2.0})
    monkeypatch.setattr(routes, "trial", lambda linears: {linear.shape: fixed for linear in linears})
    routes.choose_routes([Linear(weight(40, 30))])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        routes.choose_routes([Linear(weight(40, 30))])
    finally:
        torch.set_num_threads(before)
    routes.choose_routes([Linear(weight(40, 30, torch.bfloat16))])
    assert len(routes.remembered()) == 3


@needs_blocks
def test_of_several_trials_the_least_times_count(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = flat_times({"linear": 3.0, "left": 4.0, "packed": 2.0})
    quick = flat_times({"linear": 1.0, "left": 4.0, "packed": 5.0})
    answers = [{(40, 30): slow}, {(40, 30): quick}, {(40, 30): slow}]
    monkeypatch.setattr(routes, "trial", lambda linears: answers.pop(0))
    for left, expected in ((2, {"packed"}), (1, {"linear"}), (0, {"linear"}), (0, {"linear"})):
        product = Linear(weight(40, 30))
        routes.choose_routes([product])
        assert (len(answers), product.plan.routes) == (left, expected)


@needs_blocks
@pytest.mark.parametrize(
    "content", ["", "[]", '{"version": 1}', '{"version": 1, "machines": {"KEY": {"shapes": {"a": 1}}}}']
)
def test_a_file_that_makes_no_sense_is_measured_over(own_folder: Path, content: str) -> None:
    path = own_folder / "specdec-lab" / "routes.json"
    path.parent.mkdir()
    path.write_text(content.replace("KEY", routes.machine_key(torch.float32)))
    product = Linear(weight(40, 30))
    routes.choose_routes([product])
    assert product.plan != Plan()
    assert routes.remembered_times(routes.remembered()[routes.machine_key(torch.float32)])[40, 30]


@needs_blocks
def test_a_folder_that_takes_no_file_costs_a_trial_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    product = Linear(weight(40, 30))
    routes.choose_routes([product])
    assert product.plan != Plan()


def test_the_variable_fixes_the_routes_or_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(routes.VARIABLE, "1=left:2,packed")
    product = Linear(weight(40, 30))
    routes.choose_routes([product])
    assert product.can_route == can_pack(product.weight)
    if product.can_route:
        assert str(product.plan) == "1=left:2,packed"
    monkeypatch.setenv(routes.VARIABLE, "quickest")
    if product.can_route:
        with pytest.raises(ValueError, match="SPECDEC_ROUTES: 'quickest'.*or 'measure'"):
            routes.choose_routes([product])


@needs_blocks
def test_every_product_of_every_shipped_model_takes_a_measured_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `Linear` that nobody routed would be the old fault again: the plain product, whatever it costs here."""
    made: list[Linear] = []
    build = Linear.__init__

    def noting(self: Linear, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        made.append(self)

    followed: set[int] = set()
    follow = Linear.follow

    def following(self: Linear, plan: Plan, **kwargs: Any) -> None:
        followed.add(id(self))
        follow(self, plan, **kwargs)

    monkeypatch.setattr(Linear, "__init__", noting)
    monkeypatch.setattr(Linear, "follow", following)
    monkeypatch.setenv(routes.VARIABLE, "left")
    from specdec_core.models.quantize import quantized

    pair = load_pair("tiny")
    assert isinstance(pair.target, Llama)
    quantized(pair.target, 8, 32)
    try:
        smollm2 = load_pair("smollm2")
    except ValueError:
        smollm2 = None
    if smollm2 is not None:
        from specdec_core.drafters import EagleDrafter, MedusaDrafter
        from specdec_core.models import shipped

        MedusaDrafter(smollm2.target, *shipped.load_medusa_head(smollm2.target))
        EagleDrafter(smollm2.target, *shipped.load_eagle_head(smollm2.target))
    assert made and all(id(product) in followed for product in made)
