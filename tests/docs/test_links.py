"""Every relative link, and every place that a page or a check sends the reader to, is there."""

from importlib import import_module
from pathlib import Path
import re

import pytest

from specdec_labs.exercises import all_exercises
from specdec_labs.grade.tasks import TASKS
from specdec_labs.museum.catalogue import MUSEUM

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)

PART = re.compile(r"^(?:# )?## (\d+)\.", re.MULTILINE)
NOTEBOOK = re.compile(r"\bnotebooks? (\d\d)(?:, section (\d+))?")
ON_THIS_PAGE = re.compile(r"(?<![\w#] )\b[Ss]ections? (\d)\b(?![.\d])")
ELSEWHERE = re.compile(r"\b(?:notebooks? \d\d,|E\d\d,|arXiv [\d.]+,|\d{4}\.\d{5},) ?sections? \d")
PRIVATE = re.compile(r"\bP\d{2}\b|\bAUDIT\b|\bseeds? 00\d|(?<![-.])\bseeds\b")
"""Names that no reader can look up: of the tests' reported cases, and of the documents the lab grew out of."""
CODE = re.compile(r"\bspecdec_(?:core|labs|kernels)(?:\.\w+)+")


def anchors(text: str) -> set[str]:
    """Anchors that a Markdown viewer makes of the headings."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCE.sub("", text)))
    return {heading.replace(" ", "-") for heading in kept}


def broken_links(path: Path) -> list[str]:
    """Relative links of the file that lead nowhere."""
    text = path.read_text(encoding="utf-8")
    broken = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


def test_no_link_is_broken(root: Path, source_files: tuple[Path, ...]) -> None:
    pages = [path for path in source_files if path.suffix == ".md"]
    assert root / "README.md" in pages
    assert {str(page.relative_to(root)): links for page in pages if (links := broken_links(page))} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Over here\n[a](b.md) [b](#over-here) [c](https://example.org/x)", []),
        ("[a](missing.md)", ["missing.md"]),
        ("[a](#nowhere) [b](b.md#first-part) [c](b.md#second)", ["#nowhere", "b.md#second"]),
        ("```\n[a](missing.md)\n```\n`[a](missing.md)`", []),
    ],
)
def test_the_check_finds_what_is_broken(tmp_path: Path, text: str, expected: list[str]) -> None:
    (tmp_path / "b.md").write_text("## First part\n", encoding="utf-8")
    page = tmp_path / "a.md"
    page.write_text(text, encoding="utf-8")
    assert broken_links(page) == expected


def parts(root: Path) -> dict[str, set[str]]:
    """The numbered parts of each notebook that there is, by the notebook's number."""
    sources = (root / "notebooks" / "src").glob("*.py")
    return {path.name[:2]: set(PART.findall(path.read_text(encoding="utf-8"))) for path in sources}


def is_code(name: str) -> bool:
    """Whether the dotted name can be imported, as a module or from one."""
    whole = name.split(".")
    for length in range(len(whole), 0, -1):
        try:
            found = import_module(".".join(whole[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in whole[length:]:
            found = getattr(found, attribute, None)
        return found is not None
    return False


def lost(text: str, root: Path, page: str = "") -> list[str]:
    """Places the text names that are not there. `page` is the number of the notebook it stands in, if it is one."""
    there = parts(root)
    text = re.sub(r"\s*\n(?:# ?)?", " ", text)
    found = [match[0] for match in PRIVATE.finditer(text)]
    for match in NOTEBOOK.finditer(text):
        if match[1] not in there or (match[2] and match[2] not in there[match[1]]):
            found.append(match[0])
    if page:
        own = re.split(r"## Sources", ELSEWHERE.sub("", text))[0]
        found += [match[0] for match in ON_THIS_PAGE.finditer(own) if match[1] not in there[page]]
    found += [name for name in re.findall(r"\bdocs/[\w./-]+\.\w+", text) if not (root / name).is_file()]
    found += [name for name in re.findall(r"\bspecdec museum (\w+)", text) if name not in MUSEUM]
    found += [name for name in re.findall(r"\bE\d\d\.\w+", text) if name not in TASKS]
    found += [name for name in re.findall(r"\bE\d\d\b", text) if name not in all_exercises()]
    return found + [name for name in CODE.findall(text) if not is_code(name)]


READ_ON = re.compile(r"notebook \d\d(?!(?:, section \d+)?(?:$|; |: ))")


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.id)
def test_read_on_leads_somewhere(root: Path, task) -> None:
    texts = {f"{entry.name}: {entry.pointer}": lost(entry.pointer, root) for entry in task.properties}
    texts |= {f"{entry.name}, why": lost(entry.why, root) for entry in task.properties}
    assert {name: places for name, places in texts.items() if places} == {}
    vague = [entry.pointer for entry in task.properties if READ_ON.search(entry.pointer)]
    assert vague == [], "a part of a notebook is named by its number: 'notebook 12, section 2'"


def test_pages_send_nobody_into_the_void(root: Path) -> None:
    pages = [*(root / "notebooks" / "src").glob("*.py"), *(root / "exercises").rglob("*.md")]
    pages += [*(root / "exercises").rglob("starter.py"), root / "notebooks" / "README.md"]
    found = {}
    for path in pages:
        page = path.name[:2] if path.parent.name == "src" else ""
        found[str(path.relative_to(root))] = lost(path.read_text(encoding="utf-8"), root, page)
    for path in [*(root / "docs").glob("*.md"), root / "README.md"]:  # where seeds are those of random numbers
        text = path.read_text(encoding="utf-8").replace("seeds", "")
        found[str(path.relative_to(root))] = lost(text, root)
    assert len(found) > 30 and {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("notebook 01, section 2; docs/rules.md; E03.chain; specdec museum reused_noise", []),
        ("notebook 07", ["notebook 07"]),
        ("see\n# notebook 01, section\n# 9", ["notebook 01, section 9"]),
        ("section 9, and section 2; arXiv 2302.01318, section 9; ## Sources section 9", ["section 9"]),
        ("P45; seeds AUDIT 4", ["P45", "seeds", "AUDIT"]),
        (
            "docs/nothing.md; specdec museum nothing; E03.nothing; E99",
            ["docs/nothing.md", "nothing", "E03.nothing", "E99"],
        ),
        ("specdec_core.draft.DraftTree.parents, specdec_core.draft.Nothing", ["specdec_core.draft.Nothing"]),
    ],
)
def test_the_check_finds_what_is_lost(root: Path, text: str, expected: list[str]) -> None:
    assert lost(text, root, "01") == expected
