"""Trained models from a folder: what lies in it, its labelled samples, and what the three executions make of them.

`tests/test_models.py` tests what is measured here, and `tools/accuracy.py` writes it down. Each model's folder has `model.onnx`,
`meta.json` (preprocessing and the name of its data) and models that onnxruntime quantised. `data/NAME/{calib,test}.npz` have
samples: `x` (uint8 or int8 NCHW) or `jpeg` with `offset`, and classes `y` if there are any.
"""

import io
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from PIL import Image

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.artifact import Artifact
from cnna.spec.config import Config

FLOAT = "model.onnx"
LEFT_OUT = ("streaming_ww",)  # one-dimensional, and no samples with classes

Array = NDArray[Any]


@dataclass(frozen=True)
class Trained:
    """One ONNX file of one model's folder."""

    folder: Path
    file: str

    @property
    def name(self) -> str:
        """The name that tests and tables use."""
        return f"{self.folder.name}/{self.file.removesuffix('.onnx')}"

    @property
    def path(self) -> Path:
        return self.folder / self.file

    @property
    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "meta.json").read_text())
        return found


@dataclass(frozen=True)
class Samples:
    """Preprocessed inputs float32 [n, C, H, W], and classes int64 [n] or None."""

    x: NDArray[np.float32]
    classes: NDArray[np.int64] | None


def find(root: Path) -> list[Trained]:
    """Every model of a folder: the float one, then those that onnxruntime quantised."""
    found = []
    for meta in sorted(root.glob("*/meta.json")):
        if meta.parent.name not in LEFT_OUT:
            files = [FLOAT, *sorted(path.name for path in meta.parent.glob("model_ort_qdq_*.onnx"))]
            found += [Trained(meta.parent, file) for file in files if (meta.parent / file).is_file()]
    return found


def samples(model: Trained, split: str, count: int | None = None) -> Samples:
    """The first `count` samples of "calib" or "test"."""
    meta = model.meta
    with np.load(model.folder.parent / "data" / meta["data"] / f"{split}.npz") as data:
        if "jpeg" in data:
            blob, offsets = data["jpeg"].tobytes(), data["offset"][: None if count is None else count + 1]
            ends = itertools.pairwise(offsets)
            raw = np.stack([_picture(blob[a:b], meta.get("size")) for a, b in ends])
        else:
            raw = data["x"][:count]
        classes = data["y"][:count] + meta.get("label_offset", 0) if "y" in data else None
    return Samples(_preprocessed(raw, meta), classes)


def _picture(jpeg: bytes, size: int | None) -> NDArray[np.uint8]:
    """An RGB picture, channels first."""
    picture = Image.open(io.BytesIO(jpeg)).convert("RGB")
    if size and picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(picture).transpose(2, 0, 1)


def _preprocessed(raw: Array, meta: dict[str, Any]) -> NDArray[np.float32]:
    x = raw.astype(np.float32)
    if meta.get("channel_order") == "BGR":
        x = x[:, ::-1]
    mean, std = (np.array(meta[key], np.float32).reshape(1, -1, 1, 1) for key in ("mean", "std"))
    return np.ascontiguousarray((x * np.float32(meta["scale"]) - mean) / std, np.float32)


def onnxruntime_answers(model: onnx.ModelProto, x: NDArray[np.float32], optimised: bool = True) -> dict[str, Array]:
    """Every output, sample by sample (some models have a fixed batch of 1)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name, outputs = session.get_inputs()[0].name, [output.name for output in session.get_outputs()]
    answers = [session.run(outputs, {name: x[i : i + 1]}) for i in range(len(x))]
    return {output: np.concatenate(parts) for output, *parts in zip(outputs, *answers, strict=True)}


def artifact(model: Trained, config: Config, batch: int = 1) -> Artifact:
    """Compiles a model. A float model is first quantised with its 100 calibration samples; one that onnxruntime quantised stays."""
    proto = load_model(model.path)
    if model.file == FLOAT:
        names = {tensor.name for tensor in proto.graph.initializer}
        name = next(value.name for value in proto.graph.input if value.name not in names)
        proto, _ = quantise(proto, {name: samples(model, "calib").x})
    return compile_model(proto, config, batch=batch)


def emulated(compiled: Artifact, x: NDArray[np.float32]) -> dict[str, Array]:
    """Every output through the emulator."""
    name = compiled.manifest["model_inputs"][0]["name"]
    with Model(compiled, "emulator") as emulator:
        answers: dict[str, Array] = emulator.run({name: x})
    return answers


def top1(answers: dict[str, Array]) -> NDArray[np.int64]:
    """The class of each sample, according to the first output."""
    first = next(iter(answers.values()))
    return first.reshape(len(first), -1).argmax(axis=1)


def in_parts(x: NDArray[np.float32], size: int) -> Iterator[NDArray[np.float32]]:
    """The samples, `size` at a time, to save memory."""
    return (x[i : i + size] for i in range(0, len(x), size))
