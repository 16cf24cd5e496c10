# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Rejection sampling: keep a guess, or redraw it
#
# Time: about 30 minutes, and an hour and a quarter more for the tasks. Needs: a CPU. Before it: notebook 00.
#
# After this page you can
#
# * derive when a drafted token is kept, and which law replaces a refused one;
# * prove, case by case, that what comes out has exactly the target's law;
# * write the rule of a whole chain of drafts, and run a real model with it;
# * find an input that tells a wrong rule from the right one.

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
# ## 1. Predict it
#
# Two laws over three tokens. The target says $p = (0.6, 0.3, 0.1)$, the draft says $q = (0.2, 0.2, 0.6)$ and proposes a
# token. How often can it be kept, if what comes out must have the law $p$? Commit yourself before you run on.

# %%
from specdec_labs.widgets.predict import PredictionCard

kept_card = PredictionCard(
    "p = (0.6, 0.3, 0.1), q = (0.2, 0.2, 0.6): which share of the drafts is kept?",
    ["below 0.25", "0.25 to 0.45", "0.45 to 0.55", "0.55 and more"],
    [0.25, 0.45, 0.55],
)
kept_card

# %% [markdown]
# ## 2. See it: one draft, one coin
#
# The same two laws. The target says $p$, the draft says $q$. The draft has proposed a token; a uniform $u$
# decides whether it stays; if not, $v$ picks another one from the *residual*. Drag $u$, click on another token, change
# the fractions. *Kept* is the overlap $\min(p, q)$; watch the last two columns: the law of what comes out is $p$,
# whatever you do to $q$.

# %%
from specdec_labs.widgets.coin import coin_editor

coin_editor(["6/10", "3/10", "1/10"], ["2/10", "2/10", "6/10"], names=["cat", "dog", "bee"], drafted=2, u=0.3)

# %% [markdown]
# Nothing in this widget is drawn for show: the decision is the engine's own rule with your two numbers for coins, and
# the law is the rule's, summed over every way its coins can fall, in fractions.
#
# Now count. The rounds below are played by the rule of the engine, with its random numbers.

# %%
from collections import Counter

from specdec_core.coins import PhiloxCoins
from specdec_core.rules import verify_chain

ROUNDS = 2_000 if FAST else 20_000
target, draft = [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]
source = PhiloxCoins(seed=1)
kept, first = 0, Counter()
for request in range(ROUNDS):
    coins = source.at(request=request, length=1)
    token = coins.draw(draft, node=0, purpose="draft")
    verdict = verify_chain([token], [draft], [target, target], coins)
    kept += verdict.num_accepted
    first[token if verdict.num_accepted else verdict.next_token] += 1

kept_card.reveal(kept / ROUNDS)
with kept_card.covered():
    print(f"{ROUNDS} rounds: {kept / ROUNDS:.4f} of the drafts kept")
    for token, name in enumerate(["cat", "dog", "bee"]):
        print(f"  {name}: drafted with {draft[token]:.2f}, wanted {target[token]:.2f}", end="")
        print(f", came out {first[token] / ROUNDS:.4f}")

# %% [markdown]
# ## 3. Derive it
#
# **What can be kept.** A draft $x$ comes up with probability $q(x)$. If we keep it with probability $a(x)$, then "draft
# and keep $x$" happens with $q(x)\,a(x)$. That must not be more than the target wants: $q(x)\,a(x) \le p(x)$. The most
# generous choice is
#
# $$a(x) = \min\!\left(1, \frac{p(x)}{q(x)}\right), \qquad\text{so}\qquad q(x)\,a(x) = \min(p(x), q(x)).$$
#
# Summed over the vocabulary, a draft is kept with probability $\sum_x \min(p, q) = 1 - \mathrm{TV}(p, q)$: the overlap
# of the two laws. That is the share you just predicted.
#
# **What is missing.** Token $x$ has come out with $\min(p, q)$ so far and should with $p$. It lacks
# $p - \min(p, q) = \max(p - q, 0)$. All that is lacking sums to
#
# $$\beta = \sum_x \max(p - q, 0) = \sum_x p - \sum_x \min(p, q) = 1 - \sum_x \min(p, q),$$
#
# and that is exactly the probability of a refusal. So one redraw for each refusal is the right amount, and its law has
# to be what is lacking, divided by $\beta$:
#
# $$r(x) = \frac{\max(p(x) - q(x), 0)}{\beta}.$$
#
# **It is a law.** No entry is negative, and the entries sum to $\beta / \beta = 1$. If $\beta = 0$ there is nothing to
# divide, but then $p = q$ everywhere and nothing is ever refused.
#
# **The proof, in two cases.** Token $x$ comes out either as a draft that was kept or as a redraw:
# $P(x) = \min(p, q) + \beta\, r(x) = \min(p, q) + \max(p - q, 0)$.
#
# * If $p(x) \ge q(x)$, this is $q(x) + (p(x) - q(x)) = p(x)$.
# * If $p(x) < q(x)$, this is $p(x) + 0 = p(x)$. If the draft proposes $x$ more often than the target wants, $x$ never
#   needs to come from the residual.
#
# $q$ has dropped out. A bad draft costs time, never correctness.
#
# **Why the comparison is strict.** $u$ is uniform on $[0, 1)$ and can be 0. With $u \cdot q \le p$ a token that the
# target forbids ($p = 0$) would be kept at $u = 0$. With $u \cdot q < p$ it never is.
#
# ## 4. Build it
#
# The overlap first. Run the two cells as they are: the check is red and says what will be asked.

# %% task="E03.acceptance"

# %% check="E03.acceptance"
from specdec_labs.grade import check, hint, take

check("E03.acceptance", globals())

# %% [markdown]
# Stuck? `hint("E03.acceptance", 1)` gives a nudge, 2 the idea, 3 pseudocode. Nothing is deducted, and nothing below
# waits for you: later cells take your function where it is written and the reference where it is not.
#
# Next, the argument that the residual is a law. The check knows which steps a proof needs and which ones only look
# like a proof.

# %% task="E03.valid_law"

# %% check="E03.valid_law"
check("E03.valid_law", globals())

# %% [markdown]
# **A chain of drafts.** The draft proposes $x_1, \dots, x_K$, each from its own law after the ones before. The target
# gives its laws for all $K + 1$ places in one pass. Judge from left to right. Up to the first refusal the text so far
# is one that the target could have written, so the one-token argument holds at each place, given that text. After a
# refusal the drafts behind it continue a text that no longer exists: they are dropped. If none is refused, the last row
# gives one token for free, the *bonus*.

# %% task="E03.chain"

# %% check="E03.chain"
check("E03.chain", globals())

# %% [markdown]
# ## 5. Break it
#
# Two pieces of the bug museum. Both look reasonable, and both write text that reads well. Your task: the smallest
# *input* that tells the broken code from the right one, then the mended code.
#
# The first compares the ratio with $u$ times a *threshold* below 1, "to accept more", and calls itself lossless all the
# same. Serving engines have such a switch, as an option with a price (`docs/museum.md`, `lossy_threshold`). Try it in
# the editor first, and look for laws where it does no harm at all.

# %%
coin_editor([1, 1, 1], [1, 1, 4], names=["cat", "dog", "bee"], bug="lossy_threshold", drafted=2, u=0.6, rounds=300)

# %% task="E03.threshold"

# %% check="E03.threshold"
check("E03.threshold", globals())

# %% [markdown]
# The second proposes the draft's most probable token without drawing, and then tells the rule that $q$ is the draft's
# softmax. But a token that is proposed for sure has $q = 1$. Several projects had this one (`docs/museum.md`,
# `softmax_q`, with the reports).

# %% task="E03.softmax_q"

# %% check="E03.softmax_q"
check("E03.softmax_q", globals())

# %% [markdown]
# ## 6. Measure it
#
# Your rule in the real engine, with a real pair of models. Before each round is judged, the exact overlap of $p$ and
# $q$ is noted for every draft that will be tested: that is the prediction. The measurement is how many were kept.

# %%
from dataclasses import replace

from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.models import load_pair
from specdec_core.residual import acceptance
from specdec_core.rules import RULES, Verdict
from specdec_core.rules.checks import draft_laws
from specdec_core.warp import SamplingParams

verify_drafts = take("verify_drafts", globals(), use=use)
pair = load_pair("tiny")
print(pair.description)
overlaps = []


def judge(draft_tokens, draft_probs, target_probs, coins):
    """Your function as a rule of the engine, which also wants to know how many drafts were kept.

    The last round of a text may hold no draft; it comes without draft laws, as do drafts that were not drawn.
    """
    laws = draft_laws(draft_tokens, draft_probs, target_probs)
    p, q = [row.tolist() for row in target_probs], [row.tolist() for row in laws]
    emitted = verify_drafts(list(draft_tokens), q, p, coins)
    kept, drafted = len(emitted) - 1, len(draft_tokens)
    overlaps.extend(float(acceptance(target_probs[i], laws[i])) for i in range(min(kept + 1, drafted)))
    return Verdict(kept, tuple(range(kept)), emitted[-1], "bonus" if kept == drafted else "recovered")


mine = replace(RULES["chain"], name="mine", verify=judge)
TEXTS, TOKENS = (6, 40) if FAST else (12, 80)
engine = Engine(pair.target, ModelDrafter(pair.draft), mine, controller=4, record_top=16)
prompt = pair.tokenizer.encode("The old man and the")
traces = [engine.generate(prompt, SamplingParams(temperature=1.0, seed=seed), TOKENS).trace for seed in range(TEXTS)]

# %%
from math import sqrt

from specdec_core.metrics import summarize

metrics = summarize(traces)
predicted = sum(overlaps) / len(overlaps)
spread = sqrt(sum(overlap * (1 - overlap) for overlap in overlaps)) / len(overlaps)
print(f"drafted {metrics.drafted}, tested {metrics.tested}, accepted {metrics.accepted}")
print(f"accepted / tested, measured      {metrics.alpha:.4f}")
print(f"mean overlap, predicted          {predicted:.4f} +- {spread:.4f} (one standard error)")
print(f"apart by                         {abs(metrics.alpha - predicted) / spread:.1f} standard errors")
print(f"accepted / drafted               {metrics.acceptance_rate:.4f} counts what was never judged")

# %% [markdown]
# The third line tells how far the two are apart. Chance alone gives less than 2 standard errors in 19 runs of 20, and
# less than 3 in 369 of 370; a wrong rule is further apart the more texts there are. The overlap itself changes from
# place to place. Look at one of the texts in the theatre: the residual bars after a refusal hold only tokens with
# $p > q$.

# %%
from specdec_labs.widgets.texts import name_tokens
from specdec_labs.widgets.theatre import theatre

theatre(name_tokens(traces[0], pair.tokenizer))

# %% [markdown]
# ## Pitfalls
#
# * *Redrawing from $p$ after a refusal.* The refused token had its chance; giving it another from $p$ counts it twice.
#   In the editor: "redraw from p".
# * *Speculation is not a trade of quality for speed.* Quantising or pruning change the law. This does not. "Slightly
#   different outputs" come from a bug, from a threshold, or from floating point: greedy texts can part at a near-tie,
#   since passes of different size round differently (`docs/numerics.md`). Only the last is harmless.
# * *A clamp on $q$.* `clamp(q, min=1e-7)` changes the ratio for rare tokens. Nothing needs guarding: where $q(x) = 0$,
#   $x$ is never drafted.
# * *$u \le p/q$.* See section 3.
# * *Tying a batch together.* One refusal in one row must not refuse the other rows. One of the documents
#   this lab grew out of does it, with `.all()` (`docs/seed_audit.md`); a relative was reported (`docs/museum.md`,
#   `tied_positions`).
# * *A draft law of another temperature.* Any $q$ is fine, but the $q$ that judges must be the one that was drawn from.
#
# ## Sources
#
# * Y. Leviathan, M. Kalman, Y. Matias, *Fast Inference from Transformers via Speculative Decoding*, arXiv 2211.17192,
#   section 2.3 and appendix A.1
# * C. Chen et al., *Accelerating Large Language Model Decoding with Speculative Sampling*, arXiv 2302.01318, theorem 1
# * J. von Neumann, *Various techniques used in connection with random digits*, 1951: the idea of accepting and refusing
#
# ## What next
#
# Notebook 03: the same claim proved for every branch, and certified for the whole engine.
