"""Models damaged at random, by structure: nodes, edges, attributes, tensors, dimensions, types, names, versions.

Each mutation takes a model and a generator, changes the model in place and says in a few words what it did.
"""

import random
from collections.abc import Callable

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from . import mutate_nodes as nodes
from . import mutate_values as values
from .mishaps import a_node, place_of, tensors_of

Mutation = Callable[[ModelProto, random.Random], str]


def mutated(model: ModelProto, seed: int) -> tuple[ModelProto, str]:
    """A copy with one to three faults, and a description of them."""
    rng = random.Random(seed)
    copy = ModelProto()
    copy.CopyFrom(model)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(MUTATIONS)
        try:
            done.append(f"{mutation.__name__}: {mutation(copy, rng)}")
        except (IndexError, ValueError, TypeError, KeyError):  # there is nothing to damage, or protobuf refuses the value
            continue
    return copy, "; ".join(done)


def _opset(model: ModelProto, rng: random.Random) -> str:
    version, way = rng.choice((-1, 0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 19, 21, 23, 24, 999, 2**62)), rng.randrange(4)
    if way == 0:
        model.opset_import.append(helper.make_opsetid(rng.choice(("", "ai.onnx", "com.microsoft")), version))
    elif way == 1:
        del model.opset_import[rng.randrange(len(model.opset_import))]
    else:
        model.opset_import[0].version = version
    return f"{version} way {way}"


def _ir_version(model: ModelProto, rng: random.Random) -> str:
    model.ir_version = rng.choice((-1, 0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 99, 2**62))
    return str(model.ir_version)


def _more_parts(model: ModelProto, rng: random.Random) -> str:
    way = rng.randrange(4)
    if way == 0:
        model.functions.add(name=a_node(model, rng).op_type, domain=rng.choice(("", "com.example")), output=["y"])
    elif way == 1:
        model.training_info.add().initialization.name = "more"
    elif way == 2:
        values = numpy_helper.from_array(np.ones(1, np.float32), rng.choice(tensors_of(model)))
        model.graph.sparse_initializer.add(
            values=values, indices=numpy_helper.from_array(np.array([rng.choice((0, 99))])), dims=[rng.choice((1, 8))]
        )
    else:
        model.graph.quantization_annotation.add(tensor_name="nowhere").quant_parameter_tensor_names.add(key="SCALE", value="w")
    return f"way {way}"


def _grow(model: ModelProto, rng: random.Random) -> str:
    """Lets a few bytes stand for something of enormous size."""
    kind = rng.choice(("Expand", "ConstantOfShape", "Tile", "Pad", "Range", "Reshape"))
    size = rng.choice((10**5, 10**8, 10**10, 2**31, 2**62))
    sizes = numpy_helper.from_array(
        np.array(rng.choice(([size], [1, size, 8, 8], [size] * 4, [0, 0, size, 0, 0, 0, 0, 0])), np.int64), "sizes"
    )
    model.graph.initializer.append(sizes)
    name = rng.choice(tensors_of(model))
    inputs = ["sizes"] if kind == "ConstantOfShape" else ["sizes"] * 3 if kind == "Range" else [name, "sizes"]
    model.graph.node.insert(rng.randrange(len(model.graph.node)), helper.make_node(kind, inputs, ["grown"], "grown"))
    node = a_node(model, rng)
    node.input[rng.randrange(len(node.input))] = "grown"
    return f"{kind} {name} {size} into {place_of(node)}"


MUTATIONS: tuple[Mutation, ...] = (*nodes.MUTATIONS, *values.MUTATIONS, _opset, _ir_version, _more_parts, _grow)
