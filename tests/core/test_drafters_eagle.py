"""The EAGLE drafter: which pairs it feeds, that its cache ends up with target states only, P47 and P52."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from specdec_core.coins import PhiloxCoins
from specdec_core.drafters import Context, DynamicTree, EagleDrafter
from specdec_core.engine import Engine
from specdec_core.models.cut_vocabulary import CutVocabulary
from specdec_core.models.eagle import EagleHead
from specdec_core.models.hf import HFModel
from specdec_core.models.protocol import ForwardOutput
from specdec_core.rules import Verdict
from specdec_core.warp import SamplingParams

CLOSE = 2e-4
GREEDY = SamplingParams(temperature=0)


class _Checked(EagleDrafter):
    """Recomputes what every forward of the layer gives from scratch, with the training module and no cache."""

    def __init__(self, micro: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(micro.target, micro.eagle, micro.vocabulary, *args, **kwargs)
        self.micro = micro
        self.fed: list[tuple[int, list[int], torch.Tensor]] = []
        self.rounds = 0

    def prefill(self, context: Context) -> None:
        self._begin(context)
        super().prefill(context)

    def propose(self, context: Context, budget: int, coins: Any, may_continue: Any):
        self.rounds += 1
        self._begin(context)
        return super().propose(context, budget, coins, may_continue)

    def _begin(self, context: Context) -> None:
        self._lines = {(): (self._target_states(context), list(context.tokens[1:]))}
        self._laid: list[tuple[int, ...]] = []
        self._made: dict[tuple[int, ...], torch.Tensor] = {}

    def _target_states(self, context: Context) -> torch.Tensor:
        target = self.micro.target
        return target.forward(torch.tensor(context.tokens[:-1]), cache=target.new_cache(96)).hidden

    def _forward(self, states: Any, tokens: Sequence[int], positions: Any = None, mask: Any = None, **kwargs: Any):
        output = super()._forward(states, tokens, positions, mask, **kwargs)
        before = len(self._cache) - len(tokens)
        self.fed.append((before, list(tokens), states))
        if not self._laid and before + len(tokens) == len(self._lines[()][1]):
            self._compare(output.logits[-1], (), output.hidden[-1])
        else:
            for row, token in enumerate(tokens):
                seen = self._seen(before, row, mask)
                assert float((states[row] - self._made[seen]).abs().max()) < CLOSE, "the state its parent's pass made"
                states_so_far, tokens_so_far = self._lines[seen]
                path = (*seen, before + row)
                line = torch.cat((states_so_far, states[row][None])), [*tokens_so_far, token]
                self._lines[path] = line
                self._compare(output.logits[row], path, output.hidden[row])
        return output

    def _seen(self, before: int, row: int, mask: Any) -> tuple[int, ...]:
        """The drafted rows that this row looks at: its ancestors."""
        first = len(self._lines[()][1])
        if mask is None:
            return tuple(range(first, before + row))
        return tuple(column for column in mask[row].nonzero()[:, 0].tolist() if first <= column < before + row)

    def _compare(self, logits: torch.Tensor, path: tuple[int, ...], state: torch.Tensor) -> None:
        self._laid.append(path)
        states, tokens = self._lines[path]
        embedded = torch.nn.functional.embedding(torch.tensor(tokens), self.micro.target.weights.embedding)
        expected = self.micro.eagle(states[None], embedded[None])[0, -1]
        assert float((expected - state).abs().max()) < CLOSE
        self._made[path] = expected
        cut = self.micro.target.weights.head.weight[self.micro.vocabulary.index]
        assert float((cut @ expected - logits).abs().max()) < CLOSE


@pytest.mark.parametrize("tree", [None, DynamicTree(3, 4), DynamicTree(1, 5)], ids=["chain", "tree", "line"])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_p52_every_pass_equals_one_without_a_cache(micro, tree: DynamicTree | None, temperature: float) -> None:
    """After partly accepted drafts the rows are made again from the target's states; none of the head's own is left."""
    drafter = _Checked(micro, tree)
    rule = "chain" if tree is None else "recursive"
    params = SamplingParams(temperature=temperature, seed=3)
    generation = Engine(micro.target, drafter, rule, 6).generate(micro.prompt, params, 40)
    accepted = [record.num_accepted for record in generation.trace.rounds]
    assert len(set(accepted)) > 2, f"rounds of several kinds: {accepted}"
    assert drafter.rounds == len(generation.trace.rounds) - (generation.trace.rounds[-1].draft_tokens == ())
    assert all(record.draft_rows == record.length - 1 for record in generation.trace.rounds if record.draft_tokens)


def test_p52_the_pairs_of_the_reported_case(micro) -> None:
    """Prompt x0..x4, sampled x5: pairs (f0, x1) .. (f4, x5); after keeping two of three drafts, f5 and f6 come new."""
    drafter = EagleDrafter(micro.target, micro.eagle, micro.vocabulary)
    fed: list[tuple[list[float], list[int]]] = []

    def watched(states: Any, tokens: Any, *rest: Any, cache: Any, last_only: bool = False) -> ForwardOutput:
        fed.append((states[:, 0].tolist(), tokens.tolist()))
        return layer_forward(states, tokens, *rest, cache=cache, last_only=last_only)

    layer_forward, drafter.layer.forward = drafter.layer.forward, watched
    width = micro.target.config.width
    features = torch.arange(9.0)[:, None].expand(9, width)
    drafter.start(40)
    coins = PhiloxCoins(0)
    first = drafter.propose(
        Context([10, 11, 12, 13, 14, 15], 5, SamplingParams(), features[:5]), 3, coins.at(request=0, length=6), _always
    )
    assert fed[0] == ([0, 1, 2, 3, 4], [11, 12, 13, 14, 15]), "five pairs, x0 dropped"
    x6, x7, _ = first.tokens
    assert [tokens for _, tokens in fed[1:]] == [[x6], [x7]], "the last draft is never fed"
    drafter.observe(Verdict(2, (0, 1), 18, "recovered"), None)
    assert drafter.cache_rows == 5
    fed.clear()
    drafter.propose(
        Context([10, 11, 12, 13, 14, 15, x6, x7, 18], 5, SamplingParams(), features[5:8]), 1,
        coins.at(request=0, length=9), _always,
    )  # fmt: skip
    assert fed == [([5, 6, 7], [x6, x7, 18])], "the last pair is (f7, x8)"


def test_p47_positions_follow_without_a_gap(micro) -> None:
    """Seven prompt tokens: their pairs stand at 0..5, that of the sampled token at 6, the drafts at 7, then 8."""
    drafter = _Checked(micro)
    stream = Engine(micro.target, drafter, "chain", 3).stream([1, 2, 3, 4, 5, 6, 7], GREEDY, 10)
    next(stream), next(stream)
    assert [(before, len(tokens)) for before, tokens, _ in drafter.fed] == [(0, 6), (6, 1), (7, 1), (8, 1)]


def test_rounds_without_a_draft_lose_no_state(micro) -> None:
    """A controller that pauses: the states of the plain steps are fed all at once when drafting resumes."""

    class Pausing:
        name = "pausing"

        def gamma(self, rounds) -> int:
            return 0 if len(rounds) % 5 in (0, 1, 2) else 4

        may_continue = staticmethod(lambda drafted, law: True)

    drafter = _Checked(micro)
    generation = Engine(micro.target, drafter, "chain", Pausing()).generate(micro.prompt, GREEDY, 40)
    assert generation.tokens == Engine(micro.target).generate(micro.prompt, GREEDY, 40).tokens
    assert len(drafter.fed[0][1]) == len(micro.prompt) + 3


def test_chain_laws_are_zero_outside_the_cut_and_sum_to_one(micro) -> None:
    drafts = []

    class Kept(EagleDrafter):
        def propose(self, *args: Any):
            drafts.append(super().propose(*args))
            return drafts[-1]

    drafter = Kept(micro.target, micro.eagle, micro.vocabulary, temperature=0.7)
    Engine(micro.target, drafter, "block", 4).generate(micro.prompt, SamplingParams(seed=1, repetition_penalty=1.3), 20)
    outside = [token for token in range(24) if token not in micro.vocabulary.ids]
    for draft in drafts:
        laws = draft.draft_probs
        if laws is not None:
            assert float(laws[:, outside].abs().max()) == 0.0
            assert torch.allclose(laws.sum(dim=-1), torch.ones(len(laws)))
            assert all(float(law[token]) > 0 for law, token in zip(laws, draft.tokens))


def test_a_transformers_target_lends_its_ends(micro) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=24, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=96, initializer_range=0.3,
    )  # fmt: skip
    target = HFModel(LlamaForCausalLM(config))
    drafter = EagleDrafter(target, micro.eagle, micro.vocabulary, DynamicTree(2, 3))
    found = Engine(target, drafter, "traversal", 5).generate(micro.prompt, GREEDY, 20).tokens
    assert found == Engine(target).generate(micro.prompt, GREEDY, 20).tokens


def test_what_does_not_fit_is_named(micro) -> None:
    wide = EagleHead(replace(micro.target.config, width=64, head_dim=16), ffn_width=8)
    with pytest.raises(ValueError, match="head has width 64, the target's states 32"):
        EagleDrafter(micro.target, wide, micro.vocabulary)
    with pytest.raises(ValueError, match="cut vocabulary is of 30 ids, the target has 24"):
        EagleDrafter(micro.target, micro.eagle, CutVocabulary((1, 2), 30))
    with pytest.raises(ValueError, match="top_k is 0 and depth 3"):
        DynamicTree(0, 3)
    with pytest.raises(ValueError, match="temperature is -1"):
        EagleDrafter(micro.target, micro.eagle, micro.vocabulary, temperature=-1.0)
    drafter = EagleDrafter(micro.target, micro.eagle, micro.vocabulary)
    context = Context([1, 2, 3], 2, GREEDY, torch.zeros(2, 32))
    coins = PhiloxCoins(0).at(request=0, length=3)
    with pytest.raises(ValueError, match=r"call start\(capacity\)"):
        drafter.propose(context, 2, coins, _always)
    drafter.start(10)
    with pytest.raises(ValueError, match="gave no hidden states"):
        drafter.propose(replace(context, hidden=None), 2, coins, _always)
    with pytest.raises(ValueError, match="states have width 8, this drafter's head 32"):
        drafter.propose(replace(context, hidden=torch.zeros(2, 8)), 2, coins, _always)
    with pytest.raises(ValueError, match="holds 0 pairs, but the states that came begin at pair 1"):
        drafter.propose(replace(context, hidden=torch.zeros(1, 32)), 2, coins, _always)


def _always(drafted: int, law: Any) -> bool:
    return True
