"""The recorded texts with the target's states on them, computed once and kept on disk."""

from collections.abc import Sequence
from pathlib import Path

from jaxtyping import Float
import torch
from torch import Tensor

from specdec_core.models.llama import Llama
from specdec_labs.acceptance.record import Text
from specdec_labs.acceptance.rows import answer_states


class Recordings:
    """Texts by index, the target that wrote them, and its states; `stop` are the ids that end a text."""

    def __init__(self, texts: Sequence[Text], target: Llama, stop: tuple[int, ...], folder: Path) -> None:
        """`folder` keeps the states, one file a text, made when they are first asked for."""
        self.texts, self.target, self.stop = list(texts), target, stop
        self._folder = folder

    def chosen(
        self, *, temperature: float, tuning: bool = False, task: str | None = None, every: int = 1, first: int = 0
    ) -> list[int]:
        """Indices of texts at that temperature, of one task or of all; of each task every `every`-th from `first`."""
        found: list[int] = []
        seen: dict[str, int] = {}
        for index, text in enumerate(self.texts):
            wanted = text.temperature == temperature and text.prompt.tuning == tuning
            # an answer of one token has no round
            if not wanted or task not in (None, text.prompt.task) or len(text.answer) < 2:
                continue
            place = seen.get(text.prompt.task, 0)
            seen[text.prompt.task] = place + 1
            if place % every == first:
                found.append(index)
        return found

    def tasks(self) -> list[str]:
        """The tasks that are measured on, in the order of the texts."""
        return list(dict.fromkeys(text.prompt.task for text in self.texts if not text.prompt.tuning))

    def states(self, index: int) -> Float[Tensor, "rows width"]:
        """The target's state at every token but the last."""
        from safetensors.torch import load_file, save_file

        text = self.texts[index]
        path = self._folder / f"states-{index:04d}.safetensors"
        if path.is_file():
            held = load_file(path)
            if held["tokens"].tolist() == list(text.tokens):
                return held["states"]
        states = answer_states(self.target, text.tokens, text.prompt_length)
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".part")
        save_file({"states": states, "tokens": torch.tensor(text.tokens)}, partial)
        partial.replace(path)
        return states

    def logits(self, index: int) -> Float[Tensor, "answer vocab"]:
        """The target's logits for every token of the answer."""
        states = self.states(index)[self.texts[index].prompt_length - 1 :]
        with torch.inference_mode():
            logits = self.target.weights.head(states.to(self.target.dtype))
        return logits.to(torch.float32, copy=True)

    def chances(self, index: int) -> Float[Tensor, " answer"]:
        """The target's probability at temperature 1 of each of the answer's tokens."""
        answer = torch.tensor(self.texts[index].answer)
        return self.logits(index).softmax(dim=-1).gather(-1, answer[:, None])[:, 0]

    def ends(self, index: int) -> bool:
        """Whether the answer ended itself."""
        return self.texts[index].tokens[-1] in self.stop

    def near_ties(self, indices: Sequence[int]) -> tuple[int, int]:
        """Recorded greedy tokens that are not the argmax of a pass over the whole text, and how many were looked at."""
        differing = looked_at = 0
        for index in indices:
            answer = torch.tensor(self.texts[index].answer)
            differing += int((self.logits(index).argmax(dim=-1) != answer).sum())
            looked_at += len(answer)
        return differing, looked_at
