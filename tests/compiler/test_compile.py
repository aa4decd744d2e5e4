"""Compiled graphs give the reference's answer in the emulator, tensor by tensor; others are refused with the node's name."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from cnna.compiler.compile import compile_graph, compile_model
from cnna.compiler.graph import ir
from cnna.compiler.quantise.quantise import quantise
from cnna.host.device.accelerator import Accelerator
from cnna.host.model.model import Model
from cnna.sim.check import compare
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.sim.reference import reference
from cnna.spec.artifact import load, save
from cnna.spec.config import Config, preset
from cnna.spec.errors import ModelError

from .. import networks, qdq_networks
from ..configurations import LITTLE
from ..graph_builder import Builder

OTHER = Config("other", pix=4, ci=8, co=24, ports=3, regions=3, bank_words=512, ring_words=328, vector_ring_words=264)
CONFIGS = {config.name: config for config in (preset("tiny"), OTHER, LITTLE, preset("zcu102"))}
MANY = [name for name in CONFIGS if name != "tiny"]  # for `tiny`, test_agreement.py has more cases than there are here


def check(graph, config, batch, case):
    """Compares every tensor that a command writes, and every output, with the reference; returns the number of tensors.

    None: not even a row of a layer fits into LITTLE's feature memory, for one image either.
    """
    try:
        artifact = compile_graph(graph, config, batch).piece()
    except ModelError as error:
        if config != LITTLE or "feature memory" not in str(error):
            raise
        with pytest.raises(ModelError, match="feature memory"):
            compile_graph(graph, config)
        return None
    device = EmulatorDevice(config, 1 << 25, logging=True)
    x = networks.inputs(graph, batch, case)
    answers = Accelerator(device, artifact).run(x)
    return compare(artifact, reference.run(graph, x), x, answers, device).tensors


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("kind", networks.LAYERS)
def test_layers_equal_the_reference(kind, name, seed):
    """An operator, shape, window, zero point or extreme would go wrong: `networks.layer(CASE, KIND)` makes the case again."""
    for case in range(seed * 1000, seed * 1000 + 6):
        assert check(networks.layer(case, kind), CONFIGS[name], 1 + case % 3, case) != 0, f"networks.layer({case}, {kind!r})"


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("number", range(4))
def test_networks_equal_the_reference(number, name, seed):
    """Branches, concatenations in place or spills would go wrong: `networks.network(CASE)` makes the case again."""
    batches = 2 if name == "little" else 3  # which takes the most commands for an image
    for case in range(seed * 1000 + number * 6, seed * 1000 + number * 6 + 6):
        assert check(networks.network(case), CONFIGS[name], 1 + case % batches, case) != 0, f"networks.network({case})"


@pytest.mark.parametrize("number", range(20))
def test_qdq_models_equal_the_reference(number, seed):
    """A model as onnxruntime's quantiser writes it would go wrong on its whole way: `qdq_networks.model(CASE)` makes it again."""
    case = seed * 1000 + number
    model = qdq_networks.model(case)
    artifact = compile_model(model, CONFIGS["tiny"], batch=2)
    with Model(artifact, "emulator", check=True) as emulator:  # CheckError: the first difference
        emulator.run(qdq_networks.images(model, 3, case))
        assert emulator.agreement.tensors


def test_equal_graphs_give_equal_programs():
    """A program would depend on the order of a set or on the time of day."""
    first, again = (compile_graph(networks.network(5), CONFIGS["little"], 2) for _ in range(2))
    assert (first.program, first.constants, first.entry()) == (again.program, again.constants, again.entry())


@pytest.mark.parametrize("batch", [1, 4])
def test_a_compilation_says_how_far_it_is(batch):
    """A user would not know how long a large network takes, or be told of more steps than there are."""
    seen = {}
    program = compile_graph(
        networks.network(3), preset("tiny"), batch, count=lambda *told: seen.setdefault(told[2], []).append(told[:2])
    )
    program.entry(lambda *told: seen.setdefault("at last", []).append(told[:2]))
    assert next(iter(seen)) == "comparing plans"
    for what, told in seen.items():
        assert all(0 < done <= total for done, total in told), what
        assert all(later[0] in (1, before[0] + 1) for before, later in itertools.pairwise(told)), what
    predicted = seen.get("predicting commands", []) + seen.get("at last", [])
    assert predicted[-1] == (len(program.commands), len(program.commands))


def test_the_manifest_is_plain_json():
    program = compile_graph(networks.network(4), CONFIGS["tiny"])
    assert json.loads(json.dumps(program.entry(), allow_nan=False)) == program.entry()


def test_an_input_that_is_an_output_is_copied():
    """If ports shared memory, the host would read what it wrote instead of the accelerator's answer."""
    b = Builder(np.random.default_rng(1), "through")
    x = b.input(6, 3, 3)
    graph = b.graph(x, b.affine(x))
    program = compile_graph(graph, CONFIGS["tiny"])
    assert program.outputs[0]["segment"] == "output"
    assert check(graph, CONFIGS["tiny"], 2, 1)


def grow(make):
    """The graph that `make(builder)` grows."""
    b = Builder(np.random.default_rng(1), "case")
    return b.graph(make(b))


def test_memory_too_small_for_a_layer_is_refused():
    """The line must say the node, what one row needs, how much memory there is, and what helps."""
    graph = grow(lambda b: b.conv(b.input(64, 40, 40), 8, ir.Window((11, 11))))
    with pytest.raises(ModelError, match=r"node 'conv_0'.*needs \d+ words.*config little has 1024.*bank_words") as caught:
        compile_graph(graph, LITTLE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("window", "size", "what"),
    [
        (ir.Window((1, 300)), (1, 400), "kernel width 300"),
        (ir.Window((1, 1), stride=(1, 64)), (1, 200), "stride x 64"),
        (ir.Window((1, 2), dilation=(1, 64)), (1, 200), "stride dilation x 64"),
    ],
)
def test_windows_beyond_the_registers_are_refused(window, size, what):
    graph = grow(lambda b: b.conv(b.input(3, *size), 4, window))
    with pytest.raises(ModelError, match=rf"node 'conv_0'.*{what} is not within"):
        compile_graph(graph, CONFIGS["tiny"])


@pytest.mark.parametrize("batch", [0, 1000])
def test_a_batch_beyond_the_registers_is_refused(batch):
    with pytest.raises(ModelError, match=f"batch of {batch}"):
        compile_graph(networks.layer(0), CONFIGS["tiny"], batch)


def test_weights_that_overflow_the_packing_are_refused():
    """Eight weights of -128 at consecutive channels of a cascade of 8: with inputs of -128 the RTL's packed product would be
    wrong.
    """
    graph = grow(lambda b: b.conv(b.input(16, 4, 4), 8, ir.Window()))
    weights = np.full((8, 16, 1, 1), -128, np.int8)
    bad = replace(graph, constants={**graph.constants, graph.nodes[0].op.weights: weights})
    with pytest.raises(ModelError, match=r"node 'conv_0'.*-128.*-127\.\.127"):
        compile_graph(bad, preset("zcu102"))
    assert compile_graph(bad, CONFIGS["tiny"])  # cascades of 4 cannot overflow


def test_an_unquantised_tensor_is_refused():
    graph = networks.layer(0, "conv")
    with pytest.raises(ModelError, match="not quantised"):
        compile_graph(replace(graph, tensors={k: ir.Tensor(t.shape) for k, t in graph.tensors.items()}), CONFIGS["tiny"])


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """A small float model, quantised by this project."""
    rng = np.random.default_rng(1)
    weights = onnx.numpy_helper.from_array(rng.normal(size=(6, 3, 3, 3)).astype(np.float32), "w")
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        onnx.helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        onnx.helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        onnx.helper.make_node("Softmax", ["f"], ["y"], "softmax"),
    ]
    value = onnx.helper.make_tensor_value_info
    inputs, outputs = [value("x", 1, ["N", 3, 8, 8])], [value("y", 1, ["N", 6])]
    graph = onnx.helper.make_graph(nodes, "little", inputs, outputs, [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return quantise(model, {"x": rng.normal(size=(20, 3, 8, 8)).astype(np.float32)})[0]


def test_a_model_becomes_an_artifact(quantised, tmp_path):
    """An entry of the manifest that the host needs would be missing or untrue."""
    steps = []
    artifact = compile_model(quantised, CONFIGS["tiny"], batch=2, progress=steps.append)
    save(artifact, tmp_path / "m.cnna")
    back = load(tmp_path / "m.cnna")
    assert back.model == quantised.SerializeToString(deterministic=True)
    assert back.manifest["model_inputs"] == [{"name": "x", "shape": [3, 8, 8], "dtype": "float32"}]
    assert back.manifest["model_outputs"] == [{"name": "y", "shape": [1, 6], "dtype": "float32", "batch_axis": 0}]
    assert [node["op"] for node in back.pieces[-1].manifest["operators"]][-1] == "Softmax"
    assert back.manifest["macs"] == 6 * 3 * 9 * 64
    assert steps


def test_dump_writes_a_file_for_each_pass(quantised, tmp_path):
    """The files must be readable and numbered in order, the program last, and dumping must change nothing."""
    artifact = compile_model(quantised, CONFIGS["tiny"], dump=tmp_path / "dump")
    files = sorted(path.name for path in Path(tmp_path / "dump").iterdir())
    assert files[0].startswith("00_")
    assert files[-1].endswith("_program.txt")
    assert "CONV_GO" in (tmp_path / "dump" / files[-1]).read_text()
    assert "Conv<" in (tmp_path / "dump" / files[-2]).read_text()
    assert artifact.program == compile_model(quantised, CONFIGS["tiny"]).program


def test_commands_name_tensors_that_the_manifest_has():
    """A concatenation that is written in place and read in bands is loaded, but no command writes it: such a file would be
    refused.
    """
    b = Builder(np.random.default_rng(1), "case")
    parts = [b.conv(b.input(8, 40, 24), 8, ir.Window((1, 1))) for _ in range(2)]
    graph = b.graph(b.conv(b.concat(*parts), 8, ir.Window((3, 3))))
    manifest = compile_graph(graph, LITTLE).entry()
    unnamed = {command["engine"] for command in manifest["commands"] if command["tensor"] is None}
    assert "load" in unnamed
    assert {command["tensor"] for command in manifest["commands"]} <= {None, *manifest["tensors"]}
