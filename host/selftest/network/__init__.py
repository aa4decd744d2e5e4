"""The network that the self-test brings along, compiled for each preset, with its pictures and the answers that must come.

`tools/known_network.py` makes the files beside this one; a board needs no compiler for them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.artifact import Artifact, load
from cnna.spec.config import PRESETS, Config

FOLDER = Path(__file__).resolve().parent
ANSWERS = FOLDER / "answers.npz"
COUNT, SIDE = 4, 32  # pictures, and their rows and columns


class Known(NamedTuple):
    """An artifact, uint8 pictures [N, H, W, C] for it, and its float32 answers to them."""

    artifact: Artifact
    pictures: NDArray[np.uint8]
    answers: NDArray[np.float32]


def path_of(name: str) -> Path:
    """Where the artifact for a preset lies."""
    return FOLDER / f"{name}.cnna"


def pictures() -> NDArray[np.uint8]:
    """[N, H, W, C] of noise: multiples of a large odd number, which are the same with every version of numpy."""
    numbers = np.arange(COUNT * SIDE * SIDE * 3, dtype=np.uint64) * np.uint64(2_654_435_761)
    return (numbers >> np.uint64(15)).astype(np.uint8).reshape(COUNT, SIDE, SIDE, 3)


def known(config: Config) -> Known | None:
    """What there is for an accelerator of these sizes, whatever its name, clock and streams; None for one that is no preset."""
    for name in _same(config):
        with np.load(ANSWERS) as answers:
            return Known(load(path_of(name)), pictures(), answers["y"])
    return None


def _same(config: Config) -> Iterator[str]:
    for name, other in PRESETS.items():
        if replace(config, name=name, clock_mhz=other.clock_mhz, streams=other.streams) == other:
            yield name
