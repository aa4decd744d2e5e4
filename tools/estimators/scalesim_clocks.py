"""What SCALE-Sim expects of a network: clocks of a systolic array, layer by layer, where memory never stalls it.

SCALE-Sim makes a matrix of what its array demands in each clock, and then plays it against memories, word by word, which takes
a minute for a small layer. Where it is to estimate the bandwidth (`CALC`), memories never stall, and the clocks are those of the
matrix. So memory is replaced by one that counts its lines; `tests/tools/test_estimators.py` holds both equal.
"""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cnna.compiler.graph import ir

DATAFLOWS = {"os": "output stationary", "ws": "weight stationary", "is": "input stationary"}
HEADS = "Layer, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
SETTINGS = """
[general]
run_name = one
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = {memory}
FilterSramSzkB = {memory}
OfmapSramSzkB = {memory}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = {dataflow}
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


class Array(NamedTuple):
    """A systolic array: each place multiplies once a clock. dataflow: what stays in place, by SCALE-Sim's letters."""

    rows: int
    columns: int
    dataflow: str


class Shape(NamedTuple):
    """A convolution. rows, columns: of the input that its windows reach, padding included. stride: down."""

    rows: int
    columns: int
    kernel_rows: int
    kernel_columns: int
    channels: int
    filters: int
    stride: int


class Layer(NamedTuple):
    """A convolution of a network. times: that SCALE-Sim runs its shape, as it does for each channel of a depthwise one."""

    shape: Shape
    times: int
    depthwise: bool


class NeverStalls:
    """A memory that answers at once. clocks: as SCALE-Sim counts them, from 0."""

    clocks = 0

    def service_memory_requests(self, inputs: Any, filters: Any, outputs: Any) -> None:
        """One line a clock is asked."""
        self.clocks = len(outputs) - 1


def layers_of(graph: ir.Graph) -> list[Layer]:
    """The convolutions of a graph. All else SCALE-Sim does not know."""
    found = []
    for node in graph.nodes:
        if isinstance(node.op, ir.Conv | ir.Depthwise):
            channels, window = graph.tensors[node.inputs[0]].shape[0], node.op.window
            filters, *size = graph.tensors[node.output].shape
            depthwise = isinstance(node.op, ir.Depthwise)
            reach = [(n - 1) * step + kernel for n, step, kernel in zip(size, window.stride, window.kernel, strict=True)]
            ends = (1, 1) if depthwise else (channels, filters)
            shape = Shape(reach[0], reach[1], *window.kernel, *ends, window.stride[0])
            found.append(Layer(shape, channels if depthwise else 1, depthwise))
    return found


def clocks(shape: Shape, array: Array, folder: Path, memory: Any = None) -> int:
    """The clocks of one layer. folder: for its files. memory: None: one that never stalls; else as SCALE-Sim has them, in kB."""
    from scalesim.layout_utils import layouts
    from scalesim.scale_config import scale_config
    from scalesim.single_layer_sim import single_layer_sim
    from scalesim.topology_utils import topologies

    config, topology, layout, one = scale_config(), topologies(), layouts(), single_layer_sim()
    config.read_conf_file(_written(folder / "array.cfg", SETTINGS.format(memory=memory or 1, **array._asdict())))
    topology.load_arrays(_written(folder / "layers.csv", f"{HEADS}\nlayer, {', '.join(map(str, shape))},\n"))
    layout.load_arrays(_written(folder / "layout.csv", "Layer,\nlayer, " + "1, " * 14 + "\n"))
    with contextlib.redirect_stdout(io.StringIO()):
        one.set_params(0, config, topology, layout, verbose=False)
        if memory:
            one.run()
            return int(one.get_compute_report_items()[1])
        never = NeverStalls()
        one.set_memory_system(never)
        one.run()
    return never.clocks


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def arrays_of(macs: int, rows: Sequence[int]) -> list[Array]:
    """Arrays of so many multipliers, in each dataflow."""
    return [Array(one, macs // one, dataflow) for one in rows for dataflow in DATAFLOWS]
