"""A board of this machine without an image, and the files that a process on it opens."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cnna.spec import artifact

from ...sim.board import stock
from ..hand_made import requantised_copy, samples
from .local_board import LocalBoard


@pytest.fixture
def board(tmp_path: Path) -> Iterator[LocalBoard]:
    """A board in which no image is loaded yet."""
    made = LocalBoard(tmp_path)
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An overlay, samples and an artifact."""
    np.save(tmp_path / "x.npy", samples(5, seed=3))
    artifact.save(requantised_copy(batch=2), tmp_path / "copy.cnna")
    return stock.images(tmp_path), tmp_path / "x.npy", tmp_path / "copy.cnna"
