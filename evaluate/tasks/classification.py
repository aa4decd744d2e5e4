"""Classification: the share of samples whose class has the greatest score, or one of the k greatest. The lowest class wins ties."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cnna.evaluate.tasks.task import Answers, Asked, Chosen, Outline, Record, Targets, Values, Whole
from cnna.spec.errors import DataError

TOP = 5
BACKGROUND = "background"


@dataclass(frozen=True)
class Classification:
    """offset: the number of outputs before the first class, such as 1 for a background. top: the k of the second figure."""

    top: int = TOP
    offset: int = 0
    chosen: Chosen = field(default_factory=Chosen)
    name: str = "classification"
    main: str = "top1"
    percent: bool = True

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """As of Task."""
        scores = self.chosen.of(model, answers)
        if scores.dtype.kind not in "fiu" or scores.size < 2:
            raise DataError(
                f"{model.name}: an output of {scores.dtype} {list(scores.shape)} has no scores of classes; --output names another"
            )
        count = scores.size - self.offset
        if count < 1:
            raise DataError(f"{model.name}: --offset {self.offset} leaves no class of {scores.size} outputs")
        for number, target in enumerate(data.targets):
            if target >= count:
                behind = f", behind {self.offset} others" if self.offset else ""
                raise DataError(
                    f"{data.names[number]}: class {data.class_name(target)} is number {target}, but {model.name} has {count} "
                    f"classes (0 to {count - 1}{behind}); --labels or --offset may help"
                )
        if data.classes and len(data.classes) != count:
            raise DataError(
                f"{model.name}: has {count} classes, but there are names for {len(data.classes)}; --labels F names all of them, "
                "and --offset says how many outputs stand before the first"
            )

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """The best classes, best first; `nan` where scores are NaN."""
        scores = self.chosen.of(model, answers).reshape(-1).astype(np.float64)
        if np.isnan(scores).any():
            return {"top": [], "nan": True}
        best = np.argsort(-scores, kind="stable")[: self.top]
        return {"top": [int(number) - self.offset for number in best], "of": scores.size}

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """Whether each sample's class is the first, and whether it is one of the first k."""
        pairs = list(zip(records, data.targets, strict=True))
        found = {"top1": np.array([target in record["top"][:1] for record, target in pairs], np.float64)}
        if self.top > 1 and max((record.get("of", 0) for record in records), default=0) > self.top:
            found[f"top{self.top}"] = np.array([target in record["top"] for record, target in pairs], np.float64)
        return found

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """None."""
        return {}

    def alike(self, record: Record, other: Record) -> float | None:
        """Whether both have the same best class."""
        return float(bool(record["top"]) and record["top"][:1] == other["top"][:1])

    def words(self, record: Record, data: Targets) -> str:
        """The best class."""
        if not record["top"]:
            return "NaN"
        (first, *_) = record["top"]
        return data.class_name(first) if first >= 0 else BACKGROUND

    def right(self, target: Any, data: Targets) -> str:
        """The right class."""
        return data.class_name(target)

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """Nothing."""
        return []
