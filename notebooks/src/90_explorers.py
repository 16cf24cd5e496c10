# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The explorers on one page
#
# The same widgets as in the notebooks, without their text. `make dashboards` serves this page without JupyterLab.

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

# %% [markdown]
# ## Speed-up
#
# The map takes the costs of a round from where you say: one ratio, a roofline, or a measured curve. The squares are
# quoted from the seed documents. The diamonds and the measured costs are SmolLM2's on two CPU cores
# (`docs/results/speedup-smollm2.json` and `curve-smollm2.json`; how, is in `docs/costs.md`). For your own machine:
# `specdec bench speedup --json FILE`, its rows through `measured_points` and the whole as `costs` (notebook 04).

# %%
import json

from specdec_labs.exercises import find_clone
from specdec_labs.widgets.speedup import SEED_POINTS, measured_points, speedup_explorer

clone = find_clone()


def result(name):
    """A committed measurement; None without a clone, as from an installed package."""
    path = None if clone is None else clone / "docs" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else None


report, curve = result("speedup-smollm2"), result("curve-smollm2")
if report is not None:
    stamp = report["curve"]["hardware"]
    print(f"the diamonds: {stamp['processor']}, threads: {stamp['threads']}, {stamp['date']}")
speedup_explorer([*SEED_POINTS, *(measured_points(report) if report else [])], costs=curve)

# %% [markdown]
# ## Roofline

# %%
from specdec_labs.widgets.roofline import roofline_explorer

roofline_explorer()

# %% [markdown]
# ## One draft, one coin

# %%
from specdec_labs.widgets.coin import coin_editor

coin_editor(["6/10", "3/10", "1/10"], ["2/10", "2/10", "6/10"], drafted=2, u=0.3)

# %% [markdown]
# ## Trees and their masks
#
# The best tree of each size when the first, second and third child of a node are accepted with 0.6, 0.2 and 0.1.

# %%
from specdec_core.sequoia import sequoia_tree
from specdec_core.tree_shapes import shape_of
from specdec_labs.widgets.tree import frame_of, tree_view

shapes = [shape_of(sequoia_tree((0.6, 0.2, 0.1), nodes, 6)) for nodes in range(1, 25)]
trees = tree_view([frame_of(shape, name=lambda _: "", label=f"nodes: {len(shape)}") for shape in shapes])
trees.frame = 9
trees
