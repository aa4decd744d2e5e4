"""What a convolution's taps see of its input: the mean at each tap, and patches of the map, one column for each output pixel."""

from dataclasses import dataclass

import numpy as np

from cnna.compiler.graph.ir import Window


@dataclass
class TapMeans:
    """The mean input value at each tap of a window, over the output pixels of all samples that were added; padding counts as 0.

    The mean output of a convolution follows from it, since a convolution is linear: bias + Σ weights * means.
    """

    window: Window
    out: tuple[int, int]  # rows and columns of the output
    sums: np.ndarray | None = None
    samples: int = 0

    def extend(self, x: np.ndarray) -> None:
        """Adds some samples, [n, C, H, W]."""
        maps = _padded(x, self.window)
        across = np.stack([maps[..., along].sum(axis=3, dtype=np.float64) for along in self._slices(1)], axis=3).sum(axis=0)
        sums = np.stack([across[:, along].sum(axis=1) for along in self._slices(0)], axis=1)
        self.sums = sums if self.sums is None else self.sums + sums
        self.samples += len(x)

    def _slices(self, axis: int) -> list[slice]:
        """Where each tap along an axis lies in a padded map."""
        step, dilation = self.window.stride[axis], self.window.dilation[axis]
        length = (self.out[axis] - 1) * step + 1
        return [slice(tap * dilation, tap * dilation + length, step) for tap in range(self.window.kernel[axis])]

    @property
    def means(self) -> np.ndarray:
        """[C, kernel rows, kernel columns]."""
        assert self.sums is not None
        return self.sums / (self.samples * self.out[0] * self.out[1])


def patches(x: np.ndarray, window: Window, out: tuple[int, int], groups: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """[groups, taps, pixels]: what output pixels see of [n, C, H, W]; of each sample all, or the same `most`, drawn at random."""
    maps, pixels = _padded(x, window), out[0] * out[1]
    chosen = np.sort(rng.choice(pixels, most, replace=False)) if most < pixels else np.arange(pixels)
    row, column = (chosen // out[1]) * window.stride[0], (chosen % out[1]) * window.stride[1]
    seen = [
        maps[:, :, row + i * window.dilation[0], column + j * window.dilation[1]]
        for i in range(window.kernel[0])
        for j in range(window.kernel[1])
    ]
    return np.stack(seen).transpose(2, 0, 1, 3).reshape(groups, -1, len(x) * len(chosen))


def _padded(x: np.ndarray, window: Window) -> np.ndarray:
    top, left, bottom, right = window.pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))) if any(window.pads) else x
