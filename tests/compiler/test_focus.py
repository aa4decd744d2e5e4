"""YOLO's Focus in front of a network: one convolution of the image, near onnxruntime on the same QDQ model."""

import numpy as np
import pytest
from onnx import ModelProto

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.manifest import CPU

from .one_piece import compiled_whole
from .passes.alone import ints
from .written import images, written

TINY = preset("tiny")
ENDS = {"n": ints(2**31 - 1), "n2": ints(2**31 - 1, 2**31 - 1)}
PLACES = {"s00": ints(0, 0), "s10": ints(1, 0), "s01": ints(0, 1), "s11": ints(1, 1), "both": ints(2, 3), "two2": ints(2, 2)}
AXES = {"s0": ints(0), "s1": ints(1), "rows": ints(2), "columns": ints(3), "two": ints(2)}
YOLOX = "".join(f"p{place} = Slice (x, s{place}, n2, both, two2) " for place in ("00", "10", "01", "11"))
YOLOV5 = "".join(f"r{row} = Slice (x, s{row}, n, rows, two) " for row in "01") + "".join(
    f"p{place} = Slice (r{place[0]}, s{place[1]}, n, columns, two) " for place in ("00", "10", "01", "11")
)
JOIN = "f = Concat <axis=1> (p00, p10, p01, p11) "
FORMS: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "YOLOX": (YOLOX + JOIN, {**PLACES, "n2": ENDS["n2"]}),
    "YOLOv5": (YOLOV5 + JOIN, {**AXES, "n": ENDS["n"]}),
    "SpaceToDepth": ("f = SpaceToDepth <blocksize=2> (x) ", {}),
}


STEM = {"w": (8, 12, 3, 3), "bias": (8,), "v": (6, 8, 1, 1)}
LAYERS = "a = Conv <pads=[1,1,1,1]> (f, w, bias) s = Sigmoid (a) b = Mul (a, s) y = Conv (b, v)"
ROUNDED: dict[str, np.generic] = {
    "sx": np.float32(0.03), "zx": np.int8(-5), "sw": np.float32(0.004), "zw": np.int8(0), "sy": np.float32(0.04),
}  # fmt: skip


def network(form: str) -> ModelProto:
    """A Focus, a stem with SiLU, and a layer."""
    text, constants = FORMS[form]
    whole = f"g (float[N,3,12,16] x) => (float[N,6,6,8] y) {{ {text} {LAYERS} }}"
    return load_model(written(whole, {**constants, **STEM}).SerializeToString())


def with_pairs(form: str, joined: bool) -> ModelProto:
    """A Focus and a stem with Q and DQ, as other tools write them: around the image and, if `joined`, the Concat at its scale."""

    def pair(made: str, read: str, scale: str) -> str:
        return f"{made}_q = QuantizeLinear ({read}, {scale}, zx) {made} = DequantizeLinear ({made}_q, {scale}, zx) "

    text, constants = FORMS[form]
    text = pair("i", "x", "sx") + text.replace("(x", "(i")
    text += (pair("j", "f", "sx") if joined else "j = Identity (f) ") + "u = DequantizeLinear (w, sw, zw) "
    text += f"a = Conv <pads=[1,1,1,1]> (j, u) {pair('y', 'a', 'sy')}"
    weights = np.random.default_rng(4).integers(-127, 128, STEM["w"]).astype(np.int8)
    whole = written(f"g (float[N,3,12,16] x) => (float[N,8,6,8] y) {{ {text} }}", {**constants, **ROUNDED, "w": weights})
    return load_model(whole.SerializeToString())


def quantised(form: str) -> ModelProto:
    """What `cnna quantize` makes of the network."""
    model = network(form)
    return load_model(quantise(model, images(model, 4))[0].SerializeToString())


SOURCES = {"float": quantised, "pairs": lambda form: with_pairs(form, True), "one pair": lambda form: with_pairs(form, False)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES)
def test_focus_is_part_of_the_stem(form, source):
    """Its copies would take more clocks than the stem; or the answer, or what `cnna explain` says, would be of another network."""
    made = SOURCES[source](form)
    artifact = compiled_whole(made, images(made, 4), TINY, greatest=1.5, equal=0.98)
    (piece,) = artifact.manifest["pieces"]
    assert {layer["op"] for layer in piece["layers"]} == {"Conv"}
    assert piece["inputs"][0]["shape"] == [3, 12, 16]
    assert piece["inputs"][0]["fold"]
    said = explain(made, TINY)
    assert CPU not in {row.side for row in said.rows}
    assert artifact.manifest["macs"] == 8 * 12 * 9 * 48 + (6 * 8 * 48 if source == "float" else 0)
    assert sum(row.clocks or 0 for row in said.rows) == said.cycles == artifact.predicted_clocks()


def test_float_models_are_explained_as_they_are_compiled():
    """Users would see clocks of copies that no program has."""
    said = explain(network("YOLOX"), TINY)
    assert CPU not in {row.side for row in said.rows}
    assert {row.name for row in said.rows if row.clocks} == {row.name for row in said.rows if row.op == "Conv"}


def test_rtl_gives_the_same():
    """The engines would read a folded image otherwise than the emulator does."""
    made = quantised("YOLOX")
    with Model(compile_model(made, TINY), "rtl", check=True) as rtl:
        rtl.run({"x": images(made, 1)["x"]})
        assert rtl.agreement is not None
