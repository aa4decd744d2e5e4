"""What is done to pictures before they are a model's input, in a line for people and as figures: `pictures.read` and the numbers.

Commands that read pictures print the line once, whatever the number of pictures; a server logs it with each version.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnna.host.samples.picture_modes import size_of
from cnna.host.samples.pictures import frame
from cnna.spec.samples.preprocess import Preprocess

LEAST_WIDTH, MOST_WIDTH = 0.1, 300  # of what 0 to 255 usually becomes: 1 to 255, with a margin on both sides
FAR = "256/224 of what is cut out"  # `pictures.MARGIN`, as people know it


@dataclass(frozen=True)
class Preparation:
    """What happens to pictures for an input of so many rows and columns. grey: it has one channel.

    whole: it is an input of integers, which takes pixels as they are. pictures: how many there are, and how many of them have the
    input's size; None where they are not known yet.
    """

    how: Preprocess
    grey: bool
    rows: int
    columns: int
    whole: bool
    pictures: tuple[int, int] | None = None

    def line(self) -> str:
        """In a line, without the name of the pictures."""
        return "; ".join((*self._cut(), self._numbers()))

    def figures(self) -> dict[str, Any]:
        """For `--json`: the table of docs/preprocess.md with all its keys; `size` is None for the usual margin."""
        count, same = self.pictures or (None, None)
        return {
            "count": count,
            "as_they_are": same if self.how.size is None else None if self.pictures is None else 0,
            "size": list(self.how.size) if self.how.size else None,
            "crop": [self.rows, self.columns],
            **({} if self.whole else {"scale": self.how.scale, "mean": list(self.how.mean), "std": list(self.how.std)}),
            "layout": self.how.layout,
            "colour": self.how.colour,
        }

    def _cut(self) -> list[str]:
        """What happens to their size."""
        cut = f"the middle {self.rows} x {self.columns} is cut out"
        if self.how.size is not None:
            to = " x ".join(map(str, self.how.size))
            return [f"{'the shorter side is' if len(self.how.size) == 1 else 'they are'} scaled to {to}, {cut}"]
        stay, scaled = f"{self.rows} x {self.columns} already", f"the shorter side is scaled to {FAR}, {cut}"
        if self.pictures is None:
            return [f"those of {stay.removesuffix(' already')} stay as they are", f"of others {scaled}"]
        count, same = self.pictures
        if same == count:
            return [f"of {stay}: neither scaled nor cut"]
        return [f"{same} of {stay} stay as they are", f"of {count - same} {scaled}"] if same else [scaled]

    def _numbers(self) -> str:
        """What happens to their numbers, and how these are ordered."""
        order = "grey" if self.grey else f"{self.how.colour}, channels {'last' if self.how.layout == 'nhwc' else 'first'}"
        if self.whole:
            return f"numbers 0 to 255 as they are, {order}"
        mean, std = (" ".join(f"{value:g}" for value in values) for values in (self.how.mean, self.how.std))
        return f"x * {self.how.scale:g}, mean {mean}, std {std}, {order}{self._doubt()}"

    def _doubt(self) -> str:
        """What to check where scale, mean and std hardly belong together, such as a mean of 0 to 255 beside a scale of 1/255."""
        black, white = (np.subtract(x * self.how.scale, self.how.mean) / self.how.std for x in (0, 255))
        least, most, width = np.minimum(black, white), np.maximum(black, white), np.abs(white - black)
        if ((least <= width / 100) & (most >= -width / 100) & (width >= LEAST_WIDTH) & (width <= MOST_WIDTH)).all():
            return ""
        return (
            f"; that makes {least.min():.3g} to {most.max():.3g} of 0 to 255, so check that scale, mean and std have the same unit"
        )


def preparation(
    shape: Sequence[int | None], how: Preprocess, whole: bool = False, files: Iterable[Path] | None = None
) -> Preparation:
    """For an input of a shape as of `pictures.read`, and for these files, if they are known. DataError: it takes no pictures."""
    channels, rows, columns = frame(shape, how)
    if files is None:
        return Preparation(how, channels == 1, rows, columns, whole)
    sizes = [size_of(file) for file in files]
    return Preparation(how, channels == 1, rows, columns, whole, (len(sizes), sizes.count((rows, columns))))
