"""What a user types to install what is missing: it must work, everywhere where it is said."""

import re
from pathlib import Path

import pytest
import tomllib

from cnna.spec.extras import install

TEXTS = (".py", ".md", ".ipynb", ".sh", ".toml")
BY_NAME = re.compile(r"pip install [^`\n]*(?<![\w./-])cnna(\[|'(?!s )|[\" \n]|$)")
LEFT_OUT = {".venv", ".git", "build", "dist"}


def test_every_group_is_in_the_project(root: Path) -> None:
    """pip only warns of an unknown extra, and installs nothing of it."""
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.compile(r"install\(((?:['\"][a-z]+['\"](?:, )?)+)\)")
    found = {
        extra
        for room in ("cli", "compiler", "evaluate", "host", "jobs", "serve", "sim")
        for file in (root / room).rglob("*.py")
        for call in asked.findall(file.read_text())
        for extra in re.findall(r"[a-z]+", call)
    }
    assert {"tools", "board", "serve", "trace", "bench", "eval", "explore", "train", "cluster"} == found <= {*extras}


def test_nothing_is_installed_by_the_name_alone(root: Path) -> None:
    """`pip install cnna` fails while the package is not on PyPI, or gets what somebody else calls so."""
    wrong = []
    for file in root.rglob("*"):
        if file.suffix in TEXTS and not LEFT_OUT & {*file.relative_to(root).parts} and file != Path(__file__):
            wrong += [f"{file.relative_to(root)}: {found.group()}" for found in BY_NAME.finditer(file.read_text())]
    assert not wrong


@pytest.mark.parametrize("text", ["pip install cnna", "pip install 'cnna[tools]'", "pip install -U cnna "])
def test_the_search_finds_what_it_looks_for(text: str) -> None:
    """Otherwise the test above would prove nothing."""
    assert BY_NAME.search(text)
    assert install("tools", "serve") == "pip install '.[tools,serve]' in the folder of cnna's clone"
