"""The tail of a compiled detector: what makes the model's outputs of int8 head tensors, as a function that can be asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.heads.last_clips import without_last_clips
from cnna.spec.cpu_ops import CpuPart, makes, reads
from cnna.spec.manifest import ACCELERATOR, CPU, LayerEntry, PieceEntry, Port, ProgramEntry
from cnna.spec.samples import pack

Int8 = NDArray[np.int8]
Outputs = dict[str, NDArray[Any]]


class UnlikeError(Exception):
    """A model is not like a detector of some family. The text says which structure was expected, and where it broke off."""


@dataclass(frozen=True, eq=False)
class Tail:
    """heads: output ports of programs. outputs: the model's own, by name. part: None if there is nothing between the two.

    program: the entry of the piece before it. model: the ONNX file of `part`.
    """

    heads: tuple[Port, ...]
    outputs: tuple[str, ...]
    part: CpuPart | None
    program: ProgramEntry
    model: bytes | None = None

    @classmethod
    def of(cls, pieces: Sequence[PieceEntry], model: bytes | None, outputs: Sequence[str]) -> "Tail":
        """model: the ONNX file of the last piece, if that runs on the CPU. UnlikeError: it does more, or less, than a tail."""
        last = pieces[-1] if pieces else None
        ports = {port["name"]: port for piece in pieces if piece["kind"] == ACCELERATOR for port in piece["outputs"]}
        programs = [piece for piece in pieces if piece["kind"] == ACCELERATOR]
        if last is None or not programs:
            raise UnlikeError("nothing of the model runs on the accelerator")
        part, read = None, list[str]()
        if last["kind"] == CPU:
            assert model is not None
            made = makes(last["operators"])
            part = CpuPart(model, last["operators"], [name for name in outputs if name in made], numpy=last["numpy"])
            # constants that only the file has are read too, and are no tensors of others
            given = {port["name"] for piece in programs for port in (*piece["inputs"], *piece["outputs"])}
            earlier = set().union(*(makes(piece["operators"]) for piece in pieces[:-1] if piece["kind"] == CPU))
            read = [name for name in reads(last["operators"]) if name in given | earlier]
            foreign = [name for name in read if name not in ports]
            if foreign:
                raise UnlikeError(f"the last piece on the CPU also reads '{foreign[0]}', which is no output of the accelerator")
        wanted = dict.fromkeys([*read, *(name for name in outputs if name in ports)])
        return cls(tuple(ports[name] for name in wanted), tuple(outputs), part, programs[-1], model)

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """C, H, W of each head."""
        return [(port["shape"][0], port["shape"][1], port["shape"][2]) for port in self.heads]

    def uncut(self) -> "Tail | None":
        """The tail without the Clips that its outputs end in; None: there are none."""
        if self.part is None or self.model is None:
            return None
        model = without_last_clips(self.model)
        return None if model is None else replace(self, part=CpuPart(model, self.part.operators, self.part.outputs, numpy=False))

    def run(self, tensors: Sequence[Int8]) -> Outputs:
        """The model's outputs for one picture. tensors: int8 [C, H, W] of each head."""
        real = {
            port["name"]: pack.dequantise(q[None], port["scale"], port["zero"]) for port, q in zip(self.heads, tensors, strict=True)
        }
        made = self.part.run(real) if self.part else {}
        return {name: made[name] if name in made else real[name] for name in self.outputs if name in made or name in real}

    def drawn(self, rng: np.random.Generator) -> list[Int8]:
        """Heads of random integers."""
        return [rng.integers(-128, 128, shape).astype(np.int8) for shape in self.shapes]

    def filled(self, value: int) -> list[Int8]:
        """Heads of one integer."""
        return [np.full(shape, value, np.int8) for shape in self.shapes]

    def origin(self, head: int, channel: int) -> tuple[str, int]:
        """The tensor that a convolution makes of which a head's channel is one, and its channel there: through Concats."""
        name = self.heads[head]["tensor"]
        for _ in range(len(self._layers) + 1):
            layer = self._layers.get(name)
            if layer is None or layer["op"].lower() != "concat":
                break
            for part in layer.get("inputs", []):
                channels = self.program["tensors"].get(part, {"shape": [0]})["shape"][0]
                if channel < channels:
                    name = part
                    break
                channel -= channels
            else:
                break
        return name, channel

    def convolution(self, head: int, channel: int) -> str:
        """The tensor that a convolution makes of which a head's channel is one, through choices of channels too."""
        name = self.origin(head, channel)[0]
        while (layer := self._layers.get(name)) is not None and layer["op"].lower() == "channels":
            (name,) = layer["inputs"]
        return name

    @cached_property
    def _layers(self) -> dict[str, LayerEntry]:
        """The program's layers, by what they make."""
        return {layer["output"]: layer for layer in self.program["layers"]}
