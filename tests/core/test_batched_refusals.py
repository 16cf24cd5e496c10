"""Batched rules where refusals matter: laws under which every sibling can be refused, and a fine grid of coins."""

import pytest
import torch

from specdec_core.coins import ScriptedCoins
from specdec_core.draft import DraftTree
from specdec_core.rules import RULES
from specdec_core.rules.batched import ScriptedBatchCoins

# tokens 0 and 1 are drafted; what a refusal of 0 leaves has 1 with less than q, so 1 can be refused as well
Q = (0.40, 0.30, 0.20, 0.10)
FAR = ((0.10, 0.32, 0.35, 0.23), (0.12, 0.33, 0.30, 0.25), (0.08, 0.31, 0.36, 0.25))
# rules that weigh whole paths end inside one only where p is close to q
NEAR = ((0.360, 0.311, 0.200, 0.129), (0.370, 0.390, 0.040, 0.200), (0.355, 0.400, 0.045, 0.200))
TREE, CHAIN = (-1, -1, 0, 0, 1), (-1, 0, 1)
REQUESTS = 400


@pytest.mark.parametrize("laws", [FAR, NEAR], ids=["far", "near"])
@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.batched is not None])
def test_every_kind_of_end_is_reached_and_equal(name: str, laws: tuple) -> None:
    rule = RULES[name]
    parents = TREE if rule.takes_tree else CHAIN
    shape = DraftTree((0,) * len(parents), parents)
    tokens = tuple(shape.children(parent).index(node) for node, parent in enumerate(parents))
    tree = DraftTree(tokens, parents)
    q = torch.tensor([Q] * len(parents), dtype=torch.float64)
    p = torch.tensor([laws[row % 3] for row in range(len(parents) + 1)], dtype=torch.float64)
    scripts = torch.rand(REQUESTS, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).tolist()
    options = {"parents": torch.tensor(parents).repeat(REQUESTS)} if rule.takes_tree else {}
    found = rule.batched(
        torch.tensor(tokens).repeat(REQUESTS),
        torch.arange(REQUESTS + 1) * len(parents),
        q.repeat(REQUESTS, 1),
        p.repeat(REQUESTS, 1),
        ScriptedBatchCoins(scripts),
        **options,
    )
    expected = [rule.verify(tree if rule.takes_tree else tokens, q, p, ScriptedCoins(script)) for script in scripts]
    assert [found.verdict(request) for request in range(REQUESTS)] == expected
    if name != "greedy" and (laws is NEAR or name not in ("block", "traversal", "traversal_without_replacement")):
        assert len({verdict.path for verdict in expected}) >= len(parents)
