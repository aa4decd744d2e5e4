"""Bilinear resizes from ONNX to the emulator and the RTL: their values against onnxruntime's, their clocks against predictions."""

from itertools import product

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.compile import compile_graph, compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.graph import ir
from cnna.compiler.lower.bilinear import runs
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.sim.reference import reference
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR
from cnna.spec.program.commands import commands

from ..configurations import LITTLE
from ..graph_builder import Builder
from .distance import quantised_by_onnxruntime
from .written import answers, images, written

TINY = preset("tiny")
MODES = ("half_pixel", "asymmetric")
SIZES = ((1, 1), (1, 4), (3, 1), (2, 2), (5, 7))


def enlarged(mode: str, times: tuple[int, int], size: tuple[int, int], opset: int = 13, behind: str = "Relu (r)") -> ModelProto:
    """A resize of five channels, and an operator behind it. Before opset 11 it is an Upsample, which has no mode of coordinates."""
    how = f', coordinate_transformation_mode="{mode}"'
    resize = f'Resize <mode="linear"{how}> (x, {"" if opset > 12 else "roi"}, s)'
    line = resize if opset > 10 else f'{"Resize" if opset == 10 else "Upsample"} <mode="linear"> (x, s)'
    text = f"g (float[N,5,{size[0]},{size[1]}] x) => (float[N,?,?,?] y) {{ r = {line} y = {behind} }}"
    constants = {"s": np.array([1, 1, *times], np.float32)} | ({"roi": np.zeros(0, np.float32)} if 10 < opset < 13 else {})
    return load_model(written(text, constants, opset).SerializeToString())


def on_the_emulator(model: ModelProto, feeds: dict[str, np.ndarray], batch: int) -> np.ndarray:
    """The answer, which the reference must share; all of it comes from one piece on the accelerator."""
    artifact = compile_model(model, TINY, batch)
    assert [entry["kind"] for entry in artifact.manifest["pieces"]] == [ACCELERATOR]
    with Model(artifact, "emulator", check=True) as emulated:
        (found,) = emulated.run(feeds).values()
    return found


def apart(a: np.ndarray, b: np.ndarray, whole: np.ndarray) -> float:
    """The greatest difference, in steps of 255 over the range of `whole`."""
    return float(np.abs(a - b).max() / (np.ptp(np.append(whole, 0)) / 255))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("times", [(2, 2), (4, 4), (1, 2), (4, 1), (2, 4)])
def test_values_are_onnxruntimes(times, mode):
    """A wrong weight, a wrong pixel beside an edge, or a second rounding would be more than a tie or the step of the input."""
    for number, size in enumerate(SIZES):
        model = enlarged(mode, times, size, behind=("Relu (r)", "Neg (r)", "Identity (r)")[number % 3])
        feeds = images(model, 3, seed=number)
        quantised, _ = quantise(model, feeds)
        found, (wanted,), (exact,) = on_the_emulator(quantised, feeds, 2), answers(quantised, feeds), answers(model, feeds)
        assert apart(found, wanted, exact) < 1.01, size
        assert apart(found, exact, exact) < 2.01, size


@pytest.mark.parametrize("opset", [9, 10, 11, 21])
def test_every_opset_has_it(opset):
    """Upsample, and the Resize of opset 10, count from corners; onnxruntime's answer must stay the one of the newest form."""
    mode = "asymmetric" if opset < 11 else "half_pixel"
    model = enlarged(mode, (2, 4), (3, 5), opset)
    feeds = images(model, 2)
    found = on_the_emulator(quantise(model, feeds)[0], feeds, 1)
    (exact,) = answers(model, feeds)
    assert apart(found, exact, exact) < 2.01


def test_a_model_that_onnxruntime_quantised_runs(tmp_path):
    """Its Q and DQ around a Resize have one scale; without them on both sides the CPU would interpolate."""
    text = """g (float[N,3,6,6] x) => (float[N,?,?,?] y) { a = Conv <pads=[1,1,1,1]> (x, w)
        b = Resize <mode="linear"> (a, , s) y = Conv (b, v) }"""
    model = load_model(written(text, {"w": (8, 3, 3, 3), "v": (4, 8, 1, 1), "s": np.float32([1, 1, 2, 2])}, 13).SerializeToString())
    feeds = images(model, 4)
    made = load_model(quantised_by_onnxruntime(model, feeds, tmp_path).SerializeToString())
    found, (wanted,) = on_the_emulator(made, feeds, 1), answers(made, feeds)
    assert apart(found, wanted, wanted) < 2.01


def test_runs_have_the_weights_of_the_definition():
    """Each output must be made once, by weights that are those of its place; an edge by the whole weight of the last pixel."""
    for size, times, centred in product((1, 2, 3, 7), (1, 2, 4), (True, False)):
        parts = ir.Bilinear((times, times), centred, 1.0, 0, ir.Clamp(0)).parts[0]
        matrix = np.zeros((size * times, size))
        for run in runs(size, times, parts, centred):
            for n, (tap, weight) in product(range(run.count), enumerate(run.weights)):
                matrix[run.at + n * run.apart, run.first + n * run.step + tap] += weight / parts
        out = np.arange(size * times)
        place = ((out + 0.5) / times - 0.5 if centred else out / times).clip(0, size - 1)
        np.testing.assert_allclose(matrix, np.maximum(0, 1 - np.abs(place[:, None] - np.arange(size))), atol=1e-12)


def test_tiles_load_the_table_once():
    """The first command of a tiled layer must be the one whose stream has the table, or the engine would take weights for it."""
    b = Builder(np.random.default_rng(5), "tiled")
    x = b.conv(b.input(9, 16, 16), 12, ir.Window())
    y = b.bilinear(x, (2, 2), True)
    b.nodes[-1] = ir.Node("y", ir.Bilinear((2, 2), True, 1.0, b.zero(x), ir.Clamp(3), ir.Table(bytes(range(256)))), (x,), y)
    program = compile_graph(b.graph(), LITTLE)
    layer = [c for c, entry in zip(commands(program.program), program.commands, strict=True) if entry["layer"] == 1]
    loads = [command.f.table_load for command in layer if command.engine == "vector"]
    assert len(loads) > 16
    assert loads == [1, *[0] * (len(loads) - 1)]


def test_the_reference_keeps_a_plane():
    """A map that rises evenly must go on rising evenly between its edges, at a quarter of the slope."""
    tensors = {"x": ir.Tensor((1, 1, 9), ir.Quant(1.0, -3)), "y": ir.Tensor((1, 1, 36), ir.Quant(0.125, -100))}
    node = ir.Node("y", ir.Bilinear((1, 4), True, 8.0, -3, ir.Clamp(-100)), ("x",), "y")
    x = np.arange(-3, 24, 3, dtype=np.int8).reshape(1, 1, 1, 9)
    y = reference.run(ir.Graph("plane", ("x",), ("y",), (node,), tensors), {"x": x})["y"].reshape(-1)
    assert y[:2].tolist() == [-100, -100]
    assert y[2:34].astype(int).tolist() == np.minimum(-97 + 6 * np.arange(32), 127).tolist()


@pytest.mark.cosim
def test_the_rtl_answers_and_its_clocks(rtl):
    """Writes between each other's pixels, commands that stand still at an edge, and weights of blocks that share their parameters.

    Every tensor is compared, and each resize's clocks must be within 5 % of the predicted.
    """
    for times, mode, channels in (((2, 2), "half_pixel", 10), ((4, 4), "half_pixel", 16), ((2, 4), "asymmetric", 8)):
        text = f"""g (float[N,3,9,11] x) => (float[N,?,?,?] y) {{ a = Conv <pads=[1,1,1,1]> (x, w) c = Resize <mode="linear",
            coordinate_transformation_mode="{mode}"> (a, , s) d = Sigmoid (c) y = Conv (d, v) }}"""
        weights = {"w": (channels, 3, 3, 3), "v": (8, channels, 1, 1), "s": np.array([1, 1, *times], np.float32)}
        model = load_model(written(text, weights, 13).SerializeToString())
        feeds = images(model, 2)
        artifact = compile_model(quantise(model, feeds)[0], TINY, 2)
        (piece,) = artifact.manifest["pieces"]
        assert piece["kind"] == ACCELERATOR
        with Model(artifact, rtl(TINY), check=True) as simulated:
            simulated.run(feeds)
            assert "RTL" in simulated.agreement.executions
            (measured,) = (layer["cycles"] for layer in simulated.last["layers"] if layer["op"] == "Bilinear")
        (predicted,) = (layer["predicted_cycles"] for layer in piece["layers"] if layer["op"] == "Bilinear")
        assert abs(measured / predicted - 1) < 0.05, (times, mode, measured, predicted)
