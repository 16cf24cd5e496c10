"""A certificate of a function: right ones pass, wrong ones fail, unusable ones are named."""

from fractions import Fraction
import json

import numpy as np
import pytest
import torch

from specdec_core.certify import certify
from specdec_core.certify_callable import CallableLaws, certify_callable
from specdec_core.certify_plan import REQUESTS_PER_SEED, Demand, plan
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.partition import joint_laws, partitions
from specdec_core.warp import SamplingParams

BASE = np.array([0.5, 0.3, 0.2, 0.0])
HORIZON = 4


def law_with_memory(tokens: tuple[int, ...]) -> np.ndarray:
    """Depends on the last token and on the position; one token is impossible each time."""
    return np.roll(BASE, len(tokens) + (tokens[-1] if tokens else 0))


class Sampler:
    """Samples `law_of(tokens)`, keyed by request; keeps what it was asked for."""

    def __init__(self, law_of=law_with_memory) -> None:
        self.asked: list[tuple[int, int]] = []
        self._law_of = law_of

    def __call__(self, first_request: int, count: int) -> list[tuple[int, ...]]:
        self.asked.append((first_request, count))
        return [self._text(request) for request in range(first_request, first_request + count)]

    def _text(self, request: int) -> tuple[int, ...]:
        tokens: tuple[int, ...] = ()
        for u in np.random.default_rng([5, request]).random(HORIZON):
            tokens += (int(np.searchsorted(np.cumsum(self._law_of(tokens)), u, side="right")),)
        return tokens


def bent_late(tokens: tuple[int, ...]) -> np.ndarray:
    """Right for two tokens; then a tenth of the mass moves between two possible tokens."""
    law = law_with_memory(tokens).copy()
    if len(tokens) >= 2:
        high, low = np.argsort(law)[[-1, -2]]
        law[high], law[low] = law[high] + 0.1, law[low] - 0.1
    return law


@pytest.mark.parametrize("sequential", [False, True])
def test_the_right_sampler_passes_and_a_bent_one_does_not(sequential: bool) -> None:
    options = {"horizon": HORIZON, "bias": 0.12, "sequential": sequential}
    right = certify_callable(Sampler(), law_with_memory, **options)
    assert right.passed and right.conclusive, right.sentence
    assert 0.99 <= right.power < 0.9999
    assert right.uncovered == () and right.impossible == 0
    bent = certify_callable(Sampler(bent_late), law_with_memory, **options)
    assert not bent.passed, bent.sentence
    assert bent.tests[0].fit.p_value > 1e-3
    assert bent.worst.positions[-1] > 2
    assert (bent.mode, bent.n_planned >= bent.n) == ("sequential" if sequential else "fixed", True)


@pytest.mark.parametrize(
    "form",
    [
        lambda law: law,
        lambda law: law.tolist(),
        lambda law: [Fraction(float(chance)).limit_denominator(10) for chance in law],
        torch.tensor,
        lambda law: torch.tensor(law, dtype=torch.float32),
    ],
    ids=["numpy", "list", "fractions", "tensor", "float32"],
)
def test_laws_and_samples_come_in_any_form(form) -> None:
    sampler = Sampler()
    plain = certify_callable(sampler, law_with_memory, horizon=HORIZON, n=300)
    other = certify_callable(
        lambda first, count: np.array(sampler(first, count)),
        lambda tokens: form(law_with_memory(tokens)),
        horizon=HORIZON,
        n=300,
    )
    assert other.p_value == pytest.approx(plain.p_value, rel=1e-4)


def test_an_engine_given_as_a_function_gets_the_certificate_of_the_engine(model_of, random_law) -> None:
    target = MemoisedModel(model_of(random_law("target", 5, zeros=False), 5), capacity=12)
    draft = MemoisedModel(model_of(random_law("draft", 5, zeros=False), 5), capacity=12)
    engine = Engine(target, ModelDrafter(draft), "chain", 1)
    params = SamplingParams(seed=0)

    def sample(first: int, count: int) -> list[tuple[int, ...]]:
        return [engine.generate([1, 2], params, 5, request=r).tokens for r in range(first, first + count)]

    def law(tokens: tuple[int, ...]) -> torch.Tensor:
        return params.probs(target.logits_after((1, 2) + tokens)[None])[0]

    own = certify(engine, [1, 2], SamplingParams(), gamma=1, n=200)
    given = certify_callable(sample, law, horizon=5, n=200, batch=64)
    assert given.tests == own.tests
    assert (given.p_value, given.power, given.impossible) == (own.p_value, own.power, own.impossible)
    assert (given.coverage, given.uncovered) == (None, ())
    assert own.coverage is not None and own.coverage["second_round"] == 200


def test_batches_are_as_asked_and_change_nothing() -> None:
    sampler = Sampler()
    seen: list[tuple[int, int]] = []
    whole = certify_callable(sampler, law_with_memory, horizon=HORIZON, n=250, batch=250)
    cut = certify_callable(
        sampler, law_with_memory, horizon=HORIZON, n=250, batch=100, progress=lambda *done: seen.append(done)
    )
    assert whole == cut
    assert sampler.asked == [(0, 250), (0, 100), (100, 100), (200, 50)]
    assert seen == [(100, 250), (200, 250), (250, 250)]


def test_another_seed_reads_other_requests() -> None:
    sampler = Sampler()
    first, again, other = (
        certify_callable(sampler, law_with_memory, horizon=HORIZON, n=60, seed=seed) for seed in (0, 0, 3)
    )
    assert first == again
    assert other.tests != first.tests
    assert sampler.asked == [(0, 60), (0, 60), (3 * REQUESTS_PER_SEED, 60)]


def test_longer_texts_are_cut_at_the_horizon() -> None:
    sampler = Sampler()
    long = certify_callable(
        lambda first, count: [text + (3, 3) for text in sampler(first, count)], law_with_memory, horizon=HORIZON, n=90
    )
    assert long == certify_callable(sampler, law_with_memory, horizon=HORIZON, n=90)


@pytest.mark.parametrize("sequential", [False, True])
def test_one_impossible_token_fails_the_certificate(sequential: bool) -> None:
    right = Sampler()

    def slips_once(first: int, count: int) -> list[tuple[int, ...]]:
        texts = right(first, count)
        if first <= 130 < first + count:
            text = texts[130 - first]
            texts[130 - first] = (*text[:3], int(np.argmin(law_with_memory(text[:3]))))
        return texts

    certificate = certify_callable(slips_once, law_with_memory, horizon=HORIZON, n=400, batch=50, sequential=sequential)
    assert not certificate.passed
    assert certificate.p_value == 0.0
    assert certificate.impossible == 1
    assert certificate.first_impossible is not None and certificate.first_impossible[0] == 130
    assert "sample 130 has token" in certificate.sentence and "probability 0" in certificate.sentence
    # the counts alone would have let it pass
    assert min(test.fit.p_value for test in certificate.tests) > 1e-4
    assert certificate.n == (150 if sequential else 400)


def test_an_impossible_token_shows_behind_histories_that_no_cell_follows() -> None:
    vocab = 40
    even = np.full(vocab, 1 / (vocab - 1))

    def law(tokens: tuple[int, ...]) -> np.ndarray:
        chances = even.copy()
        chances[sum(tokens) % vocab] = 0
        return chances

    def sample(first: int, count: int) -> list[list[int]]:
        texts = []
        for request in range(first, first + count):
            rng, text = np.random.default_rng([2, request]), []
            for _ in range(4):
                text.append(int(rng.choice(vocab, p=law(tuple(text)))))
            texts.append(text)
        if first == 0:
            texts[7][3] = sum(texts[7][:3]) % vocab
        return texts

    certificate = certify_callable(sample, law, horizon=4, n=200)
    assert certificate.first_impossible is not None and certificate.first_impossible[0] == 7
    assert certificate.impossible == 1


def fixed_samples(texts):
    return lambda first, count: texts


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (fixed_samples([[0, 1, 2, 1]]), r"sample\(0, 3\) returned 1 samples; expected 3"),
        (fixed_samples([[0, 1, 2, 1]] * 4), "returned 4 samples; expected 3"),
        (fixed_samples([[0, 1, 2, 1], [0, 1], [0, 1, 2, 1]]), "sample 1 has 2 tokens; expected at least 4"),
        (fixed_samples([[0, 1, 2, 1]] * 2 + [[0, 1, 4, 1]]), r"token 3 of sample 2 is 4; .*0\.\.3"),
        (fixed_samples([[0, 1, -1, 1]] * 3), "token 3 of sample 0 is -1"),
        (fixed_samples([[0, 1, 0.5, 1]] * 3), r"token 3 of sample 0 is 0\.5"),
        (fixed_samples([[0, 1, 1.0, 1]] * 3), r"token 3 of sample 0 is 1\.0"),
        (fixed_samples([[0, 1, True, 1]] * 3), "token 3 of sample 0 is True"),
        (fixed_samples([[0, 1, None, 1]] * 3), "token 3 of sample 0 is None"),
        (fixed_samples([[0, 1, [2], 1]] * 3), r"token 3 of sample 0 is \[2\]"),
        (fixed_samples(["text", "text", "text"]), "sample returned 'text'"),
        (fixed_samples(None), "sample returned None"),
        (fixed_samples([1, 2, 3]), "sample returned 1 where"),
        (fixed_samples(np.zeros((3, 4))), r"token 1 of sample 0 is 0\.0"),
        (fixed_samples(torch.zeros(3, 2, dtype=torch.long)), "sample 0 has 2 tokens"),
    ],
)
def test_unusable_samples_are_named(sample, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify_callable(sample, law_with_memory, horizon=HORIZON, n=60, batch=3)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda tokens: [0.5, 0.6], r"law\(\(\)\) is no law.*sum to 1\.1"),
        (lambda tokens: [1.5, -0.5], "not negative"),
        (lambda tokens: [float("nan"), 1.0], "finite"),
        (lambda tokens: [float("inf"), 1.0], "finite"),
        (lambda tokens: torch.tensor([3.0, -1.0, 2.0]), "not logits"),
        (lambda tokens: [0.5, 0.5] if not tokens else [0.5, 0.25, 0.25], "3 probabilities, law"),
        (lambda tokens: None, "returned None; expected a probability for each token id"),
        (lambda tokens: 0.5, r"returned 0\.5"),
        (lambda tokens: [[0.5, 0.5]], "expected a probability for each"),
        (lambda tokens: [], "is no law"),
        (lambda tokens: [1.0, 0.0], "one continuation"),
    ],
)
def test_unusable_laws_are_named(law, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify_callable(fixed_samples([[0, 1]] * 60), law, horizon=2, n=60)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("horizon", 0),
        ("horizon", 21),
        ("horizon", 2.0),
        ("n", 0),
        ("n", 2**21),
        ("bias", 0.0),
        ("bias", 1.0),
        ("wanted_power", 1.0),
        ("level", 0.0),
        ("level", float("nan")),
        ("bias", "small"),
        ("seed", -1),
        ("max_cells", 1),
        ("batch", 0),
        ("batch", "many"),
    ],
)
def test_arguments_out_of_range_are_named(name: str, value) -> None:
    options = {"horizon": HORIZON, "n": 10, name: value}
    with pytest.raises(ValueError, match=f"^{name} is"):
        certify_callable(Sampler(), law_with_memory, **options)


def test_a_bias_that_wants_more_samples_than_a_seed_has_is_refused() -> None:
    with pytest.raises(ValueError, match="bias 0.001 needs n = "):
        certify_callable(Sampler(), law_with_memory, horizon=HORIZON, bias=0.001)


def test_an_interrupt_passes_through() -> None:
    sampler = Sampler()

    def interrupted(first: int, count: int) -> list[tuple[int, ...]]:
        if first >= 100:
            raise KeyboardInterrupt
        return sampler(first, count)

    with pytest.raises(KeyboardInterrupt):
        certify_callable(interrupted, law_with_memory, horizon=HORIZON, n=300, batch=50)


def test_an_error_of_the_sampler_is_its_own() -> None:
    def broken(first: int, count: int) -> list[list[int]]:
        raise ZeroDivisionError("in the sampler")

    with pytest.raises(ZeroDivisionError, match="in the sampler"):
        certify_callable(broken, law_with_memory, horizon=HORIZON, n=300)


@pytest.mark.parametrize("bias", [0.05, 0.1, 0.2, 0.3, 0.45])
@pytest.mark.parametrize("wanted", [0.9, 0.99])
@pytest.mark.parametrize("sequential", [False, True])
def test_samples_and_cells_fit_each_other(bias: float, wanted: float, sequential: bool) -> None:
    """The stated power is the one asked for, and the cells are as fine as the samples fill."""
    demand = Demand(horizon=6, bias=bias, wanted_power=wanted, sequential=sequential)
    planned = plan(CallableLaws(law_with_memory), demand)
    assert wanted <= planned.power <= wanted + 0.3 * (1 - wanted)
    assert planned.n * min(min(part.probabilities) for part in planned.parts) >= 10


@pytest.mark.parametrize("bias", [0.3, 0.6, 0.9])
def test_a_law_with_one_likely_text_gets_the_samples_that_its_cells_need(bias: float) -> None:
    planned = plan(CallableLaws(lambda tokens: [0.93, 0.07]), Demand(horizon=1, bias=bias))
    assert planned.n == 143 and planned.parts[0].cells == 2
    assert planned.power > 0.99


def test_a_wide_vocabulary_is_cut_exactly_and_none_of_it_is_left_out() -> None:
    vocab = 400
    weights = 1 / (np.arange(vocab) + 3.0) ** 1.2

    def law(tokens: tuple[int, ...]) -> np.ndarray:
        shifted = np.roll(weights, sum(tokens) % 7)
        return shifted / shifted.sum()

    laws = CallableLaws(law)
    parts = partitions(laws, 2, 40)
    assert [part.positions for part in parts] == [(1,), (1, 2)]
    for part in parts:
        exact = np.zeros(part.cells)
        for first, mass in enumerate(law(())):
            for second, chance in enumerate(law((first,))):
                exact[part.cell_of((first, second))] += mass * chance
        assert exact == pytest.approx(np.array(part.probabilities), abs=1e-12)
        # rare tokens are in cells of their own kind, not all in the last one
        assert part.probabilities[-1] < 0.2
    assert max(len(joint.masses) for joint in joint_laws(laws, 3)) < 150_000


def test_a_flat_law_over_many_tokens_can_be_tested() -> None:
    """No token is likely enough for a cell of its own: they are bundled."""
    flat = np.full(5000, 1 / 5000)

    def sample(first: int, count: int) -> np.ndarray:
        return np.random.default_rng([8, first]).integers(0, 5000, (count, 2))

    def without_the_last_quarter(first: int, count: int) -> np.ndarray:
        return np.random.default_rng([8, first]).integers(0, 3750, (count, 2)) // 2 * 2

    assert certify_callable(sample, lambda tokens: flat, horizon=2, n=800).passed
    assert not certify_callable(without_the_last_quarter, lambda tokens: flat, horizon=2, n=800).passed


def test_the_certificate_is_plain_data() -> None:
    certificate = certify_callable(
        Sampler(), law_with_memory, horizon=HORIZON, n=100, sequential=True, settings={"what": "a test"}
    )
    data = json.loads(json.dumps(certificate.to_dict()))
    assert data["mode"] == "sequential"
    assert data["n_planned"] == 100
    assert data["settings"] == {"what": "a test"}
    assert data["e_value"] >= 1
    assert all(test["noise_tv"] > 0 for test in data["tests"])
