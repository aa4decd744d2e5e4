"""What a quantised model's metadata say of a part of it, for the part's own metadata."""

from onnx import ModelProto

from cnna.compiler.frontend import preprocess, scaled_channels
from cnna.compiler.frontend.model_ports import AXES_KEY, store_axes, stored_axes

OWN = (preprocess.KEY, scaled_channels.KEY, AXES_KEY)


def hand_on(model: ModelProto, part: ModelProto) -> None:
    """Gives a part of a model the metadata that are about its own tensors and outputs, and those of other tools.

    How pictures become floats goes with the inputs: to a part that has all of them.
    ModelError: the model's metadata cannot be read.
    """
    part.metadata_props.extend(entry for entry in model.metadata_props if entry.key not in OWN)
    inputs = {value.name for value in part.graph.input}
    if inputs >= {value.name for value in model.graph.input}:
        part.metadata_props.extend(entry for entry in model.metadata_props if entry.key == preprocess.KEY)
    tensors = inputs | {name for node in part.graph.node for name in node.output}
    scaled_channels.store(part, {name: one for name, one in scaled_channels.stored(model).items() if name in tensors})
    outputs = {value.name for value in part.graph.output}
    store_axes(part, {name: axis for name, axis in stored_axes(model).items() if name in outputs})
