"""A model's inputs: checks the arrays that a user gives by name, shape and type, and turns them into the accelerator's int8.

uint8 pictures, with channels first or last, go through a table for each channel; no float is computed for them.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.answers import WHOLE
from cnna.host.model.buffers import InputBuffer
from cnna.host.native.tensors import Feed, Packing
from cnna.host.samples.rows import Given, Rows, integers, rows_of, shared
from cnna.spec.cpu_ops import reads
from cnna.spec.errors import DataError, reason_of
from cnna.spec.manifest import ACCELERATOR, CPU, Manifest, Port
from cnna.spec.names import differences, in_line
from cnna.spec.samples import pack
from cnna.spec.samples.preprocess import from_entry

Arrays = dict[str, NDArray[Any]]


def _integers(name: str, given: Given, dtype: str) -> Rows:
    """Samples for an input of integers. DataError: numbers that the type does not hold; of an array now, of rows when read."""
    if isinstance(given, Rows):
        return given.mapped(partial(integers, dtype=dtype, where=f"input {name}"), dtype)
    return rows_of(integers(given, dtype, f"input {name}"))


class Inputs:
    """The inputs of one model, as its manifest describes them."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        entry = manifest["preprocess"]
        self._preprocess = None if entry is None else from_entry(entry, f"{manifest['name']}: preprocess", strict=False)
        self._tables = self._uint8_tables()
        self._packings: dict[str, Packing] = {}

    def checked(self, x: "Given | Mapping[str, Given]") -> Arrays:
        """The model's inputs as float32, preprocessed where they are uint8; as uint8 where there is a table for them.

        DataError: names, shapes or types that do not fit.
        """
        return {name: rows[:] for name, rows in self.rows(x).items()}

    def rows(self, x: "Given | Mapping[str, Given]") -> dict[str, Rows]:
        """As `checked`, but names, shapes and types are checked now, and samples are converted when they are read."""
        given: Mapping[str, Any] = x if isinstance(x, Mapping) else {self._single_input(): x}
        wanted = {entry["name"]: entry["shape"] for entry in self.manifest["model_inputs"]}
        whole = {entry["name"]: entry["dtype"] for entry in self.manifest["model_inputs"] if entry["dtype"] in WHOLE}
        if wrong := differences(given, wanted):
            raise DataError(f"{self.manifest['name']} {wrong}")
        found = {}
        given = shared({name: self._array(name, given[name], name in whole) for name in wanted}, wanted)
        for name, shape in wanted.items():
            rows = _integers(name, given[name], whole[name]) if name in whole else self._upright(given[name], shape)
            sizes = rows.shape[1:]
            if rows.ndim != len(shape) + 1 or not len(rows) or any(s not in (None, n) for s, n in zip(shape, sizes, strict=True)):
                raise DataError(f"input {name} has shape {list(rows.shape)}, but the model wants {['N', *shape]}, N at least 1")
            ready = name in whole or (name in self._tables and rows.dtype == np.uint8)
            found[name] = rows if ready else rows.mapped(partial(self._as_float, name), np.float32)
        if len({len(rows) for rows in found.values()}) > 1:
            raise DataError(f"the inputs have different numbers of samples: { {n: len(rows) for n, rows in found.items()} }")
        return found

    def feed(self, port: Port, x: NDArray[Any], images: int) -> Feed:
        """What an input port of a program gets, from its tensor of samples, which are at most `images`."""
        return Feed(self.packing(port), x, images)

    def packing(self, port: Port) -> Packing:
        """An input port of a program, ready to pack."""
        name = port["name"]
        if name not in self._packings:
            self._packings[name] = Packing(port, self.manifest["config"]["ci"], self._tables.get(name))
        return self._packings[name]

    def _single_input(self) -> str:
        names = [entry["name"] for entry in self.manifest["model_inputs"]]
        if len(names) != 1:
            raise DataError(f"{self.manifest['name']} has inputs {in_line(names)}: give a dict by these names")
        return str(names[0])

    def _array(self, name: str, given: Any, whole: bool) -> Given:
        """The input as an array: float32, uint8 where the model stores preprocessing, or anything where it is `whole`."""
        try:
            x: Given = given if isinstance(given, Rows | InputBuffer) else np.asarray(given)
        except ValueError as error:
            raise DataError(f"input {name} is no array: {reason_of(error)}") from None
        if whole:
            return x
        if x.dtype == np.uint8 and self._preprocess is None:
            raise DataError(f"input {name} is uint8, but the model stores no preprocessing (cnna quantize --scale --mean --std)")
        if x.dtype.kind != "f" and x.dtype != np.uint8:
            raise DataError(f"input {name} is {x.dtype}, but the model wants float32")
        return x

    def _upright(self, x: Given, shape: Sequence[int | None]) -> Rows:
        """uint8 pictures with their channels first: a view, where the model stores preprocessing and the channels come last."""
        last = (
            x.dtype == np.uint8
            and self._preprocess is not None
            and self._preprocess.layout == "nchw"
            and x.ndim == len(shape) + 1 == 4
        )
        rows, sizes = x if isinstance(x, Rows) else rows_of(x), x.shape[1:]
        if not last or sizes == tuple(shape):
            return rows
        turned = (sizes[2], *sizes[:2])
        fits = all(size in (None, have) for size, have in zip(shape, turned, strict=False))
        return rows.mapped(lambda pictures: pictures.transpose(0, 3, 1, 2), rows.dtype, turned) if fits else rows

    def _uint8_tables(self) -> dict[str, NDArray[np.int8]]:
        """Tables, int8 [C, 256], for inputs whose pictures go straight to the accelerator: the int8 of each value of a picture."""
        tables: dict[str, NDArray[np.int8]] = {}
        if self._preprocess is None or self._preprocess.layout != "nchw":
            return tables
        cpu = [entry for entry in self.manifest["pieces"] if entry["kind"] == CPU]
        others = {name for entry in cpu for name in reads(entry["operators"])}
        others |= {entry["name"] for entry in self.manifest["model_outputs"]}
        inputs = {entry["name"]: entry["shape"] for entry in self.manifest["model_inputs"] if entry["dtype"] not in WHOLE}
        programs = [entry for entry in self.manifest["pieces"] if entry["kind"] == ACCELERATOR]
        for port in (port for program in programs for port in program["inputs"]):
            name, channels = port["name"], port["shape"][0]
            if list(inputs.get(name, ())) == list(port["shape"]) and name not in others:
                values = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None, None, None], (256, channels, 1, 1))
                q = pack.quantise(self._as_float(name, values), port["scale"], port["zero"], name)
                tables[name] = np.ascontiguousarray(q.reshape(256, channels).T)
        return tables

    def _as_float(self, name: str, x: NDArray[Any]) -> NDArray[np.float32]:
        if x.dtype == np.uint8 and self._preprocess is not None:
            return self._preprocess.apply(x)
        with np.errstate(over="ignore"):  # float64 beyond float32 is infinity, which saturates
            return x.astype(np.float32, copy=not isinstance(x, InputBuffer))
