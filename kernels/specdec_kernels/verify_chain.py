"""Chain verification from logits: one verdict a request, without a softmax in memory and without a host sync.

`verify_chain_reference` is the scalar rule; `verify_chain` takes the Triton kernels where it can, and the batched
rule elsewhere.
"""

from specdec_core.rules import verify_chain as chain_rule
from specdec_core.rules.batched import verify_chain_batch
from specdec_kernels.batched_reference import verify_chain_batched
from specdec_kernels.chain_launch import (
    LaunchConfig,
    Reads,
    TwoLevel,
    Watch,
    check_counting,
    on_device,
    packed,
    takes_triton,
)
from specdec_kernels.chain_reference import verify_reference
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch


def verify_chain_reference(batch: VerifyBatch, out: KernelVerdict | None = None) -> KernelVerdict:
    """The verdicts of `specdec_core.rules.verify_chain`, a request at a time.

    Raises:
        ValueError: whatever `batch.check_values()` finds; `out` without room for the verdicts.
    """
    return verify_reference(batch, chain_rule, out)


def verify_chain_triton(
    batch: VerifyBatch,
    out: KernelVerdict | None = None,
    *,
    version: int = 3,
    config: LaunchConfig | None = None,
    reads: Reads | None = None,
    watch: Watch | None = None,
) -> KernelVerdict:
    """The same verdicts by the kernels of one version: on a CUDA device, or on any under TRITON_INTERPRET=1.

    `reads` counts how often each logit is read, `watch` is told of each launch (version 3).

    Raises:
        ValueError: a version that does not exist, `reads` or `watch` with an earlier one, `out` without room.
    """
    if version not in (1, 2, 3):
        raise ValueError(f"version is {version}; expected 1 (naive), 2 (two levels) or 3 (two levels, no walk)")
    check_counting(reads, watch, version, last=3)
    call = TwoLevel(batch, out, packed(batch) if config is None else config, reads, watch)
    if batch.num_requests == 0:
        return call.out
    with on_device(batch.device):
        if version == 1:
            from specdec_kernels.verify_chain_early_triton import verify_chain_v1_kernel

            return call.walk(verify_chain_v1_kernel)
        call.stats()
        _decide(call, version)
        return call.race()


def verify_chain(batch: VerifyBatch, out: KernelVerdict | None = None) -> KernelVerdict:
    """The verdicts of `specdec_core.rules.verify_chain` on every request, in float32 from logits.

    On a CUDA device four launches of fixed size that look at no value on the host, so a CUDA graph can hold them; give
    `out` and the same tensors to replay it. Elsewhere, or without Triton, the batched rule of the core. Bad values are
    found by `batch.check_values()`, which waits for the device; the batched rule always looks.

    Raises:
        ValueError: `out` without room for the verdicts; without Triton, whatever `check_values` or the rule finds.
    """
    if takes_triton(batch.device):
        return verify_chain_triton(batch, out)
    return verify_chain_batched(batch, verify_chain_batch, out)


def _decide(call: TwoLevel, version: int) -> None:
    from specdec_kernels.verify_chain_early_triton import decide_chain_v2_kernel
    from specdec_kernels.verify_chain_triton import decide_chain_kernel

    arguments = call.decision_arguments()
    if version == 2:
        for name in ("draft_reads_ptr", "num_requests", "COUNT_READS", "SLOTS"):
            del arguments[name]
        call.launch(decide_chain_v2_kernel, (call.batch.num_requests,), **arguments, num_warps=1)
    else:
        call.launch(
            decide_chain_kernel, (call.programs,), **arguments, ROWS=call.config.rows, num_warps=call.decision_warps
        )


if __name__ == "__main__":
    from specdec_kernels.chain_benchmark import main

    main("verify_chain")
