"""A model that came quantised (QDQ or QLinear, ours or onnxruntime's) as int8 graph, CPU head and CPU tail."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnx import ModelProto

from cnna.compiler.frontend import support
from cnna.compiler.frontend.batch_axis import batch_axes
from cnna.compiler.frontend.integer import to_integer
from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.frontend.split import Parts, split
from cnna.compiler.graph.ir import Graph, Quant
from cnna.compiler.graph.validate import validate_integer
from cnna.compiler.passes.fold_constants import fold_constants
from cnna.compiler.passes.pipeline import INTEGER, QUANTISATION, REWRITES, Dump, run_passes
from cnna.spec.errors import ModelError


@dataclass(frozen=True)
class QuantisedModel:
    """What runs where.

    `inputs` and `outputs` say for each tensor at the accelerator's borders, by name, how it is quantised: the host rounds
    float inputs so (from the user, or from `head`), and makes float of the outputs (for the user, or for `tail`). The names
    are those of the model's inputs and outputs, or of the head's outputs and the tail's inputs. Float tensors at
    these borders are [N, C, H, W]. `axes` has the batch's axis in each output of the model, None where it has none; `shapes`
    the outputs' shapes for a batch of one, 0 for an axis of unknown size.
    """

    graph: Graph
    head: ModelProto | None
    tail: ModelProto | None
    inputs: dict[str, Quant]
    outputs: dict[str, Quant]
    axes: dict[str, int | None]
    shapes: dict[str, tuple[int, ...]]


def import_quantised(model: ModelProto, dump: Dump | None = None, sources: Mapping[str, str] | None = None) -> QuantisedModel:
    """Rewrites, cuts and converts. `dump` gets the graph after each pass. `sources`: those of the model that this one was made
    from, whose nodes errors then name.

    ModelError: nothing quantised in it, or a node between layers of the accelerator that it cannot run.
    """
    source = to_graph(model)
    source = replace(source, sources=sources or source.sources)
    graph = run_passes(source, (*REWRITES, *QUANTISATION), dump)
    if not any(tensor.quant for tensor in graph.tensors.values()):
        foreign = support.foreign_quantisation(graph)
        raise ModelError(f"{graph.name}: {foreign or 'the model is not quantised; run `cnna quantize` on it first'}")
    parts = split(graph, support.quantised_limit)
    if dump:
        dump("split", parts.body)
    body = to_integer(parts.body)
    if dump:
        dump("to_integer", body)
    body = run_passes(body, INTEGER, dump)
    validate_integer(body)
    head, tail = _cpu_parts(parts, graph.outputs)
    plain = fold_constants(source)  # as the model has it, with the shapes that it computes
    axes = batch_axes(plain)
    return QuantisedModel(
        body,
        head,
        tail,
        _quants(body, body.inputs),
        _quants(body, body.outputs),
        {name: axes.get(name) for name in plain.outputs},
        {name: plain.tensors[name].shape for name in plain.outputs},
    )


def _cpu_parts(parts: Parts, outputs: tuple[str, ...]) -> tuple[ModelProto | None, ModelProto | None]:
    """Head and tail as models, rounding what a quantised model rounds, except where their neighbour has done so or will.

    The accelerator's outputs are int8 before they are the tail's floats; the host rounds what it puts into the accelerator, and
    may leave that alone in the head where nobody else reads it. `outputs` are the whole model's.
    """
    seen = {*outputs}.union(*(node.inputs for part in (parts.head, parts.tail) if part for node in part.nodes))
    for_body = {*parts.head.outputs} - seen if parts.head else set()
    return _cpu(parts.head, for_body), _cpu(parts.tail, {*parts.body.outputs})


def _cpu(part: Graph | None, plain: set[str]) -> ModelProto | None:
    """A part without Q and DQ at the tensors `plain`."""
    if part is None:
        return None
    tensors = {name: replace(tensor, quant=None) if name in plain else tensor for name, tensor in part.tensors.items()}
    return to_model(replace(part, tensors=tensors))


def _quants(graph: Graph, names: tuple[str, ...]) -> dict[str, Quant]:
    found = {}
    for name in names:
        quant = graph.tensors[name].quant
        assert quant is not None
        found[name] = quant
    return found
