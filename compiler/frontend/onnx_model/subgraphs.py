"""The graphs inside nodes: branches of an If, bodies of a Loop or Scan. They read tensors of the graph around them by name."""

from collections.abc import Iterator, Mapping

from onnx import AttributeProto, GraphProto, NodeProto


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node has of its own."""
    for entry in node.attribute:
        if entry.type == AttributeProto.GRAPH:
            yield entry.g
        yield from entry.graphs


def captured(node: NodeProto) -> tuple[str, ...]:
    """The tensors from outside of a node that the graphs inside it read, each once."""
    return tuple(dict.fromkeys(name for graph in graphs_of(node) for name in _free(graph)))


def _free(graph: GraphProto) -> Iterator[str]:
    own = _own(graph)
    for node in graph.node:
        yield from (name for name in node.input if name and name not in own)
        yield from (name for name in captured(node) if name not in own)
    made = own.union(*(node.output for node in graph.node))
    yield from (value.name for value in graph.output if value.name not in made)


def _own(graph: GraphProto) -> set[str]:
    """Names that are made inside a graph: they hide equal names outside."""
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return given.union(*(node.output for node in graph.node))


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Lets a node, and the graphs inside it, read other tensors, in place: `names` maps old names to new ones."""
    for number, name in enumerate(node.input):
        node.input[number] = names.get(name, name)
    rename_inside(node, names)


def rename_inside(node: NodeProto, names: Mapping[str, str]) -> None:
    """As `rename`, but only for the graphs inside a node."""
    for graph in graphs_of(node):
        own = _own(graph)
        free = {old: new for old, new in names.items() if old not in own}
        for inner in graph.node:
            rename(inner, free)
        _rename_outputs(graph, free)


def _rename_outputs(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Puts an Identity before each output that is a tensor from outside, so that a node of the graph makes it."""
    for value in graph.output:
        if value.name in names:
            graph.node.append(NodeProto(op_type="Identity", input=[names[value.name]], output=[value.name]))
