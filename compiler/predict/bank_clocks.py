"""The words of feature memory that a walk requests, and the clocks to read them. Used by `predict`.

Lanes that need the same bank are served one after another. The figures are exact for a walk that runs alone. All blocks take the
same clocks, because the base address of a block only shifts the bank numbers.
"""

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_groups, taps_of
from cnna.spec.config import Config

Words = NDArray[np.int64]  # [requests, lanes]: addresses; NONE for a lane that requests nothing
NONE = -1


WALK = (  # the fields on which `walk_clocks` depends
    *("images", "out_height", "out_width", "in_height", "in_width", "kernel_height", "kernel_width", "first_y", "first_x"),
    *("stride_y", "stride_x", "stride_dilation_y", "stride_dilation_x"),
    *("src_x", "src_row", "src_image", "src_ky", "src_kx", "b_flat"),
)


def walk_clocks(fields: Fields, config: Config) -> NDArray[np.int64]:
    """For each group of `pix` output pixels of a conv or vector command, the clocks to read all taps of one block."""
    words = source_words(fields, config, 0, (0, command_groups(fields, config)))
    lanes = np.arange(config.pix)
    return _most_alike(np.where(words >= 0, words % config.banks, NONE - lanes)).reshape(-1, taps_of(fields)).sum(1)


def source_words(fields: Fields, config: Config, block: int, groups: tuple[int, int]) -> Words:
    """The words that a block's requests read, group by group and tap by tap. groups: the first, and one past the last."""
    width, height = fields["out_width"], fields["out_height"]
    count = fields["images"] * height * width
    n = np.arange(groups[0] * config.pix, min(groups[1], command_groups(fields, config)) * config.pix)
    n = n.reshape(-1, 1, 1, config.pix)  # groups, rows and columns of the kernel, lanes
    ky = np.arange(fields["kernel_height"]).reshape(-1, 1, 1)
    kx = np.arange(fields["kernel_width"]).reshape(-1, 1)
    rows = n // width
    row = fields["first_y"] + rows % height * fields["stride_y"] + ky * fields["stride_dilation_y"]
    column = fields["first_x"] + n % width * fields["stride_x"] + kx * fields["stride_dilation_x"]
    inside = (row >= 0) & (row < fields["in_height"]) & (n < count) & ((column >= 0) & (column < fields["in_width"]))
    address = _addresses("src", fields, n) + block * fields["src_block"]
    words = (address + ky * fields["src_ky"] + kx * fields["src_kx"]) % config.feature_words
    words = np.where(inside, words, NONE)
    if fields.get("b_flat"):  # one word for all pixels, read by the first lane
        words[:, :, 0] = NONE
        words[:, :, 0, 0] = (fields["src"] + block * fields["b_block"]) % config.feature_words
    return words.reshape(-1, config.pix)


def plane_words(prefix: str, fields: Fields, config: Config, blocks: tuple[int, int], groups: tuple[int, int]) -> Words:
    """The words of a `dst` or `res` walk. A request is half a group of one block; the blocks of a half group follow each other."""
    count = fields["images"] * fields["out_height"] * fields["out_width"]
    n = np.arange(groups[0] * config.pix, min(groups[1], command_groups(fields, config)) * config.pix)
    first = _addresses(prefix, fields, n).reshape(-1, 1, config.half)
    moved = np.arange(*blocks).reshape(1, -1, 1) * fields[f"{prefix}_block"]
    exists = (n < count).reshape(-1, 1, config.half)
    return np.where(exists, (first + moved) % config.feature_words, NONE).reshape(-1, config.half)


def _addresses(prefix: str, fields: Fields, n: NDArray[np.int64]) -> NDArray[np.int64]:
    """The addresses of the output pixels `n`, for block 0 and tap 0."""
    rows = n // fields["out_width"]
    address = fields[prefix] + n * fields[f"{prefix}_x"] + rows * fields[f"{prefix}_row"]
    return address + rows // fields["out_height"] * fields[f"{prefix}_image"]


def _most_alike(banks: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row of [groups, lanes], the greatest number of lanes that hold the same value."""
    ordered = np.sort(banks, axis=1)
    most, run = np.ones(len(banks), np.int64), np.ones(len(banks), np.int64)
    for lane in range(1, banks.shape[1]):
        run = np.where(ordered[:, lane] == ordered[:, lane - 1], run + 1, 1)
        most = np.maximum(most, run)
    return most
