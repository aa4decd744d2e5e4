"""The reference as an executor of artifacts: the int8 graph of the model inside a .cnna, run layer by layer."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph.ir import Graph
from cnna.sim.reference import reference
from cnna.spec.artifact import Artifact
from cnna.spec.errors import ArtifactError, ModelError

Int8 = NDArray[np.int8]


def int8_graph(artifact: Artifact) -> Graph:
    """The accelerator's part of the model that the artifact was compiled from. ArtifactError: it is not that model."""
    manifest = artifact.manifest
    name = f"{manifest['name']}: its model.onnx"
    try:
        graph = import_quantised(load_model(artifact.model, name)).graph
    except ModelError as error:
        raise ArtifactError(f"{error}; compile it again") from None
    ports = {port["name"]: port for port in (*manifest["inputs"], *manifest["outputs"])}
    same = {*graph.inputs, *graph.outputs} == set(ports)
    if not same or any(_differs(graph, tensor, entry) for tensor, entry in (*ports.items(), *manifest["tensors"].items())):
        raise ArtifactError(f"{name} is not the model that it was compiled from; compile it again")
    return graph


def _differs(graph: Graph, tensor: str, entry: Mapping[str, Any]) -> bool:
    """Whether a tensor is another than a manifest's entry says."""
    found = graph.tensors.get(tensor)
    quant = (found.quant.scale, found.quant.zero) if found and found.quant else None
    return found is None or list(found.shape) != entry["shape"] or quant != (entry["scale"], entry["zero"])


class Reference:
    """Runs batches of int8 tensors by port name, as `host.device.accelerator.Accelerator` does."""

    def __init__(self, artifact: Artifact) -> None:
        self.graph = int8_graph(artifact)
        self.counters: dict[str, int] = {}  # it has no clock
        self.tensors: dict[str, Int8] = {}  # every activation of the last run

    def run(self, inputs: Mapping[str, Int8]) -> dict[str, Int8]:
        """int8 [batch, C, H, W] by graph output."""
        self.tensors = reference.run(self.graph, inputs)
        return {name: self.tensors[name] for name in self.graph.outputs}
