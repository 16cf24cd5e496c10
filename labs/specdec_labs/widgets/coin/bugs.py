"""The code the coin editor can run: the right one, and pieces of the museum that show with one draft."""

from dataclasses import dataclass

from specdec_core.exact_drafts import sampled_draft
from specdec_labs.museum.catalogue import MUSEUM
from specdec_labs.museum.decoding import Laws, Method
from specdec_labs.museum.piece import MakeMethod
from specdec_labs.museum.recovery import verify_chain_recovering_from_target
from specdec_labs.museum.verification import sampling_right

RIGHT = "none"
_PIECES = ("softmax_q", "draft_temperature_ignored", "pruned_vocabulary", "argmax_verify", "lossy_threshold")


@dataclass(frozen=True, slots=True)
class Bug:
    """A way to decode, its title, and what is wrong with it in a sentence."""

    title: str
    about: str
    make: MakeMethod


def recover_from_target(laws: Laws) -> Method:
    """The chain rule on one sampled draft, with p in place of the residual."""
    return Method(sampled_draft(laws.draft, 2), verify_chain_recovering_from_target)


BUGS: dict[str, Bug] = {
    RIGHT: Bug(
        "none: the rule as it is", "Keep x when u q(x) < p(x); after a refusal draw from the residual.", sampling_right
    ),
    "recovery_from_target": Bug(
        "redraw from p",
        "After a refusal the next token is drawn from p instead of the residual.",
        recover_from_target,
    ),
    **{name: Bug(MUSEUM[name].title, MUSEUM[name].cause, MUSEUM[name].wrong) for name in _PIECES},
}


def bug_names() -> list[list[str]]:
    """[key, title] of each, in order, for a menu."""
    return [[key, bug.title] for key, bug in BUGS.items()]
