"""What the tests of evaluations measure: models whose answers are plain to see, and pictures that are drawn here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from PIL import Image

COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}
RED_FIRST = ("red", "green", "blue")  # the order of the channels, which is that of the classes of `colours`


def save(path: Path, nodes: Sequence[onnx.NodeProto], shape: Sequence[int | str], outputs: Sequence[str], **metadata: str) -> Path:
    """A model of one input `x` [N, ...]."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])
    model = helper.make_model(helper.make_graph(nodes, path.stem, [x], ends), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


def echo(path: Path, *shape: int) -> Path:
    """A model whose output `y` is its input."""
    return save(path, [helper.make_node("Identity", ["x"], ["y"])], shape, ["y"])


def negated(path: Path, *shape: int) -> Path:
    """A model whose output `y` is its input with the sign changed."""
    return save(path, [helper.make_node("Neg", ["x"], ["y"])], shape, ["y"])


def colours(path: Path, side: int = 8) -> Path:
    """A classifier of pictures: the score of a class is the mean of a channel, red first."""
    return save(path, [helper.make_node("GlobalAveragePool", ["x"], ["y"])], (3, side, side), ["y"])


def picture(path: Path, colour: tuple[int, int, int], side: int = 8) -> Path:
    """A picture of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side), colour).save(path)
    return path


def class_folder(folder: Path, counts: dict[str, int] | None = None) -> Path:
    """A folder for each colour, with some pictures of it."""
    for name, count in (counts or dict.fromkeys(COLOURS, 2)).items():
        for number in range(count):
            picture(folder / name / f"{number}.png", COLOURS[name])
    return folder


def arrays(path: Path, **named: NDArray[Any]) -> Path:
    """An .npz."""
    np.savez(path, **named)
    return path
