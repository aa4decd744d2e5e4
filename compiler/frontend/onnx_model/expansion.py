"""The nodes that one operator of another domain becomes, and what is known of the model around it. `vendor` has the operators."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import hollow
from cnna.compiler.graph.node_names import node_name, place_of
from cnna.spec.errors import ModelError


class Surroundings:
    """What an expansion may ask of a model whose nodes up to `done` are written out already."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self.done: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        self.dims = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
        self._ranks = {name: len(dims) for name, dims in self.dims.items()}
        self._kinds = dict(self.types)

    def rank(self, tensor: str) -> int | None:
        """The number of axes of a tensor that the nodes in `done` make; None if ONNX cannot infer it."""
        if tensor not in self._ranks:
            self._infer()
        return self._ranks.get(tensor)

    def kind(self, tensor: str) -> int:
        """The element type of a tensor that the nodes in `done` make; 0 if ONNX cannot infer it."""
        if tensor not in self._kinds:
            self._infer()
        return self._kinds.get(tensor, TensorProto.UNDEFINED)

    def _infer(self) -> None:
        """Notes ranks and element types of what the nodes in `done` make, as far as ONNX infers them."""
        copy = hollow(self._model)
        del copy.graph.node[:], copy.graph.output[:]
        copy.graph.node.extend(self.done)
        copy.graph.initializer.extend(self.constants)
        try:
            found = onnx.shape_inference.infer_shapes(copy, data_prop=True).graph.value_info
        except Exception:  # onnx's own class, and on broken models any that C++ raises: then nothing is known
            return
        for value in (*copy.graph.input, *found):
            kind = value.type.tensor_type
            self._kinds[value.name] = kind.elem_type
            if kind.HasField("shape"):
                self._ranks[value.name] = len(kind.shape.dim)


class Expansion:
    """The nodes that take the place of one node, whose name all of theirs begin with."""

    def __init__(self, node: NodeProto, around: Surroundings) -> None:
        self.node, self.around = node, around
        self.base = node_name(node)
        self.nodes: list[NodeProto] = []
        self.kept = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        self.turned: int | None = None  # the axes of its maps, if their channels come last

    def add(self, kind: str, inputs: Sequence[str], output: str = "", name: str = "", **attributes: Any) -> str:
        """Adds a node. Returns its output, which is called by the node's number if it has no name."""
        output = output or f"{self.node.output[0]}:{kind.lower()}{len(self.nodes)}"
        name = name or f"{self.base}:{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name, **attributes))
        return output

    def work(self, kind: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Adds the node that bears the old one's name. If channels come last, its first input and its output are turned."""
        if self.turned is None:
            return self.add(kind, inputs, output, self.base, **attributes)
        front = self.add("Transpose", inputs[:1], perm=(0, self.turned - 1, *range(1, self.turned - 1)))
        made = self.add(kind, [front, *inputs[1:]], "", self.base, **attributes)
        return self.add("Transpose", [made], output, perm=(0, *range(2, self.turned), 1))

    def number(self, what: str, value: float, kind: int = TensorProto.FLOAT) -> str:
        """A constant of one number."""
        name = f"{self.node.output[0]}:{what}"
        self.around.constants.append(numpy_helper.from_array(np.array(value, helper.tensor_dtype_to_np_dtype(kind)), name))
        return name

    def numbers(self, what: str, values: Sequence[int]) -> str:
        """A constant of whole numbers, such as axes."""
        name = f"{self.node.output[0]}:{what}"
        self.around.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def take(self, name: str, default: Any = None) -> Any:
        """An attribute of the old node, which the new one will not have. Strings are decoded."""
        value = self.kept.pop(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def turn(self, weights: str = "") -> None:
        """Notes that the channels of its maps come last. ModelError: nothing says how many axes these have."""
        kernel = self.kept.get("kernel_shape")
        rank = len(kernel) + 2 if kernel else self.around.rank(weights) if weights else None
        self.turned = rank or self.around.rank(self.node.input[0])
        if self.turned is None:
            raise ModelError(
                f"{place_of(self.node)}: its channels come last, and the number of its input's axes is not known; save the model "
                "before onnxruntime optimises it"
            )
