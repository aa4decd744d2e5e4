"""A detector's own outputs from its int8 head tensors, in the place of the last piece on the CPU: natively, or in numpy, alike."""

from collections.abc import Mapping, Sequence
from ctypes import byref
from math import prod

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.host.native.detect import Decoder, Settings
from cnna.host.native.library import CHead, CRows
from cnna.host.native.tensors import address_of
from cnna.spec.cpu_ops import reads
from cnna.spec.detection.decode import Int8
from cnna.spec.detection.heads import Heads, heads_of
from cnna.spec.detection.rows import BOX, model_rows, outputs_of_rows
from cnna.spec.manifest import ACCELERATOR, CPU, Manifest

ANY = Settings(0.0, 0.0, "all", 1)  # nothing is chosen
Floats = NDArray[np.float32]


class ModelRows:
    """What makes the outputs of one picture. shapes: of each output. Any thread may call `run`."""

    def __init__(self, heads: Heads, shapes: Mapping[str, Sequence[int]]) -> None:
        self.heads, self.outputs = heads, heads.entry["rows"]["outputs"]
        self._shapes = {name: tuple(shapes[name]) for name in self.outputs}
        self._decoder = Decoder(heads, ANY)
        self._calls = library.native().calls

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, Floats]:
        """The outputs by name. inputs: int8 [1, C, H, W] of each head, among others."""
        tensors = [np.asarray(inputs[name], np.int8)[0] for name in self.heads.entry["heads"]]
        if self._calls is None:
            return outputs_of_rows(self.heads, model_rows(self.heads, tensors), self._shapes)
        return self._native([np.ascontiguousarray(q) for q in tensors])

    def _native(self, tensors: Sequence[Int8]) -> dict[str, Floats]:
        how = self.heads.entry["rows"]
        found = {name: np.empty(shape, np.float32) for name, shape in self._shapes.items()}
        box, score = found[self.outputs[0]], found[self.outputs[-1]]
        apart = len(self.outputs) > 1
        numbers = box.size // self.heads.boxes, score.size // self.heads.boxes
        steps = [(1, self.heads.boxes) if how["turned"] else (each, 1) for each in numbers]
        begin = 0 if apart else BOX * steps[1][1]  # where the scores are, in numbers of their array
        made = CRows(
            *(address_of(box), address_of(score) + begin * score.itemsize),
            *(*steps[0], box.size, *steps[1], score.size - begin, self.heads.boxes, how["centred"]),
            *(tuple(how["order"]), tuple(how["scale"])),
        )
        cells = [q[0].size for q in tensors]
        planes = (CHead * len(tensors))(*[CHead(address_of(q), 1, size) for q, size in zip(tensors, cells, strict=True)])
        code = self._calls.cnna_model_rows(byref(self._decoder.c_heads), planes, byref(made))
        library.check(code, "making a detector's own outputs")
        return found


def model_rows_of(manifest: Manifest) -> ModelRows | None:
    """What makes a detector's own outputs; None: the last piece on the CPU must, or the library is not there."""
    entry = manifest.get("detector")
    outputs = {output["name"]: output["shape"] for output in manifest["model_outputs"]}
    if entry is None or "rows" not in entry or library.native().calls is None:
        return None
    ports = {port["name"]: port for piece in manifest["pieces"] if piece["kind"] == ACCELERATOR for port in piece["outputs"]}
    read = {port["name"] for piece in manifest["pieces"] if piece["kind"] == ACCELERATOR for port in piece["inputs"]}
    read |= {name for piece in manifest["pieces"][:-1] if piece["kind"] == CPU for name in reads(piece["operators"])}
    heads = [name for name in entry["heads"] if name in ports and name not in read | set(outputs)]
    shapes = {name: [size for size in shape if size is not None] for name, shape in outputs.items() if shape is not None}
    if set(entry["rows"]["outputs"]) != set(outputs) or len(shapes) != len(outputs) or len(heads) != len(entry["heads"]):
        return None
    found = heads_of(entry, [ports[name]["shape"] for name in heads], manifest["name"])
    first = any(grid["objectness"] is not None for grid in entry["grids"])
    numbers = found.boxes * (BOX + first + entry["labels"])
    return ModelRows(found, shapes) if sum(map(prod, shapes.values())) == numbers else None
