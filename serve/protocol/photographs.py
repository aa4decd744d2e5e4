"""Pictures as clients have them: JPEG and PNG files, sent as BYTES [n] to an input whose preprocessing the model stores.

Their size is read from their head, and limited, before anything is decoded; decoding happens in a thread. A detector gets them
whole, and its boxes go back into their own pixels.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples import pictures
from cnna.host.samples.picture_modes import open_picture
from cnna.serve.engine.core import Core
from cnna.serve.models.signature import Arrays, Signature
from cnna.serve.models.whole_pictures import Placed, back, placed_whole
from cnna.serve.protocol.described import signature_of
from cnna.spec.errors import DataError, RunError
from cnna.spec.samples.preprocess import from_entry

FORMATS = ("JPEG", "PNG")  # Pillow's names
MOST_PIXELS = 25_000_000  # of one picture, and of all of a request together


@dataclass(frozen=True)
class Decoded:
    """The inputs of a request, with pictures in the place of files.

    places: where those of a detector lie in its input. seconds: that it took to read and scale files.
    """

    inputs: Mapping[str, NDArray[Any]]
    places: Sequence[Placed] = ()
    seconds: float = 0.0

    def back(self, outputs: Arrays) -> Arrays:
        """The outputs, with boxes in the pixels of the pictures that the client has sent."""
        return back(outputs, self.places) if self.places else outputs


async def decoded(core: Core, model: str, version: str | None, inputs: Mapping[str, NDArray[Any]]) -> Decoded:
    """The inputs, with pictures in the place of files. DataError: one is no picture or too large, or the model takes none."""
    files = {name: array for name, array in inputs.items() if array.dtype.kind == "O"}
    if not files:
        return Decoded(inputs)
    signature, most = signature_of(core, model, version), core.catalogue.model(model).settings.max_request_samples
    made: dict[str, NDArray[Any]] = {}
    began = time.perf_counter()
    places: Sequence[Placed] = ()
    for name, array in files.items():
        if array.ndim != 1 or not 0 < len(array) <= most:
            raise DataError(f"input {name}: pictures have the shape [n], n within 1..{most}")
        made[name], places = await asyncio.get_running_loop().run_in_executor(None, _pictures, signature, name, list(array))
    return Decoded({**inputs, **made}, places, time.perf_counter() - began)


def _pictures(signature: Signature, name: str, files: Sequence[bytes]) -> tuple[NDArray[np.uint8], Sequence[Placed]]:
    """uint8 [n, ...] in the layout of the model's input; and of a detector, where each picture lies in it."""
    entry = signature.preprocess
    tensor = next((one for one in signature.inputs if one.name == name), None)
    if entry is None or tensor is None:
        raise DataError(f"input {name}: the model takes no pictures; it stores no preprocessing, or has no such input")
    how = from_entry(entry, signature.model, strict=False)
    pixels = 0
    for number, file in enumerate(files):
        pixels += _pixels(f"input {name}, picture {number}", file)
        if pixels > MOST_PIXELS:
            raise DataError(f"input {name}: its pictures have more than {MOST_PIXELS:,} pixels; send fewer or smaller ones")
    found, places = list[NDArray[np.uint8]](), list[Placed]()
    for number, file in enumerate(files):
        try:
            if signature.detects:
                x, place = placed_whole([file], signature, how)
                found, places = [*found, x], [*places, *place]
            else:
                found.append(pictures.read([BytesIO(file)], tensor.shape, how))
        except DataError as error:
            raise DataError(f"input {name}, picture {number}: {str(error).partition('>: ')[2] or error}") from None
    return pictures.as_input(np.concatenate(found), how), places


def _pixels(where: str, file: bytes) -> int:
    """As the file's head says. DataError: it is neither JPEG nor PNG. RunError: Pillow is not installed."""
    try:
        with open_picture(BytesIO(file), FORMATS) as opened:
            return int(opened.width) * int(opened.height)
    except ModuleNotFoundError:
        raise RunError("the server cannot read JPEG and PNG: pip install pillow there, or send uint8 pictures") from None
    except (OSError, ValueError):
        raise DataError(f"{where}: neither JPEG nor PNG") from None
