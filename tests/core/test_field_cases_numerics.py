"""Reported cases on near-ties between passes of different size: P22, and the gaps that make them visible."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from specdec_core.certify_greedy import certify_greedy
from specdec_core.coins import ScriptedCoins
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.models.pairs import load_pair
from specdec_core.models.protocol import ForwardOutput
from specdec_core.models.tiny import save_tiny_pair
from specdec_core.rules.chain import verify_chain
from specdec_core.teacher_forcing import logit_gaps
from specdec_core.toy import PrefixModel
from specdec_core.warp import SamplingParams

GREEDY = SamplingParams(temperature=0)
ONE_STEP = 0.125
"""Distance of neighbouring bfloat16 values in [16, 32)."""


class _RoundsBySize(PrefixModel):
    """Says 1 by one bfloat16 step when it is fed one row, and ties 0 with 1 when it is fed several."""

    def __init__(self) -> None:
        super().__init__(3, lambda prefix: [23.5, 23.625, 0.0])

    def forward(self, tokens: torch.Tensor, *args: Any, **kwargs: Any) -> ForwardOutput:
        output = super().forward(tokens, *args, **kwargs)
        return output if len(tokens) == 1 else ForwardOutput(output.logits.clamp(max=23.5), None)


def test_p22_the_values_of_the_case_are_neighbours_in_bfloat16() -> None:
    low, high = torch.tensor([23.5, 23.625]), torch.tensor([23.5, 23.625], dtype=torch.bfloat16)
    assert torch.equal(high.float(), low)
    assert float(torch.tensor(23.56).to(torch.bfloat16)) in (23.5, 23.625)


def test_p22_a_near_tie_parts_the_texts_and_its_gap_is_reported() -> None:
    drafter = NGramDrafter(min_n=1)
    engine = Engine(_RoundsBySize(), drafter, "chain", 3)
    strict = certify_greedy(engine, [[1]], 12)
    assert not strict.passed
    (parting,) = strict.partings
    assert (parting.plain_token, parting.speculative_token, parting.gap) == (1, 0, ONE_STEP)
    stated = certify_greedy(engine, [[1]], 12, allowed_gap=ONE_STEP)
    assert stated.passed
    assert "near-tie" in stated.sentence


def test_p22_every_emitted_token_is_within_the_gap_and_a_wrong_one_is_not() -> None:
    """After the first parting the texts differ for good; teacher forcing still judges each token."""
    engine = Engine(_RoundsBySize(), NGramDrafter(min_n=1), "chain", 3)
    text = engine.generate([1], GREEDY, 20).tokens
    gaps = logit_gaps(engine.target, [1], text)
    assert set(gaps) == {0.0, ONE_STEP}
    wrong = [*text[:5], 2, *text[6:]]
    assert logit_gaps(engine.target, [1], wrong)[5] == 23.625


@pytest.mark.parametrize("gamma", [1, 4])
def test_p22_the_prompt_is_fed_in_one_piece_with_and_without_drafts(gamma: int, spoken_model) -> None:
    first = []
    for drafter, length in ((None, 0), (ModelDrafter(spoken_model(5, lambda prefix: 2)), gamma)):
        target = spoken_model(5, lambda prefix: len(prefix) % 5)
        Engine(target, drafter, "chain", length).generate([1, 2, 3, 4], GREEDY, 6)
        first.append(target.fed[0])
    assert first == [(0, (1, 2, 3, 4))] * 2


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_pair(tmp_path_factory.mktemp("pair"))


# in bfloat16 the texts part with torch 2.13 on x86
PROMPTS = ([0, 6, 10, 4],)


@pytest.mark.parametrize(("dtype", "allowed"), [("float32", 1e-4), ("bfloat16", 0.125)])
def test_p22_a_real_forward_stays_within_the_gap_its_precision_explains(dtype: str, allowed: float, tiny: str) -> None:
    """Each token is within a stated gap of the best logit, whether the texts part or not; another token is not."""
    pair = load_pair(tiny, dtype=dtype)
    assert pair.draft is not None
    engine = Engine(pair.target, ModelDrafter(pair.draft), "chain", 4)
    assert certify_greedy(engine, PROMPTS, 50, allowed_gap=allowed).passed
    for prompt in PROMPTS:
        text = engine.generate(prompt, GREEDY, 50).tokens
        assert max(logit_gaps(pair.target, prompt, text)) <= allowed
        assert logit_gaps(pair.target, prompt, [*text[:5], (text[5] + 1) % 12])[5] > allowed


def test_gaps_count_penalties_and_bans(random_law, model_of) -> None:
    law, params = (
        random_law("gaps", 5, zeros=False),
        SamplingParams(temperature=0, frequency_penalty=0.5, bad_words=((1, 2),)),
    )
    text = Engine(model_of(law, 5), None, "chain", 0).generate([1, 2], params, 25).tokens
    assert logit_gaps(model_of(law, 5), [1, 2], text, params) == (0.0,) * 25
    assert max(logit_gaps(model_of(law, 5), [1, 2], text)) > 0, "without the penalties other tokens are best"
    assert logit_gaps(model_of(law, 5), [0, 1], [2], params) == (float("inf"),)


@pytest.mark.parametrize(
    ("prompt", "tokens", "message"), [([], [1], "prompt is empty"), ([1], [1, 9], r"tokens\[1\] is 9")]
)
def test_gaps_of_nonsense_are_refused(prompt: Sequence[int], tokens: Sequence[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        logit_gaps(PrefixModel(3, lambda prefix: [0.0] * 3), prompt, tokens)


@pytest.mark.parametrize("drafter", ["model", "coupled", "ngram"])
def test_match_gives_one_text_for_a_seed_on_a_real_forward(drafter: str, tiny: str) -> None:
    """Rule match in float32: rows from passes of other sizes and other drafters, the same draws."""
    pair = load_pair(tiny, dtype="float32")
    assert pair.draft is not None
    by = NGramDrafter() if drafter == "ngram" else ModelDrafter(pair.draft, coupled=drafter == "coupled")
    for seed in (1, 2):
        params = SamplingParams(temperature=1.5, seed=seed)
        plain = Engine(pair.target, None, "match", 0).generate(PROMPTS[0], params, 40).tokens
        assert len(set(plain)) > 4
        for gamma in (1, 4):
            assert Engine(pair.target, by, "match", gamma).generate(PROMPTS[0], params, 40).tokens == plain


def test_a_row_of_q_that_is_one_percent_off_bends_the_law_by_one_percent() -> None:
    """The example of docs/numerics.md: token 0 is always drawn and never refused, although p(0) is 0.99."""
    p = (0.99, 0.01)
    almost_one = 1 - 2.0**-32
    for law in (lambda *masses: masses, lambda *masses: torch.tensor(masses)):
        target = [law(*p)] * 2
        assert verify_chain([0], [law(0.99, 0.0)], target, ScriptedCoins([almost_one, 0])).path == (0,)
        assert verify_chain([0], [law(1.0, 0.0)], target, ScriptedCoins([0.995, 0])).path == ()
        with pytest.raises(ValueError, match=r"draft_probs\[0\]"):
            verify_chain([0], [law(0.97, 0.0)], target, ScriptedCoins([0, 0]))
