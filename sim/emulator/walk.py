"""The walk over output pixels, in numpy: addresses and coordinates as `docs/engines.md` defines them.

`f` has the members of a `conv` or `vector` command (`spec.program.commands.Command.f`).
"""

from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from cnna.spec.program.decks import deck_of, sets_on
from cnna.spec.regmap import ADDRESS_BITS

Index = NDArray[np.int64]
ADDRESS_MASK = (1 << ADDRESS_BITS) - 1


def pixels(f: SimpleNamespace) -> int:
    """Output pixels of the command, over all images."""
    return int(f.images * f.out_height * f.out_width)


def coordinates(f: SimpleNamespace, n: Index) -> tuple[Index, Index, Index]:
    """(image, row, column) of the output pixels n."""
    return n // (f.out_width * f.out_height), n // f.out_width % f.out_height, n % f.out_width


def plane(f: SimpleNamespace, name: str, n: Index) -> Index:
    """Addresses of pixels n in block 0 of a destination or residual plane, before the modulus."""
    x, row, image = (getattr(f, f"{name}_{step}") for step in ("x", "row", "image"))
    start = getattr(f, name)
    return start + n * x + n // f.out_width * row + n // (f.out_width * f.out_height) * image


def source(f: SimpleNamespace, n: Index) -> Index:
    """Addresses of pixels n in block 0 of the source, at tap (0, 0), before the modulus."""
    return plane(f, "src", n)


def tap_steps(f: SimpleNamespace) -> Index:
    """What each tap adds to the source's address: int64 [kernel rows * kernel columns], columns fastest."""
    ky, kx = np.arange(f.kernel_height), np.arange(f.kernel_width)
    return (ky[:, None] * f.src_ky + kx * f.src_kx).reshape(-1)


def blocks(f: SimpleNamespace, name: str, number: Index, depth: int) -> tuple[Index, Index]:
    """What blocks add to a plane's or the source's address, and their decks."""
    base, step = getattr(f, name), getattr(f, f"{name}_block")
    return sets_on(base, number, depth) * step, deck_of(base, number, depth)


def taps_outside(f: SimpleNamespace, n: Index) -> NDArray[np.bool_] | None:
    """Which taps of pixels n read PAD: bool [pixels, taps]; None if none does."""
    _, y, x = coordinates(f, n)
    rows = f.first_y + y[:, None] * f.stride_y + np.arange(f.kernel_height) * f.stride_dilation_y
    columns = f.first_x + x[:, None] * f.stride_x + np.arange(f.kernel_width) * f.stride_dilation_x
    bad_rows, bad_columns = (rows < 0) | (rows >= f.in_height), (columns < 0) | (columns >= f.in_width)
    if not bad_rows.any() and not bad_columns.any():
        return None
    return (bad_rows[:, :, None] | bad_columns[:, None, :]).reshape(len(n), -1)
