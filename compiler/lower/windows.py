"""Whether the vector engine takes several taps of a kernel row in a step (docs/speed.md, "The row window")."""

from cnna.compiler.graph.ir import Window
from cnna.compiler.lower.kernels import Range
from cnna.spec.config import Config
from cnna.spec.program.window import APART_MOST, steps_in_row

LEAST_STEPS = 2  # for a group: the writers take as long


def taps_apart(window: Window, images: Range, size: tuple[int, int], config: Config) -> int:
    """`VECTOR_WINDOW.apart` for images of so many rows and columns: 0 where steps of single taps take no longer.

    It counts with groups that begin anew in each row, as they do where a map's pitch is not the width of the output. Pixels of
    several images may share a group without it.
    """
    apart, rest = divmod(window.stride[1], window.dilation[1])
    if rest or not 1 <= apart <= APART_MOST:
        return 0
    height, width = size
    one_row, together = -(-width // config.pix), window.kernel[0] * steps_in_row(window.kernel[1], apart)
    alone = window.kernel[0] * window.kernel[1]
    rows = (images[1] - images[0]) * height
    groups = -(-rows * width // config.pix)
    return apart if rows * one_row * max(together, LEAST_STEPS) < groups * max(alone, LEAST_STEPS) else 0
