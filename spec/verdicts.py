"""What an output is, how it is therefore compared with the float network's, and whether the agreement is good, fair or poor.

Class scores are judged by the class with the greatest one, maps and heatmaps by their signal to noise, vectors such as embeddings
by the cosine of the angle between the two, and integers by the share of equal ones. What an output is follows from its type, its
name and the float network's answers. The user may choose otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

POOR, FAIR, GOOD = VERDICTS = ("poor", "fair", "good")  # of an output, from the worst
TOP1, NOISE, COSINE, EQUAL = METRICS = ("top1", "noise", "cosine", "equal")
STEPS = {  # the values of a metric below which an output is poor, and fair
    TOP1: (0.75, 0.9),
    NOISE: (10.0, 20.0),
    COSINE: (0.95, 0.99),
    EQUAL: (0.75, 0.9),
}
SAID = {TOP1: "top-1", NOISE: "signal to noise", COSINE: "cosine", EQUAL: "equal elements"}
NAMES = {  # parts of names, in the order in which they are looked for
    COSINE: ("embed", "feature", "descriptor"),
    NOISE: ("heatmap", "heat_map", "keypoint", "landmark", "bbox", "boxes", "coord", "joint", "depth", "flow"),
    TOP1: ("logit", "prob", "score", "class", "softmax", "label"),
}
CLEAR = 0.5  # of the spread of scores: by so much the greatest is above the second where one class stands out
LONG = 32  # values of a vector; noise alone seldom makes one of fewer stand out less
SEVERAL = 4  # samples from which the same greatest value in each means that it is no class
SIDES = 4  # numbers of a box, before its scores
NEAR = 0.02  # of 1, for sums and lengths


def decibel_text(value: float) -> str:
    """Decibels as a user reads them: never below zero where they are rounded to it."""
    return f"{round(value, 1) + 0.0:.1f} dB"


def class_axis(shape: Sequence[int]) -> int:
    """The axis of an answer's classes: its channels, or the shorter one of two axes."""
    return 1 + int(np.argmin(shape[1:])) if len(shape) == 3 else min(1, len(shape) - 1)


def has_boxes(answer: NDArray[Any]) -> bool:
    """Whether an answer has a box and its scores at each place, as YOLO's have: four numbers beyond 1, then some from 0 to 1."""
    if answer.dtype.kind != "f" or answer.ndim != 3 or min(answer.shape) < 1 or answer.shape[class_axis(answer.shape)] <= SIDES:
        return False
    channels = np.moveaxis(answer, class_axis(answer.shape), -1)
    scores = channels[..., SIDES:]
    return bool(channels[..., :SIDES].max() > 1 and scores.min() >= 0 and scores.max() <= 1)


@dataclass
class Judged:
    """One output over all samples seen so far: ours beside the float network's.

    metric: what the user has chosen. boxes: whether the first sample has boxes beside the scores of each place.
    """

    name: str
    metric: str | None = None
    boxes: bool = field(default=False, init=False)
    samples: int = 0
    whole: bool = False
    size: int = 0
    map: bool = False
    shares: list[float] = field(default_factory=list)  # of equal greatest values, by sample
    cosines: list[float] = field(default_factory=list)
    _equal: list[float] = field(default_factory=list)
    _margins: list[float] = field(default_factory=list)
    _tops: set[int] = field(default_factory=set)
    _lengths: list[float] = field(default_factory=list)
    _sums: list[float] = field(default_factory=list)
    _power: list[float] = field(default_factory=lambda: [0.0, 0.0])  # of the signal, and of the noise

    def add(self, ours: NDArray[Any], theirs: NDArray[Any]) -> None:
        """Adds the answers to one sample, of equal sizes."""
        self.samples += 1
        self.boxes = has_boxes(theirs) if self.samples == 1 else self.boxes
        self.whole |= theirs.dtype.kind != "f"
        self.size = max(self.size, theirs.size)
        a, b = ours.reshape(theirs.shape).astype(np.float64), theirs.astype(np.float64)
        self._equal.append(float(np.mean((a == b) | (np.isnan(a) & np.isnan(b)))) if b.size else 1.0)
        a, b = np.nan_to_num(a, posinf=0, neginf=0), np.nan_to_num(b, posinf=0, neginf=0)
        self._power[0] += float(np.square(b).sum())
        self._power[1] += float(np.square(a - b).sum())
        lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
        self.cosines.append(float(np.vdot(a, b)) / (lengths[0] * lengths[1]) if min(lengths) else float(lengths[0] == lengths[1]))
        self._lengths.append(lengths[1])
        if not self.whole and b.size > 1:
            self._classes(a, b)

    def _classes(self, ours: NDArray[Any], theirs: NDArray[Any]) -> None:
        """Adds what tells scores of classes from other values."""
        self.map = theirs.size != max(theirs.shape)
        axis = class_axis(theirs.shape) if self.map else int(np.argmax(theirs.shape))
        if theirs.shape[axis] < 2:
            return
        a, b = (np.moveaxis(one, axis, -1).reshape(-1, theirs.shape[axis]) for one in (ours, theirs))
        self.shares.append(float(np.mean(a.argmax(axis=1) == b.argmax(axis=1))))
        best = np.partition(b, -2, axis=1)[:, -2:]
        spread = float(b.std())
        self._margins.append(float(np.median(best[:, 1] - best[:, 0])) / spread if spread else 0.0)
        self._sums.append(float(np.abs(b.sum(axis=1) - 1).max()) if b.min() >= 0 else inf)
        self._tops |= {*np.unique(b.argmax(axis=1)).tolist()}

    @property
    def choice(self) -> tuple[str, str]:
        """The metric, and why it is this one."""
        if self.metric and (self.metric != TOP1 or self.shares):
            return self.metric, "--metric asks for it"
        if self.whole:
            return EQUAL, "its values are whole numbers"
        if self.boxes or not self.shares:
            return NOISE, "it has boxes and scores at each place" if self.boxes else "it has one value at each place"
        if max(self._sums) < NEAR:
            return TOP1, "its values add up to 1, as shares of classes do"
        return self._named() or self._shaped()

    def _named(self) -> tuple[str, str] | None:
        """What the output's name says."""
        for metric, parts in NAMES.items():
            if found := next((part for part in parts if part in self.name.lower()), None):
                return metric, f"its name has '{found}'"
        return None

    def _shaped(self) -> tuple[str, str]:
        """What its values say."""
        clear = float(np.median(self._margins)) >= CLEAR
        if self.map:
            return (
                (TOP1, "one channel stands out at each place") if clear else (NOISE, "it is a map in which no channel stands out")
            )
        if max(abs(length - 1) for length in self._lengths) < NEAR:
            return COSINE, "its vectors have the length 1"
        if self.samples >= SEVERAL and len(self._tops) == 1:
            return NOISE, "its greatest value is always the same one"
        if clear or self.size < LONG:
            return TOP1, "one of its values stands out" if clear else "it has a few values"
        return COSINE, "it is a long vector in which no value stands out"

    @property
    def values(self) -> dict[str, float | None]:
        """What each metric finds; None: it does not apply, or (noise) all is equal or without a signal."""
        signal, noise = self._power
        return {
            TOP1: float(np.mean(self.shares)) if self.shares else None,
            NOISE: 10 * log10(signal / noise) if signal and noise else None,
            COSINE: float(np.mean(self.cosines)) if self.cosines and (not self.whole or self.metric == COSINE) else None,
            EQUAL: float(np.mean(self._equal)) if self._equal else None,
        }

    @property
    def rank(self) -> int:
        """The index of the verdict."""
        metric, value = self.choice[0], self.values[self.choice[0]]
        if value is None:
            value = inf if not self._power[1] else -inf
        return sum(value >= step for step in STEPS[metric])

    @property
    def lost(self) -> float | None:
        """In points: what a share or a cosine lacks to 1, or the noise by the signal, as amplitudes. None: nothing was compared."""
        metric, value = self.choice[0], self.values[self.choice[0]]
        if not self.samples:
            return None
        if value is None:
            return 100.0 if self._power[1] else 0.0
        return 100 * (10 ** (-value / 20) if metric == NOISE else 1 - value)

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return VERDICTS[self.rank]

    @property
    def said(self) -> str:
        """The value that counts, in words."""
        metric, value = self.choice[0], self.values[self.choice[0]]
        if value is None:
            found = "equal" if not self._power[1] else "no signal"
        else:
            found = {NOISE: decibel_text(value), COSINE: f"{value:.4f}"}.get(metric, f"{value:.2%}")
        return f"{SAID[metric]} {found}"

    def figures(self) -> dict[str, Any]:
        """As JSON has them."""
        metric, why = self.choice
        return {"metric": metric, "why": why, "value": self.values[metric], "verdict": self.verdict}
