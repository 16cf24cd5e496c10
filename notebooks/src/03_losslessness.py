# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Losslessness, proved and certified
#
# Time: about 30 minutes, and an hour and a half more for the tasks. Needs: a CPU. Before it: notebook 02.
#
# After this page you can
#
# * compute the exact law of what a rule writes, by walking every way its coins can fall;
# * say why the law of a *text* has to be checked, not the law of one token;
# * read a certificate, and choose how many samples it needs to see a bias of a given size;
# * tell which mistakes a proof finds, which a test of samples finds, and which neither does.

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
# ## 1. See it: every branch of a round
#
# A round asks its coins a few questions. Each answer has an exact probability, so all runs of a round form a tree. Here
# is that tree for one round with one draft: `branches` calls the very function that the engine calls, once for every
# way the coins can fall.

# %%
from collections import defaultdict
from fractions import Fraction

from specdec_core.coins import branches
from specdec_core.rules import verify_chain

p = [Fraction(6, 10), Fraction(3, 10), Fraction(1, 10)]
q = [Fraction(2, 10), Fraction(2, 10), Fraction(6, 10)]
names = ["cat", "dog", "bee"]


def one_round(coins):
    """What a round with one draft does: the draft, whether it was kept, and the first token that comes out."""
    token = coins.draw(q, node=0, purpose="draft")
    verdict = verify_chain([token], [q], [p, p], coins)
    return token, verdict.num_accepted == 1, token if verdict.num_accepted else verdict.next_token


ways, law = defaultdict(Fraction), defaultdict(Fraction)
for weight, way in branches(one_round):
    ways[way] += weight  # the bonus token after a kept draft splits a way in several; here they are one
    law[way[-1]] += weight
for (token, kept, out), weight in ways.items():
    print(f"{str(weight):>6}  draft {names[token]}, {'kept' if kept else 'refused'}, first token {names[out]}")
print()
print("the first token:", ", ".join(f"{names[token]} {law[token]}" for token in range(3)))
print("the target's   :", ", ".join(f"{names[token]} {p[token]}" for token in range(3)))

# %% [markdown]
# The weights sum to 1 and no float is involved, so the comparison is `==`. The same by hand and for samples, with any
# of the mistakes of the menu: choose one, look at the exact law, then draw rounds and watch the p-value.

# %%
from specdec_labs.widgets.coin import coin_editor

coin_editor(p, q, names=names, bug="recovery_from_target", drafted=2, u=0.3)

# %% [markdown]
# ## 2. Derive it: from one token to a text
#
# **A chain is right by induction.** Say the first $i - 1$ drafts were kept. The text so far is then one that the target
# could have written, with the right probability. At place $i$ the one-token argument of notebook 02 holds for the laws
# *after that text*: kept or redrawn, the token has the target's law there. A refusal ends the round, so nothing after
# it leans on the refused draft. Multiply along the text: the joint law is the target's.
#
# **A right law for one token is not enough.** A mistake can show in the second token only. It can even leave *every*
# single token right, and show only in how tokens come together. So compare whole texts: all sequences of a few tokens,
# over as many rounds as they take. `output_law` does that, with the engine's own bookkeeping: a round drafts at most
# one token fewer than are still wanted. First a rule whose first token is right:

# %%
from specdec_core.laws import output_law, sampled_draft, target_law
from specdec_core.random_laws import random_law
from specdec_labs.museum.catalogue import MUSEUM
from specdec_labs.museum.decoding import Laws, distance

target, draft = random_law("target", 3, zeros=False), random_law("draft", 3, zeros=False)
wanted = target_law(target, (0,), 4)
found = output_law(verify_chain, target, sampled_draft(draft, 2), (0,), 4)
print(f"chain rule, 2 drafts a round: all {len(wanted)} texts of 4 tokens agree: {found == wanted}")


def marginal(law, length):
    """The law of the first tokens."""
    short = defaultdict(Fraction)
    for text, weight in law.items():
        short[text[:length]] += weight
    return short


def alone(law, place):
    """The law of the token at one place, whatever stands around it."""
    single = defaultdict(Fraction)
    for text, weight in law.items():
        single[text[place]] += weight
    return single


piece = MUSEUM["residual_not_scaled"]
laws = Laws(target, draft)
method = piece.wrong(laws)
broken = output_law(method.rule, target, method.draft, (0,), 4)
print(f"\n{piece.title}, distance from the target's law:")
for length in range(1, 5):
    gap = distance(marginal(broken, length), marginal(wanted, length))
    single = distance(alone(broken, length - 1), alone(wanted, length - 1))
    print(f"  first {length} tokens: {float(gap):.4f}    token {length} alone: {float(single):.4f}")

# %% [markdown]
# Now a mistake that no single token shows. The key of a random number holds its *purpose*: draft, accept, recover,
# bonus. Leave the purpose out, and the bonus is drawn by the number that drew the draft. Let the target draft for
# itself, $q = p$, so that every draft is accepted. The numbers below are tenths, drawn with equal chances, so the
# enumeration stays exact.


# %%
class OneNumber:
    """Coins whose key has no purpose: every draw of the round reads the same number."""

    def __init__(self, coins):
        self.coins = coins
        self.tenth = coins.draw([Fraction(1, 10)] * 10, node=0, purpose="draft")

    def accept(self, p, q, *, node):
        return self.coins.accept(p, q, node=node)

    def draw(self, weights, *, node, purpose):
        """The token whose stretch of [0, 1) holds the number."""
        return next(token for token in range(len(weights)) if self.tenth < 10 * sum(weights[: token + 1]))


def a_pair(coins):
    """The two tokens of a round whose one draft is always kept."""
    token = coins.draw(p, node=0, purpose="draft")
    return token, verify_chain([token], [p], [p, p], coins).next_token


def copied_pair(coins):
    """The same round, with one number for all its draws."""
    return a_pair(OneNumber(coins))


wanted_pairs = {(a, b): p[a] * p[b] for a in range(3) for b in range(3)}
for name, play in (("keys with a purpose", a_pair), ("without", copied_pair)):
    pairs = defaultdict(Fraction)
    for weight, texts in branches(play):
        pairs[texts] += weight
    print(f"{name}: P(second = first) = {sum(pairs[token, token] for token in range(3))}")
    for place in range(2):
        single = alone(pairs, place)
        print(f"  token {place + 1} alone:", ", ".join(f"{names[token]} {single[token]}" for token in range(3)))
        assert [single[token] for token in range(3)] == p, "each token alone is right"
    print(f"  distance of the pair from the target's law: {distance(pairs, wanted_pairs)}")
assert distance(pairs, wanted_pairs) == 1 - sum(mass**2 for mass in p) > 0, "and the pair is a copy"

# %% [markdown]
# Both tokens have the target's law, and the second is a copy of the first. Counting single tokens, however many, finds
# nothing.

# %% [markdown]
# ## 3. Build it: the law of one draft
#
# Write the enumeration yourself, for one draft and any rule: `keep` says how likely a draft is kept, `redraw` which law
# replaces a refused one. It is five lines, and it turns every claim about a rule into an equation.

# %% task="E04.enumerate"

# %% check="E04.enumerate"
from specdec_labs.grade import check, hint, take

check("E04.enumerate", globals())

# %%
law_of_one_draft = take("law_of_one_draft", globals(), use=use)

from specdec_core.residual import residual

rules = {
    "the rule": (lambda p, q, x: min(1, p[x] / q[x]) if q[x] else 0, lambda p, q, x: residual(p, q)),
    "redraw from p": (lambda p, q, x: min(1, p[x] / q[x]) if q[x] else 0, lambda p, q, x: p),
    "threshold 1/2": (lambda p, q, x: min(1, 2 * p[x] / q[x]) if q[x] else 0, lambda p, q, x: residual(p, q)),
}
harmless = [Fraction(6, 10), Fraction(4, 10), Fraction(0)], [Fraction(2, 10), Fraction(3, 10), Fraction(5, 10)]
for target_of_one, draft_of_one in ((p, q), harmless):
    print(f"p = {', '.join(map(str, target_of_one))}; q = {', '.join(map(str, draft_of_one))}")
    for name, (keep, redraw) in rules.items():
        out = law_of_one_draft(target_of_one, draft_of_one, keep, redraw)
        gap = sum(abs(a - b) for a, b in zip(out, target_of_one)) / 2
        print(f"  {name:14} gives {', '.join(map(str, out)):18} distance {gap}")

# %% [markdown]
# A mistake can hide: with the second pair of laws the threshold does no harm at all. One good example proves nothing.

# %% [markdown]
# ## 4. What a proof does not see, and a certificate does
#
# The proof is about the rule. The engine around it has caches, positions, random numbers, temperatures and stop tokens.
# A wrong cache row or noise used twice leaves the rule right and the text wrong. So the real engine writes the first
# few tokens again and again, and a chi-square test compares the counts with the target's exact law.
#
# **What the test can see.** With $k$ cells of probabilities $p_i$ and counts $c_i$ from $n$ texts,
# $\chi^2 = \sum_i (c_i - n p_i)^2 / (n p_i)$ has about $k - 1$ degrees of freedom if the law is right. If it is wrong
# by $d_i$ in cell $i$, it is noncentral with $\lambda = n \sum_i d_i^2 / p_i$. By Cauchy and Schwarz
#
# $$\sum_i \frac{d_i^2}{p_i} = \sum_i \frac{d_i^2}{p_i} \sum_i p_i \ge \Big(\sum_i |d_i|\Big)^2 = 4\,\mathrm{TV}^2,$$
#
# so a bias of total variation distance $b$ gives at least $\lambda = 4 n b^2$, whatever it looks like. The *power* is
# the chance that such a $\chi^2$ exceeds the critical value. A test that found nothing is worth its power and no more.
#
# **Predict.** How many texts does it take to see a bias of 0.05 with 99 % power, at one false alarm in a thousand, with
# 26 degrees of freedom?

# %%
from specdec_labs.widgets.predict import PredictionCard

samples_card = PredictionCard(
    "Texts needed for 99 % power against a bias of 0.05 (level 0.001, 26 degrees of freedom)?",
    ["below 500", "500 to 2,000", "2,000 to 10,000", "10,000 and more"],
    [500, 2_000, 10_000],
)
samples_card

# %% [markdown]
# Now write the function that answers it.

# %% task="E04.power"

# %% check="E04.power"
check("E04.power", globals())

# %%
samples_for_power = take("samples_for_power", globals(), use=use)
needed = samples_for_power(26, 0.05, 1e-3, 0.99)
samples_card.reveal(needed)
with samples_card.covered():
    for bias in (0.2, 0.1, 0.05, 0.025):
        print(f"bias {bias:5}: {samples_for_power(26, bias, 1e-3, 0.99):6} texts")

# %% [markdown]
# Halving the bias takes four times the texts. That is why nobody notices a small bias by reading.
#
# ## 5. Break it
#
# Two bugs in which every single step looks reasonable.
#
# *Choosing the length after seeing the draft.* A drafter stops early when it is not confident in the token it has just
# drawn, and drops that token. Find laws where this bends the output, then mend it.

# %% task="E04.length"

# %% check="E04.length"
check("E04.length", globals())

# %% [markdown]
# *Block verification with the residual of the chain rule.* Block verification judges a block as a whole: the weight of
# the first $i$ drafts is $w_i = \min(1, w_{i-1}\, p_i / q_i)$, and the redraw has to be scaled by the prefix's weight,
# $\max(w_{i} p - q, 0)$. Leave the weight out: the first token still has the right law, since $w_0 = 1$. The second has
# not, not even alone (section 2 showed this very bug).

# %% task="E04.block_residual"

# %% check="E04.block_residual"
check("E04.block_residual", globals())

# %% [markdown]
# ## 6. Measure it: certificates of a real engine
#
# The engine with a real pair of models writes a few tokens, again and again; the rows of the models are remembered, so
# that many texts cost few passes. Beside it the same engine with one line changed: the redraw comes from $p$.

# %%
from specdec_core.certify import certify
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.memo import MemoisedModel
from specdec_core.models import load_pair
from specdec_core.warp import SamplingParams
from specdec_labs.museum import RECOVERY_FROM_TARGET
from specdec_labs.widgets.progress import counting

pair = load_pair("tiny")
prompt = pair.tokenizer.encode("The old man and the")
narrow = SamplingParams(temperature=1.0, top_k=3)
GAMMA, BIAS = 2, 0.2 if FAST else 0.1
certificates = {}
for name, rule in (("the rule", "chain"), ("redraw from p", RECOVERY_FROM_TARGET)):
    oracle, drafting = (MemoisedModel(model, capacity=len(prompt) + 8) for model in (pair.target, pair.draft))
    engine = Engine(oracle, ModelDrafter(drafting), rule, GAMMA)
    certificates[name] = certify(
        engine,
        prompt,
        narrow,
        gamma=GAMMA,
        bias=BIAS,
        max_cells=20,
        oracle=oracle,
        progress=counting(name),
    )
    print(f"{name}: {certificates[name].sentence}")
    print(f"    {certificates[name].n} texts, {oracle.misses} passes of the target\n")
if certificates["redraw from p"].passed:
    print("The changed line was not seen at this size: the sentence above says which distance would have been.")

# %% [markdown]
# Blue dots are the distances of the counts from the law, one for each number of tokens; the ticks show how far a
# perfect sampler is on average. On the right is the evidence against the law; beyond the dashed line a test rejects.

# %%
from specdec_labs.plots.certificate import certificate_figure

certificate_figure(certificates["the rule"])

# %%
certificate_figure(certificates["redraw from p"])

# %% [markdown]
# The certificate of the right engine says *indistinguishable at this n and power*. It does not say *equal*: the rule is
# proved equal, the engine is tested. Which mistakes does each of the three detectors catch? A few pieces, examined
# here:

# %%
from specdec_labs.museum.detect import examine

for name in (
    "length_after_the_draft",
    "accept_at_equality",
    "lossy_threshold",
    "token_rule_in_block",
    "residual_not_scaled",
    "noise_by_position",
):
    finding = examine(MUSEUM[name])
    tested = finding.certificate_kill
    samples = "no sample can show it" if tested is None else f"p = {tested.wrong.p_value:.1g} with n = {tested.wrong.n}"
    print(f"{finding.piece.title}\n    exact:   {finding.exact_kill.wrong.says}\n    samples: {samples}")

# %% [markdown]
# `<=` at $u = 0$ is wrong once in $2^{32}$ drafts. No sample shows it; the proof does.
#
# ## Pitfalls
#
# * *"We compared 1,000 outputs and saw no difference."* Which bias would you have seen? State the power.
# * *Looking again and again until p is small.* A p-value is good for one look. `certify(..., sequential=True)` has a
#   test that may be looked at all the time.
# * *Testing single tokens only.* Section 2: the pair can be wrong when each token is right.
# * *Comparing greedy texts across machines.* Passes of different size round differently in their last bits; at a
#   near-tie the texts part. That is floating point, not the rule (`docs/numerics.md`).
# * *Calling the KL divergence 0 because two histograms look alike.* Zero divergence is a claim about laws.
#
# ## Sources
#
# * Y. Leviathan et al., arXiv 2211.17192, appendix A.1; C. Chen et al., arXiv 2302.01318, theorem 1
# * Z. Sun et al., *Block Verification Accelerates Speculative Decoding*, arXiv 2403.10444
# * P. Diaconis, S. Zabell, *Closed Form Summation for Classical Distributions*, 1991: the mean distance of a sample
# * `docs/certificate.md`, `docs/museum.md`: all 21 pieces with what catches them
#
# ## What next
#
# Notebook 04: what all this gains in time, on paper and measured.
