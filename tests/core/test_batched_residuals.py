"""The three views of a batched residual - whole rows, one rough row, single entries - are of the same numbers."""

import pytest
import torch

from specdec_core.residual import residual, residual_of_one_hot
from specdec_core.rules.batched.chain import _Residuals
from specdec_core.rules.batched.ragged import Ragged

TOKENS, OFFSETS = torch.tensor([3, 0, 2, 6, 1]), torch.tensor([0, 2, 2, 5])
SLOTS = torch.tensor([4, 0, 2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("sampled", [True, False])
def test_rows_entries_and_rough_rows_agree(dtype: torch.dtype, sampled: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    p, q = (torch.softmax(2 * torch.randn(rows, 7, generator=generator), -1).to(dtype) for rows in (8, 5))
    batch = Ragged.of(TOKENS, OFFSETS)
    residuals = _Residuals(batch, SLOTS, q if sampled else None, p)
    laws = residuals.laws()
    assert (laws.count, laws.vocab) == (3, 7)
    group = laws.make(slice(0, 3))
    everything = torch.arange(7).repeat(3, 1)
    assert torch.equal(laws.entries(torch.arange(3), everything), group.rows)
    assert torch.equal(laws.entries(torch.tensor([2]), torch.tensor([[6, 0]])), group.rows[2:3, [6, 0]])
    for law, (slot, row) in enumerate(zip((4, 0, 2), (6, 0, 4))):
        assert torch.allclose(laws.rough(law).double(), group.rows[law], rtol=2.0**-20, atol=1e-7)
        expected = residual(p[row], q[slot]) if sampled else residual_of_one_hot(p[row], int(TOKENS[slot]))
        assert torch.equal(group.values()[law], expected)
