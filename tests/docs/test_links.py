"""Every relative link and anchor in a Markdown file leads somewhere."""

from pathlib import Path
import re

import pytest

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)


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
