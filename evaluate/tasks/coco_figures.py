"""Average precision as COCO computes it, by pycocotools: of boxes, and of keypoints."""

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.tasks.task import Whole
from cnna.spec.errors import ToolError
from cnna.spec.extras import install

PLACES = {"ap": 0, "ap50": 1, "ap75": 2}  # in COCOeval.stats: over overlaps from 0.5 to 0.95, and at 0.5 and 0.75
BOXES, POINTS = "bbox", "keypoints"  # what COCOeval judges
Entry = Mapping[str, Any]


def check_installed() -> None:
    """ToolError: pycocotools is missing; says how to install it."""
    try:
        import_module("pycocotools.cocoeval")
    except ImportError:
        raise ToolError(f"AP needs the package pycocotools, which is not installed: {install('eval')}") from None


def precisions(stats: Callable[[], Sequence[float]]) -> dict[str, Whole]:
    """The figures of PLACES, computed once. They have no standard error: drawn sets would take hours."""
    once = cache(stats)

    def one(place: int) -> Callable[[NDArray[np.int64]], float]:
        return lambda numbers: once()[place]

    return {name: Whole(one(place), 0) for name, place in PLACES.items()}


def average_precision(kind: str, images: int, objects: Sequence[Entry], found: Sequence[Entry], sigmas: Any = None) -> list[float]:
    """COCOeval's figures in its order; NaN where there is no object. sigmas: of points."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    classes = sorted({one["category_id"] for one in (*found, *objects)})
    if not found or not objects:
        return [0.0 if objects else np.nan] * len(PLACES)
    truth = COCO()
    truth.dataset = {
        "info": {},
        "images": [{"id": number} for number in range(images)],
        "annotations": [{"id": number, **one} for number, one in enumerate(objects, 1)],
        "categories": [{"id": number, "name": str(number)} for number in classes],
    }
    with redirect_stdout(io.StringIO()):  # it reports each step
        truth.createIndex()
        judged = COCOeval(truth, truth.loadRes([dict(one) for one in found]), kind)
        if sigmas is not None:
            judged.params.kpt_oks_sigmas = np.array(sigmas)
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    return [float(value) if value >= 0 else np.nan for value in judged.stats]
