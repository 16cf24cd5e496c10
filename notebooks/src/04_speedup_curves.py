# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Speed-up curves: on paper, and measured
#
# Time: about 35 minutes, and 45 more for the tasks. Needs: a CPU. Before it: notebooks 00 and 01.
#
# After this page you can
#
# * derive the expected number of tokens a round, the speed-up, the best window and the break-even;
# * predict the speed-up of a real drafter on your machine and measure it;
# * say which acceptance rate the formula wants, and what the wrong one costs;
# * check a published table of speed-ups against its own numbers.

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
# ## 1. See it: the map
#
# Three numbers decide on paper: $\alpha$, the chance that a draft that is judged is kept; $\gamma$, how many are
# drafted a round; $c$, the cost of a draft step in steps of the target. Before you look at the map, a prediction:
# $\alpha = 0.9$ and a draft 20 times faster than the target. Which window is best?

# %%
from specdec_labs.widgets.predict import PredictionCard

window_card = PredictionCard(
    "alpha = 0.9, c = 1/20: the best number of drafts a round?",
    ["up to 5", "6 to 9", "10 to 15", "16 and more"],
    [6, 10, 16],
)
window_card

# %% [markdown]
# Now the map. Drag the three numbers, click on the map, or move with the
# arrow keys. Then set *costs from* to *roofline of two models* and raise the batch. The squares are quoted from a table
# that section 6 takes apart.

# %%
from specdec_labs.widgets.speedup import speedup_explorer

speedup_explorer(alpha=0.8, gamma=5, c=0.05)

# %% [markdown]
# ## 2. Derive it
#
# **Tokens a round.** Notebook 02 had a chance for each place, $\sum_x \min(p, q)$ after the text so far. Here one
# constant stands for all of them: let each judged draft be kept with probability $\alpha$, independently. Draft $i$ is
# kept if all the drafts up to it are, so with probability $\alpha^i$. The number of kept drafts is a sum of these
# events, and its mean is
#
# $$\mathbb{E}[\text{accepted}] = \alpha + \alpha^2 + \dots + \alpha^\gamma
# = \frac{\alpha (1 - \alpha^\gamma)}{1 - \alpha}.$$
#
# Every round emits one more token: the recovered one after a refusal, the bonus otherwise. So
#
# $$\mathbb{E}[\tau] = 1 + \alpha + \dots + \alpha^\gamma = \frac{1 - \alpha^{\gamma + 1}}{1 - \alpha}.$$
#
# With $\alpha = 1/2$ that is below 2 whatever $\gamma$ is: drafts far ahead are hardly ever reached.
#
# **Speed-up.** A round takes $\gamma$ draft steps and one verify pass. In steps of the target, if the pass costs one:
# $\gamma c + 1$. Plain decoding makes one token a step, so
#
# $$S = \frac{1 - \alpha^{\gamma + 1}}{(1 - \alpha)(\gamma c + 1)}.$$
#
# For example $\alpha = 0.8$, $\gamma = 5$, $c = 0.05$: $3.689 / 1.25 = 2.951$.
#
# **Break-even.** $S = 1$ when $1 + \alpha + \dots + \alpha^\gamma = \gamma c + 1$. The left side rises from 1 to
# $\gamma + 1$ as $\alpha$ goes from 0 to 1, so there is exactly one such $\alpha$ if $0 < c < 1$: below it speculation
# is *slower*. For $\gamma = 1$ it is $\alpha = c$.
#
# **The best window.** One more draft adds $\alpha^{\gamma + 1}$ tokens and costs $c$. While
# $\alpha^{\gamma + 1} / c$ exceeds the current speed-up the ratio improves; after that it only falls. So there is one
# best $\gamma$, and it grows with $\alpha$.
#
# **What the formula leaves out.** Acceptance is not independent and not the same at every place, the verify pass over
# $\gamma + 1$ rows costs more than a step (notebook 01), and the program around the models takes time. Measured costs
# and measured survival, in place of $c$ and $\alpha$, give
#
# $$S = \frac{\mathbb{E}[\text{tokens}] \; T(1)}{T_{\text{draft}} + T(\gamma + 1) + T_{\text{host}}}.$$
#
# ## 3. Build it

# %% task="E05.expected"

# %% check="E05.expected"
from specdec_labs.grade import check, hint, take

check("E05.expected", globals())

# %% task="E05.best_gamma"

# %% check="E05.best_gamma"
check("E05.best_gamma", globals())

# %%
best_window = take("best_window", globals(), use=use)
window_card.reveal(best_window(0.9, 0.05, 64))


def gain(alpha, gamma, c):
    """The speed-up of the formula."""
    return sum(alpha**kept for kept in range(gamma + 1)) / (gamma * c + 1)


with window_card.covered():
    print("alpha   c = 0.05: best window, speed-up   c = 0.2: best window, speed-up   c = 0.2, 8 drafts")
    for alpha in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        cheap, dear = best_window(alpha, 0.05, 64), best_window(alpha, 0.2, 64)
        print(f"{alpha:5} {cheap:22} {gain(alpha, cheap, 0.05):10.2f} {dear:21} {gain(alpha, dear, 0.2):10.2f}", end="")
        print(f"{gain(alpha, 8, 0.2):20.2f}")

# %% task="E05.break_even"

# %% check="E05.break_even"
check("E05.break_even", globals())

# %%
break_even_alpha = take("break_even_alpha", globals(), use=use)
for gamma in (1, 3, 5, 10):
    print(f"gamma {gamma:2}: breaks even at alpha {break_even_alpha(gamma, 0.2):.4f} (c = 0.2)")

# %% [markdown]
# ## 4. Predict and measure: a real drafter
#
# Prompt lookup on a real pair of models, several windows, plain decoding in turn with them. Half of the prompts gives
# the survival and the prices, the *other* half is predicted from it, and the other way round: nothing is predicted from
# the rounds it is compared with.

# %%
from specdec_core.models import find_smollm2, load_pair

pair = load_pair("smollm2" if find_smollm2() is not None else "tiny")
print(pair.description)
gain_card = PredictionCard(
    f"Prompt lookup with 4 drafts a round, greedy, on this machine ({pair.name}): speed-up over plain decoding?",
    ["below 1: slower", "1 to 1.2", "1.2 to 1.6", "1.6 and more"],
    [1.0, 1.2, 1.6],
)
gain_card

# %%
from specdec_core.cost_curve import CostCurve
from specdec_labs.bench.drafters import drafter_factory
from specdec_labs.bench.grid import MIXED, Cell, Grid, pair_prompts, run_grid
from specdec_labs.widgets.progress import counting

GAMMAS = (2, 4) if FAST else (1, 2, 4, 8)
cell = Cell(MIXED, 0.0)
grid = Grid(
    drafters=("ngram",),
    gammas=GAMMAS,
    cells=(cell,),
    tokens=12 if FAST else 24,
    prompts=4 if FAST else 12,
    seconds=60.0 if FAST else 400.0,  # more than is needed: a slow machine gives an answer too, from fewer prompts
)
lengths = [len(ids) for ids in pair_prompts(pair, cell.task, grid.tokens)[: grid.prompts]]
curve = CostCurve.measure(
    pair.target,
    sorted({1, 2, *(gamma + 1 for gamma in GAMMAS)}),
    sorted({min(lengths), max(lengths) + grid.tokens}),
    repeats=3 if FAST else 7,
    name=pair.name,
    progress=counting("cost curve: timed passes"),
)

# %%
runs = []
show = counting("prompts")
factories = {"ngram": drafter_factory("ngram", pair)}
run_grid(grid, pair, factories, lambda cell, place, left: show(place + 1, grid.prompts), runs)
print(f"\n{len(runs)} of {grid.prompts} prompts, each with every window and plain decoding")
if len(runs) < grid.prompts:
    print("The time was up before the others: the intervals below are wider for it.")

# %%
from specdec_core.hardware import measured_on
from specdec_labs.cli.bench_speedup import make_report
from specdec_labs.impossible import REFUSED, needed

report = make_report(pair, grid, curve, runs, {})
four = next(report.judged(row) for row in report.rows if row.arm.gamma == 4)
gain_card.reveal(four.possible, four.problem)
print(measured_on())
print(f"{pair.name}, greedy, {grid.tokens} tokens a text; in brackets 90 % of resampled prompts, of {len(runs)}")
with gain_card.covered():
    print("gamma  alpha  tokens/round  measured 90 % over prompts   predicted (halves)  formula")
    for row in report.rows:
        judged = report.judged(row)
        predicted = " ".join(each.shown for each in report.predictions(row))
        alpha = "  -  " if row.alpha is None else f"{row.alpha:.3f}"
        formula = REFUSED if judged.baseline else f"{row.formula:.2f}"
        print(
            f"{row.arm.gamma:5}  {alpha} {row.tokens_per_round:10.2f} {judged.shown:>12} {judged.interval:16} "
            f"{predicted:>14} {formula:>9}"
        )
for finding in report.findings:
    print(f"REFUSED {finding}")
print()
print(report.last_line)

# %% [markdown]
# The *formula* alone assumes that every round drafts $\gamma$ tokens. Prompt lookup often finds nothing to propose, and
# then a round is a plain step: the prediction counts those rounds, the formula does not know them.
#
# How many tokens a round must emit to break even, by window, and what it emitted:

# %%
for row in report.break_even:
    must = needed(row.needed, report.curve)  # or why it cannot be that few
    if must == REFUSED:
        print(f"gamma {row.arm.gamma}: {REFUSED}, emitted {row.highest:.2f}")
        continue
    verdict = "gains" if row.highest > row.needed else "loses"
    print(
        f"gamma {row.arm.gamma}: needs {must} (drafting {row.draft:.2f}, verifying {row.verify:.2f}, rest "
        f"{row.host:.2f}), emitted {row.highest:.2f}: {verdict}"
    )

# %% [markdown]
# Your points on the map, whose costs are now the ones you measured; the table under it compares. Set "costs from" to
# one ratio with c = 0, and see what the costs on paper promise.

# %%
from specdec_labs.widgets.speedup import SEED_POINTS, measured_points

mine = report.to_dict()
explorer = speedup_explorer([*SEED_POINTS, *measured_points(mine)], costs=mine, alpha=0.5, gamma=4, c=0.0)
explorer

# %% [markdown]
# For a longer measurement with several drafters, tasks and temperatures: `specdec bench speedup --json FILE`, and
# `measured_points(json.load(open(FILE)))` puts its rows here.
#
# ## 5. Break it: the wrong acceptance rate
#
# Engines report accepted / *drafted*. The formula wants accepted / *tested*: a draft behind a refusal was never judged,
# and counting it as a failure makes the draft look worse than it is. What does the mix-up cost in the prediction?
# Change `GAMMA`, and find a window for which the two agree.

# %%
from specdec_core.metrics import summarize
from specdec_core.speed_formulas import expected_tokens

GAMMA = max(GAMMAS)
traces = [entry.trace for run in runs for entry in run.runs if entry.arm.gamma == GAMMA]
found = summarize(traces)
print(f"gamma {GAMMA}: drafted {found.drafted}, tested {found.tested}, accepted {found.accepted}")
full = [round_ for trace in traces for round_ in trace.rounds if len(round_.draft_tokens) == GAMMA]
measured = sum(len(round_.emitted) for round_ in full) / max(1, len(full))
print(f"tokens in rounds that drafted all {GAMMA}: {measured:.2f} measured")
for name, alpha in (("accepted / tested", found.alpha), ("accepted / drafted", found.acceptance_rate)):
    if alpha is not None:
        print(f"  {name:18} {alpha:.3f} predicts {float(expected_tokens(alpha, GAMMA)):.2f}")

# %% [markdown]
# ## 6. The audit of a table
#
# The documents this lab grew out of have a table of a 70B model on H100s. Here is each row as printed, beside what its
# own $\alpha$, $\gamma$ and traffic give on one and on eight devices (modelled: reading the weights, nothing else).

# %%
from specdec_labs.seeds.audit import audit_rows, h100_rows, summary

print("printed, modelled:         tokens a round    tokens a second       speed-up")
for devices in (1, 8):
    for entry in h100_rows(devices):
        printed, ours = entry["printed"], entry["modelled"]
        print(
            f"{devices} x H100, {entry['row']:16} {printed['tokens']:6.2f} {ours['tokens']:7.3f} "
            f"{printed['tokens_per_s']:10.1f} {ours['tokens_per_s']:7.1f} "
            f"{printed['speedup']:8.2f} {ours['speedup']:5.2f}"
        )
print()
print("all figures of the documents:", summary(audit_rows()))

# %% [markdown]
# Three findings to check by hand. Two rows, the draft model and Medusa, print *more* tokens a round than their own
# $\alpha$ and $\gamma$ give. (The plain row is right by definition, and the tree's count stays below what a chain of
# 16 would give: a bound that is kept.) 23.8 tokens a second is what *one* device could read, on which the model does
# not fit. The printed speed-ups are throughputs without a source.
#
# ## Pitfalls
#
# * *A draft that is too large.* At $c = 0.2$ and $\alpha = 0.6$ the best window is 2 and the speed-up 1.40, against
#   1.92 at $c = 0.05$ (table in section 3). With 8 drafts a round nothing is left of it.
# * *A window that is too long for its $\alpha$.* The far drafts are hardly ever reached, and each costs $c$.
# * *Speed-up without its baseline.* Same prompts, same process, interleaved, warmed up, with the spread; else it is a
#   quoted figure.
# * *A mean of speed-ups.* Divide total times, not ratios: a short text would count as much as a long one.
# * *One number for all loads.* With a large batch the verify pass is no longer free (notebook 01).
#
# ## Sources
#
# * Y. Leviathan et al., arXiv 2211.17192, equation 1 and theorem 3.8
# * C. Chen et al., arXiv 2302.01318, section 4
# * `docs/counting.md`: how engines count, and what maps to what
#
# ## What next
#
# Notebook 05: a real draft and target, other domains, other tokenizers. Notebook 06: trees, which reach deeper with the
# same number of passes.
