"""The audit of the installed transformers: its sampling rule, and whole calls of `generate` with drafts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.warp import SamplingParams
from specdec_labs.audit.subject import Subject
from specdec_labs.audit.tables import Row, Tables, random_tables

if TYPE_CHECKING:
    from specdec_labs.audit.table_models import TableModel

PARAMS = SamplingParams(temperature=0.5, top_k=3)
"""The settings of every audit: they change both laws, so a q that is not what was sampled shows."""

HORIZON = 6
DRAFTED = 2

Rule = Callable[..., tuple[Tensor, Tensor]]
"""transformers' `_speculative_sampling`: (candidate ids, candidate logits, their number, target logits)."""


def tables() -> Tables:
    """The audited pair: six tokens, the last two matter, no ties for top-k to break.

    Of 300 such pairs the one on which a rule that reads the draft's law at temperature 1 is furthest from the target.
    """
    return random_tables(180, vocab=6, order=2, largest=40, distinct=True)


def subjects(names: Sequence[str] | None = None, *, rule: Rule | None = None) -> list[Subject]:
    """The audits of transformers; `names` chooses among rule, assistant, prompt-lookup.

    Args:
        rule: stands in for transformers' `_speculative_sampling` in the audit of the rule.

    Raises:
        ValueError: transformers is not installed, or an unknown name.
    """
    try:
        import transformers
    except ImportError as error:
        raise ValueError("transformers is not installed; run `make setup`") from error
    made = {"rule": _rule_subject, "assistant": _assistant_subject, "prompt-lookup": _lookup_subject}
    if unknown := set(names or ()) - set(made):
        raise ValueError(f"{sorted(unknown)} is no audit of transformers; expected some of {', '.join(made)}")
    settings = {"transformers": transformers.__version__, "params": PARAMS.to_dict()}
    chosen = [make for name, make in made.items() if not names or name in names]
    return [make(settings, rule) if make is _rule_subject else make(settings) for make in chosen]


def warped(rows: Sequence[Row]) -> Float[Tensor, "contexts vocab"]:
    """The laws of a table's rows under `PARAMS`."""
    logits = torch.tensor([[float(p) for p in row] for row in rows], dtype=torch.float64).log().float()
    return PARAMS.probs(logits, ())


def _law(pair: Tables) -> Callable[[Sequence[int]], Tensor]:
    laws = warped(pair.target)
    return lambda tokens: laws[pair.context(tokens)]


@contextmanager
def _noise_of(request: int) -> Iterator[None]:
    """transformers draws from torch's global generator: each request seeds it, and it is put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines about how transformers calls itself."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _rule_subject(settings: dict[str, Any], rule: Rule | None = None) -> Subject:
    from transformers.generation.utils import _speculative_sampling

    pair, judge = tables(), rule or _speculative_sampling
    laws = warped(pair.target), warped(pair.draft)

    def sample(first: int, count: int) -> list[list[int]]:
        return [_rounds(pair, laws, judge, request) for request in range(first, first + count)]

    return Subject(
        "rule",
        "_speculative_sampling called as _assisted_decoding calls it; drafts from torch.multinomial",
        sample,
        _law(pair),
        HORIZON,
        {**settings, "drafted": DRAFTED, "tables": pair.to_dict()},
    )


def _rounds(pair: Tables, laws: tuple[Tensor, Tensor], judge: Rule, request: int) -> list[int]:
    """Rounds of `DRAFTED` drafts with the rule alone: no models, no caches."""
    target, draft = laws
    tokens: list[int] = []
    with _noise_of(request):
        while len(tokens) < HORIZON:
            drafts: list[int] = []
            q = []
            for _ in range(DRAFTED):
                q.append(draft[pair.context(tokens + drafts)])
                drafts.append(int(torch.multinomial(q[-1], 1)))
            p = [target[pair.context(tokens + drafts[:step])] for step in range(DRAFTED + 1)]
            ids = torch.tensor([[*pair.start, *tokens, *drafts]])
            emitted, _ = judge(ids, torch.stack(q)[None].log(), DRAFTED, torch.stack(p)[None].log())
            tokens += emitted[0].tolist()
    return tokens[:HORIZON]


def _models(pair: Tables) -> tuple["TableModel", "TableModel"]:
    from specdec_labs.audit.table_models import TableModel

    target = TableModel.of(pair.target, pair.vocab, pair.order)
    draft = TableModel.of(pair.draft, pair.vocab, pair.order)
    # every other option of drafting keeps its default, the confidence threshold of 0.4 too
    draft.generation_config.num_assistant_tokens = DRAFTED
    return target, draft


def _assistant_subject(settings: dict[str, Any]) -> Subject:
    pair = tables()
    target, draft = _models(pair)
    prompt = [0, 0, 0, *pair.start]
    return Subject(
        "assistant",
        f"generate(assistant_model=..., do_sample=True), num_assistant_tokens {DRAFTED}, else defaults",
        _generate(target, prompt, assistant_model=draft),
        _law(pair),
        HORIZON,
        {**settings, "drafted": DRAFTED, "tables": pair.to_dict(), "prompt": prompt},
    )


def _lookup_subject(settings: dict[str, Any]) -> Subject:
    pair = tables()
    target, _ = _models(pair)
    # every pair of tokens occurs, so that a continuation is found in every round
    prompt = [token for first in range(pair.vocab) for second in range(pair.vocab) for token in (first, second)]
    prompt += pair.start
    return Subject(
        "prompt-lookup",
        f"generate(prompt_lookup_num_tokens={DRAFTED}, do_sample=True)",
        _generate(target, prompt, prompt_lookup_num_tokens=DRAFTED),
        _law(pair),
        HORIZON,
        {**settings, "drafted": DRAFTED, "tables": pair.to_dict(), "prompt": prompt},
    )


def _generate(model: Any, prompt: Sequence[int], **drafting: Any) -> Callable[[int, int], list[list[int]]]:
    def sample(first: int, count: int) -> list[list[int]]:
        ids = torch.tensor([prompt])
        texts = []
        for request in range(first, first + count):
            with _noise_of(request), _quiet():
                text = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    temperature=PARAMS.temperature,
                    top_k=PARAMS.top_k,
                    max_new_tokens=HORIZON,
                    **drafting,
                )
            texts.append(text[0, len(prompt) :].tolist())
        return texts

    return sample
