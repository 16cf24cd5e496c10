"""What the model is asked: prompts it invents itself, and prompts from templates over words and passages.

A recipe is a pure function of (seed, index), so that a stopped run goes on with the same requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import random
import re

from specdec_labs.data.readers import Document

INVENTED = "invented"
_SHARES = {
    INVENTED: 8,
    "explain": 3,
    "story": 1,
    "code": 4,
    "edit": 2,
    "json": 1,
    "math": 3,
    "question": 2,
    "from_text": 3,
    "summary": 3,
}
_ORDER = tuple(kind for kind, share in _SHARES.items() for _ in range(share))

_EXPLAIN = (
    "Explain what {a} {noun} is.",
    "What is {a} {noun}, and why does it matter?",
    "Tell me three facts about the {noun}.",
    "How would you describe {a} {noun} to a child?",
    "What is the difference between {a} {noun} and {a2} {noun2}?",
    "Give me some advice about choosing {a} {noun}.",
    "List five words that have to do with {noun} and say how.",
    "Write a short email to a colleague about {a} {noun}.",
    "What are the advantages and disadvantages of {a} {noun}?",
    "I know nothing about {noun}. Where should I start?",
)
_STORY = (
    "Write a short story about {a} {noun} and {a2} {noun2}.",
    "Write a poem about {a} {noun}.",
    "Write a dialogue between {a} {noun} and {a2} {noun2}.",
    "Describe a day in a town that is famous for its {noun}.",
)
_CODE = (
    "Write a Python function `{name}({arguments})`. {doc}",
    'Complete this Python function:\n\n```python\ndef {name}({arguments}):\n    """{doc}"""\n```',
    "Write a Python function named `{name}` that takes {arguments}, with a docstring and an example.",
    "Write a Python class that represents {a} {noun} with three methods.",
    "How do I read a file of {noun} records in Python and count them?",
    "Write a unit test in Python for a function `{name}({arguments})`.",
)
_EDIT = (
    "Add type hints to this function:\n\n```python\n{source}\n```",
    "Add a docstring to this function:\n\n```python\n{source}\n```",
    "Rename the function `{name}` to `{name}_{noun}` and show the whole code:\n\n```python\n{source}\n```",
    "Add a comment to each line of this code:\n\n```python\n{source}\n```",
    "What does this code do?\n\n```python\n{source}\n```",
)
_JSON = (
    "Give me a JSON object that describes {a} {noun} with the fields name, size, price and tags.",
    "Write a JSON array of three {noun} records with the fields id, title and done.",
    "Turn this into JSON: {a} {noun} costs {x} dollars, and {a2} {noun2} costs {y} dollars.",
)
_MATH = (
    "A shop sells {x} {noun}s a day. How many does it sell in {y} days?",
    "Anna has {x} {noun}s. She gives {y} of them to Ben and buys {z} more. How many does she have now?",
    "A {noun} costs {x} dollars and a {noun2} costs {y} dollars. What do {z} of each cost together?",
    "What is {x} plus {y} times {z}? Show each step.",
    "A train goes {x} kilometres in {y} hours. How fast is it on average?",
    "If {x} boxes hold {y} {noun}s each and {z} are broken, how many are whole?",
)
_QUESTION = (
    'What does the word "{noun}" mean?',
    "Which is larger, {a} {noun} or {a2} {noun2}?",
    "Is it true that every {noun} is {a2} {noun2}?",
    "Where would you find {a} {noun}?",
    "Define {noun} in one sentence.",
    "What is {a} {noun} made of?",
)
_FROM_TEXT = (
    "Answer from the text.\n\nText: {passage}\n\nQuestion: What is the text about?",
    "{passage}\n\nUsing only the text above, say what the first sentence means.",
    'Context: {passage}\n\nQuestion: What does the text say about "{word}"? Answer:',
)
_SUMMARY = (
    "Summarize the following text:\n\n{passage}",
    "Summarize in one sentence:\n\n{passage}",
    "Give the main points of this text as a list:\n\n{passage}",
)
_TEMPLATES = {
    "explain": _EXPLAIN,
    "story": _STORY,
    "code": _CODE,
    "edit": _EDIT,
    "json": _JSON,
    "math": _MATH,
    "question": _QUESTION,
    "from_text": _FROM_TEXT,
    "summary": _SUMMARY,
}

_FUNCTION = re.compile(
    r'^def ([a-z]\w{2,})\(([^()]{0,60})\):\n(?:    """([^"\n]{10,100}?)(?:""")?\n)?((?:    .*\n|\n)+)', re.MULTILINE
)
_PASSAGE_CHARS = (250, 700)
_SOURCE_CHARS = (80, 450)


@dataclass(frozen=True, slots=True)
class Request:
    """One thing to ask. `prompt` is None when the model invents it; `temperature` is that of the answer."""

    index: int
    kind: str
    prompt: str | None
    temperature: float


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    arguments: str
    doc: str
    source: str


class Recipes:
    """Requests by index. All text comes from the corpus's training split."""

    def __init__(
        self, seed: int, nouns: Sequence[str], prose: Sequence[Document], code: Sequence[Document], *, greedy: float
    ) -> None:
        """`greedy` is the share of answers at temperature 0; the others are drawn at 0.8.

        Raises:
            ValueError: a share outside 0..1, or a corpus without words, passages or functions.
        """
        if not 0 <= greedy <= 1:
            raise ValueError(f"greedy is {greedy}; expected a share between 0 and 1")
        self.seed, self.greedy, self._nouns = seed, greedy, nouns
        self._passages = [part for document in prose for part in _passages(document.text)]
        self._functions = [function for document in code for function in _functions(document.text)]
        if not (self._nouns and self._passages and self._functions):
            raise ValueError(
                f"the corpus has {len(nouns)} nouns, {len(self._passages)} passages and {len(self._functions)} "
                "functions; expected some of each - fetch all sources"
            )

    def request(self, index: int) -> Request:
        """The request of that number."""
        generator = random.Random(f"{self.seed} {index}")
        kind = generator.choice(_ORDER)
        temperature = 0.0 if generator.random() < self.greedy else 0.8
        prompt = None if kind == INVENTED else self._fill(generator.choice(_TEMPLATES[kind]), generator)
        return Request(index, kind, prompt, temperature)

    def _fill(self, template: str, generator: random.Random) -> str:
        noun, noun2 = generator.choice(self._nouns), generator.choice(self._nouns)
        passage, function = generator.choice(self._passages), generator.choice(self._functions)
        words = re.findall(r"[A-Za-z]{5,}", passage) or ["text"]
        return template.format(
            noun=noun,
            noun2=noun2,
            a=_article(noun),
            a2=_article(noun2),
            x=generator.randint(2, 60),
            y=generator.randint(2, 12),
            z=generator.randint(2, 20),
            name=function.name,
            arguments=function.arguments,
            doc=function.doc,
            source=function.source,
            passage=passage,
            word=generator.choice(words),
        )


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _passages(text: str) -> list[str]:
    """Paragraphs, joined until they are long enough; longer ones are cut at the end of a sentence."""
    shortest, longest = _PASSAGE_CHARS
    found, current = [], ""
    for paragraph in re.split(r"\n\s*\n", text):
        current = f"{current} {' '.join(paragraph.split())}".strip()
        if len(current) < shortest:
            continue
        end = current.rfind(". ", shortest, longest)
        if len(current) <= longest or end > 0:
            found.append(current if len(current) <= longest else current[: end + 1])
        current = ""
    return found


def _functions(text: str) -> list[_Function]:
    """Short top-level functions with a name, arguments and the first line of their docstring."""
    found = []
    for match in _FUNCTION.finditer(text):
        source = match[0].rstrip()
        if _SOURCE_CHARS[0] <= len(source) <= _SOURCE_CHARS[1]:
            arguments = " ".join(match[2].split())
            found.append(_Function(match[1], arguments, (match[3] or "").strip(), source))
    return found
