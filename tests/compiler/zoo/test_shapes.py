"""The notebook's detector finds objects in scenes that it has not seen; otherwise its pictures would show nothing."""

import numpy as np
import onnxruntime

from cnna.compiler.zoo import shapes
from cnna.host.model.detections import Detections, best, matches, ssd_boxes, ssd_priors


def test_scenes_hold_what_they_say() -> None:
    """An object would be darker than the ground, or touch another."""
    for scene in shapes.scenes(20, 5):
        assert scene.picture.shape == (3, shapes.EDGE, shapes.EDGE)
        assert 1 <= len(scene.boxes) == len(scene.classes) <= 4
        for left, top, right, bottom in scene.boxes:
            y, x = int((top + bottom) / 2), int((left + right) / 2)
            assert scene.picture[:, y, x].min() >= 160


def test_it_finds_most_objects_and_little_else() -> None:
    """With offsets in other units than `ssd_boxes` takes, or another order of cells, it would find next to nothing."""
    model = onnxruntime.InferenceSession(shapes.detector().SerializeToString(), providers=["CPUExecutionProvider"])
    priors = ssd_priors((shapes.EDGE, shapes.EDGE), [shapes.STRIDE], [[shapes.PRIOR]])
    right, found, wanted = 0, 0, 0
    for scene in shapes.scenes(60, 99):
        scores, offsets = model.run(None, {"x": scene.picture[None].astype(np.float32) / 255})
        seen = best(ssd_boxes(offsets[0], priors) * shapes.EDGE, scores[0], overlap=0.3)
        truth = Detections(scene.boxes, np.ones(len(scene.boxes), np.float32), scene.classes)
        right, found, wanted = right + len(matches(seen, truth)), found + len(seen.boxes), wanted + len(truth.boxes)
    assert right / wanted > 0.65
    assert right / found > 0.65
