"""Clocks that feature memory takes to give a walk's words: lanes that share a bank take turns. Used by `predict`.

Exact for a walk that is alone; blocks differ from each other by nothing but a shift of all banks.
"""

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost import Fields
from cnna.hw.config import Config


def walk_clocks(fields: Fields, config: Config) -> NDArray[np.int64]:
    """For each group of `pix` output pixels of a conv or vector command: clocks to read all taps of one block."""
    width, height = fields["out_width"], fields["out_height"]
    count = fields["images"] * height * width
    n = np.arange(-(-count // config.pix) * config.pix)
    rows = n // width
    y, x = rows % height, n % width
    address = n * fields["src_x"] + rows * fields["src_row"] + n // (width * height) * fields["src_image"]
    clocks = np.zeros(len(n) // config.pix, np.int64)
    for ky in range(fields["kernel_height"]):
        row = fields["first_y"] + y * fields["stride_y"] + ky * fields["stride_dilation_y"]
        for kx in range(fields["kernel_width"]):
            column = fields["first_x"] + x * fields["stride_x"] + kx * fields["stride_dilation_x"]
            inside = (row >= 0) & (row < fields["in_height"]) & (column >= 0) & (column < fields["in_width"]) & (n < count)
            bank = (address + ky * fields["src_ky"] + kx * fields["src_kx"]) % config.banks
            clocks += _most_alike(np.where(inside, bank, -1 - n % config.pix).reshape(-1, config.pix))
    return clocks


def _most_alike(banks: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row of [groups, lanes]: how many lanes have the same number, at most."""
    ordered = np.sort(banks, axis=1)
    most, run = np.ones(len(banks), np.int64), np.ones(len(banks), np.int64)
    for lane in range(1, banks.shape[1]):
        run = np.where(ordered[:, lane] == ordered[:, lane - 1], run + 1, 1)
        most = np.maximum(most, run)
    return most
