"""What walks ask of feature memory's banks, and the clocks that takes: lanes that share a bank take turns. Used by `predict`.

Exact for a walk that is alone; blocks differ from each other by nothing but a shift of all banks.
"""

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_groups, taps_of
from cnna.spec.config import Config

Words = NDArray[np.int64]  # [requests, lanes]: addresses; NONE where a lane asks for nothing
NONE = -1


def walk_clocks(fields: Fields, config: Config) -> NDArray[np.int64]:
    """For each group of `pix` output pixels of a conv or vector command: clocks to read all taps of one block."""
    words = source_words(fields, config, 0, (0, command_groups(fields, config)))
    lanes = np.arange(config.pix)
    return _most_alike(np.where(words >= 0, words % config.banks, NONE - lanes)).reshape(-1, taps_of(fields)).sum(1)


def source_words(fields: Fields, config: Config, block: int, groups: tuple[int, int]) -> Words:
    """What a block's requests read, tap by tap, for some groups of `pix` output pixels, as many as there are."""
    width, height = fields["out_width"], fields["out_height"]
    count = fields["images"] * height * width
    n = np.arange(groups[0] * config.pix, min(groups[1], command_groups(fields, config)) * config.pix)
    rows = n // width
    y, x = rows % height, n % width
    address = _addresses("src", fields, n) + block * fields["src_block"]
    found = []
    for ky in range(fields["kernel_height"]):
        row = fields["first_y"] + y * fields["stride_y"] + ky * fields["stride_dilation_y"]
        for kx in range(fields["kernel_width"]):
            column = fields["first_x"] + x * fields["stride_x"] + kx * fields["stride_dilation_x"]
            inside = (row >= 0) & (row < fields["in_height"]) & (column >= 0) & (column < fields["in_width"]) & (n < count)
            word = (address + ky * fields["src_ky"] + kx * fields["src_kx"]) % config.feature_words
            found.append(np.where(inside, word, NONE).reshape(-1, 1, config.pix))
    return np.concatenate(found, axis=1).reshape(-1, config.pix)


def plane_words(prefix: str, fields: Fields, config: Config, blocks: tuple[int, int], groups: tuple[int, int]) -> Words:
    """What is written or read along a walk `dst` or `res`: half a group of one block a request, blocks inside half groups."""
    count = fields["images"] * fields["out_height"] * fields["out_width"]
    n = np.arange(groups[0] * config.pix, min(groups[1], command_groups(fields, config)) * config.pix)
    first = _addresses(prefix, fields, n).reshape(-1, 1, config.half)
    moved = np.arange(*blocks).reshape(1, -1, 1) * fields[f"{prefix}_block"]
    exists = (n < count).reshape(-1, 1, config.half)
    return np.where(exists, (first + moved) % config.feature_words, NONE).reshape(-1, config.half)


def _addresses(prefix: str, fields: Fields, n: NDArray[np.int64]) -> NDArray[np.int64]:
    """The words of output pixels `n`, block 0, tap 0."""
    rows = n // fields["out_width"]
    address = fields[prefix] + n * fields[f"{prefix}_x"] + rows * fields[f"{prefix}_row"]
    return address + rows // fields["out_height"] * fields[f"{prefix}_image"]


def _most_alike(banks: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row of [groups, lanes]: how many lanes have the same number, at most."""
    ordered = np.sort(banks, axis=1)
    most, run = np.ones(len(banks), np.int64), np.ones(len(banks), np.int64)
    for lane in range(1, banks.shape[1]):
        run = np.where(ordered[:, lane] == ordered[:, lane - 1], run + 1, 1)
        most = np.maximum(most, run)
    return most
