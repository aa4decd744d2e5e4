"""The network that comes with the self-test: compiled for each preset, with pictures and the answers that it must give.

`tools/selftest_network.py` makes the files in `network/`, so a board needs no compiler for them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.artifact import Artifact, load
from cnna.spec.config import OPTIONS, PRESETS, Config

FOLDER = Path(__file__).resolve().parent / "network"
ANSWERS = FOLDER / "answers.npz"
COUNT, SIDE = 4, 32  # pictures, and the rows and columns of each


class SelftestNetwork(NamedTuple):
    """An artifact, uint8 pictures [N, H, W, C] for it, and its float32 answers to them."""

    artifact: Artifact
    pictures: NDArray[np.uint8]
    answers: NDArray[np.float32]


def path_of(name: str) -> Path:
    """The file of a preset's artifact."""
    return FOLDER / f"{name}.cnna"


def pictures() -> NDArray[np.uint8]:
    """Noise, [N, H, W, C], from multiples of a large odd number. It is the same with every version of numpy."""
    numbers = np.arange(COUNT * SIDE * SIDE * 3, dtype=np.uint64) * np.uint64(2_654_435_761)
    return (numbers >> np.uint64(15)).astype(np.uint8).reshape(COUNT, SIDE, SIDE, 3)


def network_for(config: Config) -> SelftestNetwork | None:
    """The network for an accelerator of these sizes, whatever its name, clock and streams. None: no preset has the sizes."""
    for name in _same(config):
        with np.load(ANSWERS) as answers:
            return SelftestNetwork(load(path_of(name)), pictures(), answers["y"])
    return None


def _same(config: Config) -> Iterator[str]:
    for name, other in PRESETS.items():
        unseen = {key: getattr(other, key) for key in ("clock_mhz", "streams", *OPTIONS)}
        if replace(config, name=name, **unseen) == other:
            yield name
