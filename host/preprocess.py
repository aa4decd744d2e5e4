"""What uint8 pictures go through before the model: `(x * scale - mean) / std`, stored in the model's own metadata.

`cnna quantize --scale --mean --std` stores it, the compiler copies it into the manifest, `apply` is what the host does.
"""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.errors import ModelError, UserError

KEY = "cnna.preprocess"  # of the metadata property, whose value is JSON

Preprocess = dict[str, Any]  # {"scale": float, "mean": [..], "std": [..]}, one entry for all channels or one for each


def make(scale: float = 1.0, mean: list[float] | None = None, std: list[float] | None = None, channels: int = 1) -> Preprocess:
    """Checked values. UserError: not finite, a std of 0, neither one value nor one for each channel."""
    made: Preprocess = {"scale": scale, "mean": mean or [0.0], "std": std or [1.0]}
    for name in ("mean", "std"):
        if len(made[name]) not in (1, channels):
            raise UserError(f"--{name} has {len(made[name])} values, but the model's input has {channels} channels")
    if not all(map(math.isfinite, [scale, *made["mean"], *made["std"]])):
        raise UserError("--scale, --mean and --std must be finite numbers")
    if not scale or not all(made["std"]):
        raise UserError("--scale and --std must not be 0")
    return made


def store(model: Any, preprocess: Preprocess) -> None:
    """Puts it into an onnx.ModelProto's metadata, in place of what stood there."""
    kept = [entry for entry in model.metadata_props if entry.key != KEY]
    text = json.dumps(preprocess, sort_keys=True)
    entry = type(model.metadata_props.add())(key=KEY, value=text)
    del model.metadata_props[:]
    model.metadata_props.extend([*kept, entry])


def stored(model: Any) -> Preprocess | None:
    """What an onnx.ModelProto's metadata has; None where it has none. ModelError: it cannot be read."""
    text = next((entry.value for entry in model.metadata_props if entry.key == KEY), None)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return {"scale": float(found["scale"]), "mean": [*map(float, found["mean"])], "std": [*map(float, found["std"])]}
    except (ValueError, TypeError, KeyError):
        raise ModelError(f"the model's metadata {KEY} cannot be read: {text[:80]}") from None


def apply(x: NDArray[np.uint8], preprocess: Preprocess) -> NDArray[np.float32]:
    """uint8 [N, C, ...] to the model's float32 input."""
    mean, std = (np.array(preprocess[key], np.float32).reshape(-1, *[1] * (x.ndim - 2)) for key in ("mean", "std"))
    return ((x.astype(np.float32) * np.float32(preprocess["scale"]) - mean) / std).astype(np.float32)
