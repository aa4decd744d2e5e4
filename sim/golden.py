"""The reference as an executor of artifacts: the int8 graph of the model inside a .cnna, run layer by layer."""

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from cnna.compiler.ir import Graph
from cnna.compiler.quantised_import import import_quantised
from cnna.host.artifact import Artifact
from cnna.sim import reference

Int8 = NDArray[np.int8]


def int8_graph(artifact: Artifact) -> Graph:
    """The accelerator's part of the model that the artifact was compiled from."""
    return import_quantised(onnx.load_from_string(artifact.model)).graph


class Reference:
    """Runs batches of int8 tensors by port name, as `host.accelerator.Accelerator` does."""

    def __init__(self, artifact: Artifact) -> None:
        self.graph = int8_graph(artifact)
        self.counters: dict[str, int] = {}  # it has no clock
        self.tensors: dict[str, Int8] = {}  # every activation of the last run

    def run(self, inputs: Mapping[str, Int8]) -> dict[str, Int8]:
        """int8 [batch, C, H, W] by graph output."""
        self.tensors = reference.run(self.graph, inputs)
        return {name: self.tensors[name] for name in self.graph.outputs}
