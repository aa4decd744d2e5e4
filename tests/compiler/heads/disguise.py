"""Models under other names: what an exporter calls its tensors, and in which order it writes nodes, is chance."""

from collections.abc import Collection

import numpy as np
from onnx import ModelProto, helper


def disguised(model: ModelProto, seed: int, kept: Collection[str] = ("x", "y")) -> ModelProto:
    """The model with other names, another order of nodes, and its constants as nodes. kept: inputs and outputs."""
    rng = np.random.default_rng(seed)
    made = ModelProto()
    made.CopyFrom(model)
    names = sorted({name for node in made.graph.node for name in (*node.input, *node.output)} - {*kept, ""})
    new = dict(zip(names, (f"t{number}" for number in rng.permutation(len(names))), strict=True))
    for node in made.graph.node:
        node.name = f"n{rng.integers(1 << 30)}"
        for place, name in enumerate(node.input):
            node.input[place] = new.get(name, name)
        for place, name in enumerate(node.output):
            node.output[place] = new.get(name, name)
    constants = [
        helper.make_node("Constant", [], [new.get(tensor.name, tensor.name)], value=tensor) for tensor in made.graph.initializer
    ]
    nodes, ready = [*constants, *made.graph.node], {"x", ""}
    del made.graph.node[:], made.graph.initializer[:], made.graph.value_info[:]
    while nodes:
        able = [node for node in nodes if set(node.input) <= ready]
        chosen = able[rng.integers(len(able))]
        nodes.remove(chosen)
        ready.update(chosen.output)
        made.graph.node.append(chosen)
    return made
