"""How far tensors of the same name differ between two models. It shows what quantisation costs, or where an import went wrong."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.verdicts import NOISE, POOR, STEPS, TOP1, VERDICTS, Judged

DECIBELS = STEPS[NOISE]  # signal-to-noise ratios below which real numbers are poor, and fair


@dataclass
class Divergence:
    """One tensor over all samples seen so far: ours against the other model's, which counts as the truth.

    Elements that are not finite on either side are left out of the sums. `odd` counts those that are finite on one side only.
    """

    name: str
    elements: int = 0
    odd: int = 0
    equal: int = 0
    greatest: float = 0.0
    low: float = math.inf  # least of the other model's values
    high: float = -math.inf
    _sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("away", "noise", "theirs", "ours", "both"), 0.0))

    def extend(self, ours: NDArray[Any], theirs: NDArray[Any]) -> None:
        """Adds some values. Both sides must have equally many, in the same order."""
        a, b = ours.reshape(-1).astype(np.float64), theirs.reshape(-1).astype(np.float64)
        here, there = np.isfinite(a), np.isfinite(b)
        self.elements += a.size
        self.odd += int((here != there).sum())
        self.equal += int(((a == b) | (np.isnan(a) & np.isnan(b))).sum())
        a, b = a[here & there], b[here & there]
        if not a.size:
            return
        away = np.abs(a - b)
        self.greatest = max(self.greatest, float(away.max()))
        self.low, self.high = min(self.low, float(b.min())), max(self.high, float(b.max()))
        for key, value in (("away", away.sum()), ("noise", away @ away), ("theirs", b @ b), ("ours", a @ a), ("both", a @ b)):
            self._sums[key] += float(value)

    @property
    def span(self) -> float:
        """The range of the other model's values. For a constant it is its magnitude, or 1 if that is 0."""
        if not self.low < self.high:
            return abs(self.high) if math.isfinite(self.high) and self.high else 1.0
        return self.high - self.low

    @property
    def mean(self) -> float:
        """The mean of the absolute differences."""
        return self._sums["away"] / max(self.elements, 1)

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between the two as vectors; None if one of them is 0 everywhere."""
        length = math.sqrt(self._sums["ours"]) * math.sqrt(self._sums["theirs"])
        return self._sums["both"] / length if length else None

    @property
    def decibels(self) -> float:
        """Signal-to-noise ratio: the other model's power over the power of the differences.

        Infinite: equal. Minus infinite: no signal.
        """
        if not self._sums["noise"]:
            return -math.inf if self.odd else math.inf
        return 10 * math.log10(self._sums["theirs"] / self._sums["noise"]) if self._sums["theirs"] else -math.inf

    def figures(self) -> dict[str, Any]:
        """The figures as `--json` has them. `greatest` and `mean` are shares of the range of the other model's values."""
        return {
            "name": self.name,
            "elements": self.elements,
            "greatest": self.greatest / self.span,
            "mean": self.mean / self.span,
            "cosine": self.cosine,
            "snr_db": self.decibels if math.isfinite(self.decibels) else None,
            "equal": self.equal / max(self.elements, 1),
            "not_finite": self.odd,
        }


@dataclass
class OutputDivergence(Divergence):
    """An output of the model. Where it looks like class scores, it also counts how often both models have the same top class.

    `unlike`: samples that are left out because their answers differ in shape, as the boxes after a suppression may.
    """

    samples: int = 0
    unlike: int = 0
    whole: bool = False  # whether it has integers or booleans
    same_top: int | None = None
    metric: str | None = None  # that the user has chosen
    judged: Judged = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is judged yet."""
        self.judged = Judged(self.name, self.metric)

    def compare(self, ours: NDArray[Any], theirs: NDArray[Any]) -> None:
        """Adds the answer to one sample."""
        self.samples += 1
        if ours.size != theirs.size or squeezed(ours.shape) != squeezed(theirs.shape):
            self.unlike += 1
            return
        self.extend(ours, theirs)
        self.judged.add(ours, theirs)
        self.whole = theirs.dtype.kind != "f"
        if theirs.dtype.kind == "f" and len(squeezed(theirs.shape)) == 1:
            self.same_top = (self.same_top or 0) + int(ours.argmax() == theirs.argmax())

    @property
    def verdict(self) -> str:
        """One of VERDICTS, by the metric of what the output is; noisy scores are no better than poor. Other shapes are poor."""
        compared = self.samples - self.unlike
        if not compared or self.unlike > compared:
            return POOR
        rank = self.judged.rank
        if self.judged.choice[0] == TOP1 and self.metric is None:
            rank = min(rank, sum(self.decibels >= step for step in DECIBELS))
        return VERDICTS[rank if not self.odd or self.whole else min(rank, sum(self.decibels >= step for step in DECIBELS))]

    def figures(self) -> dict[str, Any]:
        """The figures of `Divergence`, the verdict, and the share of samples with the same top class (None: they are no scores)."""
        compared = self.samples - self.unlike
        top = None if self.same_top is None or not compared else self.same_top / compared
        judged = self.judged.figures() if compared else {"metric": None, "why": None, "value": None}
        more = {"samples": self.samples, "other_shape": self.unlike, "same_top1": top}
        return {**super().figures(), **more, **judged, "verdict": self.verdict}


def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without its axes of size 1."""
    return tuple(size for size in shape if size != 1)
