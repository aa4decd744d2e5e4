"""A model that came quantised (QDQ or QLinear, ours or onnxruntime's) as int8 graph, CPU head and CPU tail."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnx import ModelProto

from cnna.compiler.frontend import support
from cnna.compiler.frontend.batch_axis import batch_axes
from cnna.compiler.frontend.cpu_parts import cpu_parts
from cnna.compiler.frontend.integer import to_integer
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.frontend.split import split
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
    head, tail = cpu_parts(parts, graph.outputs)
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


def _quants(graph: Graph, names: tuple[str, ...]) -> dict[str, Quant]:
    found = {}
    for name in names:
        quant = graph.tensors[name].quant
        assert quant is not None
        found[name] = quant
    return found
