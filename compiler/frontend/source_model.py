"""`SourceModel`: a model that was read and prepared once. All that comes behind the reading takes it (docs/decisions/read-once.md).

`onnx_import.read` makes it of a file, `onnx_import.source_of` of an ONNX model in memory. Nothing behind the reading prepares a
model again: which inputs have a batch, and which shapes follow, is decided once for all rooms.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from cnna.compiler.frontend.batch.declared_shapes import declared_axes, keep_declared
from cnna.compiler.frontend.onnx_model.ceil_pools import settle_ceil_pools
from cnna.compiler.frontend.onnx_model.computed_sizes import with_sizes
from cnna.compiler.frontend.onnx_model.cpu_forms import settle_forms
from cnna.compiler.frontend.onnx_model.hollow import hollow, is_hollow
from cnna.compiler.frontend.onnx_model.input_shapes import check_inputs, first_size, inputs_of, set_batch
from cnna.compiler.frontend.onnx_model.model_checks import check_shapes, inferred
from cnna.compiler.frontend.onnx_model.old_opsets import raise_opset
from cnna.compiler.frontend.onnx_model.real_types import to_float32
from cnna.compiler.frontend.onnx_model.settled_branches import settle_branches
from cnna.compiler.frontend.onnx_model.strangers import describe_strangers
from cnna.compiler.frontend.onnx_model.vendor import expand_vendor
from cnna.compiler.frontend.onnx_model.zero_points import write_zero_points
from cnna.compiler.graph.node_names import sources_of
from cnna.spec.errors import ModelError, about_model


@dataclass(frozen=True, eq=False)
class SourceModel:
    """A model as its user knows it, and as the compiler sees it. Nobody changes either.

    proto: the user's. It is what onnxruntime runs to compare, and what an artifact keeps.
    prepared: a copy in the forms that all later steps know (`prepared`), whose large weights have no data.
    single: the inputs whose own first axis is no batch.
    fault: why first axes that are taken for the batch cannot be it; None: they can. No graph can be made of a model with a fault.
    """

    proto: ModelProto
    prepared: ModelProto
    single: frozenset[str]
    fault: str | None = None

    @property
    def inputs(self) -> list[ValueInfoProto]:
        """Those that the user gives, as the user knows them."""
        return inputs_of(self.proto)

    @property
    def firsts(self) -> dict[str, int]:
        """The size of the batch in each input that has one; 1 if it is open."""
        return {value.name: first_size(value) for value in self.inputs if value.name not in self.single}

    @property
    def sources(self) -> dict[str, str]:
        """The name and operator of each of the user's nodes, for error messages."""
        return sources_of(self.proto)

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators in `prepared`."""
        return opset(self.prepared)

    @property
    def declared_axes(self) -> dict[str, int]:
        """The axis of the batch in outputs where only the user's model, or a trial of it, tells it."""
        return declared_axes(self.prepared)

    def constants(self) -> dict[str, np.ndarray]:
        """The constants of `prepared` by name. The data of large ones are the user's, in the type that they have got since."""
        whole = {tensor.name: tensor for tensor in self.proto.graph.initializer}
        found = {}
        for tensor in self.prepared.graph.initializer:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            array = numpy_helper.to_array(whole[tensor.name] if is_hollow(tensor) else tensor)
            found[tensor.name] = array.astype(kind, copy=False)
        return found

    def whole(self) -> ModelProto:
        """A copy of `prepared` with the data of all weights, for onnxruntime."""
        copy = ModelProto()
        copy.CopyFrom(self.prepared)
        weights = {tensor.name: tensor for tensor in self.proto.graph.initializer}
        for tensor in copy.graph.initializer:
            if tensor.name in weights and is_hollow(tensor):
                tensor.CopyFrom(weights[tensor.name])
        return copy


Readable: TypeAlias = ModelProto | SourceModel  # what a user may hand over; `onnx_import.source_of` makes one of it


def opset(model: ModelProto) -> int:
    """The version of ONNX's own operators."""
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def prepared(model: ModelProto, single: frozenset[str], name: str) -> ModelProto:
    """A copy with the shape of every tensor, whose inputs have a batch axis of 1 in front. Large weights have no data (`hollow`).

    Floats become float32, QLinear operators become Q and DQ, and all zero points are written out. single: inputs whose own first
    axis is no batch. ModelError: shapes that contradict each other, or an input that nothing can be fed; `name` begins the line.
    """
    copy = hollow(model)
    with about_model(name):
        check_inputs(copy)
        raise_opset(copy, opset(copy), name)
        settle_forms(copy)
        to_float32(copy.graph)
        set_batch(copy, single)
        whole = expand_vendor(copy)
        describe_strangers(copy)
        settle_ceil_pools(copy, name, whole)
        if settle_branches(copy):
            settle_ceil_pools(copy, name, whole)
        try:
            shaped = inferred(copy, check_type=True, strict_mode=True)
        except ModelError:
            check_shapes(with_sizes(copy))  # a window larger than its map, say, which explains later contradictions
            raise
        check_shapes(with_sizes(shaped))
        write_zero_points(shaped)
    keep_declared(shaped, model, single)
    return shaped
