"""The float graph in a form that rounding harms less, and the check that this form, and every other, answers as the model does.

Ranges, means and biases are measured on the graph that the quantiser has made. Were that another function than the model's, they
would fit another network, and nothing behind would show it. So the graphs are compared on samples, tensor by tensor.
"""

from collections.abc import Mapping
from itertools import islice
from math import inf

import numpy as np
from onnx import ModelProto

from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.graph.ir import Graph
from cnna.compiler.quantise.calibrate import channels
from cnna.compiler.quantise.equalise import equalised, pairs
from cnna.compiler.quantise.heads import heads_of, split_heads
from cnna.compiler.quantise.noise import Noise
from cnna.compiler.quantise.sessions import Session, feeds_of
from cnna.spec.errors import ModelError

SAMPLES = 2  # on which graphs are compared
LEAST = 60.0  # decibels that two forms of one function keep; float32 alone gives 90 and more, int8 at best 50
ALIKE = -LEAST / 10

Values = Mapping[str, np.ndarray]


def prepared(
    graph: Graph, body: Graph, samples: Values, count: int, preprocess: Preprocess | None
) -> tuple[Graph, tuple[str, ...]]:
    """The graph with channels equalised and detectors' heads split, and what a user should be told.

    body: what of it the accelerator runs. A form that does not answer as the graph does is left out.
    """
    chosen, heads = pairs(graph, body), list(heads_of(graph, body))
    if not chosen and not heads:
        return graph, ()
    tensors = dict.fromkeys([*(first.output for first, _ in chosen), *(head.conv.output for head in heads)])
    seen = channels(graph, [*tensors], samples, count, preprocess)
    changed = split_heads(equalised(graph, chosen, seen), heads, seen)
    found = unlike_form(graph, changed, samples, count, preprocess)
    if found is None:
        return changed, ()
    told = f"channels are not equalised and heads not split, since tensor '{found}' would change in float; please report this model"
    return graph, (told,)


def unlike_form(graph: Graph, other: Graph, samples: Values, count: int, preprocess: Preprocess | None) -> str | None:
    """The first tensor of real numbers that two forms of a graph make with other values; None: all are alike."""
    both = _unproved(graph, other)
    made = [_made(Session.of(one, both, brief=True), graph, samples, count, preprocess) for one in (graph, other)]
    return _first_unlike(made, both)


def _unproved(graph: Graph, other: Graph) -> list[str]:
    """The tensors of real numbers in both forms that may differ: an equal node makes an equal tensor of equal tensors.

    All of them where a constant has another value under its own name.
    """
    equal = all(other.constants.get(name, value) is value for name, value in graph.constants.items())
    before = {node.output: node for node in graph.nodes if node.output not in graph.types}
    return [node.output for node in other.nodes if node.output in before and not (equal and before[node.output] is node)]


def rewriting_warnings(model: ModelProto, graph: Graph, samples: Values, preprocess: Preprocess | None) -> tuple[str, ...]:
    """What to tell the user if the rewritten graph gives an output of real numbers other values than the model does.

    Nothing where the model has no one answer that could be compared: onnxruntime cannot run it, or it draws random numbers.
    """
    count = min(len(values) for values in samples.values())
    try:
        theirs = _made(Session.as_it_is(model, graph.name), graph, samples, count, preprocess)
        ours = _made(Session.of(graph, brief=True), graph, samples, count, preprocess)
        found = _first_unlike([theirs, ours], [*theirs[0]])
        again = theirs if found is None else _made(Session.as_it_is(model, graph.name), graph, samples, count, preprocess)
        if _first_unlike([theirs, again], [*theirs[0]]) is not None:
            return ()
    except ModelError:
        return ()
    return (
        () if found is None else (f"in float, output '{found}' of the rewritten graph differs from the model's; please report it",)
    )


def _made(
    session: Session, graph: Graph, samples: Values, count: int, preprocess: Preprocess | None
) -> list[dict[str, np.ndarray]]:
    """The outputs of a model for the first samples. One session after another, so that memory holds the weights of one."""
    return [session.run(feeds) for feeds in islice(feeds_of(graph, samples, count, preprocess), SAMPLES)]


def _first_unlike(made: list[list[dict[str, np.ndarray]]], names: list[str]) -> str | None:
    noise = {name: Noise(None) for name in names}
    for first, second in zip(*made, strict=True):
        for name in names:
            real, other = first[name], second[name]
            if real.dtype.kind == "f" and real.shape == other.shape:
                finite = np.isfinite(real) & np.isfinite(other)
                noise[name].extend(_without_subnormal(real[finite]), _without_subnormal(other[finite]))
    return next((name for name in names if 10**ALIKE < noise[name].ratio < inf), None)


def _without_subnormal(values: np.ndarray) -> np.ndarray:
    """Values so small that their type rounds them to few digits are 0: another order of factors gives others."""
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, 0, values)
