"""The network as `report.figures` has it: boxes for layers, operators of the CPU, inputs and outputs; edges for tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cnna.compiler.report.layout import Edge
from cnna.spec.artifact import Artifact
from cnna.spec.manifest import CPU, CpuEntry, ProgramEntry

ENGINE, NAME, OP, LAYER = "engine", "name", "op", "layer"  # a box's entries; layer: from 1, 0 for what is no layer


@dataclass
class _Network:
    """Boxes and edges so far. made: the box of each tensor that the pieces hand on."""

    boxes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, op: str, engine: str, sources: Sequence[int | None], layer: int = 0) -> int:
        number = len(self.boxes)
        self.boxes.append({NAME: name, OP: op, ENGINE: engine, LAYER: layer})
        self.edges += [(source, number) for source in dict.fromkeys(sources) if source is not None]
        return number


def network(artifact: Artifact) -> dict[str, Any] | None:
    """Boxes, and edges as pairs of their numbers, for `report.figures`. None: the artifact does not say what its layers read."""
    found, layers = _Network(), 0
    manifest = artifact.manifest
    for port in manifest["model_inputs"]:
        found.made[port["name"]] = found.add(port["name"], "", "", ())
    for piece in manifest["pieces"]:
        if piece["kind"] == CPU:
            _cpu(found, piece)
        else:
            if not all("inputs" in layer for layer in piece["layers"]):
                return None
            _program(found, piece, layers)
            layers += len(piece["layers"])
    for output in manifest["model_outputs"]:
        found.add(output["name"], "", "", [found.made.get(output["name"])])
    return {"boxes": found.boxes, "edges": [list(edge) for edge in found.edges]}


def _cpu(found: _Network, piece: CpuEntry) -> None:
    for node in piece["operators"]:
        number = found.add(node["name"], node["op"], CPU, [found.made.get(name) for name in node["inputs"]])
        found.made.update(dict.fromkeys(node["outputs"], number))


def _program(found: _Network, piece: ProgramEntry, before: int) -> None:
    """Adds the layers of a program. Its tensors have names of their own, apart from those that it hands on."""
    for port in piece["inputs"]:
        if port["name"] not in found.made:  # a program whose manifest names no inputs of a model
            found.made[port["name"]] = found.add(port["name"], "", "", ())
    made = {port["tensor"]: found.made[port["name"]] for port in piece["inputs"]}
    for number, layer in enumerate(piece["layers"], before + 1):
        sources = [made.get(name) for name in layer["inputs"]]
        made[layer["output"]] = found.add(layer["name"], layer["op"], layer["engine"], sources, number)
    found.made.update({port["name"]: made[port["tensor"]] for port in piece["outputs"] if port["tensor"] in made})
