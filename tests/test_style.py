"""The checks of `make lint`, so that a plain run of the tests sees style and types too."""

import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from .conftest import LONG_FILES
from .test_layering import FOLDERS

# The version of a PYNQ image: nothing newer may be imported or called.
BOARD_PYTHON = "mypy --python-version 3.10 -p cnna.host -p cnna.serve"
COMMANDS = ("ruff check .", "ruff format --check .", "mypy -p cnna", BOARD_PYTHON, "mypy tools examples", "mypy tests")


@pytest.mark.parametrize("command", COMMANDS)
def test_lint_is_clean(root: Path, command: str) -> None:
    """A slip of style or types would go unseen until somebody calls `make lint`."""
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, done.stdout + done.stderr


def test_make_runs_the_same(root: Path) -> None:
    """A tool that is added to one of the two would be missing from the other."""
    recipe = (root / "Makefile").read_text().split("\nlint:", 1)[1].split("\n\n", 1)[0]
    assert tuple(line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()[1:]) == COMMANDS


def test_no_comment_hangs_off_a_closing_bracket(root: Path) -> None:
    """The formatter breaks a long line before its comment, which then stands behind the bracket, far from what it is about."""
    found = []
    for file in (file for folder in (*FOLDERS, "tests", "tools", "examples") for file in (root / folder).rglob("*.py")):
        with file.open() as text:
            for token in tokenize.generate_tokens(text.readline):
                hangs = token.type == tokenize.COMMENT and token.line.lstrip()[0] in ")]}"
                if hangs and not token.string.startswith("# fmt:"):
                    found.append(f"{file.relative_to(root)}:{token.start[0]}: {token.string}")
    assert not found, "\n".join(found)


def test_files_that_run_first_are_there(root: Path) -> None:
    """A file that was renamed would begin last again, and one processor would wait for it."""
    assert all((root / name).is_file() for name in LONG_FILES)
