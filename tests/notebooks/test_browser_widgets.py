"""Every widget in JupyterLab: the keys a person presses, a restarted kernel, a saved page without one, both themes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
import pytest

pytestmark = pytest.mark.browser

NAME = "every_widget"
TRACE = """
from specdec_core.drafters import ModelDrafter
from specdec_core.engine import Engine
from specdec_core.toy import toy_pair
from specdec_core.warp import SamplingParams
from specdec_labs.widgets.theatre import theatre

target, draft = toy_pair()
engine = Engine(target, ModelDrafter(draft), "chain", 4, record_top=6)
trace = engine.generate([1, 2, 3], SamplingParams(temperature=8.0, seed=3), 24).trace
theatre(trace)
"""
CELLS = {
    ".sd-theatre": TRACE,
    ".sd-coin": "from specdec_labs.widgets.coin import coin_editor\ncoin_editor()",
    ".sd-speedup": "from specdec_labs.widgets.speedup import speedup_explorer\nspeedup_explorer(cost='roofline')",
    ".sd-roofline": "from specdec_labs.widgets.roofline import roofline_explorer\nroofline_explorer()",
    ".sd-tree": """
from specdec_core.draft import DraftTree
from specdec_labs.widgets.tree import frame_of, tree_view
tree_view([frame_of(DraftTree((1, 2, 3), (-1, -1, 0)), label=f"tree {index}") for index in range(2)])
""",
    ".sd-passport": "from specdec_labs.widgets.passport import passport\npassport()",
    ".sd-card": """
from specdec_labs.widgets.predict import PredictionCard
card = PredictionCard("How many?", ["few", "some", "many"], [2.0, 3.0])
card.reveal(2.5)
card
""",
    ".js-plotly-plot": """
from specdec_labs.widgets.race import race_figure, race_view
race_figure(race_view({"plain": [trace], "drafted": [trace]}))
""",
}
