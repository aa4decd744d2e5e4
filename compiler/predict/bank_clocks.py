"""The words of feature memory that a walk requests, and the clocks to read or write them. Used by `predict`.

Words are numbered within a deck: the same bank brings the words of all decks.

Lanes that need the same bank are served one after another. The figures are exact for a walk that runs alone. All blocks take the
same clocks, because the base address of a block only shifts the bank numbers.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_groups, taps_of
from cnna.spec.config import TAPS, Config
from cnna.spec.program.decks import located, sets_on
from cnna.spec.program.window import row_steps

Words = NDArray[np.int64]  # [requests, lanes]: addresses; NONE for a lane that requests nothing
Mask = NDArray[np.bool_]
Banks = NDArray[np.int8]
NONE = -1

WALK = (  # the fields on which `walk_clocks` depends
    *("images", "out_height", "out_width", "in_height", "in_width", "kernel_height", "kernel_width", "first_y", "first_x"),
    *("stride_y", "stride_x", "stride_dilation_y", "stride_dilation_x"),
    *("src_x", "src_row", "src_image", "src_ky", "src_kx", "b_flat", "window_apart"),
)
WRITES = ("images", "out_height", "out_width", "window_columns", "dst_x", "dst_row", "dst_image")  # as WALK, of `write_clocks`
SOURCE = (*WALK, "src", "src_block", "b_block")  # as WALK, of `source_words`


def plane_fields(prefix: str) -> tuple[str, ...]:
    """As WALK, of `plane_words`."""
    steps = (f"{prefix}{step}" for step in ("", "_x", "_row", "_image", "_block"))
    return ("images", "out_height", "out_width", "window_columns", *steps)


def walk_clocks(fields: Fields, config: Config) -> NDArray[np.int64]:
    """For each group of `pix` output pixels of a conv or vector command, the clocks to read all taps of one block."""
    addresses, asked = source_addresses(fields, config, 0, (0, command_groups(fields, config)))
    return _most_alike(_banks(addresses, asked, config)).reshape(-1, taps_of(fields)).sum(1)


def write_clocks(fields: Fields, config: Config) -> NDArray[np.int64]:
    """For each group of `pix` output pixels of a conv or vector command, the clocks to write one block.

    A clock for each half of the group, or more where pixels of a half lie in one bank. A map that is enlarged eight times is
    written eight words apart, so two of four pixels at `zcu102` share a bank.
    """
    addresses, asked = plane_addresses("dst", fields, config, (0, 1), (0, command_groups(fields, config)))
    return _most_alike(_banks(addresses, asked, config)).reshape(-1, 2).sum(1)


def source_words(fields: Fields, config: Config, block: int, groups: tuple[int, int]) -> Words:
    """The words that a block's requests read, group by group and tap by tap. groups: the first, and one past the last."""
    addresses, asked = source_addresses(fields, config, block, groups)
    return np.where(asked, _numbers(addresses, config), NONE)


def source_addresses(fields: Fields, config: Config, block: int, groups: tuple[int, int]) -> tuple[Words, Mask]:
    """As `source_words`: the sums of addresses and steps, and which of them are requested."""
    width, height = fields["out_width"], fields["out_height"]
    count = fields["images"] * height * width
    n = np.arange(groups[0] * config.pix, min(groups[1], command_groups(fields, config)) * config.pix)
    n = n.reshape(-1, 1, 1, config.pix)  # groups, rows and columns of the kernel, lanes
    ky = np.arange(fields["kernel_height"]).reshape(-1, 1, 1)
    steps = row_steps(fields["kernel_width"], fields.get("window_apart", 0))
    kx = np.array([taps[0] for taps in steps]).reshape(-1, 1)
    rows = n // width
    images = rows // height
    row = fields["first_y"] + (rows - images * height) * fields["stride_y"] + ky * fields["stride_dilation_y"]
    column = fields["first_x"] + (n - rows * width) * fields["stride_x"] + kx * fields["stride_dilation_x"]
    here: Mask = (row >= 0) & (row < fields["in_height"]) & (n < count)
    inside = here & (column >= 0) & (column < fields["in_width"])
    blocks = sets_on(fields["src"], block, config.depth)
    address = (
        _addresses("src", fields, (n, rows, images)) + blocks * fields["src_block"] + ky * fields["src_ky"] + kx * fields["src_kx"]
    )
    if fields.get("window_apart"):
        return _window_words(fields, config, address, (inside, here, column), steps)
    if fields.get("b_flat"):  # one word for all pixels, read by the first lane
        address[:, :, 0, 0] = fields["src"] + blocks * fields["b_block"]
        inside[:, :, 0] = False
        inside[:, :, 0, 0] = True
    return address.reshape(-1, config.pix), inside.reshape(-1, config.pix)


def _window_words(
    fields: Fields, config: Config, address: Words, masks: tuple[Mask, Mask, Words], steps: Sequence[Sequence[int]]
) -> tuple[Words, Mask]:
    """The words of steps with several taps, of which lane i reads tap t as word i + t. steps: the taps of each, in a row.

    masks: whether a lane's first tap is inside, whether its row is there, and its column. At two taps from lane to lane, a step and
    the one behind it request the last words for each other (`hw/walk/exchange.py`).
    """
    inside, here, column = masks
    apart, lanes = fields["window_apart"], config.pix
    needed = np.zeros((*inside.shape[:-1], lanes + TAPS - 1), np.bool_)
    needed[..., :lanes] = inside
    swaps = np.zeros((len(steps), 1), np.int64)
    for number, taps in enumerate(steps):
        for place, tap in enumerate(taps[1:], 1):
            there = column[..., number, :] + (tap - taps[0]) * fields["stride_dilation_x"]
            seen = here[..., 0, :] & (there >= 0) & (there < fields["in_width"])
            needed[..., number, place : place + lanes] |= seen
        second = taps[0] % (TAPS * apart) == 1
        if apart == 2 and (second or number < len(steps) - 1):
            swaps[number] = -fields["src_kx"] if second else fields["src_kx"]
            needed[..., number, lanes:] = True
    beyond = address[..., -1:] + np.arange(1, TAPS) * fields["src_x"] + swaps
    words = np.concatenate([address, beyond], -1)
    return words.reshape(-1, lanes + TAPS - 1), needed.reshape(-1, lanes + TAPS - 1)


def plane_words(prefix: str, fields: Fields, config: Config, blocks: tuple[int, int], groups: tuple[int, int]) -> Words:
    """The words of a `dst` or `res` walk. A request is half a group of one block; the blocks of a half group follow each other."""
    addresses, asked = plane_addresses(prefix, fields, config, blocks, groups)
    return np.where(asked, _numbers(addresses, config), NONE)


def plane_addresses(
    prefix: str, fields: Fields, config: Config, blocks: tuple[int, int], groups: tuple[int, int]
) -> tuple[Words, Mask]:
    """As `plane_words`: the sums of addresses and steps, and which of them are requested."""
    count = fields["images"] * fields["out_height"] * fields["out_width"]
    n = np.arange(groups[0] * config.pix, min(groups[1], command_groups(fields, config)) * config.pix)
    rows = n // fields["out_width"]  # numpy takes remainders ten times as slowly
    first = _addresses(prefix, fields, (n, rows, rows // fields["out_height"])).reshape(-1, 1, config.half)
    moved = sets_on(fields[prefix], np.arange(*blocks).reshape(1, -1, 1), config.depth) * fields[f"{prefix}_block"]
    columns = fields.get("window_columns", 0) or fields["out_width"]
    exists = ((n < count) & (n - rows * fields["out_width"] < columns)).reshape(-1, 1, config.half)
    addresses = first + moved
    return addresses.reshape(-1, config.half), np.broadcast_to(exists, addresses.shape).reshape(-1, config.half)


def _numbers(addresses: Words, config: Config) -> Words:
    """The numbers of addresses within their deck."""
    return located(addresses, 0 * addresses, config.depth) % config.deck_words


def _addresses(prefix: str, fields: Fields, pixels: tuple[Words, Words, Words]) -> Words:
    """The addresses of output pixels for block 0 and tap 0. pixels: their numbers, and those of their rows and images."""
    n, rows, images = pixels
    return fields[prefix] + n * fields[f"{prefix}_x"] + rows * fields[f"{prefix}_row"] + images * fields[f"{prefix}_image"]


def _banks(addresses: Words, asked: Mask, config: Config) -> Banks:
    """The banks of addresses; for a lane that requests nothing, a number that no other lane has.

    There are as many banks as a power of two, and so many words of a deck times that: the last bits of an address are its bank.
    """
    none = NONE - np.arange(addresses.shape[1], dtype=np.int8)
    return np.where(asked, (addresses & (config.banks - 1)).astype(np.int8), none)


def _most_alike(banks: Banks) -> NDArray[np.int64]:
    """For each row of [groups, lanes], the greatest number of lanes that hold the same value."""
    ordered = np.ascontiguousarray(np.sort(banks, axis=1).T)  # [lanes, groups]
    most = np.ones(len(banks), np.int64)
    for apart in range(1, len(ordered)):
        alike = (ordered[apart:] == ordered[:-apart]).any(0)
        if not alike.any():
            break
        most += alike
    return most
