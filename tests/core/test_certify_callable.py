"""A certificate of a function: right ones pass, wrong ones fail, unusable ones are named."""

from fractions import Fraction
import json

import numpy as np
import pytest
import torch

from specdec_core.certify import certify
from specdec_core.certify_callable import CallableLaws, certify_callable
from specdec_core.certify_plan import REQUESTS_PER_SEED
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
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
    assert right.verdict == "passed" and right.passed, right.sentence
    assert 0.99 <= right.power < 0.9999
    assert right.uncovered == () and right.impossible == 0
    bent = certify_callable(Sampler(bent_late), law_with_memory, **options)
    assert bent.rejected, bent.sentence
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
    assert certificate.verdict == "failed"
    assert certificate.p_value == 0.0
    assert certificate.impossible == 1
    assert certificate.first_impossible is not None and certificate.first_impossible[0] == 130
    assert "sample 130 has token" in certificate.sentence and "probability 0" in certificate.sentence
    data = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert data["e_value"] == ("inf" if sequential else None)
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
        (lambda tokens: {0: 0.5, 1: 0.5}, r"law\(\(\)\) returned \{"),
        (lambda tokens: {0.25, 0.75}, r"law\(\(\)\) returned \{"),
        (lambda tokens: [0.5 + 0j, 0.5], r"law\(\(\)\) returned"),
        (lambda tokens: np.array([0.5, 0.5 + 0j]), r"law\(\(\)\) returned"),
        (lambda tokens: torch.tensor([0.5, 0.5 + 0j]), r"law\(\(\)\) returned"),
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
        ("seed", 4096),
        ("sample", [[0, 1, 2, 1]]),
        ("law", [0.5, 0.5]),
        ("level", 1j),
        ("bias", True),
    ],
)
def test_arguments_out_of_range_are_named(name: str, value) -> None:
    options = {"sample": Sampler(), "law": law_with_memory, "horizon": HORIZON, "n": 10, name: value}
    with pytest.raises(ValueError, match=f"^{name} is"):
        certify_callable(**options)


def test_the_last_seed_ends_below_32_bits() -> None:
    sampler = Sampler()
    certify_callable(sampler, law_with_memory, horizon=HORIZON, n=60, seed=4095)
    assert sampler.asked == [(4095 * REQUESTS_PER_SEED, 60)]
    assert 4095 * REQUESTS_PER_SEED + REQUESTS_PER_SEED == 2**32


def test_numbers_of_any_kind_are_taken_and_kept_as_plain_ones() -> None:
    options = {"bias": np.float32(0.25), "level": Fraction(1, 500), "wanted_power": np.float64(0.9), "n": np.int64(60)}
    certificate = certify_callable(Sampler(), law_with_memory, horizon=HORIZON, seed=np.uint8(3), **options)
    assert [type(getattr(certificate, name)) for name in ("bias", "level", "n", "seed")] == [float, float, int, int]
    assert (certificate.bias, certificate.level, certificate.n, certificate.seed) == (0.25, 0.002, 60, 3)
    json.dumps(certificate.to_dict(), allow_nan=False)


def test_without_power_there_is_no_verdict() -> None:
    certificate = certify_callable(Sampler(), law_with_memory, horizon=HORIZON, n=40)
    assert certificate.power < 0.01
    assert certificate.verdict == "no verdict"
    assert not certificate.passed and not certificate.rejected and not certificate.conclusive
    data = certificate.to_dict()
    assert (data["verdict"], data["passed"], data["rejected"]) == ("no verdict", False, False)
    wrong = certify_callable(Sampler(), lambda tokens: np.roll(BASE, 2), horizon=HORIZON, n=40)
    assert (wrong.verdict, wrong.passed, wrong.rejected) == ("failed", False, True)


@pytest.mark.parametrize(("dtype", "slack"), [(torch.bfloat16, 2**-7), (torch.float16, 1e-3)])
def test_a_law_of_low_precision_may_miss_a_sum_of_1_by_its_rounding(dtype: torch.dtype, slack: float) -> None:
    near = torch.tensor([0.5, 0.3, 0.2], dtype=dtype)
    assert abs(float(near.double().sum()) - 1) <= slack
    assert CallableLaws(lambda tokens: near)(()).sum() == pytest.approx(1, abs=1e-15)
    far = near + torch.tensor([3 * slack, 0, 0], dtype=dtype)
    with pytest.raises(ValueError, match="if rounding made the sum, compute it in float32"):
        CallableLaws(lambda tokens: far)(())
    with pytest.raises(ValueError, match="to within 0.001"):
        CallableLaws(lambda tokens: torch.tensor([0.5, 0.3, 0.203]))(())


def test_a_wide_bfloat16_softmax_is_a_law() -> None:
    law = torch.randn(50_000, generator=torch.Generator().manual_seed(0)).softmax(-1).to(torch.bfloat16)
    assert CallableLaws(lambda tokens: law)(()).sum() == pytest.approx(1, abs=1e-12)


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


def test_a_flat_law_over_many_tokens_can_be_tested() -> None:
    """No token is likely enough for a cell of its own: they are bundled."""
    flat = np.full(5000, 1 / 5000)

    def sample(first: int, count: int) -> np.ndarray:
        return np.random.default_rng([8, first]).integers(0, 5000, (count, 2))

    def without_the_last_quarter(first: int, count: int) -> np.ndarray:
        return np.random.default_rng([8, first]).integers(0, 3750, (count, 2)) // 2 * 2

    assert not certify_callable(sample, lambda tokens: flat, horizon=2, n=800).rejected
    assert certify_callable(without_the_last_quarter, lambda tokens: flat, horizon=2, n=800).rejected


def test_the_certificate_is_plain_data() -> None:
    certificate = certify_callable(
        Sampler(), law_with_memory, horizon=HORIZON, n=100, sequential=True, settings={"what": "a test"}
    )
    data = json.loads(json.dumps(certificate.to_dict()))
    assert data["mode"] == "sequential"
    assert data["n_planned"] == 100
    assert data["settings"] == {"what": "a test"}
    assert data["e_value"] >= 1
    assert all(test["noise_tv"] > 0 for test in data["tests"] if test["kind"] != "repeat")
