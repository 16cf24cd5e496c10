"""Which kernels are compiled ahead of time, and in which configurations: those that the wrappers launch on a GPU."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

# Triton's type of each argument, by its name; the same name means the same thing in every kernel
_TYPES = {
    "target_ptr": "scores", "draft_ptr": "scores", "draft_tokens_ptr": "*i64", "cu_num_draft_ptr": "*i64",
    "temperature_ptr": "*fp32", "target_max_ptr": "*fp32", "target_sum_ptr": "*fp32", "target_arg_ptr": "*i32",
    "draft_max_ptr": "*fp32", "draft_sum_ptr": "*fp32", "target_at_token_ptr": "*fp32",
    "draft_at_token_ptr": "*fp32", "keys_ptr": "*i64", "uniforms_ptr": "*fp32", "exponentials_ptr": "*fp32",
    "plan_ints_ptr": "*i32", "plan_floats_ptr": "*fp32", "num_accepted_ptr": "*i64", "is_bonus_ptr": "*i1",
    "next_token_ptr": "*i64", "emitted_ptr": "*i64", "score_ptr": "*fp32", "token_ptr": "*i32",
    "entries_ptr": "*fp32", "mass_ptr": "*fp32",
    "parents_ptr": "*i64", "ints_ptr": "*i32", "floats_ptr": "*fp32", "draft_floats_ptr": "*fp32",
    "frozen_ptr": "*fp32", "rows_ptr": "*fp32", "max_ptr": "*fp32", "path_ptr": "*i64",
    "law_ptr": "*fp32", "draft_law_ptr": "*fp32",
    "pool_ptr": "scores", "q_ptr": "scores", "k_ptr": "scores", "v_ptr": "scores", "out_ptr": "scores",
    "table_ptr": "*i32", "starts_ptr": "*i64", "prefix_ptr": "*i32", "mask_ptr": "*i32", "sum_ptr": "*fp32",
    "values_ptr": "*fp32", "scale": "fp32",
    "words_ptr": "*u32", "seed_lo": "u32", "seed_hi": "u32", "length": "u32", "request": "u32", "slot": "u32",
}  # fmt: skip
_NOT_COUNTED = {"target_reads_ptr": None, "draft_reads_ptr": None, "COUNT_READS": 0}
_NOT_GIVEN = {**_NOT_COUNTED, "GIVEN": False}
# multiples of 16 for every vocabulary, head and cache in use: 32,000, 49,152, 128,256 and 151,936 tokens
ALIGNED = ("target_stride", "draft_stride", "vocab", "kv_stride", "head_stride", "layer_stride", "width")
# what `tree_attention.warps_for` takes there
BLACKWELL = (("sm_100", 4),)
DRAFTS = {"none": 0, "logits": 1, "probs": 2}


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel with the constants of one configuration.

    Attributes:
        module: where it lives in `specdec_kernels`.
        kernel: its name there.
        config: the configuration in words, for the table.
        constants: its constexpr arguments.
        scores: Triton's type of the logits.
        num_warps: warps a program.
        num_stages: loads in flight of a loop that multiplies.
        warps_on: targets on which the wrapper takes another number of warps.
    """

    module: str
    kernel: str
    config: str
    constants: dict[str, Any] = field(hash=False)
    scores: str = "*bf16"
    num_warps: int = 4
    num_stages: int = 3
    warps_on: tuple[tuple[str, int], ...] = ()

    def warps(self, target: str) -> int:
        """Warps a program on that target."""
        return dict(self.warps_on).get(target, self.num_warps)

    def load(self) -> Any:
        """The kernel; decorated on import, so TRITON_INTERPRET has to be unset."""
        return getattr(import_module(f"specdec_kernels.{self.module}"), self.kernel)

    def signature(self, names: list[str]) -> dict[str, str]:
        """Triton's type of each argument in `names`; whatever is not listed is a 32-bit number."""
        types = {name: _TYPES.get(name, "i32") for name in names}
        types = {name: self.scores if kind == "scores" else kind for name, kind in types.items()}
        return types | dict.fromkeys(self.constants, "constexpr")


def cases() -> Iterator[Case]:
    """Every case, cheapest kernels first."""
    yield Case("philox_triton", "noise_words_kernel", "BLOCK 256", {"BLOCK": 256})
    yield from _two_level()
    yield from _decisions()
    yield from _block()
    yield from _tree()
    yield from _cache()
    yield from _early()


def _two_level() -> Iterator[Case]:
    for scores in ("*bf16", "*fp32"):
        for name, draft in DRAFTS.items():
            yield Case(
                "row_stats_triton", "local_stats_kernel", f"draft {name}, {scores[1:]}, BLOCK 4096",
                {**_NOT_COUNTED, "DRAFT": draft, "ROWS": 1, "SLOTS": 16, "BLOCK": 4096}, scores, 8,
            )  # fmt: skip
            yield Case(
                "race_triton", "race_kernel", f"draft {name}, {scores[1:]}, BLOCK 1024",
                {**_NOT_GIVEN, "DRAFT": draft, "ROWS": 1, "BLOCK": 1024}, scores,
            )  # fmt: skip
    for blocks in (256, 512):
        constants = {"ROWS": 1, "BLOCKS": blocks}
        yield Case("race_triton", "finish_kernel", f"{blocks} blocks", constants, num_warps=1)


def _decisions() -> Iterator[Case]:
    for slots, warps in ((8, 2), (16, 4)):
        for name, draft in DRAFTS.items():
            constants = {
                "DRAFT": draft, "GIVEN": False, "draft_reads_ptr": None, "COUNT_READS": 0, "ROWS": 1,
                "SLOTS": slots, "BLOCKS": 64,
            }  # fmt: skip
            config = f"draft {name}, {slots} slots, 64 blocks"
            yield Case("verify_chain_triton", "decide_chain_kernel", config, constants, num_warps=warps)
            yield Case("verify_block_triton", "block_weights_kernel", config, constants, num_warps=warps)


def _block() -> Iterator[Case]:
    for name, draft in DRAFTS.items():
        constants = {"DRAFT": draft, "ROWS": 1, "SLOTS": 16, "BLOCKS": 64}
        config = f"draft {name}, 16 slots, 64 blocks"
        yield Case("verify_block_triton", "decide_block_kernel", config, constants, num_warps=4)
        if draft != 0:
            constants = {**_NOT_COUNTED, "DRAFT": draft, "ROWS": 1, "BLOCK": 4096}
            yield Case("verify_block_triton", "block_mass_kernel", f"draft {name}, BLOCK 4096", constants, num_warps=8)


def _tree() -> Iterator[Case]:
    laws, walks, levels = "tree_laws_triton", "tree_walk_triton", "tree_target_only_triton"
    for name, draft in DRAFTS.items():
        shape = {**_NOT_COUNTED, "DRAFT": draft, "ROWS": 1, "NODES": 64}
        yield Case(
            laws, "tree_stats_kernel", f"draft {name}, 64 nodes, BLOCK 4096", {**shape, "BLOCK": 4096}, num_warps=8
        )
        for replace, drawn in ((0, "with"), (1, "without")):
            if draft == 0 and replace == 1:
                continue
            config, law = f"draft {name}, {drawn} replacement, 64 nodes", {**shape, "REPLACE": replace}
            if draft != 0:
                yield Case(laws, "tree_pass_kernel", f"{config}, BLOCK 4096", {**law, "BLOCK": 4096}, num_warps=8)
            race = {**law, "GIVEN": False, "BLOCK": 512}
            yield Case(laws, "tree_race_kernel", f"{config}, BLOCK 512", race, num_warps=2)
            walk = {**law, "GIVEN": False, "FIRST": False, "BLOCKS": 64}
            yield Case(walks, "walk_recursive_kernel", f"{config}, 64 blocks", walk, num_warps=2)
            yield Case("tree_traversal_triton", "walk_traversal_kernel", f"{config}, 64 blocks", walk, num_warps=2)
    yield Case("tree_traversal_triton", "tree_outcome_kernel", "64 nodes", {"ROWS": 1, "NODES": 64}, num_warps=1)
    race = {"target_reads_ptr": None, "COUNT_READS": 0, "FIRST": False, "ROWS": 1, "BLOCK": 512}
    yield Case(levels, "level_race_kernel", "BLOCK 512", race)
    step = {"FIRST": False, "ROWS": 1, "NODES": 64, "BLOCKS": 512}
    yield Case(levels, "level_step_kernel", "64 nodes, 512 blocks", step, num_warps=1)


def _cache() -> Iterator[Case]:
    yield Case("kv_compact_triton", "kv_compact_v1_kernel", "page 16", {"PAGE": 16, "BLOCK": 1024}, "*bf16")
    compact = {"PAGE": 16, "DEPTH": 8, "BLOCK": 512}
    yield Case("kv_compact_triton", "kv_compact_v2_kernel", "page 16, depth 8, BLOCK 512", compact, "*bf16")
    for scores in ("*bf16", "*fp16"):
        for dim in (64, 96, 128):
            shape = {"HEAD_DIM": dim, "DIM": 64 if dim == 64 else 128}
            split, warps = {**shape, "M": 64, "PAGE": 16, "WIDE": False, "N": 32, "COLUMNS": 512}, 4 if dim == 64 else 8
            config = f"{scores[1:]}, head dim {dim}, page 16"
            yield Case(
                "tree_attention_triton", "tree_attention_split_kernel", config, split, scores, warps, 2, BLACKWELL
            )
            yield Case(
                "tree_attention_triton", "combine_kernel", f"{scores[1:]}, head dim {dim}", {**shape, "M": 16}, scores
            )
    whole = {"HEAD_DIM": 128, "DIM": 128, "M": 64, "PAGE": 16, "WIDE": False, "N": 32}
    config, kernel = "bf16, head dim 128, page 16", "tree_attention_v1_kernel"
    yield Case("tree_attention_triton", kernel, config, whole, "*bf16", 8, 2, BLACKWELL)


def _early() -> Iterator[Case]:
    walk = {"DRAFT": 1, "GIVEN": False}
    yield Case(
        "verify_chain_early_triton", "verify_chain_v1_kernel", "draft logits, BLOCK 1024", {**walk, "BLOCK": 1024}
    )
    yield Case(
        "verify_chain_early_triton", "decide_chain_v2_kernel", "draft logits, 64 blocks", {**walk, "BLOCKS": 64},
        num_warps=1,
    )  # fmt: skip
    yield Case(
        "verify_block_early_triton", "verify_block_v1_kernel", "draft logits, BLOCK 1024", {**walk, "BLOCK": 1024}
    )
    tree = {**walk, "REPLACE": 1, "NODES": 64, "BLOCK": 512}
    config, level = "draft logits, without replacement, 64 nodes, BLOCK 512", {"NODES": 64, "BLOCK": 512}
    early = "verify_tree_early_triton"
    yield Case(early, "verify_tree_recursive_v1_kernel", config, tree, num_warps=8)
    yield Case(early, "verify_tree_traversal_v1_kernel", config, tree, num_warps=8)
    yield Case(early, "verify_tree_target_only_v1_kernel", "64 nodes, BLOCK 512", level, num_warps=8)
