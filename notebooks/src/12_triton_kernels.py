# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Triton kernels: verification without a softmax in memory
#
# Time: about 30 minutes, and half an hour more for the task. Needs: a CPU (kernels run in Triton's interpreter); a GPU
# makes them fast. Before it: notebook 02.
#
# After this page you can
#
# * say what a verification kernel reads and writes, and why it works in two levels;
# * merge the softmax statistics of blocks, and draw from a residual without ever storing it;
# * write a Triton kernel with masked lanes, and run it on a CPU;
# * check that a kernel makes the very decisions of the readable rule.

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
# Triton reads `TRITON_INTERPRET` when a kernel is *decorated*, so it is set before the first import of one. With a CUDA
# device it stays off and the same kernels are compiled.

# %%
import torch

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
try:
    import triton
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "This page needs Triton, which is made for Linux: pip install triton==3.7.1 in the environment of this kernel"
    ) from error
print(f"Triton {triton.__version__}, {torch.cuda.get_device_name() if HAS_GPU else 'in the interpreter'}")
device = torch.device("cuda" if HAS_GPU else "cpu")

# %% [markdown]
# ## 1. See it: which program reads what
#
# A Triton kernel is launched on a grid of *programs*; each owns a block of the data and knows its place in the grid.
# Below, two requests with three drafts each are verified from real logits of a real pair. Each request needs the
# probability of its drafts, a decision, and one token drawn from one law. A prediction first: how often is each target
# logit read, on average, by all launches together?

# %%
from specdec_labs.widgets.predict import PredictionCard

reads_card = PredictionCard(
    "Reads of a target logit, mean over all of them (two requests, three drafts each)?",
    ["once at most", "1 to 1.5 times", "1.5 to 2.5 times", "2.5 times and more"],
    [1.001, 1.5, 2.5],
)
reads_card

# %% [markdown]
# The vocabulary is cut to its first tokens so that one can look at it. Every program left its number beside every logit
# it read.

# %%
from specdec_core.models import load_pair
from specdec_kernels.chain_launch import LaunchConfig
from specdec_kernels.kernel_trace import trace_kernels
from specdec_kernels.verify_batch import KeyedNoise, VerifyBatch

pair = load_pair("tiny")
SHOWN, K = 40, 3
prompts = [pair.tokenizer.encode(text) for text in ("The old man and the", "There is no")]


def rows_of(model, tokens, count):
    """The logits after the last `count` tokens, over the first `SHOWN` ids."""
    output = model.forward(torch.tensor(tokens), cache=model.new_cache(len(tokens)))
    return output.logits[-count:, :SHOWN].float()


noise = torch.Generator().manual_seed(3)
tokens, targets, drafts = [], [], []
for prompt in prompts:
    text = list(prompt)
    for _ in range(K):
        row = rows_of(pair.draft, text, 1)
        drafts.append(row)
        text.append(int(torch.multinomial(row.softmax(-1)[0], 1, generator=noise)))
    tokens += text[len(prompt) :]
    targets.append(rows_of(pair.target, text, K + 1))

batch = VerifyBatch(
    torch.cat(targets).to(device),
    torch.tensor(tokens, device=device),
    torch.tensor([0, K, 2 * K], device=device),
    torch.ones(2, device=device),
    KeyedNoise.of(
        torch.zeros(2, dtype=torch.long, device=device),
        torch.arange(2, device=device),
        torch.tensor([len(prompt) for prompt in prompts], device=device),
    ),
    K,
    draft_logits=torch.cat(drafts).to(device),
)
verdict, trace = trace_kernels(batch, "chain", config=LaunchConfig(stats_block=16, race_block=16))
for launch in trace.launches:
    reading = sum(bool(program.reads) for program in launch.programs)
    print(f"{launch.kernel:22} grid {launch.grid}: {len(launch.programs)} programs, {reading} of them read logits")
for decision in trace.decisions:
    drawn = f"token {decision.next_token} ({decision.mode})"
    print(f"request {decision.request}: {decision.num_accepted} accepted, then {drawn}")

# %%
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specdec_labs.plots.page import COLOURS, notebook_template

reading = [launch for launch in trace.launches if any(program.reads for program in launch.programs)]
figure = make_subplots(
    rows=1, cols=len(reading), subplot_titles=[launch.kernel for launch in reading], shared_yaxes=True
)
labels = [f"request {request}, row {row}" for request in range(2) for row in range(K + 1)]
for column, launch in enumerate(reading, start=1):
    owner = [[None] * SHOWN for _ in labels]
    for number, program in enumerate(launch.programs):
        for read in program.reads:
            if read.side == "target":
                for token in range(read.first, read.last + 1):
                    owner[read.request * (K + 1) + read.row][token] = number
    figure.add_trace(
        go.Heatmap(
            z=[[None if number is None else number % 3 for number in row] for row in owner],
            customdata=owner,
            y=labels,
            colorscale=COLOURS[:3],
            showscale=False,
            xgap=1,
            ygap=2,
            hovertemplate="%{y}, token %{x}: read by program %{customdata}<extra></extra>",
        ),
        row=1,
        col=column,
    )
figure.update_xaxes(title_text="token")
figure.update_yaxes(autorange="reversed")
figure.update_layout(template=notebook_template(), height=340, margin={"l": 10, "r": 10, "t": 40, "b": 10})
figure

# %% [markdown]
# Left, every program reads one block of one row. Right, after the decision, only *one row a request* is read again: the
# one the next token comes from. Hover to see which program owns a block. The last block is half empty: its lanes behind
# the vocabulary are *masked*.
#
# ## 2. Derive it
#
# **Why not a softmax first.** A row of logits has 50,000 to 150,000 entries. `softmax(logits)` reads it, writes it, and
# the rule reads it again, for $p$ and $q$ and every draft. But the rule needs *one* probability of each row, that of
# the drafted token, and one draw from one residual.
#
# **Level one: statistics of blocks.** $p(x) = e^{\ell_x} / Z$. A program takes a block, its largest logit $m$ and
# $s = \sum e^{\ell - m}$. Two blocks merge without overflow:
#
# $$m = \max(m_1, m_2), \qquad s = s_1 e^{m_1 - m} + s_2 e^{m_2 - m},$$
#
# and then $\log Z = m + \log s$. Every logit is read once, and only two numbers a block are written.
#
# **The decision.** With $\log Z$ of both rows, $\log p(x) - \log q(x)$ of the drafted token is a handful of operations:
# one small program a request walks along its drafts.
#
# **Level two: a race.** To draw from weights $w_x$ give each an exponential $E_x$ of rate 1. $E_x / w_x$ is exponential
# with rate $w_x$, and the first of several exponential clocks to ring is clock $x$ with probability $w_x / \sum w$. The
# smallest $E_x / w_x$ is the largest *score* $w_x / E_x$, and that is what the kernels look for. The *sum* of the
# weights is never needed, so a residual $\max(p - q, 0)$ can be drawn from without being normalised or stored: each
# program finds the best score of its block, and the best of those wins.
#
# **Masked lanes.** A block is a power of two, the vocabulary is not. A lane behind its end must lose every race: a
# score below every real one. A 0 in its place is *not* neutral wherever all real scores are negative or zero.
#
# ## 3. Count the reads
#
# Your prediction of section 1, beside what the trace counted.

# %%
counted = trace.scores_read()
target_reads = sum(count for (side, _, _), count in counted.items() if side == "target")
logits = batch.target_logits.numel()
predicted = (2 * (K + 1) + 2) * SHOWN  # every row once, and one row a request again
reads_card.reveal(target_reads / logits)
with reads_card.covered():
    print(f"{target_reads} reads of {logits} target logits; predicted {predicted}")
print(f"a softmax of every row first reads each one too (twice where a row does not fit on the chip), writes {logits}")
print("probabilities, and the rule reads those again")

# %% [markdown]
# ## 4. Build it
#
# The excess $\max(p - q, 0)$ of whole rows. Unlike the lab's race (section 2), this kernel divides it by its sum and
# stores it: then every entry can be checked. Small enough for one screen, and it has everything a kernel needs: a
# program id, a block of offsets, a mask, loads, a reduction, a store.

# %% task="E08.excess"

# %% check="E08.excess"
from specdec_labs.grade import check, hint, take

check("E08.excess", globals())

# %% [markdown]
# Your kernel on the real rows of section 1, beside the readable function. It reads each input once and writes each
# output once; a row of 40 tokens takes a block of 64, so 24 lanes are masked.

# %%
from specdec_core.residual import residual

excess_kernel = take("excess_kernel", globals(), use=use)
q_rows = batch.draft_logits.softmax(-1)
p_rows = torch.cat([rows[:K] for rows in targets]).to(device).softmax(-1)  # without the bonus row of each request
laws = torch.full_like(p_rows, -1.0)
excess_kernel[(len(p_rows),)](p_rows, q_rows, laws, SHOWN, BLOCK=64)
wanted = torch.stack([residual(p, q) for p, q in zip(p_rows, q_rows)])
print(f"{len(p_rows)} rows of {SHOWN} tokens, largest difference {float((laws - wanted).abs().max()):.1e}")

# %% [markdown]
# ## 5. Break it: the padded lane that wins
#
# A reduction over blocks, in NumPy, with the lanes behind the end filled by 0. It returns the place of the largest
# value. Find the smallest `VALUES` for which it returns a place that does not exist. Then choose `FILL` so that it
# cannot.

# %%
import numpy as np

VALUES = [0.5, -1.0, 2.0]
FILL = 0.0


def block_argmax(values, block=4, fill=FILL):
    """The place of the largest value, found block by block as a kernel does."""
    padded = np.full(-(-len(values) // block) * block, fill)
    padded[: len(values)] = values
    blocks = padded.reshape(-1, block)
    winner = int(np.argmax(blocks.max(axis=1)))
    return winner * block + int(np.argmax(blocks[winner]))


place = block_argmax(VALUES)
print(f"place {place} of {len(VALUES)} values:", "a lane that does not exist" if place >= len(VALUES) else "right")

# %% [markdown]
# Scores $w / E$ of a race are never negative, but log-probabilities are never positive: the same fill is harmless in
# one kernel and wrong in the next. The lab's kernels fill with what can never win, and a test gives each of them a
# vocabulary of one.
#
# ## 6. Measure it: the same decisions as the readable rule
#
# The noise is keyed by (seed, request, length, node, purpose), so kernel and rule read the very same random numbers.
# They must then make the same decisions, not similar ones. Near-ties apart, where float32 and float64 can differ.

# %%
import time

from specdec_core.hardware import measured_on
from specdec_kernels.verify_chain import verify_chain_reference, verify_chain_triton

REQUESTS, VOCAB = (32, 61) if FAST else (256, 509)
generator = torch.Generator().manual_seed(1)
counts = torch.randint(0, 5, (REQUESTS,), generator=generator)
starts = torch.cat((torch.zeros(1, dtype=torch.long), counts.cumsum(0)))
drafted = int(starts[-1])
draft_logits = torch.randn(drafted, VOCAB, generator=generator)
random_batch = VerifyBatch(
    torch.randn(drafted + REQUESTS, VOCAB, generator=generator).to(device),
    torch.multinomial(draft_logits.softmax(-1), 1, generator=generator)[:, 0].to(device),
    starts.to(device),
    torch.ones(REQUESTS, device=device),
    KeyedNoise.of(
        torch.full((REQUESTS,), 7, dtype=torch.long, device=device),
        torch.arange(REQUESTS, device=device),
        torch.full((REQUESTS,), 9, dtype=torch.long, device=device),
    ),
    4,
    draft_logits=draft_logits.to(device),
)
start = time.perf_counter()
fast = verify_chain_triton(random_batch)
middle = time.perf_counter()
slow = verify_chain_reference(random_batch)
end = time.perf_counter()
same = (fast.num_accepted == slow.num_accepted) & (fast.next_token == slow.next_token)
print(f"{REQUESTS} requests, {drafted} drafts, vocabulary {VOCAB}: {int(same.sum())} of {REQUESTS} decided alike")
print(f"accepted / drafted: {int(fast.num_accepted.sum())} / {drafted}")
how = "compiled" if HAS_GPU else "interpreted: this says nothing about speed"
print(measured_on())
print(f"kernels {middle - start:.2f} s ({how}), scalar rule {end - middle:.2f} s")

# %% [markdown]
# What a compiler makes of them, for GPUs that are not here: registers, shared memory and spills of every kernel are in
# `docs/kernels.md`, produced by `python -m specdec_kernels.aot`. Timings on a GPU come from
# `python -m specdec_kernels.chain_benchmark`.
#
# ## Pitfalls
#
# * *The interpreter is not the compiler.* It checks values and masks. It does not see races, bank conflicts or
#   registers.
# * *A sum in bfloat16.* In the interpreter of Triton 3.7.1 it returns garbage: convert to float32 first.
# * *int32 offsets.* rows x vocabulary passes $2^{31}$ sooner than one thinks: 16,384 rows of 131,072 logits.
# * *Another random generator than the rule's.* Then only the law can be compared, and a small bias hides (notebook 03).
# * *A host sync in the loop.* `.item()` on a verdict waits for the GPU and costs more than the kernel.
# * *"Fused" as a claim of correctness.* A fused kernel needs its plain reference beside it more than any other code.
#
# ## Sources
#
# * P. Tillet, H. T. Kung, D. Cox, *Triton*, MAPL 2019; triton-lang.org
# * M. Milakov, N. Gimelshein, *Online normalizer calculation for softmax*, arXiv 1805.02867
# * J. Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, SC 2011 (Philox)
#
# ## What next
#
# The lab's kernels, from the plain reference to the last version: `kernels/specdec_kernels/`, `docs/kernels.md`.
