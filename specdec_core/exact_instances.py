"""The instances every rule is proved on: over 500 random pairs of exact laws, on chains and trees.

The proofs run every lossless rule on every instance it may judge (`Instance.suits`), so a new rule is proved as soon
as it is in `RULES`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from specdec_core.draft import Proposal
from specdec_core.exact_drafts import (
    ExactDraft,
    NextLaw,
    Prefix,
    deterministic_draft,
    deterministic_tree,
    sampled_draft,
    tree_draft,
)
from specdec_core.random_laws import (
    Children,
    disjoint_laws,
    one_hot_law,
    random_children,
    random_law,
    sparse_law,
)
from specdec_core.rules import Rule
from specdec_core.tree_shapes import Parents, chain_shape, depth_first, ordered_shapes, shape_of

ONE_LEVEL = ("kseq",)
"""Rules that judge the children of the pending token and nothing below."""

# 6 and 7 nodes: wide, deep, bushy on the left, bushy on the right, a fork at the end
LARGE: tuple[Parents, ...] = (
    (-1, -1, -1, 0, 0, 1),
    (-1, -1, 0, 0, 1, 1),
    (-1, 0, 0, 1, 1, 2),
    (-1, -1, 0, 2, 2, 3),
    (-1, 0, 1, 1, 2, 3),
    (-1, -1, -1, 0, 1, 2),
    (-1, -1, 0, 0, 0, 1, 1),
    (-1, -1, -1, 0, 0, 1, 2),
    (-1, -1, 0, 1, 2, 2, 3),
    (-1, 0, 0, 1, 1, 2, 2),
    (-1, -1, 1, 1, 2, 3, 3),
    (-1, 0, 0, 1, 2, 3, 4),
)


@dataclass(frozen=True, slots=True)
class Instance:
    """A target, a way to draft for it, and how far to look.

    Attributes:
        category: the kind, one of the keys of `exact_instances`.
        name: what a failure is reported under.
        vocab: number of tokens.
        target: the target's law after a text.
        draft: the draft's law after a text (not read when `proposal` is "deterministic").
        children: the ordered children of a text, for a "deterministic" proposal.
        parents: the shape that is drafted.
        proposal: "chain", "iid", "without_replacement" or "deterministic".
        prefix: the text before the first round.
        horizon: tokens to compare, at least depth + 1.
        greedy: whether every target law is one-hot.
    """

    category: str
    name: str
    vocab: int
    target: NextLaw
    draft: NextLaw
    children: Children
    parents: Parents
    proposal: Proposal
    prefix: Prefix
    horizon: int
    greedy: bool = False

    @property
    def depth(self) -> int:
        """Drafted tokens on the longest path."""
        return max(shape_of(self.parents).depths)

    @property
    def is_chain(self) -> bool:
        """Whether each node continues the node before it."""
        return shape_of(self.parents).is_chain

    def suits(self, rule: Rule) -> bool:
        """Whether `rule` may judge these drafts."""
        return (
            self.proposal in rule.proposals
            and (rule.takes_tree or self.is_chain)
            and (self.greedy or not rule.greedy_only)
            and (self.depth == 1 or rule.name not in ONE_LEVEL)
        )

    def drafter(self, rule: Rule) -> ExactDraft:
        """The drafter, in the form `rule` takes: a chain of tokens or a tree."""
        nodes = len(self.parents)
        if self.proposal == "deterministic":
            if rule.takes_tree:
                return deterministic_tree(self.children, self.parents)
            return deterministic_draft(lambda text: self.children(text)[0], nodes)
        if not rule.takes_tree:
            return sampled_draft(self.draft, nodes)
        return tree_draft(self.draft, self.parents, "iid" if self.proposal == "chain" else self.proposal)


def exact_instances() -> dict[str, list[Instance]]:
    """The instances by category; the same in every run."""
    return {
        "chain": list(_chains("chain", "chain", 16)),
        "deterministic chain": list(_chains("deterministic chain", "deterministic", 4)),
        "temperature 0": list(_temperature_zero()),
        "one level": list(_one_level()),
        "iid tree": list(_trees("iid")),
        "tree without replacement": list(_trees("without_replacement")),
        "deterministic tree": list(_trees("deterministic")),
        "duplicate siblings": list(_edges("duplicate siblings")),
        "one-hot q": list(_edges("one-hot q")),
        "zeros": list(_edges("zeros")),
        "disjoint supports": list(_edges("disjoint supports")),
        "p = q": list(_edges("p = q")),
        "6 and 7 nodes": list(_large()),
    }


def _instance(category: str, number: int, vocab: int, parents: Parents, proposal: Proposal, horizon: int) -> Instance:
    name = f"{category} {number}: V = {vocab}, parents {parents}, {proposal}"
    target, draft = random_law(f"p {name}", vocab), random_law(f"q {name}", vocab)
    if category == "temperature 0":
        target = one_hot_law(name, vocab)
    elif category == "one-hot q":
        draft = one_hot_law(name, vocab)
    elif category == "duplicate siblings":
        target = random_law(f"p {name}", vocab, zeros=False)
        # nearly every iid pair of siblings is a pair of equals
        draft = sparse_law(name, vocab)
    elif category == "zeros":
        target, draft = sparse_law(f"p {name}", vocab), sparse_law(f"q {name}", vocab)
    elif category == "disjoint supports":
        target, draft = disjoint_laws(name, vocab)
    elif category == "p = q":
        draft = target
    children = random_children(name, vocab, duplicates=category == "duplicate siblings")
    prefix = (number % vocab,) * (number % 3)
    greedy = category == "temperature 0"
    return Instance(category, name, vocab, target, draft, children, parents, proposal, prefix, horizon, greedy)


def _chains(category: str, proposal: Proposal, each: int) -> Iterator[Instance]:
    for number, (vocab, gamma, _) in enumerate(product((2, 3, 4), (1, 2, 3), range(each))):
        # past gamma + 1, so that a second round follows a full acceptance, and at most 729 texts
        horizon = {2: gamma + 4, 3: min(gamma + 3, 6), 4: 4}[vocab]
        yield _instance(category, number, vocab, chain_shape(gamma), proposal, horizon)


def _temperature_zero() -> Iterator[Instance]:
    kinds: tuple[Proposal, ...] = ("chain", "deterministic")
    for number, (vocab, gamma, proposal) in enumerate(product((2, 3, 4), (1, 2, 3), kinds)):
        yield _instance("temperature 0", number, vocab, chain_shape(gamma), proposal, 2 * gamma + 2)


def _one_level() -> Iterator[Instance]:
    kinds: tuple[Proposal, ...] = ("iid", "without_replacement")
    sizes = [(vocab, siblings) for vocab in (2, 3, 4) for siblings in (1, 2, 3, 4) if vocab * siblings < 16]
    for number, ((vocab, siblings), proposal, _) in enumerate(product(sizes, kinds, range(2))):
        yield _instance("one level", number, vocab, (-1,) * siblings, proposal, 3)


def _trees(proposal: Proposal) -> Iterator[Instance]:
    """Every ordered shape of up to 5 nodes, numbered by level and by branch in turn, those of 2..4 nodes twice."""
    category = {"iid": "iid tree", "without_replacement": "tree without replacement"}.get(proposal, f"{proposal} tree")
    shapes = [parents for nodes in (2, 3, 4, 2, 3, 4, 5) for parents in ordered_shapes(nodes)]
    for number, parents in enumerate(shapes):
        depth = max(shape_of(parents).depths)
        horizon = depth + 2 if depth <= 2 and len(parents) < 5 else depth + 1
        yield _instance(category, number, 3, depth_first(parents) if number % 2 else parents, proposal, horizon)


def _edges(category: str) -> Iterator[Instance]:
    """A degenerate pair of laws, three times over, on chains of 1..3 drafts and on trees of 2..5 nodes."""
    trees: tuple[Parents, ...] = ((-1, -1), (-1, -1, -1), (-1, 0, 0), (-1, -1, 0, 0), (-1, 0, 0, 1, 2))
    kinds: tuple[Proposal, ...] = ("iid", "without_replacement", "deterministic")
    places: list[tuple[int, Parents, Proposal]] = []
    if category == "duplicate siblings":
        kinds = ("iid", "deterministic")
    else:
        places.extend((vocab, chain_shape(gamma), "chain") for vocab in (2, 3, 4) for gamma in (1, 2, 3))
    places.extend((3, parents, proposal) for parents in trees for proposal in kinds for _ in range(3))
    for number, (vocab, parents, proposal) in enumerate(places):
        depth = max(shape_of(parents).depths)
        yield _instance(category, number, vocab, parents, proposal, depth + (2 if depth < 3 else 1))


def _large() -> Iterator[Instance]:
    """Every shape of `LARGE` with its nodes numbered by level and by branch."""
    kinds: tuple[Proposal, ...] = ("iid", "without_replacement", "deterministic")
    shapes = [numbered for parents in LARGE for numbered in (parents, depth_first(parents))]
    for number, (parents, proposal) in enumerate(product(shapes, kinds)):
        yield _instance("6 and 7 nodes", number, 3, parents, proposal, max(shape_of(parents).depths) + 1)
