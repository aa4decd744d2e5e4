"""What uint8 images go through before the network, kept in the model's metadata: (x * scale - mean) / std."""

import json
from dataclasses import asdict, dataclass

import numpy as np
from onnx import ModelProto

from cnna.spec.errors import ModelError

KEY = "cnna.preprocess"


@dataclass(frozen=True)
class Preprocess:
    """`mean` and `std` have one number for all channels or one for each."""

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        numbers = (self.scale, *self.mean, *self.std)
        if not np.isfinite(numbers).all() or not all(self.std) or not self.scale:
            raise ModelError(
                f"preprocessing: scale {self.scale}, mean {self.mean}, std {self.std} must be finite, scale and std not 0"
            )

    def apply(self, images: np.ndarray) -> np.ndarray:
        """float32 of uint8 [N, C, ...]."""
        shape = (1, -1, *((1,) * (images.ndim - 2)))
        mean, std = (np.array(numbers, np.float32).reshape(shape) for numbers in (self.mean, self.std))
        return ((images.astype(np.float32) * np.float32(self.scale) - mean) / std).astype(np.float32)


def store(model: ModelProto, preprocess: Preprocess) -> None:
    """Writes it into a model's metadata."""
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(asdict(preprocess))


def stored(model: ModelProto) -> Preprocess | None:
    """What a model's metadata hold. ModelError: unreadable."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            try:
                found = json.loads(entry.value)
                return Preprocess(float(found["scale"]), tuple(map(float, found["mean"])), tuple(map(float, found["std"])))
            except (ValueError, KeyError, TypeError):
                raise ModelError(f"the model's metadata '{KEY}' cannot be read: {entry.value[:80]!r}") from None
    return None
