"""Reported cases on rows and masks of trees, on a model with real attention: P46 and P50."""

import pytest
import torch

from specdec_core.draft import DraftTree
from specdec_core.models.llama import Llama, LlamaConfig
from specdec_core.models.llama_load import llama_from_tensors
from specdec_core.models.trainable import TrainableLlama, reader_of

PREFIX = 20
# node 0 of the case is the pending token; its tree is that of P45
TREE = DraftTree((11, 12, 13, 14, 15, 16), (-1, -1, 0, 0, 1, 3))


@pytest.fixture(scope="module")
def llama() -> Llama:
    config = LlamaConfig(
        vocab_size=40, width=32, ffn_width=48, layers=3, heads=4, kv_heads=2, head_dim=8, max_length=64
    )
    module = TrainableLlama(config, seed=1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.mul_(10)
    return llama_from_tensors(config, reader_of(module), tied=True)


def test_p46_the_accepted_path_is_compacted(llama: Llama) -> None:
    """sgl-project/sglang #15360, #30775: gibberish where the rows of a path that is not contiguous stayed in place."""
    prefix, pending = torch.arange(PREFIX) % 37, 10
    cache = llama.new_cache(40)
    llama.forward(prefix, cache=cache)
    before = [part.clone() for layer in range(3) for part in cache.rows(layer)]
    fed = torch.tensor([pending, *TREE.tokens])
    llama.forward(fed, TREE.position_ids(PREFIX), TREE.attention_mask(PREFIX), cache=cache)
    assert len(cache) == 27, "rows 20 to 26"
    written = [part.clone() for layer in range(3) for part in cache.rows(layer)]
    cache.keep([0, 2, 5])
    assert (len(cache), cache.rows_moved) == (23, 2)
    for old, all_rows, now in zip(before, written, (part for layer in range(3) for part in cache.rows(layer))):
        assert torch.equal(now[:, :PREFIX], old), "no committed row is touched"
        assert torch.equal(now[:, PREFIX:], all_rows[:, [20, 22, 25]]), "rows 20, 21, 22 hold nodes 0, 2, 5"
    text = torch.cat((prefix, torch.tensor([pending, TREE.tokens[1], TREE.tokens[4], 30])))
    after = llama.forward(text[-1:], cache=cache).logits
    fresh = llama.forward(text, cache=llama.new_cache(40), last_only=True).logits
    assert torch.allclose(after, fresh, atol=1e-4)
    wrong = llama.new_cache(40)
    llama.forward(prefix, cache=wrong)
    llama.forward(fed, TREE.position_ids(PREFIX), TREE.attention_mask(PREFIX), cache=wrong)
    wrong.truncate(23)
    assert not torch.allclose(llama.forward(text[-1:], cache=wrong).logits, fresh, atol=1e-2), "not compacted: noticed"


def test_p50_masks_combine_as_booleans_and_a_row_that_sees_nothing_stays_finite(llama: Llama) -> None:
    """NVIDIA-NeMo/Automodel #2658, flashinfer #4401, pytorch #109517: additive masks overflow, empty rows are NaN."""
    for dtype in (torch.bfloat16, torch.float16):
        least = torch.full((1,), torch.finfo(dtype).min, dtype=dtype)
        assert torch.isinf(least + least), "two additive masks: -inf"
    assert torch.isinf(torch.tensor(-1e9).to(torch.float16))
    assert bool(torch.full((4,), -torch.inf).softmax(0).isnan().all()), "a row of -inf: NaN"
    least_row = torch.full((4,), torch.finfo(torch.float32).min)
    assert torch.equal(least_row.softmax(0), torch.full((4,), 0.25)), "a row of finfo.min: uniform, as wrong"

    def run(last_row: list[bool]) -> tuple[torch.Tensor, torch.Tensor]:
        cache = llama.new_cache(20)
        llama.forward(torch.tensor([1, 2, 3]), cache=cache)
        mask = torch.tensor([[True] * 4 + [False] * 2, [True] * 5 + [False], last_row])
        output = llama.forward(torch.tensor([4, 5, 6]), torch.tensor([3, 4, 5]), mask, cache=cache)
        return output.logits, cache.rows(2)[0]

    seen, seen_rows = run([True] * 6)
    padded, padded_rows = run([False] * 6)
    assert bool(padded.isfinite().all()) and bool(padded_rows.isfinite().all())
    assert torch.equal(padded[:2], seen[:2]), "the other rows are bit-unchanged"
    assert torch.equal(padded_rows[:, :5], seen_rows[:, :5])
    assert not torch.equal(padded[2], seen[2])
    # attention gives the empty row nothing: it is what the row's own token makes alone, wherever it stands
    elsewhere = llama.new_cache(20)
    mask = torch.zeros(1, 1, dtype=torch.bool)
    alone = llama.forward(torch.tensor([6]), torch.tensor([9]), mask, cache=elsewhere).logits
    assert torch.allclose(padded[2], alone[0], atol=1e-5)
