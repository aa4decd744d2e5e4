"""Where a model can be cut: behind which nodes, which tensors cross, and how many bytes they have.

A cut at a node puts the node and all that it needs before the cut, and the rest behind it. What crosses is int8 where the model
quantises it, since a value that was quantised once is the same when it is quantised again.
"""

from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, helper, shape_inference

from cnna.spec.counts import many
from cnna.spec.errors import ModelError

MOVES = ("QuantizeLinear", "DequantizeLinear", "Reshape", "Flatten", "Transpose", "Identity", "Squeeze", "Unsqueeze", "Cast")


@dataclass(frozen=True)
class Crossing:
    """A tensor that crosses. whole: its float form, which the edge gives, where it is int8 on the link; else its own name."""

    name: str
    whole: str
    dtype: str
    shape: tuple[int, ...]  # of a sample

    @property
    def bytes(self) -> int:
        """Of a sample."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Cut:
    """One cut. node: the last one before it, by name. before: the names of all nodes before it. work: how many of them compute."""

    node: str
    before: frozenset[str]
    crossings: tuple[Crossing, ...]
    work: int

    @property
    def bytes(self) -> int:
        """Of a sample, over the link."""
        return sum(one.bytes for one in self.crossings)

    @property
    def packed(self) -> bool:
        """Whether a float of the edge is packed as int8 before it crosses."""
        return any(one.whole != one.name for one in self.crossings)


class Cuts:
    """The cuts of one model. ModelError: a node has no name, or two have the same."""

    def __init__(self, model: ModelProto) -> None:
        self.model = shape_inference.infer_shapes(model)
        graph = self.model.graph
        names = [node.name for node in graph.node]
        if not all(names) or len(set(names)) < len(names):
            raise ModelError("nodes must have names, each its own; cnna quantize gives them")
        self._types = {node.name: node.op_type for node in graph.node}
        self._constants = {one.name for one in graph.initializer}
        self._inputs = [one.name for one in graph.input]
        self._known = {one.name: one for one in (*graph.input, *graph.value_info, *graph.output)}
        self._producer = {name: node for node in graph.node for name in node.output if name}
        self._consumers: dict[str, list[NodeProto]] = {}
        needs: dict[str, frozenset[str]] = {}  # of nodes that depend on the inputs: all that they depend on, and themselves
        for node in graph.node:
            read = [self._producer[name] for name in node.input if name in self._producer]
            if any(other.name in needs for other in read) or any(name in self._inputs for name in node.input):
                needs[node.name] = frozenset({node.name}).union(*(needs.get(other.name, frozenset()) for other in read))
                for name in set(node.input):
                    self._consumers.setdefault(name, []).append(node)
        self._needs = needs

    def all(self, most: int) -> list[Cut]:
        """The cuts that at most so many tensors cross, with work on both sides, in the order of the model."""
        found, seen, fewest = list[Cut](), set[frozenset[str]](), list[int]()
        whole = sum(self._works(name) for name in self._needs)
        for node in self.model.graph.node:
            if node.name not in self._needs or node.op_type == "DequantizeLinear":
                continue
            cut = self._cut(node)
            if cut is not None and cut.before not in seen and 0 < cut.work < whole:
                fewest.append(len(cut.crossings))
                behind = [other.op_type for name in node.output for other in self._consumers.get(name, [])]
                if fewest[-1] > most or "QuantizeLinear" in behind:
                    continue  # the quantised tensor behind it is the better one
                seen.add(cut.before)
                found.append(cut)
        if not found and not fewest:
            raise ModelError(f"cannot be cut: of {many(whole, 'node')} with work, none has others before and behind it")
        if not found:
            raise ModelError(f"no cut is crossed by {many(most, 'tensor')} or fewer; the fewest are {min(fewest)}: see --tensors")
        return found

    def at(self, name: str, most: int) -> Cut:
        """The cut behind a node. ModelError: there is no such node, or it cannot be cut there; the line says why."""
        node = next((one for one in self.model.graph.node if one.name == name and name in self._needs), None)
        if node is None:
            near = [one for one in self._needs if name.lower() in one.lower()][:5] or list(self._needs)[:5]
            raise ModelError(f"there is no node {name!r} that depends on the inputs; there are {', '.join(near)}, ...")
        following = [other for tensor in node.output for other in self._consumers.get(tensor, [])]
        if len(following) == 1 and following[0].op_type == "QuantizeLinear":
            node = following[0]
        cut = self._cut(node)
        if cut is None:
            raise ModelError(f"node {name}: an output lies before it, or a tensor would cross whose size is open")
        if len(cut.crossings) > most:
            crossing = ", ".join(one.name for one in cut.crossings)
            raise ModelError(f"node {name}: {len(cut.crossings)} tensors cross ({crossing}), and {most} may; see --tensors")
        if not 0 < cut.work < sum(self._works(one) for one in self._needs):
            raise ModelError(f"node {name}: all that computes lies on one side of it; choose one further inside")
        return cut

    def _cut(self, node: NodeProto) -> Cut | None:
        """None: the size of a tensor is not known, or an output lies before the cut."""
        before, crossing = self._needs[node.name], dict[str, Crossing]()
        made = [name for one in self.model.graph.node if one.name in before for name in one.output]
        outside = {one.name for one in self.model.graph.output}
        for name in (*self._inputs, *made):
            if name in made and name in outside:
                return None
            if any(other.name not in before for other in self._consumers.get(name, [])):
                found = self._crossing(name)
                if found is None:
                    return None
                crossing[found.name] = found
        return Cut(node.name, before, tuple(crossing.values()), sum(map(self._works, before)))

    def _crossing(self, name: str) -> Crossing | None:
        """A tensor as it crosses: int8 if it is that, dequantised or not."""
        producer, whole = self._producer.get(name), name
        if producer is not None and self._restores(producer):
            name = producer.input[0]
        elif name not in self._inputs and (dequantised := [one for one in self._consumers.get(name, []) if self._restores(one)]):
            whole = dequantised[0].output[0]
        kind = self._known.get(name)
        if kind is None:
            return None
        sizes = [size.dim_value for size in kind.type.tensor_type.shape.dim][1:]
        if not all(sizes):
            return None
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.type.tensor_type.elem_type)).name
        return Crossing(name, whole, dtype, tuple(sizes))

    def _works(self, name: str) -> bool:
        return self._types[name] not in MOVES

    def _restores(self, node: NodeProto) -> bool:
        """Whether it dequantises by constants, which the other side can have too."""
        return node.op_type == "DequantizeLinear" and set(filter(None, node.input[1:])) <= self._constants
