"""Block verification from logits: one verdict a request, without a softmax in memory and without a host sync.

`verify_block_reference` is the scalar rule; `verify_block` takes the Triton kernels where it can, and the batched
rule elsewhere.
"""

import torch

from specdec_core.rules import verify_block as block_rule
from specdec_core.rules.batched import verify_block_batch
from specdec_kernels.batched_reference import verify_chain_batched
from specdec_kernels.chain_launch import (
    LaunchConfig,
    Reads,
    TwoLevel,
    Watch,
    check_counting,
    on_device,
    packed,
    power_of_two,
    takes_triton,
)
from specdec_kernels.chain_reference import verify_reference
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch


def verify_block_reference(batch: VerifyBatch, out: KernelVerdict | None = None) -> KernelVerdict:
    """The verdicts of `specdec_core.rules.verify_block`, a request at a time.

    Raises:
        ValueError: whatever `batch.check_values()` finds; `out` without room for the verdicts.
    """
    return verify_reference(batch, block_rule, out)


def verify_block_triton(
    batch: VerifyBatch,
    out: KernelVerdict | None = None,
    *,
    version: int = 2,
    config: LaunchConfig | None = None,
    reads: Reads | None = None,
    watch: Watch | None = None,
) -> KernelVerdict:
    """The same verdicts by the kernels of one version: on a CUDA device, or on any under TRITON_INTERPRET=1.

    `reads` counts how often each logit is read, `watch` is told of each launch (version 2).

    Raises:
        ValueError: a version that does not exist, `reads` or `watch` with version 1, `out` without room.
    """
    if version not in (1, 2):
        raise ValueError(f"version is {version}; expected 1 (naive) or 2 (two levels)")
    check_counting(reads, watch, version, last=2)
    call = TwoLevel(batch, out, packed(batch) if config is None else config, reads, watch)
    if batch.num_requests == 0:
        return call.out
    with on_device(batch.device):
        if version == 1:
            from specdec_kernels.verify_block_early_triton import verify_block_v1_kernel

            return call.walk(verify_block_v1_kernel)
        call.stats()
        _decide(call)
        return call.race()


def verify_block(batch: VerifyBatch, out: KernelVerdict | None = None) -> KernelVerdict:
    """The verdicts of `specdec_core.rules.verify_block` on every request, in float32 from logits.

    As `verify_chain`: on a CUDA device six launches of fixed size (five for deterministic drafts), else the batched
    rule of the core.

    Raises:
        ValueError: as `verify_chain`.
    """
    if takes_triton(batch.device):
        return verify_block_triton(batch, out)
    return verify_chain_batched(batch, verify_block_batch, out)


def _decide(call: TwoLevel) -> None:
    from specdec_kernels.verify_block_triton import block_mass_kernel, block_weights_kernel, decide_block_kernel

    batch, config, out, blocks = call.batch, call.config, call.out, call.stats_blocks
    entries = torch.empty(batch.num_requests * batch.slots, 7, dtype=torch.float32, device=batch.device)
    masses = torch.empty(batch.num_requests * batch.slots, blocks, dtype=torch.float32, device=batch.device)
    call.launch(
        block_weights_kernel,
        (call.programs,),
        **call.decision_arguments(),
        entries_ptr=entries,
        ROWS=config.rows,
        num_warps=call.decision_warps,
    )
    if call.mode != 0:
        call.launch(block_mass_kernel, (-(-batch.num_requests * batch.slots // config.rows), blocks),
            batch.target_logits, call.draft, batch.cu_num_draft, batch.temperature, *call.counts, call.plan_ints,
            entries, masses, batch.target_logits.stride(0), call.draft.stride(0), batch.num_requests, batch.slots,
            batch.vocab, blocks, DRAFT=call.mode, COUNT_READS=call.counting, ROWS=config.rows,
            BLOCK=config.stats_block, num_warps=8 if config.stats_block >= 4096 else 4,
        )  # fmt: skip
    call.launch(decide_block_kernel, (call.programs,),
        batch.draft_tokens, batch.cu_num_draft, call.plan_ints, call.plan_floats, out.num_accepted, out.is_bonus,
        out.emitted, entries, masses, batch.num_requests, batch.slots, blocks, DRAFT=call.mode, ROWS=config.rows,
        SLOTS=power_of_two(batch.slots), BLOCKS=power_of_two(blocks), num_warps=call.decision_warps,
    )  # fmt: skip


if __name__ == "__main__":
    from specdec_kernels.chain_benchmark import main

    main("verify_block")
