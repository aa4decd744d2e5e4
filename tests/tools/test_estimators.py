"""Public estimators: Vela gets our graph, SCALE-Sim's clocks are those of its whole run, and the table says who says what."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from estimators import BEGIN, END, with_table
from scalesim_clocks import DATAFLOWS, Array, Layer, Shape, clocks, layers_of
from tflite_file import tflite_of
from vela_clocks import system, vela

from cnna.compiler.frontend.onnx_import import read
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph import ir
from cnna.compiler.lower.lower import macs_of
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import preset

NODES = """
a = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x, w)
r = Relu (a)
p = MaxPool <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (r)
d = Conv <kernel_shape=[3,3], pads=[1,1,1,1], group=16> (p, v)
e = Conv (d, u)
s = Add (e, p)
m = GlobalAveragePool (s)
y = Conv (m, u)
"""


@pytest.fixture(scope="module")
def graph() -> ir.Graph:
    """A small network with each operator that has a writer."""
    rng = np.random.default_rng(5)
    text = '<ir_version: 8, opset_import: ["" : 17]>\nsmall (float[N,3,32,32] x) => (float[N,16,1,1] y) {' + NODES + "}"
    made = onnx.parser.parse_model(text)
    for name, shape in {"w": (16, 3, 3, 3), "v": (16, 1, 3, 3), "u": (16, 16, 1, 1)}.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name))
    quantised, _ = quantise(made, {"x": rng.normal(0, 1, (4, 3, 32, 32)).astype(np.float32)})
    (found,) = import_quantised(read(quantised)).programs
    return found


def test_vela_reads_the_file_as_the_same_network(graph: ir.Graph, tmp_path: Path) -> None:
    """Vela would be given another network than the RTL, or would leave layers to a CPU whose time it does not count."""
    file = tmp_path / "small.tflite"
    file.write_bytes(tflite_of(graph))
    found = vela(file, "ethos-u85-2048", preset("zcu102"), tmp_path)
    ours = sum(macs_of(graph, node) for node in graph.nodes)
    rest = sum(np.prod(graph.tensors[node.output].shape) * 9 for node in graph.nodes if isinstance(node.op, ir.MaxPool))
    assert ours <= found.macs <= ours + rest + 10_000  # Vela counts pools too
    assert max(found.array, found.dram) <= found.total


def test_what_has_no_writer_is_refused(graph: ir.Graph) -> None:
    """A layer would be left out, and the estimate be of less work."""
    node = graph.nodes[0]
    wrong = replace(graph, nodes=(ir.Node(node.name, ir.Maximum(), node.inputs, node.output),))
    with pytest.raises(ValueError, match="no writer for Maximum"):
        tflite_of(wrong)


@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")  # SCALE-Sim's own, as are the files
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # that it leaves open
@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_clocks_of_scalesim_are_those_of_its_whole_run(dataflow: str, tmp_path: Path) -> None:
    """The memory that never stalls would give figures that SCALE-Sim does not."""
    shape, array = Shape(6, 6, 3, 3, 3, 5, 1), Array(4, 4, dataflow)
    assert clocks(shape, array, tmp_path) == clocks(shape, array, tmp_path, memory=1) > 0


def test_layers_for_scalesim_are_all_convolutions(graph: ir.Graph) -> None:
    """Clocks of a layer would be missing, or a depthwise one be taken for a dense one."""
    layers = layers_of(graph)
    assert layers[0] == Layer(Shape(33, 33, 3, 3, 3, 16, 2), 1, False)
    assert [layer.depthwise for layer in layers] == [False, True, False, False]
    assert layers[1] == Layer(Shape(10, 10, 3, 3, 1, 1, 1), 16, True)


def test_the_system_for_vela_is_ours() -> None:
    """Vela would be compared on another DDR."""
    lines = system(preset("zcu102")).splitlines()
    assert {"core_clock=300e6", "Dram_clock_scale=0.75", "Dram_ports_used=4", "Dram_read_latency=120"} <= {*lines}
    assert "arena_cache_size=2097152" in lines


def test_a_prediction_and_the_rtl_do_not_share_a_column() -> None:
    """A reader would take an estimate for a measurement."""
    rows = [
        {"who": "cnna", "on": "a", "macs_a_clock": 4096, "predicted": 2000, "rtl": 2001},
        {"who": "SCALE-Sim", "on": "b", "macs_a_clock": 4096, "predicted": 9000, "depthwise": 8000},
    ]
    found = {"versions": {"ethos-u-vela": "5", "scalesim": "3"}, "networks": {"n": rows}}
    page = with_table(f"before\n{BEGIN}old\n{END}after\n", found)
    assert page.startswith(f"before\n{BEGIN}Vela 5, SCALE-Sim 3")
    assert page.endswith(f"{END}after\n")
    assert "| cnna, a | 4,096 | 2.0 | 2.0 |" in page
    assert "| SCALE-Sim, b | 4,096 | 9.0 (1.0 without depthwise) | - |" in page
    assert "old" not in page
