"""Describes graphs as text, and writes the graph after each pass to a folder: `cnna compile --dump DIR`."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnna.compiler.graph.ir import Graph, Node
from cnna.spec.files import make_folder, write_text

LONGEST = 60  # letters of a title in a file's name
LEFT_OUT = re.compile(r"[^A-Za-z0-9_-]+")


class GraphWriter:
    """Writes numbered text files into a folder, one for each call: a pass's name and its graph. UserError: it cannot be written.

    The number alone tells files apart. A title may hold the model's own names, of which a file's name takes plain letters alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0

    def __call__(self, name: str, graph: Graph) -> None:
        self.text(name, describe_graph(graph))

    def text(self, name: str, text: str) -> None:
        """Writes one more file."""
        path = self.folder / f"{self.written:02}_{LEFT_OUT.sub('_', name)[:LONGEST]}.txt"
        make_folder(self.folder)
        write_text(path, text)
        self.written += 1


def describe_graph(graph: Graph) -> str:
    """A line for each input, node, output, constant, and constant with scales."""
    lines = [f"graph {graph.name}"]
    lines += [f"input {_tensor(graph, name)}" for name in graph.inputs]
    lines += [f"{_tensor(graph, node.output)} = {_op(node.op)}({', '.join(node.inputs)})  # {node.name}" for node in graph.nodes]
    lines += [f"output {_tensor(graph, name)}" for name in graph.outputs]
    lines += [f"constant {name}: {np.asarray(value).dtype} {list(np.shape(value))}" for name, value in graph.constants.items()]
    lines += [f"scales {name}: {value.dtype} {list(value.shape)}" for name, value in graph.scales.items()]
    return "\n".join(lines) + "\n"


def _tensor(graph: Graph, name: str) -> str:
    tensor = graph.tensors.get(name)
    if tensor is None:
        return name
    quant = f" {tensor.quant.scale:g} * (q - {tensor.quant.zero})" if tensor.quant else ""
    return f"{name}{list(tensor.shape)}{quant}"


def _op(op: Any) -> str:
    """An operator with its fields."""
    if not is_dataclass(op):
        return str(op)
    return f"{type(op).__name__}<{', '.join(f'{f.name}={_value(getattr(op, f.name))}' for f in fields(op))}>"


def _value(value: Any) -> str:
    if isinstance(value, tuple) and value and all(isinstance(one, Node) for one in value):
        return " ".join(f"{one.output}={_op(one.op)}({', '.join(one.inputs)})" for one in value)
    if isinstance(value, bytes):
        return value.hex()
    return _op(value) if is_dataclass(value) else str(value)
