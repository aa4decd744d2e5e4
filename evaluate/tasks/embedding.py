"""Embeddings: how well a sample's vector finds others of its class, by cosine, each sample among all others of the evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.tasks.task import Answers, Asked, Chosen, Outline, Record, Targets, Values, Whole
from cnna.spec.errors import DataError

DIGITS = 7  # of a vector's numbers in a record: those of float32
ROWS = 512  # samples whose neighbours are looked for together
NEAR = (1, 5)  # of recall: whether one of so many nearest samples is of the same class


@dataclass(frozen=True)
class Embedding:
    """Retrieval by the greatest cosine; of equal ones the first sample counts."""

    chosen: Chosen = field(default_factory=Chosen)
    name: str = "embedding"
    main: str = "recall1"
    percent: bool = True

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """As of Task."""
        vector = self.chosen.of(model, answers)
        if vector.dtype.kind not in "fiu" or vector.size < 2:
            raise DataError(f"{model.name}: an output of {vector.dtype} {list(vector.shape)} is no vector; --output names another")

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """The vector, of length 1."""
        vector = self.chosen.of(model, answers).reshape(-1).astype(np.float64)
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length):
            return {"vector": [], "nan": True}
        return {"vector": [float(f"{value:.{DIGITS}g}") for value in vector / (length or 1.0)]}

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """Recall among the nearest samples, and average precision over all of them; NaN where no other sample is of the class."""
        classes, there = np.array(list(data.targets)), np.array([bool(record["vector"]) for record in records])
        sizes = sorted({len(record["vector"]) for record in records if record["vector"]})
        if len(sizes) > 1:
            raise DataError(f"answers are vectors of {sizes[0]} and of {sizes[-1]} numbers; only those of one size have a cosine")
        size = max(sizes, default=0)
        vectors = np.array([record["vector"] or [0.0] * size for record in records], np.float64)
        found = {name: np.full(len(records), np.nan) for name in (*(f"recall{k}" for k in NEAR), "map")}
        for start in range(0, len(records), ROWS):
            for number, cosines in enumerate(vectors[start : start + ROWS] @ vectors.T, start):
                if (classes == classes[number]).sum() > 1:
                    values = _retrieved(cosines, classes, number, there) if there[number] else dict.fromkeys(found, 0.0)
                    for name, value in values.items():
                        found[name][number] = value
        return found

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """None."""
        return {}

    def alike(self, record: Record, other: Record) -> float | None:
        """The cosine between both vectors; None where they have different sizes."""
        ours, theirs = record["vector"], other["vector"]
        return float(np.dot(ours, theirs)) if ours and len(ours) == len(theirs) else None

    def words(self, record: Record, data: Targets) -> str:
        """How the vector begins."""
        return f"{', '.join(f'{value:.3f}' for value in record['vector'][:3])}, ..." if record["vector"] else "NaN"

    def right(self, target: Any, data: Targets) -> str:
        """The class."""
        return data.class_name(target)

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """Nothing."""
        return []


def _retrieved(cosines: NDArray[Any], classes: NDArray[Any], number: int, there: NDArray[Any]) -> dict[str, float]:
    """What one sample finds among the others, the nearest first; answers with NaN come last."""
    order = np.argsort(np.where(there, -cosines, np.inf), kind="stable")
    same = classes[order[order != number]] == classes[number]
    places = np.flatnonzero(same)
    precision = np.arange(1, len(places) + 1) / (places + 1)
    return {**{f"recall{k}": float(same[:k].any()) for k in NEAR}, "map": float(precision.mean())}
