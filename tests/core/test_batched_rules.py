"""Every batched rule gives the verdict of the scalar rule, `==`, on random ragged batches, for both kinds of coins."""

from dataclasses import dataclass
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specdec_core.coins import PhiloxCoins, ScriptedCoins
from specdec_core.draft import DraftTree
from specdec_core.rules import RULES, Verdict
from specdec_core.rules.batched import PhiloxBatchCoins, Questions, ScriptedBatchCoins
from specdec_core.rules.batched.laws import Laws

VOCABS = (1, 2, 3, 5, 7, 8, 9, 17, 33)
DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
# the edges, and fractions that meet the thresholds of small whole weights exactly
UNIFORMS = (0.0, 0.25, 0.5, 0.75, 0.125, 1 / 3, 1 - 2.0**-24, float(np.nextafter(1.0, 0.0)))
VARIANTS = [
    (name, deterministic)
    for name, rule in RULES.items()
    if rule.batched is not None
    for deterministic in (False, True)
    if not deterministic or (rule.needs_draft_probs and "deterministic" in rule.proposals)
]
IDS = [name + (", deterministic" if deterministic else "") for name, deterministic in VARIANTS]


@dataclass
class Request:
    tokens: list[int]
    parents: list[int]
    q: Tensor | None
    p: Tensor
    uniforms: list[float]
    key: tuple[int, int, int]  # seed, request, length


def random_law(rng: random.Random, vocab: int) -> list[float]:
    kind = rng.randrange(6)
    if kind == 0:
        law = [0.0] * vocab
        law[rng.randrange(vocab)] = 1.0
        return law
    if kind < 4:
        weights = [rng.choice((0, 0, 1, 1, 2, 4)) for _ in range(vocab)]
        weights[rng.randrange(vocab)] += 1
    elif kind == 4:
        weights = [rng.expovariate(1) ** 3 for _ in range(vocab)]
    else:
        weights = [rng.choice((1e-30, 1e-9, 1.0, 0.0)) for _ in range(vocab)]
        weights[rng.randrange(vocab)] += 1.0
    return [weight / sum(weights) for weight in weights]


def random_request(rng: random.Random, vocab: int, dtype: torch.dtype, *, tree: bool, deterministic: bool) -> Request:
    drafted = rng.choice((0, 1, 2, 3, 4, 6, 7) if tree else (0, 1, 2, 3, 5))
    parents = [rng.randrange(-1, node) if tree else node - 1 for node in range(drafted)]
    if tree and rng.random() < 0.3:
        # siblings that both branch: what the first leaves behind must not reach the second
        parents = [-1, -1, 0, 0, 1, 1]
        drafted = len(parents)
    laws = {parent: random_law(rng, vocab) for parent in {-1, *parents}}
    q = torch.tensor([laws[parent] for parent in parents], dtype=torch.float64).reshape(drafted, vocab).to(dtype)
    p = [random_law(rng, vocab) for _ in range(drafted + 1)]
    for row in range(drafted + 1):
        if row - 1 in laws and rng.random() < 0.25:
            p[row] = laws[row - 1]
    tokens: list[int] = []
    for node, parent in enumerate(parents):
        siblings = [tokens[other] for other in range(node) if parents[other] == parent]
        support = [token for token, mass in enumerate(laws[parent]) if mass]
        fresh = [token for token in support if token not in siblings]
        choice = rng.random()
        # mostly what a drafter could say, sometimes a duplicate, sometimes what q cannot say
        pool = fresh if fresh and choice < 0.6 else support if choice < 0.9 else range(vocab)
        tokens.append(rng.choice(list(pool)))
    uniforms = [rng.choice(UNIFORMS) if rng.random() < 0.4 else rng.random() for _ in range(drafted + 2)]
    key = (rng.choice((7, rng.getrandbits(64))), rng.getrandbits(32), rng.randrange(1 << 20))
    return Request(
        tokens, parents, None if deterministic else q, torch.tensor(p, dtype=torch.float64).to(dtype), uniforms, key
    )


def random_batch(seed: object, name: str, deterministic: bool) -> list[Request]:
    rng = random.Random(f"{seed} {name}")
    vocab, dtype = rng.choice(VOCABS), rng.choice(DTYPES)
    tree = RULES[name].takes_tree
    return [
        random_request(rng, vocab, dtype, tree=tree, deterministic=deterministic) for _ in range(rng.randrange(1, 6))
    ]


def philox(requests: list[Request]) -> PhiloxBatchCoins:
    seeds, indices, lengths = zip(*(request.key for request in requests))
    return PhiloxBatchCoins(seeds, requests=indices, lengths=lengths)


def scripted(requests: list[Request]) -> ScriptedBatchCoins:
    return ScriptedBatchCoins([request.uniforms for request in requests])


def judge(name: str, requests: list[Request], coins: Any, **options: Any):
    """The batched rule on these requests."""
    counts = torch.tensor([0, *(len(request.tokens) for request in requests)])
    tokens = torch.tensor([token for request in requests for token in request.tokens], dtype=torch.int64)
    q = None if requests[0].q is None else torch.cat([request.q for request in requests])
    p = torch.cat([request.p for request in requests])
    if RULES[name].takes_tree:
        parents = [parent for request in requests for parent in request.parents]
        options["parents"] = torch.tensor(parents, dtype=torch.int64)
    return RULES[name].batched(tokens, counts.cumsum(0), q, p, coins, **options)


def judge_alone(name: str, request: Request, coins: Any) -> Verdict:
    """The scalar rule on one request."""
    drafted = DraftTree(tuple(request.tokens), tuple(request.parents))
    return RULES[name].verify(drafted if RULES[name].takes_tree else request.tokens, request.q, request.p, coins)


def check_emitted(batch: Any, index: int, request: Request, verdict: Verdict) -> None:
    emitted = [request.tokens[node] for node in verdict.path] + [verdict.next_token]
    padding = batch.emitted.shape[1] - len(emitted)
    assert batch.emitted[index].tolist() == emitted + [-1] * padding
    assert batch.path[index].tolist() == [*verdict.path, *[-1] * padding]


def check_equal(name: str, deterministic: bool, seeds: range) -> int:
    """Compares both kinds of coins on a batch for each seed; the number of verdicts that were compared."""
    compared = 0
    for seed in seeds:
        requests = random_batch(seed, name, deterministic)
        coins = scripted(requests)
        by_script = judge(name, requests, coins)
        by_noise = judge(name, requests, philox(requests))
        for index, request in enumerate(requests):
            script = ScriptedCoins(request.uniforms)
            expected = judge_alone(name, request, script)
            assert by_script.verdict(index) == expected, (seed, index)
            assert coins.used[index] == len(script.used), (seed, index)
            check_emitted(by_script, index, request, expected)
            noise = PhiloxCoins(request.key[0]).at(request=request.key[1], length=request.key[2])
            assert by_noise.verdict(index) == judge_alone(name, request, noise), (seed, index)
            compared += 2
    return compared


@pytest.mark.parametrize(("name", "deterministic"), VARIANTS, ids=IDS)
def test_batched_equals_scalar(name: str, deterministic: bool) -> None:
    assert check_equal(name, deterministic, range(40)) > 200


@pytest.mark.slow
@pytest.mark.parametrize(("name", "deterministic"), VARIANTS, ids=IDS)
def test_batched_equals_scalar_on_thousands(name: str, deterministic: bool) -> None:
    """At least 2,000 requests, each with both kinds of coins."""
    assert check_equal(name, deterministic, range(40, 760)) >= 4000


@pytest.mark.parametrize(("name", "deterministic"), VARIANTS, ids=IDS)
def test_a_verdict_does_not_depend_on_the_batch(name: str, deterministic: bool) -> None:
    for seed in range(12):
        requests = random_batch(f"order {seed}", name, deterministic)
        for coins_of in (philox, scripted):
            together = judge(name, requests, coins_of(requests))
            order = random.Random(seed).sample(range(len(requests)), len(requests))
            shuffled = [requests[index] for index in order]
            permuted = judge(name, shuffled, coins_of(shuffled))
            for place, index in enumerate(order):
                alone = judge(name, [requests[index]], coins_of([requests[index]]))
                assert together.verdict(index) == permuted.verdict(place) == alone.verdict(0)


class Watched(PhiloxBatchCoins):
    """Keeps what each accept and draw was about: (request, node, purpose)."""

    def uniforms(self, questions: Questions) -> Tensor:
        self.asked += [(r, n, "accept") for r, n in zip(questions.requests.tolist(), questions.nodes.tolist())]
        return super().uniforms(questions)

    def draw(self, laws: Laws, questions: Questions, purpose: Any) -> Tensor:
        self.asked += [(r, n, purpose) for r, n in zip(questions.requests.tolist(), questions.nodes.tolist())]
        return super().draw(laws, questions, purpose)


@pytest.mark.parametrize(("name", "deterministic"), VARIANTS, ids=IDS)
def test_no_noise_is_read_twice(name: str, deterministic: bool) -> None:
    for seed in range(12):
        requests = random_batch(f"keys {seed}", name, deterministic)
        seeds, indices, lengths = zip(*(request.key for request in requests))
        coins = Watched(seeds, requests=indices, lengths=lengths)
        coins.asked = []
        judge(name, requests, coins)
        assert len(coins.asked) == len(set(coins.asked))
        assert all(0 <= node <= len(requests[who].tokens) for who, node, _ in coins.asked)


@pytest.mark.parametrize(("name", "deterministic"), VARIANTS, ids=IDS)
def test_inputs_are_left_as_they_are(name: str, deterministic: bool) -> None:
    """Rows of a float64 batch are read through views: a rule that worked in place would show here."""
    for seed in range(12):
        requests = random_batch(f"inputs {seed}", name, deterministic)[:1]
        for request in requests:
            request.p = request.p.double()
            request.q = None if request.q is None else request.q.double()
        before = [(request.p.clone(), None if request.q is None else request.q.clone()) for request in requests]
        judge(name, requests, philox(requests), validate=False)
        judge(name, requests, scripted(requests), validate=False)
        for request, (p, q) in zip(requests, before):
            assert torch.equal(request.p, p)
            assert q is None or torch.equal(request.q, q)


@pytest.mark.parametrize("vocab", [8193, pytest.param(40_001, marks=pytest.mark.slow)])
def test_large_vocabularies_of_one_row_at_a_time(vocab: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    for place, (name, deterministic) in enumerate(VARIANTS):
        dtype, tree = DTYPES[place % 4], RULES[name].takes_tree
        requests = [large_request(generator, vocab, dtype, tree=tree, deterministic=deterministic) for _ in range(3)]
        by_script, by_noise = judge(name, requests, scripted(requests)), judge(name, requests, philox(requests))
        for index, request in enumerate(requests):
            assert by_script.verdict(index) == judge_alone(name, request, ScriptedCoins(request.uniforms))
            noise = PhiloxCoins(request.key[0]).at(request=request.key[1], length=request.key[2])
            assert by_noise.verdict(index) == judge_alone(name, request, noise)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("deterministic", [False, True])
def test_coarse_draws_of_large_vocabularies_in_every_dtype(dtype: torch.dtype, deterministic: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    requests = [large_request(generator, 17_001, dtype, deterministic=deterministic) for _ in range(10)]
    for _ in range(5):
        for request in requests:
            request.uniforms = torch.rand(5, generator=generator, dtype=torch.float64).tolist()
        verdicts = judge("chain", requests, scripted(requests))
        for index, request in enumerate(requests):
            assert verdicts.verdict(index) == judge_alone("chain", request, ScriptedCoins(request.uniforms))


def large_request(
    generator: torch.Generator, vocab: int, dtype: torch.dtype, *, tree: bool = False, deterministic: bool
) -> Request:
    p = torch.softmax(3 * torch.randn(4, vocab, generator=generator), -1)
    q = torch.softmax(3 * torch.randn(3, vocab, generator=generator), -1)
    if tree:
        q[1] = q[0]
    tokens = torch.multinomial(q, 1, generator=generator)[:, 0].tolist()
    uniforms = torch.rand(5, generator=generator, dtype=torch.float64).tolist()
    parents, law = [-1, -1, 0] if tree else [-1, 0, 1], None if deterministic else q.to(dtype)
    return Request(tokens, parents, law, p.to(dtype), uniforms, (int(1e6 * uniforms[0]), 5, 9))
