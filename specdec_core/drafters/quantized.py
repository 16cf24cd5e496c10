"""The target with fewer bits a weight as its own draft."""

from specdec_core.drafters.model import ModelDrafter
from specdec_core.models.llama import Llama
from specdec_core.models.quantize import bits_per_weight, default_group, quantized


class QuantizedDrafter(ModelDrafter):
    """Drafts by the target's weights, rounded to `bits` (8, 4, 3, ...) in groups: nearly the same law, fewer bytes.

    The point here is acceptance. The rounded weights are multiplied as floats, so a draft step costs what a target
    step costs and nothing gets faster; a kernel that reads packed integers (torch on a CPU, torchao on CUDA, llama.cpp)
    would read `bits_per_weight` / 16 of what a bfloat16 target reads. Sampled drafts, as those of `ModelDrafter`;
    deterministic at temperature 0 alone.

    Source: round-to-nearest, the baseline of Frantar et al. 2210.17323; as a draft: QSpec, 2410.11305.
    """

    def __init__(
        self,
        target: Llama,
        bits: int = 4,
        *,
        group: int | None = None,
        head: bool = False,
        temperature: float | None = None,
        coupled: bool = False,
    ) -> None:
        """`group` None takes the largest up to 64 that divides the rows of every matrix.

        Raises ValueError as `quantized`, or for a model that is no `Llama` of ours.
        """
        if not isinstance(target, Llama):
            raise ValueError(f"target is a {type(target).__name__}; expected a Llama, whose weights can be rounded")
        group = default_group(target, head=head) if group is None else group
        super().__init__(
            quantized(target, bits, group, head=head), temperature=temperature, coupled=coupled, name=f"int{bits}"
        )
        self.bits_per_weight = bits_per_weight(bits, group)
