"""Pictures of any size in the input of a detector that is served, and its boxes back in the pictures' own pixels."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.detector import AT_CORNER
from cnna.host.model.letterbox import Placed, put
from cnna.host.samples.picture_modes import upright
from cnna.host.samples.pictures import frame
from cnna.serve.models.signature import Arrays, Signature
from cnna.spec.samples.preprocess import Preprocess

__all__ = ["Placed", "back", "placed_whole"]


def placed_whole(files: Sequence[bytes], signature: Signature, how: Preprocess) -> tuple[NDArray[np.uint8], list[Placed]]:
    """uint8 [n, rows, columns, channels] in the model's colours, and where each picture lies in it. DataError: no such picture."""
    assert signature.manifest is not None
    channels, rows, columns = frame(signature.inputs[0].shape, how)
    corner = signature.manifest["detector"]["family"] in AT_CORNER
    x, places = np.empty((len(files), rows, columns, channels), np.uint8), list[Placed]()
    for file, into in zip(files, x, strict=True):
        picture = upright(BytesIO(file), channels)
        pixels = np.asarray(picture, np.uint8).reshape(picture.height, picture.width, channels)
        places.append(put(pixels[..., ::-1] if how.colour == "bgr" else pixels, into, corner))
    return x, places


def back(outputs: Mapping[str, NDArray[Any]], places: Sequence[Placed]) -> Arrays:
    """The outputs, with boxes in the pixels of the pictures. Places without a detection stay zeros."""
    found = dict(outputs)
    if "boxes" in found:
        found["boxes"] = np.stack([place.back(boxes) for place, boxes in zip(places, found["boxes"], strict=True)])
        if "classes" in found:
            found["boxes"][found["classes"] < 0] = 0
    return found
