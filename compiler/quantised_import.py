"""A model that came quantised (QDQ or QLinear, ours or onnxruntime's) as int8 graph, CPU head and CPU tail."""

from dataclasses import dataclass

from onnx import ModelProto

from cnna.compiler import support
from cnna.compiler.integer import to_integer
from cnna.compiler.ir import Graph, Quant
from cnna.compiler.onnx_export import to_model, unquantised_ends
from cnna.compiler.onnx_import import to_graph
from cnna.compiler.pipeline import INTEGER, QUANTISATION, REWRITES, Dump, run_passes
from cnna.compiler.split import split
from cnna.compiler.validate import validate_integer
from cnna.host.errors import ModelError


@dataclass(frozen=True)
class Split:
    """What runs where.

    `inputs` and `outputs` say for each tensor at the accelerator's borders, by name, how it is quantised: the host rounds
    float inputs so (from the user, or from `head`), and makes float of the outputs (for the user, or for `tail`). The names
    are those of the model's inputs and outputs, or of the head's outputs and the tail's inputs. Float tensors at
    these borders are [N, C, H, W].
    """

    graph: Graph
    head: ModelProto | None
    tail: ModelProto | None
    inputs: dict[str, Quant]
    outputs: dict[str, Quant]


def import_quantised(model: ModelProto, dump: Dump | None = None) -> Split:
    """Rewrites, cuts and converts. `dump` gets the graph after each pass.

    ModelError: nothing quantised in it, or a node between layers of the accelerator that it cannot run.
    """
    graph = run_passes(to_graph(model), (*REWRITES, *QUANTISATION), dump)
    if not any(tensor.quant for tensor in graph.tensors.values()):
        raise ModelError(f"{graph.name}: the model is not quantised; run `cnna quantize` on it first")
    parts = split(graph, support.quantised_limit)
    if dump:
        dump("split", parts.body)
    body = to_integer(parts.body)
    if dump:
        dump("to_integer", body)
    body = run_passes(body, INTEGER, dump)
    validate_integer(body)
    return Split(body, _cpu(parts.head), _cpu(parts.tail), _quants(body, body.inputs), _quants(body, body.outputs))


def _cpu(part: Graph | None) -> ModelProto | None:
    return None if part is None else to_model(unquantised_ends(part))


def _quants(graph: Graph, names: tuple[str, ...]) -> dict[str, Quant]:
    found = {}
    for name in names:
        quant = graph.tensors[name].quant
        assert quant is not None
        found[name] = quant
    return found
