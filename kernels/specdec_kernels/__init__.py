"""Triton kernels, each beside its plain reference.

Importing this package changes nothing and needs no Triton: `register()` hands the operators to `specdec_core.ops`.
Always import `specdec_kernels`; the folder it lies in is not a package.
"""

from specdec_core import __version__

__all__ = ["__version__", "register"]


def register() -> tuple[str, ...]:
    """Names of the operators that `specdec_core.ops` knows after this call: all that this package has.

    Each picks Triton or its plain reference by the device it is called for.
    """
    from specdec_core import ops
    from specdec_kernels.attention_pass import attention_pass
    from specdec_kernels.kv_compact import kv_compact
    from specdec_kernels.philox import noise_words
    from specdec_kernels.tree_attention import tree_attention
    from specdec_kernels.verify_block import verify_block
    from specdec_kernels.verify_chain import verify_chain
    from specdec_kernels.verify_tree import verify_tree

    operators = {
        "noise_words": noise_words,
        "verify_chain": verify_chain,
        "verify_block": verify_block,
        "verify_tree": verify_tree,
        "tree_attention": tree_attention,
        "attention_pass": attention_pass,
        "kv_compact": kv_compact,
    }
    for name, operator in operators.items():
        ops.register(name, operator)
    return tuple(operators)
