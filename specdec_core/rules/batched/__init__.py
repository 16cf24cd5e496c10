"""Batched forms of the verification rules: the same verdicts as the scalar rules, for drafts of different length."""

from specdec_core.rules.batched.block import verify_block_batch
from specdec_core.rules.batched.chain import verify_chain_batch
from specdec_core.rules.batched.coins import BatchCoins, Questions, ScriptedBatchCoins
from specdec_core.rules.batched.greedy import verify_greedy_batch
from specdec_core.rules.batched.match import verify_match_batch
from specdec_core.rules.batched.philox_coins import PhiloxBatchCoins
from specdec_core.rules.batched.ragged import flatten_padded
from specdec_core.rules.batched.recursive import verify_recursive_batch, verify_recursive_without_replacement_batch
from specdec_core.rules.batched.target_only import verify_target_only_batch
from specdec_core.rules.batched.traversal import verify_traversal_batch, verify_traversal_without_replacement_batch
from specdec_core.rules.batched.verdict import BatchVerdict

__all__ = [
    "BatchCoins",
    "BatchVerdict",
    "PhiloxBatchCoins",
    "Questions",
    "ScriptedBatchCoins",
    "flatten_padded",
    "verify_block_batch",
    "verify_chain_batch",
    "verify_greedy_batch",
    "verify_match_batch",
    "verify_recursive_batch",
    "verify_recursive_without_replacement_batch",
    "verify_target_only_batch",
    "verify_traversal_batch",
    "verify_traversal_without_replacement_batch",
]
