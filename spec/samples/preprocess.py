"""How a picture becomes a model's input: what `preprocess.json`, a model's metadata and a manifest say (docs/preprocess.md).

Boards use this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec import manifest
from cnna.spec.errors import ModelError

NORMALISATION = ("scale", "mean", "std")
LAYOUTS, COLOURS = ("nchw", "nhwc"), ("rgb", "bgr")


@dataclass(frozen=True)
class Preprocess:
    """(x * scale - mean) / std of uint8 pictures, `mean` and `std` with one number for all channels or one for each.

    size: (rows, columns) that a picture is scaled to, or its shorter side. crop: (rows, columns) of its middle. layout and colour
    are those of the model's input.
    """

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    size: tuple[int, ...] | None = None
    crop: tuple[int, int] | None = None
    layout: str = "nchw"
    colour: str = "rgb"

    def __post_init__(self) -> None:
        numbers = (self.scale, *self.mean, *self.std)
        if not np.isfinite(numbers).all() or not all(self.std) or not self.scale:
            raise ModelError(
                f"preprocessing: scale {self.scale}, mean {self.mean}, std {self.std} must be finite, scale and std not 0"
            )

    def apply(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """float32 [N, C, ...] from uint8 of the same shape; [N, ..., C] if the layout is nhwc."""
        after = 0 if self.layout == "nhwc" else images.ndim - 2
        mean, std = (np.array(numbers, np.float32).reshape(-1, *(1,) * after) for numbers in (self.mean, self.std))
        return ((images.astype(np.float32) * np.float32(self.scale) - mean) / std).astype(np.float32)

    def entry(self) -> manifest.PreprocessEntry:
        """The preprocessing as a table for JSON: the normalisation, and whatever differs from the default."""
        found: manifest.PreprocessEntry = {"scale": self.scale, "mean": list(self.mean), "std": list(self.std)}
        if self.size is not None:
            found["size"] = list(self.size)
        if self.crop is not None:
            found["crop"] = list(self.crop)
        if self.layout != Preprocess.layout:
            found["layout"] = self.layout
        if self.colour != Preprocess.colour:
            found["colour"] = self.colour
        return found


def channels_of(shape: list[Any] | tuple[Any, ...], layout: str) -> Any:
    """The number of channels of an input, from its shape without the batch; None if it has no axis for them."""
    return (shape[-1] if layout == "nhwc" else shape[0]) if shape else None


def from_entry(entry: Mapping[str, Any], where: str, strict: bool = True) -> Preprocess:
    """The preprocessing that a table describes. ModelError: an unknown key (if `strict`), or a value of another kind.

    `where` names the table.
    """
    found: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in _KINDS and not strict:
            continue  # a key of a later version
        if key not in _KINDS:
            raise ModelError(f"{where}: there is no '{key}'; there are {', '.join(_KINDS)}")
        wanted, kind = _KINDS[key]
        read = kind(value)
        if read is None:
            raise ModelError(f"{where}: '{key}' is {value!r}; it must be {wanted}")
        found[key] = read
    try:
        return Preprocess(**found)
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from None


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None


def _numbers(value: Any) -> tuple[float, ...] | None:
    values = value if isinstance(value, (list, tuple)) else [value]
    found = tuple(number for one in values if (number := _number(one)) is not None)
    return found if found and len(found) == len(values) else None


def _sizes(value: Any) -> tuple[int, ...] | None:
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple(values) if len(values) in (1, 2) and all(type(one) is int and 0 < one <= _SIZE_MAX for one in values) else None


def _both(value: Any) -> tuple[int, ...] | None:
    found = _sizes(value)
    return found * 2 if found and len(found) == 1 else found


def _one_of(*words: str) -> tuple[str, Callable[[Any], Any]]:
    return " or ".join(words), lambda value: value if value in words else None


_SIZE_MAX = 1 << 15  # rows or columns of a picture
_SIZES = f"one whole number or two (rows, columns), within 1..{_SIZE_MAX}"
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "scale": ("a number", _number),
    "mean": ("a number, or a list with one a channel", _numbers),
    "std": ("a number, or a list with one a channel", _numbers),
    "size": (_SIZES, _sizes),
    "crop": (_SIZES, _both),
    "layout": _one_of(*LAYOUTS),
    "colour": _one_of(*COLOURS),
}
