"""Drafters by name, for benchmarks: each name gives a factory, since every stream needs a drafter of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specdec_core.drafters import (
    Drafter,
    DynamicTree,
    EagleDrafter,
    EarlyExitDrafter,
    MedusaDrafter,
    ModelDrafter,
    NGramDrafter,
    QuantizedDrafter,
    SuffixDrafter,
)
from specdec_core.models.llama import Llama
from specdec_core.models.pairs import Pair

Factory = Callable[[], Drafter]


@dataclass(frozen=True, slots=True)
class NamedDrafter:
    """A drafter a benchmark can ask for. `needs` says in words what it cannot do without."""

    name: str
    title: str
    needs: str
    build: Callable[[Pair], Factory]


def drafter_names() -> tuple[str, ...]:
    """All names."""
    return tuple(DRAFTERS)


def check_drafter_name(name: str) -> None:
    """ValueError for a name that is none."""
    if name not in DRAFTERS:
        raise ValueError(f"drafter is {name!r}; expected one of {', '.join(DRAFTERS)}")


def drafter_factory(name: str, pair: Pair) -> Factory:
    """Makes drafters of that name for the pair, all over the same weights.

    Raises:
        ValueError: an unknown name, a pair it is not made for, or weights that are missing: it says which.
    """
    check_drafter_name(name)
    entry = DRAFTERS[name]
    try:
        return entry.build(pair)
    except ValueError as error:
        raise ValueError(
            f"drafter {name!r} cannot be used with the pair {pair.name!r} ({entry.needs}): {error}"
        ) from error


def default_drafters(pair: Pair) -> tuple[str, ...]:
    """N-gram lookup, and the best small model there is: for smollm2 the distilled draft where its weights are."""
    if pair.name == "smollm2":
        from specdec_core.models.shipped import SMOLLM2_DRAFT, read_card

        try:
            read_card(SMOLLM2_DRAFT)
            return ("ngram", "distilled")
        except ValueError:
            pass
    return ("ngram",) if pair.draft is None else ("ngram", "model")


def rule_for(drafter: Drafter) -> str:
    """The lossless rule that fits its proposals: chain, or for trees the recursive rule."""
    is_tree = isinstance(drafter, MedusaDrafter) or getattr(drafter, "tree", None) is not None
    return "recursive" if is_tree else "chain"


def _llama(pair: Pair) -> Llama:
    if not isinstance(pair.target, Llama):
        raise ValueError(f"the target is a {type(pair.target).__name__}, not a Llama of the lab's own")
    return pair.target


def _model(pair: Pair) -> Factory:
    model = pair.draft
    if model is None:
        raise ValueError("the pair has no draft model; name one as TARGET,DRAFT")
    return lambda: ModelDrafter(model)


def _distilled(pair: Pair) -> Factory:
    from specdec_core.models.shipped import load_smollm2_draft

    target = _llama(pair)
    model, _ = load_smollm2_draft(target, device=target.device, dtype=target.dtype)
    return lambda: ModelDrafter(model, name="distilled")


def _medusa(pair: Pair) -> Factory:
    from specdec_core.models.shipped import load_medusa_head

    target = _llama(pair)
    heads, vocabulary = load_medusa_head(target)
    return lambda: MedusaDrafter(target, heads, vocabulary)


def _eagle(pair: Pair, tree: DynamicTree | None = None) -> Factory:
    from specdec_core.models.shipped import load_eagle_head

    target = _llama(pair)
    head, vocabulary = load_eagle_head(target)
    name = "eagle" if tree is None else "eagle-tree"
    return lambda: EagleDrafter(target, head, vocabulary, tree, name=name)


def _early_exit(pair: Pair) -> Factory:
    target = _llama(pair)
    layers = max(1, (3 * target.config.layers) // 4)
    return lambda: EarlyExitDrafter(target, layers)


def _int4(pair: Pair) -> Factory:
    model = QuantizedDrafter(_llama(pair)).model
    return lambda: ModelDrafter(model, name="int4")


_SHIPPED = "made for smollm2; its weights come with the package"
DRAFTERS: Mapping[str, NamedDrafter] = {
    entry.name: entry
    for entry in (
        NamedDrafter("ngram", "prompt lookup", "nothing", lambda pair: NGramDrafter),
        NamedDrafter("suffix", "suffix automaton over prompt and output", "nothing", lambda pair: SuffixDrafter),
        NamedDrafter("model", "the pair's draft model", "a pair with a draft model", _model),
        NamedDrafter("distilled", "a small model distilled from the target", _SHIPPED, _distilled),
        NamedDrafter("medusa", "Medusa heads, a tree of their best guesses", _SHIPPED, _medusa),
        NamedDrafter("eagle", "EAGLE head, a sampled chain", _SHIPPED, _eagle),
        NamedDrafter(
            "eagle-tree",
            "EAGLE head, a dynamic tree",
            _SHIPPED,
            lambda pair: _eagle(pair, DynamicTree()),
        ),
        NamedDrafter("early-exit", "the target's lower three quarters", "a Llama of the lab's own", _early_exit),
        NamedDrafter("int4", "the target in 4 bits (its steps cost a target step)", "a Llama of the lab's own", _int4),
    )
}
