"""How quick a cut would be: predicted seconds of the accelerator, a step that packs,
seconds of the link, measured seconds of a CPU behind it.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from cnna.compiler.split.cuts import Cut
from cnna.compiler.split.halves import session_of

RUNS = 3
MESSAGE_BYTES = 200  # of a request beside its tensors: names and shapes, and what gRPC writes
PACK_SECONDS = 0.001  # of the edge's pipeline for a step more: some 1 to 2 ms in measured cuts that differ in this alone
SEGMENT_BYTES, FRAME_BYTES = 1448, 66  # of TCP in a frame of Ethernet, and the headers of all three


@dataclass(frozen=True)
class Cost:
    """Seconds of one sample."""

    cut: Cut
    edge: float
    link: float
    cloud: float

    @property
    def pack(self) -> float:
        """Of the step that packs what crosses as int8."""
        return PACK_SECONDS if self.cut.packed else 0.0

    @property
    def total(self) -> float:
        """From the picture to the answer, without what every cut takes."""
        return self.edge + self.pack + self.link + self.cloud

    def figures(self) -> dict[str, Any]:
        """For programs."""
        seconds = {"edge_seconds": self.edge, "pack_seconds": self.pack, "link_seconds": self.link, "cloud_seconds": self.cloud}
        return {"node": self.cut.node, "bytes": self.cut.bytes, "tensors": [one.name for one in self.cut.crossings], **seconds}


def quickest(costs: Iterable[Cost]) -> list[Cost]:
    """In the order of their totals."""
    return sorted(costs, key=lambda cost: cost.total)


def link_seconds(cut: Cut, mbit: float) -> float:
    """Of what crosses, in the frames that carry it. mbit: millions of bits a second."""
    size = cut.bytes + MESSAGE_BYTES
    return (size + -(-size // SEGMENT_BYTES) * FRAME_BYTES) * 8 / (mbit * 1e6)


def edge_seconds(cut: Cut, layers: Sequence[Mapping[str, Any]], known: frozenset[str], mhz: float) -> float:
    """Predicted clocks of the layers before the cut. A layer that is no node of the model belongs to the one before it."""
    clocks, inside = 0, True
    for layer in layers:
        if layer["name"] in known:
            inside = layer["name"] in cut.before
        clocks += layer["predicted_cycles"] if inside else 0
    return clocks / (mhz * 1e6)


def cloud_seconds(cloud: ModelProto) -> float:
    """The quickest of some runs with zeros, by one thread of this computer."""
    session = session_of(cloud)
    given: dict[str, NDArray[Any]] = {}
    for one in session.get_inputs():
        kind = {"tensor(float)": "float32", "tensor(double)": "float64"}.get(one.type, one.type[len("tensor(") : -1])
        given[one.name] = np.zeros([size if isinstance(size, int) else 1 for size in one.shape], kind)
    session.run(None, given)
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        session.run(None, given)
        seconds.append(time.perf_counter() - started)
    return min(seconds)
