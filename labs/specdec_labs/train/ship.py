"""A finished run becomes weights that come with the package: the files, and a card that tells where they are from."""

import json
from pathlib import Path
import shutil
from typing import Any

from specdec_core.models.llama_folder import CONFIG, WEIGHTS
from specdec_core.models.shipped import (
    CARD,
    CUT,
    FOLDER,
    HEAD,
    NAMES,
    SMOLLM2_DRAFT,
    SMOLLM2_EAGLE,
    SMOLLM2_MEDUSA,
    TINY_DRAFT,
    TINY_TARGET,
    TOKENIZER,
)
from specdec_core.whole_file import write_whole
from specdec_labs.train.checkpoint import load_checkpoint, run_hash

_LLAMA = {WEIGHTS: WEIGHTS, CONFIG: CONFIG}
FILES = {
    TINY_TARGET: {**_LLAMA, TOKENIZER: TOKENIZER},
    TINY_DRAFT: {**_LLAMA},
    SMOLLM2_DRAFT: {**_LLAMA, CUT: CUT},
    SMOLLM2_MEDUSA: {"medusa.safetensors": HEAD},
    SMOLLM2_EAGLE: {"eagle.safetensors": HEAD},
}
"""Of each set of weights: the run's files, and what they are called in the package."""

_OWN_TEXT = (
    "text SmolLM2-135M-Instruct (Apache-2.0) wrote itself: answers to prompts it invented and to templates filled from "
    "the public-domain corpus and from the Python standard library (PSF-2.0); MT-bench and HumanEval prompts excluded"
)
_CORPUS = (
    "the corpus of `specdec data fetch`: six novels by Jane Austen, the SQLite documentation, the World English Bible, "
    "the Jargon File, the Devil's Dictionary (all public domain), and the Python standard library (PSF-2.0)"
)
_DATA = {
    TINY_TARGET: _CORPUS,
    TINY_DRAFT: _CORPUS,
    SMOLLM2_DRAFT: _OWN_TEXT,
    SMOLLM2_MEDUSA: _OWN_TEXT,
    SMOLLM2_EAGLE: _OWN_TEXT,
}
_WHAT = {
    TINY_TARGET: "a small language model of English prose and Python",
    TINY_DRAFT: "a draft model distilled from tiny-target",
    SMOLLM2_DRAFT: "a draft model distilled from SmolLM2-135M-Instruct",
    SMOLLM2_MEDUSA: "Medusa heads for SmolLM2-135M-Instruct",
    SMOLLM2_EAGLE: "an EAGLE head for SmolLM2-135M-Instruct",
}


def ship(run: Path, name: str, command: str, *, earlier: Path | None = None, to: Path = FOLDER) -> str:
    """Copies the run's weights below `to` under that name, with their card; a line that says so.

    `earlier` is the run whose weights this one began with; its settings and curve go into the card too.

    Raises:
        ValueError: an unknown name, or a run that has not been exported: its file is named.
    """
    if name not in NAMES:
        raise ValueError(f"name is {name!r}; expected one of {', '.join(NAMES)}")
    source = run if name in (SMOLLM2_MEDUSA, SMOLLM2_EAGLE) else run / "model"
    for file in (*FILES[name], CARD):
        if not (source / file).is_file():
            raise ValueError(f"{source / file}: no such file; let the run come to its end first")
    made: dict[str, Any] = json.loads((source / CARD).read_text(encoding="utf-8"))
    if earlier is not None:
        found = load_checkpoint(earlier)
        if found is None or made["trained"].get("began_with") != run_hash(earlier):
            raise ValueError(
                f"{run} began with {made['trained'].get('began_with')}, {earlier} holds "
                f"{None if found is None else run_hash(earlier)}; name the run it began with"
            )
        made["earlier"] = {
            "steps": found.step,
            "settings": found.description["settings"],
            "trained": found.description["task"],
            "learning_curve": found.evaluations,
        }
    card = {"name": name, "what": _WHAT[name], "licence": "Apache-2.0", "data": _DATA[name], "command": command, **made}
    folder = to / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, as_ in FILES[name].items():
        shutil.copyfile(source / file, folder / as_)
    write_whole(folder / CARD, json.dumps(card, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.iterdir())
    return f"{folder}: {size / 1e6:.2f} MB"
