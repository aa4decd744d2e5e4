"""Every line that shows images a second says of what: the accelerator alone, from picture to answer, or what clients got."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOMS = ("api", "cli", "compiler", "evaluate", "host", "jobs", "pruning", "spec")
SPEED = re.compile(r"\b(images|pictures|frames|inferences) a second|\bimages/s\b|(?<![\w_.])fps\b(?!\.)")
NAMED = re.compile(r"accelerator|picture(s)?( from uint8 arrays)? to answer|clients got|ALONE|TO_ANSWER")
FREE = ("docs/history.md",)  # what was said when it was written


def sentences(path: Path) -> Iterator[str]:
    """The texts that a file of Python has outside of docstrings, each with what is put into it."""
    tree = ast.parse(path.read_text())
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node}
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        if text and id(node) not in inner | docs:
            yield ast.unparse(node)


@pytest.mark.parametrize("room", ROOMS)
def test_what_commands_print(root: Path, room: str) -> None:
    """A user would take the accelerator's frames for those that reach their answer, and buy a board that is too slow."""
    found = [(path, text) for path in sorted((root / room).rglob("*.py")) for text in sentences(path) if SPEED.search(text)]
    keys = re.compile(r"'[a-z_0-9]+'|'--[a-z-]+'")  # of JSON: docs/artifact.md says what they are; or an option, which has its help
    wrong = [f"{path.name}: {text}" for path, text in found if not NAMED.search(text) and not keys.fullmatch(text)]
    assert wrong == []


def test_what_pages_say(root: Path) -> None:
    """The same on a page: in the paragraph, in the table's head, or once for the whole page."""
    pages = [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    assert sum(bool(SPEED.search(page.read_text())) for page in pages) > 10
    wrong = []
    for page in pages:
        text = page.read_text()
        if page.relative_to(root).as_posix() in FREE or re.search(
            r"(on this page|\(\*fps\*\)).{0,40}(of the accelerator alone|clients\s+got)", text
        ):
            continue
        paragraphs = re.split(r"\n\s*\n|\n(?=- )", text)
        wrong += [f"{page.name}: {one[:150]}" for one in paragraphs if SPEED.search(one) and not NAMED.search(one)]
    assert wrong == []


def test_what_notebooks_print(root: Path) -> None:
    """The same in a notebook, whose figures people copy."""
    for path in sorted((root / "host" / "notebooks").glob("*.ipynb")):
        lines = [line for line in path.read_text().splitlines() if SPEED.search(line)]
        assert [line for line in lines if not NAMED.search(line)] == [], path.name
