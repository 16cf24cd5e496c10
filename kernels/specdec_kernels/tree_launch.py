"""Launches of the tree kernels: buffers, grids and constants. Nothing here looks at a value."""

from typing import Any

import torch
from torch import Tensor

from specdec_kernels.chain_launch import LaunchConfig, Launcher, Reads, Watch, power_of_two
from specdec_kernels.verify_batch import KernelVerdict, VerifyBatch, noise_tensors


def packed_tree(batch: VerifyBatch, most: int = 1 << 14) -> LaunchConfig:
    """Tiles for trees: many requests of a small vocabulary a program, one of a large."""
    block, nodes = max(4, power_of_two(batch.vocab)), power_of_two(batch.slots)
    if block > 1024:
        return LaunchConfig(race_block=512)
    rows = max(1, most // (block * nodes))
    return LaunchConfig(block, block, min(rows, power_of_two(max(1, batch.num_requests))))


class TreeCall(Launcher):
    """One call: its buffers and the arguments that its kernels share."""

    def __init__(
        self,
        batch: VerifyBatch,
        parents: Tensor,
        out: KernelVerdict,
        path: Tensor,
        config: LaunchConfig,
        reads: Reads | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(reads, watch)
        requests, slots, device = batch.num_requests, batch.slots, batch.device
        self.batch, self.parents, self.out, self.path, self.config = batch, parents, out, path, config
        self.stats_blocks = -(-batch.vocab // config.stats_block)
        self.race_blocks = -(-batch.vocab // config.race_block)
        draft = batch.draft_logits if batch.draft_logits is not None else batch.draft_probs
        self.mode = 0 if draft is None else 1 if batch.draft_logits is not None else 2
        self.draft = batch.target_logits if draft is None else draft
        stats = torch.empty(4, requests * slots, self.stats_blocks, dtype=torch.float32, device=device)
        self.target_max, self.target_sum, self.draft_max, self.draft_sum = stats
        self.target_arg = torch.empty(requests * slots, self.stats_blocks, dtype=torch.int32, device=device)
        self.ints = torch.empty(requests, 7, dtype=torch.int32, device=device)
        self.floats = torch.empty(requests, 6, dtype=torch.float32, device=device)
        self.draft_floats = torch.empty(requests, 2, dtype=torch.float32, device=device)
        self.frozen = torch.empty(requests, slots, dtype=torch.float32, device=device)
        self.rows = torch.empty(requests, 5, slots, dtype=torch.float32, device=device)
        self.masses = torch.empty(2, requests, self.stats_blocks, dtype=torch.float32, device=device)
        self.plan = torch.empty(requests, 3, dtype=torch.int32, device=device)
        self.scores = torch.empty(2, requests, self.race_blocks, dtype=torch.float32, device=device)
        self.winners = torch.empty(2, requests, self.race_blocks, dtype=torch.int32, device=device)
        self.is_given, self.keys, self.uniforms, self.exponentials = noise_tensors(batch)
        self.nodes = power_of_two(slots)
        self.programs = -(-requests // config.rows)

    def walk(self, method: str, passes: int) -> None:
        """Recursive rejection or traversal: statistics of all rows, then walks and passes in turn, then the draw."""
        from specdec_kernels.tree_laws_triton import tree_pass_kernel
        from specdec_kernels.tree_traversal_triton import walk_traversal_kernel
        from specdec_kernels.tree_walk_triton import walk_recursive_kernel

        self._stats()
        kernel = walk_traversal_kernel if method.startswith("traversal") else walk_recursive_kernel
        replace, passes = int(method.endswith("without_replacement")), passes if self.mode != 0 else 0
        self._step(kernel, replace, passes, first=True)
        for left in reversed(range(passes)):
            self.launch(tree_pass_kernel, (self.programs, self.stats_blocks),
                **self._shared(), **self._counters(), **self._state(), mass_ptr=self.masses,
                num_blocks=self.stats_blocks, DRAFT=self.mode, REPLACE=replace, NODES=self.nodes,
                BLOCK=self.config.stats_block, num_warps=8 if self.config.stats_block >= 4096 else 4,
            )  # fmt: skip
            self._step(kernel, replace, left, first=False)
        self._outcome()
        self._race(replace)

    def early(self, method: str) -> None:
        """Version 1, one program a request, with room for the laws of every row."""
        from specdec_kernels import verify_tree_early_triton as early

        batch, out, device = self.batch, self.out, self.batch.device
        p, q = torch.empty(2, batch.num_requests * batch.slots, batch.vocab, dtype=torch.float32, device=device)
        shared = self._shared()
        for name in ("num_requests", "ROWS"):
            del shared[name]
        shared |= {
            "keys_ptr": self.keys, "law_ptr": p, "num_accepted_ptr": out.num_accepted, "is_bonus_ptr": out.is_bonus,
            "next_token_ptr": out.next_token, "emitted_ptr": out.emitted, "path_ptr": self.path, "NODES": self.nodes,
            "BLOCK": min(1024, self.config.race_block), "num_warps": 8,
        }  # fmt: skip
        if method == "target_only":
            for name in ("draft_ptr", "draft_stride"):
                del shared[name]
            self.launch(early.verify_tree_target_only_v1_kernel, (batch.num_requests,), **shared)
            return
        traversal = method.startswith("traversal")
        kernel = early.verify_tree_traversal_v1_kernel if traversal else early.verify_tree_recursive_v1_kernel
        if traversal:
            shared["rows_ptr"] = self.rows
        self.launch(kernel, (batch.num_requests,),
            **shared, uniforms_ptr=self.uniforms, exponentials_ptr=self.exponentials, draft_law_ptr=q, DRAFT=self.mode,
            GIVEN=self.is_given, REPLACE=int(method.endswith("without_replacement")),
        )  # fmt: skip

    def target_only(self, levels: int) -> None:
        """A race and a step for each level, the pending token's included."""
        from specdec_kernels.tree_target_only_triton import level_race_kernel, level_step_kernel

        batch = self.batch
        for level in range(levels + 1):
            self.launch(level_race_kernel, (self.programs, self.race_blocks),
                batch.target_logits, batch.cu_num_draft, batch.temperature, self.keys, self.ints, self.scores[1],
                self.scores[0], self.winners[0], self.counts[0], batch.target_logits.stride(0), batch.num_requests,
                batch.vocab, self.race_blocks, FIRST=level == 0, COUNT_READS=self.counting, ROWS=self.config.rows,
                BLOCK=self.config.race_block, num_warps=4,
            )  # fmt: skip
            self.launch(level_step_kernel, (self.programs,),
                batch.draft_tokens, self.parents, batch.cu_num_draft, batch.temperature, self.ints, self.scores[1],
                self.scores[0], self.winners[0], batch.num_requests, batch.slots, batch.vocab, self.race_blocks,
                levels - level, FIRST=level == 0, ROWS=self.config.rows, NODES=self.nodes,
                BLOCKS=power_of_two(self.race_blocks), num_warps=1,
            )  # fmt: skip
        self._outcome()
        self._finish()

    def _shared(self) -> dict[str, Any]:
        batch = self.batch
        return {
            "target_ptr": batch.target_logits, "draft_ptr": self.draft, "draft_tokens_ptr": batch.draft_tokens,
            "parents_ptr": self.parents, "cu_num_draft_ptr": batch.cu_num_draft,
            "temperature_ptr": batch.temperature, "target_stride": batch.target_logits.stride(0),
            "draft_stride": self.draft.stride(0), "num_requests": batch.num_requests, "slots": batch.slots,
            "vocab": batch.vocab, "ROWS": self.config.rows,
        }  # fmt: skip

    def _counters(self) -> dict[str, Any]:
        return {
            "target_reads_ptr": self.counts[0],
            "draft_reads_ptr": self.counts[1],
            "COUNT_READS": self.counting,
        }

    def _state(self) -> dict[str, Any]:
        return {
            "ints_ptr": self.ints,
            "floats_ptr": self.floats,
            "draft_floats_ptr": self.draft_floats,
            "frozen_ptr": self.frozen,
        }

    def _block_stats(self) -> dict[str, Any]:
        return {
            "target_max_ptr": self.target_max, "target_sum_ptr": self.target_sum, "target_arg_ptr": self.target_arg,
            "draft_max_ptr": self.draft_max, "draft_sum_ptr": self.draft_sum, "num_blocks": self.stats_blocks,
        }  # fmt: skip

    def _stats(self) -> None:
        from specdec_kernels.tree_laws_triton import tree_stats_kernel

        grid = (-(-self.batch.num_requests * self.batch.slots // self.config.rows), self.stats_blocks)
        self.launch(tree_stats_kernel, grid,
            **self._shared(), **self._counters(), **self._block_stats(), DRAFT=self.mode, NODES=self.nodes,
            BLOCK=self.config.stats_block, num_warps=8 if self.config.stats_block >= 4096 else 4,
        )  # fmt: skip

    def _step(self, kernel: Any, replace: int, passes_left: int, *, first: bool) -> None:
        self.launch(kernel, (self.programs,),
            **self._shared(), **self._counters(), **self._state(), **self._block_stats(), keys_ptr=self.keys,
            uniforms_ptr=self.uniforms, rows_ptr=self.rows, mass_ptr=self.masses, passes_left=passes_left,
            FIRST=first, DRAFT=self.mode, GIVEN=self.is_given, REPLACE=replace, NODES=self.nodes,
            BLOCKS=power_of_two(self.stats_blocks), num_warps=2,
        )  # fmt: skip

    def _outcome(self) -> None:
        from specdec_kernels.tree_traversal_triton import tree_outcome_kernel

        batch, out = self.batch, self.out
        self.launch(tree_outcome_kernel, (self.programs,),
            batch.draft_tokens, self.parents, batch.cu_num_draft, self.ints, self.plan, out.num_accepted, out.is_bonus,
            out.emitted, self.path, batch.num_requests, batch.slots, batch.vocab, ROWS=self.config.rows,
            NODES=self.nodes, num_warps=1,
        )  # fmt: skip

    def _race(self, replace: int) -> None:
        from specdec_kernels.tree_laws_triton import tree_race_kernel

        self.launch(tree_race_kernel, (self.programs, self.race_blocks),
            **self._shared(), **self._counters(), **self._state(), keys_ptr=self.keys,
            exponentials_ptr=self.exponentials, plan_ints_ptr=self.plan, score_ptr=self.scores,
            token_ptr=self.winners, num_blocks=self.race_blocks, DRAFT=self.mode, GIVEN=self.is_given, REPLACE=replace,
            # more threads than nodes take four times the registers, and spill on sm_100
            NODES=self.nodes, BLOCK=self.config.race_block, num_warps=2,
        )  # fmt: skip
        self._finish()

    def _finish(self) -> None:
        from specdec_kernels.race_triton import finish_kernel

        self.launch(finish_kernel, (self.programs,),
            self.plan, self.scores, self.winners, self.out.next_token, self.out.emitted, self.batch.num_requests,
            self.batch.slots, self.race_blocks, ROWS=self.config.rows, BLOCKS=power_of_two(self.race_blocks),
            num_warps=1,
        )  # fmt: skip
