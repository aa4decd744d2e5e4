"""The runtime `onnxruntime`: a version's `model.onnx`, computed by one thread of this computer.

options: `file` (another name in the version's folder), `batch` (the most samples in a batch, where the model leaves axis 0 open).
An input whose axis 0 is fixed fixes the batch; a part batch is filled with zeros.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve.runtimes.interface import FLOATS, USUAL_BATCH, Arrays, Call, Description, Place, Tensor
from cnna.spec.checks.json_kinds import is_whole
from cnna.spec.cpu_ops import leave_out_unfaithful
from cnna.spec.errors import ArtifactError, DataError, ModelError, ToolError, UserError, reason_of
from cnna.spec.manifest import PreprocessEntry
from cnna.spec.samples.preprocess import from_entry

FILE = "model.onnx"
PREPROCESS = "cnna.preprocess"  # in the model's metadata
MOST_BATCH = 4096
TYPES = {
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(bool)": "bool",
    **{f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class OnnxFile:
    """One model in one session."""

    def __init__(self, place: Place) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError:
            raise ToolError(f"{place.folder}: needs the package onnxruntime: pip install onnxruntime") from None
        self._path = _path(place)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        leave_out_unfaithful(options)
        try:
            self._session = onnxruntime.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its classes share no base of their own
            raise ModelError(f"{self._path}: onnxruntime cannot open it: {reason_of(error)}") from None
        self._fixed = self._batch()  # None: axis 0 is open
        self._wanted = _option(place, "batch") or USUAL_BATCH
        self._inputs = tuple(self._tensor(one, one.shape[1:], "input") for one in self._session.get_inputs())
        self._outputs = tuple(self._output(one) for one in self._session.get_outputs())
        self._entry = self._preprocess()

    def describe(self) -> Description:
        return Description(self._inputs, self._outputs, self._fixed or self._wanted, preprocess=self._entry)

    def run(self, inputs: Arrays, call: Call) -> Arrays:
        samples = len(next(iter(inputs.values())))
        given = {tensor.name: self._ready(tensor, inputs[tensor.name]) for tensor in self._inputs}
        try:
            answers = self._session.run(None, given)
        except Exception as error:
            raise DataError(f"onnxruntime: {reason_of(error)}") from None
        found = {}
        for tensor, y in zip(self._outputs, answers, strict=True):
            found[tensor.name] = np.asarray(y).reshape(-1, *(size or 0 for size in tensor.shape))[: samples * tensor.rows]
        return found

    def close(self) -> None:
        del self._session

    def _ready(self, tensor: Tensor, x: NDArray[Any]) -> NDArray[Any]:
        """An input as the model takes it: pictures preprocessed, a fixed batch filled."""
        if x.dtype == np.uint8 and tensor.dtype in FLOATS and self._entry is not None:
            if x.ndim == 4 and any(size not in (None, have) for size, have in zip(tensor.shape, x.shape[1:], strict=True)):
                x = x.transpose(0, 3, 1, 2)  # channels last, where the model has them first
            x = from_entry(self._entry, str(self._path), strict=False).apply(x)
        x = x.astype(tensor.dtype, copy=False)
        if self._fixed is None or len(x) == self._fixed:
            return x
        return np.concatenate([x, np.zeros((self._fixed - len(x), *x.shape[1:]), x.dtype)])

    def _batch(self) -> int | None:
        sizes = set()
        for one in self._session.get_inputs():
            if not one.shape:
                raise ArtifactError(f"{self._path}: input {one.name} has no axis for the samples; give it one")
            sizes.add(one.shape[0] if isinstance(one.shape[0], int) else None)
        if len(sizes) != 1:
            raise ArtifactError(f"{self._path}: its inputs have no common axis 0 for the samples")
        return next(iter(sizes))

    def _tensor(self, one: Any, shape: Any, what: str, rows: int = 1) -> Tensor:
        if one.type not in TYPES:
            raise ArtifactError(f"{self._path}: {what} {one.name} is a {one.type}, which is not served; serve numbers")
        sizes = tuple(size if isinstance(size, int) else None for size in shape)
        return Tensor(one.name, TYPES[one.type], sizes, rows, exact=TYPES[one.type] not in FLOATS)

    def _output(self, one: Any) -> Tensor:
        """Its rows for each sample follow from axis 0."""
        batch, first = self._fixed or 1, one.shape[0] if one.shape and isinstance(one.shape[0], int) else None
        if any(not isinstance(size, int) for size in one.shape[1:]) or not one.shape:
            raise ArtifactError(f"{self._path}: the size of output {one.name} is open; fix all axes but 0, the samples'")
        if first is not None and (self._fixed is None or first % batch):
            raise ArtifactError(f"{self._path}: output {one.name} always has {first} rows; its axis 0 must be the samples'")
        return self._tensor(one, one.shape[1:], "output", 1 if first is None else first // batch)

    def _preprocess(self) -> PreprocessEntry | None:
        text = self._session.get_modelmeta().custom_metadata_map.get(PREPROCESS)
        if not text:
            return None
        try:
            return from_entry(json.loads(text), f"{self._path}: {PREPROCESS}", strict=False).entry()
        except ValueError:
            raise ModelError(f"{self._path}: the metadata {PREPROCESS} cannot be read") from None


def _path(place: Place) -> Path:
    """UserError: the options are wrong, or there is no such file."""
    options: Mapping[str, Any] = place.options
    for key in options:
        if key not in ("file", "batch"):
            raise UserError(f"{place.folder}: onnxruntime: unknown key {key!r}; there are file, batch")
    name = options.get("file", FILE)
    if not isinstance(name, str) or Path(name).name != name:
        raise UserError(f"{place.folder}: onnxruntime: file: {name!r} must be the name of a file in this folder")
    path = place.folder / name
    if not path.is_file():
        raise ArtifactError(f"{path}: is not there; the runtime onnxruntime needs it")
    return path


def _option(place: Place, key: str) -> int | None:
    value = place.options.get(key)
    if value is not None and not is_whole(value, 1, MOST_BATCH + 1):
        raise UserError(f"{place.folder}: onnxruntime: {key}: {value!r} is not an integer within 1..{MOST_BATCH}")
    return value
