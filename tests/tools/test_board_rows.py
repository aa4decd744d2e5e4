"""The page of boards is what its tool writes of the figures that are kept."""

import json
from pathlib import Path

import board_rows

from cnna.spec.boards import BOARDS


def test_the_page_is_current(root: Path) -> None:
    """A preset, a board's part or a figure has changed without the page: readers would buy or build by the old one."""
    kept = json.loads((root / "docs" / board_rows.KEPT).read_text())
    assert (root / "docs" / board_rows.PAGE).read_text() == board_rows.page(kept)
    assert set(BOARDS) <= set(kept)


def test_every_board_says_that_it_was_never_built() -> None:
    """Nobody should take a target for a measurement; whoever builds one changes this sentence, and this test."""
    assert "No preset has ever been built in Vivado" in board_rows.HEAD
