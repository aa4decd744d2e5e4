"""The notebook's detector finds objects in scenes that it has not seen; otherwise its pictures would show nothing."""

import numpy as np
import onnxruntime

from cnna.compiler.zoo import shapes
from cnna.host.model.detections import Detections, best, matches, ssd_boxes, ssd_priors, yolo_rows


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


def test_a_clip_moves_and_the_decoded_model_finds_what_the_other_does() -> None:
    """The camera's notebook would show one still frame, or boxes in other places than those of the model that is fitted."""
    frames = shapes.clip(4, 8)
    assert {(frame.shape, frame.dtype.name) for frame in frames} == {((shapes.EDGE, shapes.EDGE, 3), "uint8")}
    far = [np.abs(frame.astype(int) - frames[0]).max(axis=2) > 100 for frame in frames[1:]]
    assert all(one.sum() > 50 for one in far)
    plain = shapes.detector(count=50)
    x = frames[0].transpose(2, 0, 1)[None].astype(np.float32) / 255
    run = [
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for model in (plain, shapes.decoding(plain))
    ]
    (scores, offsets), (rows,) = run
    boxes, decoded = yolo_rows(rows[0], objectness=False)
    wanted = ssd_boxes(offsets[0], ssd_priors((shapes.EDGE, shapes.EDGE), [shapes.STRIDE], [[shapes.PRIOR]])) * shapes.EDGE
    np.testing.assert_array_equal(decoded, scores[0])
    np.testing.assert_allclose(boxes, wanted, rtol=1e-4, atol=1e-3)
