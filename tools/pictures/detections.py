"""Draws docs/detections.png: frames of a clip that examples/video.py draws itself, with boxes from the RTL.

    PYTHONPATH=examples .venv/bin/python tools/pictures/detections.py

The detector of `cnna.shapes` is converted for `tiny`, and each frame is simulated clock by clock. All is seeded.
"""

import tempfile
from pathlib import Path

import numpy as np
import video
from PIL import Image

import cnna
from cnna import shapes

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "detections.png"
SHOWN, STEP, TIMES, GAP = 4, 2, 3, 6  # frames, of which each so many, enlarged; pixels between them
LEAST, OVERLAP = 0.5, 0.3


def frames(device: str) -> list[Image.Image]:
    """The frames with their boxes."""
    model, typical = shapes.decoding(shapes.detector()), np.stack([scene.picture for scene in shapes.scenes(50, seed=2)])
    shown = shapes.clip(SHOWN * STEP, video.SEED)[::STEP]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shapes.cnna"
        cnna.convert(model, typical, "tiny", preprocess={"scale": 1 / 255}, detector="auto", limit=1, output=file)
        with cnna.Detector(file, device, least=LEAST, overlap=OVERLAP, labels="best") as detector:
            found = list(detector.stream(shown))
    return [video.drawn(frame, one, shapes.CLASSES, TIMES) for frame, one in zip(shown, found, strict=True)]


def picture(device: str) -> Image.Image:
    """All of them in a row."""
    made = frames(device)
    side = made[0].width
    whole = Image.new("RGB", (SHOWN * side + (SHOWN - 1) * GAP, side), "white")
    for number, one in enumerate(made):
        whole.paste(one, (number * (side + GAP), 0))
    return whole


if __name__ == "__main__":
    picture("rtl").save(PICTURE, optimize=True)
