# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The bandwidth wall: why a few more tokens are almost free
#
# Time: about 25 minutes, and 20 more for the tasks. Needs: a CPU. Before it: notebook 00.
#
# After this page you can
#
# * say what a forward pass of one token waits for, and why;
# * compute the arithmetic intensity of a pass and the ridge of a device;
# * predict how long a pass over a few tokens takes on your machine, and measure it;
# * find what does not belong together in a published table.

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
# ## 1. See it: the roofline
#
# A pass reads every weight of the model once, whether it works on one token or on ten. Each token then costs two
# operations a weight, a multiplication and an addition. The device can read so many bytes a second and compute so many
# operations a second; the slower of the two decides. Move *batch* and *gamma* and watch the diamond: left of the ridge
# it slides along the slope, and the time of the pass hardly changes.

# %%
from specdec_labs.widgets.roofline import roofline_explorer

roofline_explorer(hardware="h100-sxm", target="llama-3-70b", gamma=4, batch=1, devices=8)

# %% [markdown]
# Everything in this widget is *modelled*: sizes of a model, peaks from data sheets, and the assumption that reading and
# computing overlap perfectly. A real pass takes longer. What the model gets right is the shape: flat, then a line.
#
# ## 2. Derive it
#
# Let the model have $N$ weights of $b$ bytes, let a pass work on $t$ tokens, and leave the cache and the activations
# out for now.
#
# * The pass moves $N b$ bytes and does $2 N t$ operations. Its *arithmetic intensity* is
#   $I = 2 N t / (N b) = 2 t / b$. In 16 bits ($b = 2$) it is just the number of tokens, **whatever the model**.
# * A device with bandwidth $B$ and peak $F$ needs at least $\max(N b / B,\ 2 N t / F)$ seconds.
# * The two are equal at $t^* = F b / (2 B)$, the *ridge*. Below it, reading decides and another token is free. Above
#   it, computing decides and every token costs its share.
#
# An H100 in 16 bits: $t^* = 989\cdot10^{12} \cdot 2 / (2 \cdot 3.35\cdot10^{12}) \approx 295$ tokens. One token at a
# time uses a three-hundredth of what the device can compute. That idle arithmetic is what speculation spends: verifying
# $\gamma + 1$ tokens is one pass over $\gamma + 1$ rows.
#
# A batch spends it too. With $s$ sequences in the batch, a plain step is a pass over $s$ tokens and verifying takes
# $s (\gamma + 1)$. At $s = t^*$ nothing is free any more. That is why speculation is a tool for *low* load.
#
# ## 3. Build it

# %% task="E02.memory_bound"

# %% check="E02.memory_bound"
from specdec_labs.grade import check, hint, take

check("E02.memory_bound", globals())

# %% task="E02.ridge"

# %% check="E02.ridge"
check("E02.ridge", globals())

# %%
from specdec_core.hardware_presets import hardware, hardware_names

pass_seconds = take("pass_seconds", globals(), use=use)
ridge_tokens = take("ridge_tokens", globals(), use=use)
for name in hardware_names():
    device = hardware(name)
    dtype, size = ("float16", 2) if "float16" in device.flops_per_s else ("float32", 4)
    tokens = ridge_tokens(device.peak(dtype), device.bytes_per_s, size)
    print(f"{device.name:38} {dtype}: ridge at {tokens:4.0f} tokens")
    print(f"    {device.kind}: {device.source}")

# %% [markdown]
# ## 4. Predict it: your machine
#
# First the two numbers that matter, measured here: how fast memory is read in a matrix-vector product, and how fast a
# square product computes.

# %%
from specdec_core.hardware import measured_on
from specdec_labs.bench.machine import measure_machine
from specdec_labs.impossible import curve_problem, machine_problem, steps

size = {"rows": 4096, "width": 4096, "square": 1024, "repeats": 3} if FAST else {"repeats": 5}
machine = measure_machine(**size)
ridge = ridge_tokens(machine.peak("float32"), machine.bytes_per_s, 4)
print(measured_on())
print(f"reads {machine.bytes_per_s / 1e9:.1f} GB/s, computes {machine.peak('float32') / 1e9:.0f} GFLOP/s in float32")
print(machine_problem(machine) or f"ridge at {ridge:.1f} tokens a pass")

# %% [markdown]
# A pass over eight tokens, in units of a pass over one: commit yourself before you run on.

# %%
from specdec_labs.widgets.predict import PredictionCard

rows_card = PredictionCard(
    "A pass over 8 tokens, in passes over 1, on this machine?",
    ["below 1.3", "1.3 to 2", "2 to 4", "4 and more"],
    [1.3, 2.0, 4.0],
)
rows_card

# %% [markdown]
# ## 5. Measure it
#
# Every number of rows is timed several times, in an order that changes, so that a slow moment does not hit one of them
# alone. SmolLM2 is used where its wheel is installed, else the small pair that comes with the lab.

# %%
from specdec_core.cost_curve import CostCurve
from specdec_core.models import find_smollm2, load_pair
from specdec_labs.widgets.progress import counting

pair = load_pair("smollm2" if find_smollm2() is not None else "tiny")
ROWS = (1, 2, 4, 8, 16) if FAST else (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
curve = CostCurve.measure(
    pair.target, ROWS, (64,), repeats=3 if FAST else 7, name=pair.name, progress=counting("timed passes")
)
wrong = curve_problem(curve)  # empty, unless the measurement shows what cannot be
if wrong:
    print(f"\nREFUSED: {wrong}")
rows_card.reveal(curve.relative(8, 64), wrong)

# %%
from specdec_core.model_shapes import ModelShape

shape = ModelShape.from_config(pair.name, pair.target.config)
plain = pass_seconds(2 * shape.parameters, 4 * shape.parameters, machine.peak("float32"), machine.bytes_per_s)
print(pair.description)
print(measured_on())
print(f"{shape.parameters / 1e6:.1f} million weights read in a pass; at least {1000 * plain:.2f} ms for one token\n")
with rows_card.covered():
    print("tokens   measured, ms   in passes over 1   roofline, in passes over 1")
    for rows in ROWS:
        modelled = pass_seconds(
            2 * shape.parameters * rows, 4 * shape.parameters, machine.peak("float32"), machine.bytes_per_s
        )
        relative = steps(curve, rows, 64)
        print(f"{rows:6} {1000 * curve.seconds(rows, 64):14.2f} {relative:>18} {modelled / plain:28.2f}")

# %%
import plotly.graph_objects as go

from specdec_labs.plots.page import notebook_template

figure = go.Figure()
figure.add_scatter(
    x=list(ROWS),
    y=[None if wrong else curve.relative(rows, 64) for rows in ROWS],
    name="measured here",
    mode="lines+markers",
    marker={"symbol": "diamond", "size": 9},
)
figure.add_scatter(
    x=list(ROWS),
    y=[max(1.0, rows / ridge) for rows in ROWS],
    name="roofline of this machine",
    mode="lines",
    line={"dash": "dash"},
)
figure.add_scatter(x=list(ROWS), y=list(ROWS), name="no sharing at all", mode="lines", line={"dash": "dot"})
figure.update_layout(
    template=notebook_template(),
    title={"text": measured_on(), "font": {"size": 12}},
    height=400,
    margin={"l": 10, "r": 10, "t": 80, "b": 10},
    xaxis_title="tokens in the pass",
    yaxis_title="time, in passes over one token",
    yaxis_range=[0, 3.0 if wrong else max(3.0, 1.2 * curve.relative(ROWS[-1], 64))],
    legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
)
figure

# %% [markdown]
# What the curve says about speculation: a round with $\gamma$ drafts has to emit more tokens than its verify pass
# costs, or it loses, even if drafting were free.

# %%
print("drafts a round   tokens it must emit to break even, drafting for free")
for gamma in (gamma for gamma in (1, 3, 7, 15) if gamma + 1 in ROWS):
    print(f"{gamma:14} {steps(curve, gamma + 1, 64):>10}")

# %% [markdown]
# ## 6. Break it: a table that does not add up
#
# One of the documents this lab grew out of has a table of a 70-billion-weight model in 16 bits (140 GB) "on an 8x H100
# SXM cluster", 3,350 GB/s each, and says that plain decoding gives **23.8 tokens a second**. Change `DEVICES` until the
# modelled number meets the quoted one. What does the answer say about the table? (And does the model fit?)

# %%
from specdec_core.model_shapes import model_shape
from specdec_core.roofline import fits, forward_time, forward_work

DEVICES = 8
target, device = model_shape("dense-70b"), hardware("h100-sxm")
step = forward_time(forward_work(target, 1, degree=DEVICES), device).seconds
print(f"{DEVICES} x {device.name}: at most {1 / step:.1f} tokens a second (modelled); quoted: 23.8")
print(f"the weights fit: {fits(target, device, degree=DEVICES)}")

# %% [markdown]
# The whole audit, every cell of that table and every other figure of those documents, is `specdec audit-seeds`;
# notebook 04 goes through the speed-ups.
#
# ## Pitfalls
#
# * *"The GPU is 100 % busy, so it is compute-bound."* That meter counts time with a kernel running, also one that waits
#   for memory.
# * *Arithmetic intensity "near 1" is a law of nature.* It is $2t/b$: 1 for one token in 16 bits, 0.5 in float32, 4 in
#   4 bits.
# * *Long contexts.* The cache is read in every pass too, once a sequence: with a large batch and a long context it is
#   more than the weights, and it is not shared between sequences.
# * *Thresholds without a machine.* "Batch up to 8", "disable from 16", "inverts at 64", all three from one document:
#   the ridge of *your* device, model and context decides.
# * *A CPU has a ridge as well.* Here it is a few tokens to a few dozen, not hundreds, and caches blur it.
#
# ## Sources
#
# * S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model*, CACM 52 (2009)
# * N. Shazeer, *Fast Transformer Decoding: One Write-Head is All You Need*, arXiv 1911.02150, section 2.4
# * NVIDIA data sheets, as named beside each preset in `specdec_core/hardware_presets.py`
#
# ## What next
#
# Notebook 02: how drafts are judged so that the text stays the target's. Notebook 04: what is left of the free tokens
# once drafting and refusals are paid for.
