"""Networks with activations of one map: all on the accelerator, to the bit, and near onnxruntime on the same QDQ model."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.compile import compile_graph, compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.graph import ir
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import Config, preset
from cnna.spec.program.commands import commands
from cnna.spec.regmap import offset

from .. import networks
from ..configurations import LITTLE
from ..graph_builder import Builder
from .distance import quantised_by_onnxruntime
from .one_piece import compiled_whole
from .written import Shapes, answers, images, silu, written

TINY = preset("tiny")


def hard_swish(made: str, read: str) -> str:
    return f"{made}_h = HardSigmoid <alpha=0.16666667> ({read}) {made} = Mul ({read}, {made}_h)"


C2F = f"""a = Conv (x, w1, bias) {silu("b", "a")} p, q = Split <axis=1> (b, halves)
    c = Conv <pads=[1,1,1,1]> (q, w3) {silu("d", "c")} e = Conv <pads=[1,1,1,1]> (d, w3b) {silu("f", "e")} r = Add (q, f)
    j = Concat <axis=1> (p, q, r) k = Conv (j, w4) {silu("y", "k")}"""
V3 = f"""a = Conv (x, w1, bias) {hard_swish("b", "a")} c = Conv <group=8, pads=[1,1,1,1]> (b, wd) {hard_swish("d", "c")}
    e = Conv (d, w2) f = Conv (e, w1b) {hard_swish("g", "f")} h = Conv (g, w2b) y = Add (h, e)"""
WEIGHTS: Shapes = {
    "w1": (8, 4, 1, 1), "bias": (8,), "w3": (4, 4, 3, 3), "w3b": (4, 4, 3, 3), "w4": (6, 12, 1, 1), "wd": (8, 1, 3, 3),
    "w2": (4, 8, 1, 1), "w1b": (8, 4, 1, 1), "w2b": (4, 8, 1, 1), "halves": np.array([4, 4]),
}  # fmt: skip
NETWORKS = {"C2f": C2F, "MobileNetV3": V3}


def network(name: str) -> ModelProto:
    text = f"g (float[N,4,8,8] x) => (float[N,?,8,8] y) {{ {NETWORKS[name]} }}"
    used = {key: value for key, value in WEIGHTS.items() if f" {key})" in text or f" {key}," in text}
    return load_model(written(text, used).SerializeToString())


@pytest.mark.parametrize("source", ["cnna", "onnxruntime"])
@pytest.mark.parametrize("name", NETWORKS)
def test_activations_cut_no_network(name, source, tmp_path):
    """Each activation would be a piece on the CPU; or a table would be the wrong one, at the wrong place, or on the wrong sum."""
    model = network(name)
    feeds = images(model, 4)
    made = quantise(model, feeds)[0] if source == "cnna" else quantised_by_onnxruntime(model, feeds, tmp_path)
    compiled_whole(made, feeds, TINY, greatest=2.5, equal=0.97)


def test_activations_take_no_pass_of_their_own():
    """A table behind a convolution is free; a pass for each would take a third of such a network's time."""
    layers = compile_model(quantise(network("C2f"), images(network("C2f")))[0], TINY).manifest["pieces"][0]["layers"]
    assert Counter(layer["op"] for layer in layers)["Table"] == 0
    assert Counter(layer["op"] for layer in layers)["Conv"] == 4


UP = "b = ConvTranspose <strides=[{step}, {step}], pads=[{pad}, {pad}, {pad}, {pad}]{more}> (x, v) y = Sigmoid (b)"
TRANSPOSED = {  # step, pad, more attributes, weights
    "DBNet": (2, 0, "", (4, 1, 2, 2)),
    "overlapping": (2, 1, "", (4, 10, 4, 4)),
    "nine phases": (3, 0, "", (4, 6, 3, 3)),
    "by channel": (2, 0, ", group=4", (4, 1, 2, 2)),
}


@pytest.mark.parametrize("device", ["emulator", "rtl"])
def test_phases_share_a_table(device):
    """The table would be a pass over the largest map; or a phase would look up another layer's table, or none."""
    for name, (step, pad, more, shape) in TRANSPOSED.items() if device == "emulator" else [("DBNet", TRANSPOSED["DBNet"])]:
        text = f"g (float[N,4,7,9] x) => (float[N,?,?,?] y) {{ {UP.format(step=step, pad=pad, more=more)} }}"
        model = load_model(written(text, {"v": shape}).SerializeToString())
        feeds = images(model, 2)
        made, _ = quantise(model, feeds)
        for config in (TINY, LITTLE) if device == "emulator" else (TINY,):
            artifact = compile_model(load_model(made.SerializeToString()), config, 2)
            (piece,) = artifact.manifest["pieces"]
            assert "Table" not in {layer["op"] for layer in piece["layers"]}, name
            found = [c for c in commands(artifact.programs[0].program) if c.engine in ("conv", "vector")]
            assert {c.f.table_use for c in found} == {1}, name
            assert found[0].f.table_load, name
            with Model(artifact, device, check=True) as opened:
                answer = opened.run(feeds)["y"]
            expected = answers(made, feeds)[0]
            assert np.abs(answer - expected).max() < 2.5 / 255, name


def loads(graph: ir.Graph, config: Config, batch: int) -> dict[int, list[tuple[int, int]]]:
    """(use, load) of each command of the array and the vector engine, by layer, in program order."""
    program = compile_graph(graph, config, batch)
    found: dict[int, list[tuple[int, int]]] = {}
    for command, entry in zip(commands(program.program), program.commands, strict=True):
        if command.engine in ("conv", "vector"):
            found.setdefault(entry["layer"], []).append((command.f.table_use, command.f.table_load))
    return found


def test_a_layer_of_several_commands_loads_its_table_once():
    """Each load costs 256 bytes of DDR and up to 64 clocks; a command without one must follow one that has the same table."""
    b = Builder(np.random.default_rng(3), "tiled")
    x = b.conv(b.input(12, 24, 24), 24, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    table = ir.Table(bytes(range(256)))
    y = b.node(table, (x,), b.shape(x), 0)
    graph = b.graph(b.conv(y, 8, ir.Window()))
    conv, looked_up, last = loads(graph, LITTLE, 1).values()
    assert len(looked_up) > 1
    assert looked_up == [(1, 1), *[(1, 0)] * (len(looked_up) - 1)]
    assert {*conv, *last} == {(0, 0)}


def test_phases_load_their_table_with_the_first_row():
    """A tile of one row has no pixel of the other phases: a table in front of their weights would never be loaded."""
    b = Builder(np.random.default_rng(5), "phases")
    x = b.input(8, 24, 24)
    b.phases(x, 16, [(2, 2), (2, 1), (1, 2), (1, 1)], (48, 48))
    table = ir.Table(bytes(range(256)))
    *parts, mosaic = b.nodes
    places = mosaic.op.places[::-1]
    parts = [replace(part, op=replace(part.op, table=table)) for part in parts]
    b.nodes = [*parts, replace(mosaic, op=ir.Mosaic(places), inputs=mosaic.inputs[::-1])]
    found = [load for each in loads(b.graph(), LITTLE, 1).values() for load in each]
    assert len(found) > 4
    assert sorted(found) == [*[(1, 0)] * (len(found) - 1), (1, 1)]


def test_layers_that_take_turns_load_at_each():
    """Two images abreast change the table with every layer: the engine has only one."""
    b = Builder(np.random.default_rng(4), "turns")
    x = b.input(8, 8, 8)
    for number in range(3):
        x = b.conv(x, 8, ir.Window((3, 3), pads=(1, 1, 1, 1)))
        b.nodes[-1] = replace(b.nodes[-1], op=replace(b.nodes[-1].op, table=ir.Table(bytes([number] * 256))))
    program = compile_graph(b.graph(), TINY, 4)
    held, turns = None, 0
    for command, entry in zip(commands(program.program), program.commands, strict=True):
        if command.engine == "conv":
            assert command.f.table_use
            if command.f.table_load:
                held, turns = entry["layer"], turns + 1
            assert held == entry["layer"]
    assert turns >= 3


def test_programs_without_a_table_do_not_name_its_registers():
    """Every program would grow by two writes, and no longer be the one that it was before there were tables."""
    program = compile_graph(networks.layer(0, "residual"), TINY).program
    written_to = set(np.frombuffer(program, "<u4").reshape(-1, 2)[:, 0].tolist())
    assert not written_to & {offset("CONV_TABLE"), offset("VECTOR_TABLE")}
