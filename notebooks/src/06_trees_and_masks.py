# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Trees and masks: several guesses for one place
#
# Time: about 30 minutes, and an hour and a half more for the tasks. Needs: a CPU. Before it: notebook 02.
#
# After this page you can
#
# * count the nodes and paths of a draft tree, and say what its verify pass costs;
# * build its attention mask and its positions, and show on a real model that the mask is right;
# * judge siblings one after the other without bending the law;
# * predict how many tokens a round a tree gives, and measure it against a chain of the same size.

# %%
MADE_FOR = "0.1.0"
try:
    from specdec_core import __version__
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "SpecDec Lab is not installed for this kernel. In the folder of the repository run 'make setup', then "
        "'make lab', and choose the kernel 'Python 3'."
    ) from error

print(f"SpecDec Lab {__version__}")
if __version__ != MADE_FOR:
    print(f"This page was made for version {MADE_FOR}: run 'git pull' and 'make setup', then reopen it.")

# %%
import os

FAST = os.environ.get("SPECDEC_FAST") == "1"  # smaller sizes, for automatic runs of this page
use = "mine"  # or "reference": later cells then work with the reference solutions

# %% [markdown]
# ## 1. See it: a tree, its mask, its cache rows
#
# A chain stops at its first wrong guess. A tree has other guesses at the same place. All of them are verified in
# **one** pass: every node is a row, and a mask lets it see its own ancestors only. The tree grows from the *pending*
# token: the last token of the text so far, which was emitted and has not been fed to the target yet. It is fed with the
# nodes, as the first row. Here is a real run, round by round: choose a round, then click on a node, or use the arrow
# keys.

# %%
from specdec_core.drafters.tree import TreeDrafter
from specdec_core.engine import Engine
from specdec_core.models import load_pair
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.texts import name_tokens
from specdec_labs.widgets.tree import tree_view

pair = load_pair("tiny")
print(pair.description)
SHAPE = (-1, -1, 0, 0, 1, 2, 2, 3)  # the parent of each node; -1 is the pending token
TOKENS = 24 if FAST else 60
prompt = pair.tokenizer.encode("The old man and the")
engine = Engine(
    pair.target,
    TreeDrafter(pair.draft, SHAPE, "without_replacement"),
    rule="recursive_without_replacement",
    controller=len(SHAPE),
    record_top=16,
)
trace = name_tokens(engine.generate(prompt, SamplingParams(temperature=1.0, seed=1), TOKENS).trace, pair.tokenizer)
tree_view(trace)

# %% [markdown]
# Three views of the same thing. In the *mask*, the chosen row is dark where it may look: the whole cache, the pending
# token, its ancestors, itself. In the *cache rows*, only the accepted path stays after a round: its rows are copied
# behind the committed text unless they are there already, and the rest is dropped by shortening the cache. And the same
# run in the theatre, decision by decision:

# %%
from specdec_labs.widgets.theatre import theatre

theatre(trace)

# %% [markdown]
# ## 2. Derive it
#
# **Counting.** A full tree with $b$ children a node and depth $d$ has $b^d$ leaves, so $b^d$ candidate sequences, and
# $b + b^2 + \dots + b^d$ nodes. The pass pays for *nodes*, each of which is one more row (notebook 01); the paths share
# their beginnings.
#
# **The mask.** Row $i$ may look at column $j$ if $j$ is in the committed prefix, or $j = i$, or $j$ is an ancestor of
# $i$. As an additive mask, 0 there and $-\infty$ elsewhere. Two branches never see each other, so each row gets exactly
# the target's law after *its own* path.
#
# **Positions.** A node stands at the position of its depth, not of its place in the list: siblings share a position.
#
# **Tokens a round.** Let node $n$ be the accepted child of its accepted parent with chance $a_n$. Node $n$ is reached
# with the product of the chances on its path, and each accepted node is one token. So
#
# $$\mathbb{E}[\tau] = 1 + \sum_n \prod_{m \in \mathrm{path}(n)} a_m.$$
#
# A chain is the special case with one path: $1 + \alpha + \alpha^2 + \dots$
#
# **Judging siblings.** At a node the target's law is $p$, and the first child $x$ was drawn from $q$: keep it with
# $\min(1, p(x)/q(x))$. If it is refused, what is still missing has the law $r = \max(p - q, 0)/\beta$ (notebook 02).
# Now forget the first child: we are looking for a token of law $r$, and the *second* child is a draft for it. So judge
# it with $r$ in place of $p$, and so on. If all are refused, draw from what is left.
#
# * Children drawn *independently*: the second was drawn from $q$ as well.
# * Children drawn *without replacement*: the second was drawn from $q$ without the first token, so that is its law.
# * Children that are the draft's favourites, *chosen, not drawn*: each is a proposal with $q = 1$. Accept $x$ with
#   probability $p(x)$; on rejection remove $x$ from $p$ and renormalise. With $p = (1/2, 1/3, 1/6)$ and the children 0
#   and 1: child 0 is accepted with $1/2$; else $p$ becomes $(0, 2/3, 1/3)$ and child 1 is accepted with $2/3$. In all
#   $1/2 + 1/2 \cdot 2/3 = 5/6$, which is $p(0) + p(1)$: the level is passed with the mass of its children.
#
# Each step keeps the law, so the whole level does, whatever $q$ is.
#
# ## 3. Predict it
#
# A chain of seven drafts against a bushy tree of seven nodes: two children of the pending token, two below each of
# them, and one more. Same pair, same number of rows in the pass. Which emits more tokens a round?

# %%
from specdec_labs.widgets.predict import PredictionCard

tree_card = PredictionCard(
    "Tokens a round, a bushy tree of 7 nodes over a chain of 7 drafts (the tiny pair, temperature 1)?",
    ["below 0.95: fewer", "0.95 to 1.05", "1.05 to 1.3", "1.3 and more"],
    [0.95, 1.05, 1.3],
)
tree_card

# %% [markdown]
# ## 4. Build it

# %% task="E07.paths"

# %% check="E07.paths"
from specdec_labs.grade import check, hint, take

check("E07.paths", globals())

# %% task="E07.mask"

# %% check="E07.mask"
check("E07.mask", globals())

# %% task="E07.positions"

# %% check="E07.positions"
check("E07.positions", globals())

# %% [markdown]
# Does your mask do what it should? The real model, one pass over the whole tree with your mask and your positions,
# against one ordinary pass for every path. The last rows must agree.

# %%
import torch

from specdec_core.draft import DraftTree

tree_mask = take("tree_mask", globals(), use=use)
tree_positions = take("tree_positions", globals(), use=use)
parents = (-1, -1, 0, 0, 1, 2)
tree = DraftTree(tuple(pair.tokenizer.encode("house garden was is ran very")[: len(parents)]), parents)
held = len(prompt) - 1  # the last prompt token is the pending one


def fed_after_prefix(tokens, positions=None, mask=None):
    """Logits of rows fed behind the cached prefix, in a cache of their own."""
    cache = pair.target.new_cache(held + len(tokens))
    pair.target.forward(torch.tensor(prompt[:held]), cache=cache, last_only=True)
    return pair.target.forward(torch.tensor(tokens), positions, mask, cache=cache).logits


def worst_difference(positions, mask):
    """The largest difference of a logit between one pass over the tree and one pass for each path."""
    together = fed_after_prefix([prompt[-1], *tree.tokens], positions, mask)
    worst = 0.0
    for node, path in enumerate(tree.paths()):
        alone = fed_after_prefix([prompt[-1], *(tree.tokens[n] for n in path)])
        worst = max(worst, float((alone[-1] - together[node + 1]).abs().max()))
    return worst


positions = torch.as_tensor(tree_positions(parents, held))
mask = torch.as_tensor(tree_mask(parents, held), dtype=torch.bool)
slipped = mask.clone()
slipped[2, held + 1] = True  # row 2 is node 1, column held + 1 is node 0, its sibling
by_list = torch.arange(held, held + len(tree) + 1)
print(f"{len(tree)} nodes in one pass against {len(tree)} passes: logits differ by at most")
print(f"  {worst_difference(positions, mask):.1e}  as it is")
print(f"  {worst_difference(positions, slipped):.1e}  with one wrong entry in the mask: node 1 sees its sibling")
print(f"  {worst_difference(by_list, mask):.1e}  with positions by place in the list")

# %% [markdown]
# As it is, at most last digits: passes of different size may round differently. One wrong entry, or positions by the
# list, changes logits thousands of times as much, and no text shows it. Now the siblings.

# %% task="E07.siblings"

# %% check="E07.siblings"
check("E07.siblings", globals())

# %% [markdown]
# ## 5. Break it
#
# *A duplicate judged twice.* Two lookups propose the same token, and the second copy gets its chance again.

# %% task="E07.duplicates"

# %% check="E07.duplicates"
check("E07.duplicates", globals())

# %% [markdown]
# *Drawn without replacement, judged as if with.* The refused token has left the urn, but the rule still counts it in
# $q$.

# %% task="E07.replacement"

# %% check="E07.replacement"
check("E07.replacement", globals())

# %% [markdown]
# ## 6. Measure it: a tree against a chain
#
# Half of the texts says how often the first, second, ... child of a node is the one that is accepted. From that the
# formula of section 2 predicts the tokens a round on the *other* half. Counts of a few texts scatter: both numbers come
# with the range that 90 % of resampled texts give.

# %%
from collections import Counter
import random

from specdec_core.hardware import measured_on
from specdec_core.speed_formulas import expected_tokens_of_tree
from specdec_core.tree_shapes import sibling_ranks
from specdec_labs.widgets.progress import counting

SHAPES = {
    "chain of 7": (-1, 0, 1, 2, 3, 4, 5),
    "bushy, 7 nodes": (-1, -1, 0, 0, 1, 1, 2),
    "deep with a second guess on top, 7 nodes": (-1, -1, 0, 2, 3, 4, 5),
}
TEXTS, LONG = (8, 24) if FAST else (32, 64)
starts = ["The old man and the", "It was a dark night and", "There is no", "In the beginning of the"]
traces = {}
show, done = counting("texts"), 0
for name, parents in SHAPES.items():
    tree_engine = Engine(
        pair.target,
        TreeDrafter(pair.draft, parents, "without_replacement"),
        rule="recursive_without_replacement",
        controller=7,
    )
    traces[name] = []
    for seed in range(TEXTS):
        text = pair.tokenizer.encode(starts[seed % len(starts)])
        params = SamplingParams(temperature=1.0, seed=seed)
        traces[name].append(tree_engine.generate(text, params, LONG).trace)
        done += 1
        show(done, TEXTS * len(SHAPES))


def chance_by_rank(some_traces):
    """How often the child of that rank is the accepted one, at nodes that were reached and have such a child."""
    reached, accepted = Counter(), Counter()
    for round_ in (round_ for trace in some_traces for round_ in trace.rounds):
        ranks = sibling_ranks(round_.draft_parents)
        for depth, node in enumerate((-1, *round_.path)):
            children = [child for child, parent in enumerate(round_.draft_parents) if parent == node]
            for child in children:
                reached[ranks[child]] += 1
            if depth < len(round_.path):
                accepted[ranks[round_.path[depth]]] += 1
    return {rank: accepted[rank] / reached[rank] for rank in reached}


def measured(some_traces, parents):
    """Tokens a round, of rounds with the whole tree: at the end of a text they draft less."""
    whole = [r for trace in some_traces for r in trace.rounds if len(r.draft_tokens) == len(parents)]
    return sum(len(round_.emitted) for round_ in whole) / len(whole)


def predicted(some_traces, parents):
    """Tokens a round by the formula, from how often each child was the accepted one."""
    chances = chance_by_rank(some_traces)
    return float(expected_tokens_of_tree(parents, [chances.get(rank, 0.0) for rank in sibling_ranks(parents)]))


def with_range(number, *samples):
    """The number of the texts as they are, and the middle 90 % of the numbers of 200 redrawn samples."""
    dice = random.Random(0)
    drawn = sorted(number(*(dice.choices(sample, k=len(sample)) for sample in samples)) for _ in range(200))
    return number(*samples), drawn[10], drawn[-11]


print(f"\n{pair.name}, temperature 1, {TEXTS} texts a shape; {measured_on()}")
CHAIN, BUSHY = "chain of 7", "bushy, 7 nodes"
gain, lowest, highest = with_range(
    lambda bushy, chain: measured(bushy, SHAPES[BUSHY]) / measured(chain, SHAPES[CHAIN]), traces[BUSHY], traces[CHAIN]
)
with tree_card.covered():
    print("shape                                      measured (90 %)         predicted (90 %)")
    for name, parents in SHAPES.items():
        first, second = traces[name][: TEXTS // 2], traces[name][TEXTS // 2 :]
        cells = []
        for number, half in ((measured, second), (predicted, first)):
            value, low, high = with_range(lambda texts, number=number, parents=parents: number(texts, parents), half)
            cells.append(f"{value:.2f} ({low:.2f} to {high:.2f})")
        print(f"{name:42} {cells[0]:23} {cells[1]}")
    print(f"\nbushy tree over chain, all texts: {gain:.2f} ({lowest:.2f} to {highest:.2f})")
tree_card.reveal(gain)

# %% [markdown]
# Read the ranges before the numbers. Where two of them overlap, these texts do not say which shape is better, and a
# range of the gain that holds 1 does not say that the tree gains at all. The formula takes one chance for a child of
# each rank, wherever the node stands and whatever was drafted; it need not be right to the second decimal.
#
# Which shape is best depends on how much likelier the first guess is than the second. *Sequoia* finds the best tree of
# each size for measured chances. Move the slider: where does the next node go?

# %%
from specdec_core.sequoia import sequoia_tree
from specdec_core.tree_shapes import shape_of
from specdec_labs.widgets.tree import frame_of

chances = chance_by_rank([*traces[BUSHY], *traces[CHAIN]])
vector = [chances[rank] for rank in sorted(chances)]
print("accepted as first, second, ... child:", ", ".join(f"{chance:.3f}" for chance in vector))
frames = []
for nodes in range(1, 17):
    best = shape_of(sequoia_tree(vector, nodes, 6))
    tokens = expected_tokens_of_tree(best.parents, [vector[rank] for rank in sibling_ranks(best.parents)])
    frames.append(
        frame_of(best, name=lambda _: "", label=f"best tree of up to {nodes}: {float(tokens):.2f} tokens a round")
    )
budgets = tree_view(frames)
budgets.frame = 6
budgets

# %% [markdown]
# ## Pitfalls
#
# * *A tree is not free.* Its pass has as many rows as nodes. On a device past its ridge, or a CPU with a ridge of a few
#   tokens, a long chain or no draft at all wins.
# * *"Tree with 8 candidates accepts 3.5 tokens."* For which chances? The formula tells whether the claim is possible.
# * *A mask with the tree's own order of positions.* Positions go by depth. One slip makes logits wrong (section 4),
#   which no text shows: compare with separate passes, as there.
# * *Duplicate siblings merged into one.* Then the number of draws is no longer what the rule assumes.
# * *An additive mask with a row of $-\infty$.* A padded row without any visible column gives NaN; a boolean mask and a
#   guard give zeros.
# * *Cache rows of refused branches.* They must not be visible to the next round: keep the accepted rows, free the rest.
#
# ## Sources
#
# * X. Miao et al., *SpecInfer*, arXiv 2305.09781, section 4; Z. Sun et al., *SpecTr*, arXiv 2310.15141
# * W. Jeon et al., *Recursive Speculative Decoding*, arXiv 2402.14160 (without replacement)
# * Z. Chen et al., *Sequoia*, arXiv 2402.12374; Y. Li et al., *EAGLE-2*, arXiv 2406.16858 (trees that follow
#   confidence)
#
# ## What next
#
# Notebook 12 looks inside the kernels that verify such trees.
