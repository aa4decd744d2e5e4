"""Damages nodes and attributes at random: edges, kinds, domains, names, types and values."""

import random

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

from .mishaps import KINDS, NAMES, REAL, WHOLE, WORDS, a_node, place_of, tensors_of


def drop_node(model: ModelProto, rng: random.Random) -> str:
    index = rng.randrange(len(model.graph.node))
    place = place_of(model.graph.node[index])
    del model.graph.node[index]
    return place


def double_node(model: ModelProto, rng: random.Random) -> str:
    node = NodeProto()
    node.CopyFrom(a_node(model, rng))
    if rng.random() < 0.5:
        for index in range(len(node.output)):
            node.output[index] += "2"
    model.graph.node.insert(rng.randrange(len(model.graph.node) + 1), node)
    return f"{place_of(node)} to {list(node.output)}"


def reorder_nodes(model: ModelProto, rng: random.Random) -> str:
    nodes = list(model.graph.node)
    if rng.random() < 0.5:
        rng.shuffle(nodes)
    else:
        a, b = rng.randrange(len(nodes)), rng.randrange(len(nodes))
        nodes[a], nodes[b] = nodes[b], nodes[a]
    copies = []
    for node in nodes:
        copies.append(NodeProto())
        copies[-1].CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)
    return "order"


def add_node(model: ModelProto, rng: random.Random) -> str:
    kind, count = rng.choice(KINDS), rng.randrange(4)
    made = helper.make_node(kind, [rng.choice(tensors_of(model)) for _ in range(count)], ["added"], "added")
    model.graph.node.insert(rng.randrange(len(model.graph.node) + 1), made)
    a_node(model, rng).input[0] = "added"
    return f"{kind}{list(made.input)}"


def input(model: ModelProto, rng: random.Random) -> str:
    node = a_node(model, rng)
    index, place = rng.randrange(len(node.input)), place_of(node)
    old, way = node.input[index], rng.randrange(6)
    if way == 0:
        del node.input[index]
        return f"{place} lost input {index}"
    if way == 1:
        node.input[index] = ""
    elif way == 2:
        node.input.insert(index, old)
    elif way == 3:
        node.input[index] = rng.choice(list(node.output))
    elif way == 4:
        del node.input[:]
    else:
        node.input[index] = rng.choice(tensors_of(model))
    return f"{place} input {index} {old!r} now {list(node.input)}"


def swap_inputs(model: ModelProto, rng: random.Random) -> str:
    node = a_node(model, rng)
    names = list(node.input)
    rng.shuffle(names)
    node.input[:] = names
    return f"{place_of(node)} {names}"


def output(model: ModelProto, rng: random.Random) -> str:
    node = a_node(model, rng)
    old, way = list(node.output), rng.randrange(5)
    if way == 0:
        node.output[0] = rng.choice(tensors_of(model))
    elif way == 1:
        node.output.append(rng.choice(("", "second", rng.choice(tensors_of(model)))))
    elif way == 2:
        del node.output[:]
    elif way == 3:
        node.output[0] = rng.choice([value.name for value in model.graph.input])
    else:
        node.output[0] = rng.choice([tensor.name for tensor in model.graph.initializer])
    return f"{node.op_type} {old} now {list(node.output)}"


def kind(model: ModelProto, rng: random.Random) -> str:
    node = a_node(model, rng)
    old, node.op_type = node.op_type, rng.choice(KINDS)
    return f"{old} now {node.op_type}"


def domain(model: ModelProto, rng: random.Random) -> str:
    node = a_node(model, rng)
    node.domain = rng.choice(("ai.onnx", "com.microsoft", "com.example", "ai.onnx.ml"))
    if rng.random() < 0.5:
        model.opset_import.append(helper.make_opsetid(node.domain, rng.choice((1, 2, 13))))
    return f"{place_of(node)} {node.domain}"


def names(model: ModelProto, rng: random.Random) -> str:
    name = rng.choice(WORDS)
    for node in model.graph.node if rng.random() < 0.5 else [a_node(model, rng)]:
        node.name = name
    return repr(name)


def rename_tensor(model: ModelProto, rng: random.Random) -> str:
    old, new = rng.choice(tensors_of(model)[:-2]), rng.choice((*WORDS, rng.choice(tensors_of(model))))
    for node in model.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == old:
                    names[index] = new
    for entry in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        if entry.name == old:
            entry.name = new
    return f"{old!r} now {new!r}"


# --- attributes ---


def _attribute(model: ModelProto, rng: random.Random) -> tuple[NodeProto, AttributeProto]:
    node = rng.choice([node for node in model.graph.node if node.attribute])
    return node, rng.choice(node.attribute)


def drop_attribute(model: ModelProto, rng: random.Random) -> str:
    node, entry = _attribute(model, rng)
    name = entry.name
    node.attribute.remove(entry)
    return f"{place_of(node)} {name}"


def attribute_value(model: ModelProto, rng: random.Random) -> str:
    node, entry = _attribute(model, rng)
    if entry.type == AttributeProto.INT:
        entry.i = rng.choice(WHOLE)
    elif entry.type == AttributeProto.FLOAT:
        entry.f = rng.choice(REAL)
    elif entry.type == AttributeProto.STRING:
        entry.s = rng.choice((*(word.encode() for word in WORDS), b"\xff\xfe"))
    elif entry.type == AttributeProto.INTS:
        _list(entry.ints, rng)
    return f"{place_of(node)} {' '.join(str(entry).split())}"


def _list(values: object, rng: random.Random) -> None:
    numbers = list(values)  # type: ignore[call-overload]
    way = rng.randrange(5)
    if way == 0:
        numbers[rng.randrange(len(numbers))] = rng.choice(WHOLE)
    elif way == 1:
        numbers = numbers[: rng.randrange(len(numbers))]
    elif way == 2:
        numbers += [rng.choice((0, 1, 2))] * rng.choice((1, 2, 40))
    elif way == 3:
        numbers = [rng.choice((-1, 0, 1, 2, 3, 64, 100, 300, 9000))] * len(numbers)
    else:
        numbers = [rng.choice(WHOLE) for _ in numbers]
    values[:] = numbers  # type: ignore[index]


def attribute_type(model: ModelProto, rng: random.Random) -> str:
    node, entry = _attribute(model, rng)
    way = rng.randrange(3)
    if way == 0:
        entry.type = rng.choice(list(AttributeProto.AttributeType.values()))
    elif way == 1:
        entry.ref_attr_name = "elsewhere"
    else:
        name = entry.name
        entry.CopyFrom(_any_attribute(name, rng))
    return f"{place_of(node)} {' '.join(str(entry).split())[:80]}"


def _any_attribute(name: str, rng: random.Random) -> AttributeProto:
    values: tuple[object, ...] = (
        rng.choice(WHOLE),
        rng.choice(REAL),
        rng.choice(WORDS),
        [rng.choice(WHOLE)] * 4,
        [1, 1, 1, 1],
        [1, 1],
        [2, 2],
    )
    values += ([0.5], ["a"], numpy_helper.from_array(np.ones((2, 2), np.float32)), helper.make_graph([], "sub", [], []), 0, 1, 2)
    return helper.make_attribute(name, rng.choice(values))


def add_attribute(model: ModelProto, rng: random.Random) -> str:
    node = a_node(model, rng)
    made = _any_attribute(rng.choice(NAMES), rng)
    node.attribute.append(made)
    return f"{place_of(node)} {' '.join(str(made).split())[:80]}"


def double_attribute(model: ModelProto, rng: random.Random) -> str:
    node, entry = _attribute(model, rng)
    node.attribute.append(entry)
    return f"{place_of(node)} {entry.name}"


MUTATIONS = (
    *(drop_node, double_node, reorder_nodes, add_node, input, input, swap_inputs, output, kind, domain, names, rename_tensor),
    *(drop_attribute, attribute_value, attribute_value, attribute_value, attribute_type, add_attribute, double_attribute),
)
