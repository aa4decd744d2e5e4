"""The editor with which passes change a graph: a scratch copy that `finish` turns into a new, ordered graph without dead nodes."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import is_
from typing import Any, TypeVar, overload

import numpy as np

from cnna.compiler.graph.ir import AnyNode, AnyOperator, Graph, Node, Tensor, constants_of
from cnna.spec.errors import ModelError

Kind = TypeVar("Kind", bound=AnyOperator)


def outputs_of(node: Node) -> tuple[str, ...]:
    """All tensors that a node makes."""
    more = getattr(node.op, "more_outputs", ())
    return (node.output, *more) if more else (node.output,)


class Editor:
    """The nodes (by output), tensors and constants of one graph, which may be changed until `finish`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.nodes = {node.output: node for node in graph.nodes}
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.scales = dict(graph.scales)
        self.wholes = dict(graph.wholes)
        self.outputs = graph.outputs
        self.sources = graph.sources
        self.types = graph.types

    def __iter__(self) -> Iterator[AnyNode]:
        """The nodes that exist when the loop begins, in their state when the loop reaches them. Nodes removed meanwhile are left
        out.
        """
        for output in list(self.nodes):
            if output in self.nodes:
                yield self.nodes[output]

    def uses(self, tensor: str) -> int:
        """How many times a tensor is a node input or a graph output."""
        return sum(node.inputs.count(tensor) for node in self.nodes.values()) + self.outputs.count(tensor)

    def consumers(self, tensor: str) -> list[AnyNode]:
        """The nodes that read a tensor."""
        return [node for node in self.nodes.values() if tensor in node.inputs]

    @overload
    def producer(self, tensor: str, kinds: type[Kind]) -> Node[Kind] | None: ...
    @overload
    def producer(self, tensor: str, kinds: tuple[type[Any], ...] = ()) -> Node[Any] | None: ...
    def producer(self, tensor: str, kinds: type[Any] | tuple[type[Any], ...] = ()) -> Node[Any] | None:
        """The node that makes a tensor; None if there is none, or if its operator is not one of `kinds`."""
        node = self.nodes.get(tensor)
        return node if node is not None and (not kinds or isinstance(node.op, kinds)) else None

    @overload
    def sole(self, tensor: str, kinds: type[Kind]) -> Node[Kind] | None: ...
    @overload
    def sole(self, tensor: str, kinds: tuple[type[Any], ...] = ()) -> Node[Any] | None: ...
    def sole(self, tensor: str, kinds: type[Any] | tuple[type[Any], ...] = ()) -> Node[Any] | None:
        """As `producer`, but None if anything else reads the tensor too."""
        node = self.producer(tensor, kinds)
        return node if node is not None and self.uses(tensor) == 1 else None

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of an activation or a constant."""
        return self.constants[tensor].shape if tensor in self.constants else self.tensors[tensor].shape

    def is_real(self, node: Node) -> bool:
        """Whether a node makes float32. Rewrites for real numbers would be wrong for integers."""
        return node.output not in self.types

    def fresh(self, base: str) -> str:
        """An unused name for a tensor or constant, which begins with `base`."""
        taken = self.tensors.keys() | self.constants.keys()
        name, number = base, 1
        while name in taken:
            name, number = f"{base}.{number}", number + 1
        return name

    def constant(self, base: str, value: np.ndarray) -> str:
        """Adds a constant; returns its name."""
        name = self.fresh(base)
        self.constants[name] = value
        return name

    def put(self, name: str, op: AnyOperator, inputs: tuple[str, ...], output: str, shape: tuple[int, ...] | None = None) -> str:
        """Adds a node, or replaces the one that made `output`; returns `output`. shape: the shape of the tensor if it is new."""
        self.nodes[output] = Node(name, op, inputs, output)
        if shape is not None and output not in self.tensors:
            self.tensors[output] = Tensor(tuple(int(size) for size in shape))
        return output

    def insert(self, name: str, op: AnyOperator, inputs: tuple[str, ...], base: str, shape: tuple[int, ...]) -> str:
        """Adds a node with a new output; returns the output's name."""
        return self.put(name, op, inputs, self.fresh(base), shape)

    def remove(self, node: Node) -> None:
        """Removes a node."""
        self.nodes.pop(node.output)

    def replace_nodes(self, others: Mapping[str, AnyNode]) -> None:
        """Puts other nodes, whose outputs may have new names, at the places of those that make the outputs named."""
        nodes = [others.get(output, node) for output, node in self.nodes.items()]
        self.nodes = {node.output: node for node in nodes}

    def redirect(self, old: str, new: str) -> None:
        """Makes all readers of `old` read `new`. Graph outputs keep their names, so `old` must not be one."""
        for node in self.consumers(old):
            self.nodes[node.output] = replace(node, inputs=tuple(new if name == old else name for name in node.inputs))

    def bypass(self, node: Node) -> bool:
        """Removes a node whose output equals its first input. Returns False, without effect, if a graph output needs the node."""
        source = node.inputs[0]
        if node.output not in self.outputs:
            self.remove(node)
            self.redirect(node.output, source)
            return True
        before = self.nodes.get(source)
        if before is None or source in self.outputs or outputs_of(before)[1:]:
            return False
        self.remove(before)
        self.remove(node)
        self.redirect(source, node.output)
        self.nodes[node.output] = replace(before, output=node.output)
        self.tensors[node.output] = self.tensors[source]
        return True

    def finish(self) -> Graph:
        """The new graph: in topological order, without dead nodes, tensors or constants. If nothing has changed, it is the old one.

        Old nodes keep their order where possible, and a new one stands before the first that reads it.
        """
        if self._graph.finished and self._unchanged():
            return self._graph
        nodes = self._alive_in_order()
        used = {name for node in nodes for name in (*node.inputs, *outputs_of(node))} | {*self.outputs, *self._graph.inputs}
        shaped = used - (self.constants.keys() - {*self.outputs})  # pieces take what has a shape here for what samples change
        named = used.union(*(constants_of(node.op) for node in nodes))
        made = replace(
            self._graph,
            nodes=nodes,
            outputs=self.outputs,
            tensors={name: tensor for name, tensor in self.tensors.items() if name in shaped},
            constants={name: value for name, value in self.constants.items() if name in named},
            scales={name: value for name, value in self.scales.items() if name in named},
            wholes={name: whole for name, whole in self.wholes.items() if name in named and whole.real is self.constants.get(name)},
        )
        object.__setattr__(made, "finished", True)  # here alone; `replace` forgets it
        return made

    def _unchanged(self) -> bool:
        """Whether all is as in the graph. What a pass has made anew counts as changed, be it equal or not."""
        old = self._graph
        if self.outputs != old.outputs or len(self.nodes) != len(old.nodes) or not all(map(is_, self.nodes.values(), old.nodes)):
            return False
        return (
            _same(self.tensors, old.tensors)
            and _same(self.constants, old.constants)
            and _same(self.scales, old.scales)
            and _same(self.wholes, old.wholes)
        )

    def _alive_in_order(self) -> tuple[AnyNode, ...]:
        """The nodes of the new graph."""
        makers = {output: node for node in self.nodes.values() for output in outputs_of(node)}
        alive: dict[str, Node] = {}
        pending = [makers[output] for output in self.outputs if output in makers]
        while pending:
            node = pending.pop()
            if node.output not in alive:
                alive[node.output] = node
                pending += [makers[name] for name in node.inputs if name in makers]
        found = [node for output, node in self.nodes.items() if output in alive]
        if not _is_ordered(found, makers):
            found = _ordered(alive, {output: number for number, output in enumerate(self.nodes)})
        places = _positions(found, {node.output: number for number, node in enumerate(self._graph.nodes)})
        keys = [(places[node.output], node.output) for node in found]
        return tuple(found if all(one < next_ for one, next_ in pairwise(keys)) else _ordered(alive, places))


def _same(now: Mapping[str, object], then: Mapping[str, object]) -> bool:
    """Whether both have the same objects under the same names, in the same order."""
    return now.keys() == then.keys() and all(map(is_, now.values(), then.values()))


def settled(graph: Graph, rewrite: Callable[[Editor, AnyNode], bool]) -> Graph:
    """Applies `rewrite` to all nodes, again and again, until it returns False (nothing changed) for every node."""
    edit, again = Editor(graph), True
    while again:
        again = False
        for node in edit:
            again |= rewrite(edit, node)
    return edit.finish()


def _positions(nodes: Sequence[AnyNode], old: Mapping[str, int]) -> dict[str, int]:
    """The place of each of the sorted nodes, by output: its old one, or that of the first node that reads it.

    Engines take layers in the graph's order. Were new nodes to go to the end, a branch that begins with one would run behind the
    other branches, and what waits for it would wait for all of them.
    """
    found: dict[str, int] = {}
    first: dict[str, int] = {}  # the place of a tensor's first reader
    for node in reversed(nodes):
        place = old.get(node.output, min((first[name] for name in outputs_of(node) if name in first), default=len(old)))
        found[node.output] = place
        for name in node.inputs:
            first[name] = min(place, first.get(name, place))
    return found


def _is_ordered(nodes: Sequence[AnyNode], makers: Mapping[str, AnyNode]) -> bool:
    """Whether each node stands behind those that make what it reads."""
    made: set[str] = set()
    for node in nodes:
        if any(name in makers and name not in made for name in node.inputs):
            return False
        made.update(outputs_of(node))
    return True


def _ordered(nodes: dict[str, Node], position: dict[str, int]) -> list[Node]:
    """`nodes` in topological order. Of several that are ready, the one of lowest position comes first. ModelError: a cycle."""
    makers = {output: node.output for node in nodes.values() for output in outputs_of(node)}
    needs = {key: {makers[name] for name in node.inputs if name in makers} for key, node in nodes.items()}
    waiting = Counter({key: len(before) for key, before in needs.items()})
    after: dict[str, list[str]] = {key: [] for key in nodes}
    for key, before in needs.items():
        for name in before:
            after[name].append(key)
    ready = [(position[key], key) for key in nodes if waiting[key] == 0]
    heapq.heapify(ready)
    result = []
    while ready:
        _, key = heapq.heappop(ready)
        result.append(nodes[key])
        for later in after[key]:
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, (position[later], later))
    if len(result) != len(nodes):
        raise ModelError("the graph has a cycle")
    return result
