"""What `cnna explain` says of a model, compared with what quantise and compile do with it afterwards."""

import re
from dataclasses import replace

import numpy as np
import pytest
from onnx import ModelProto
from onnxruntime.quantization import QuantFormat

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import Explanation, explain
from cnna.compiler.explain.rows import CONSTANT, REFUSED
from cnna.compiler.explain.text import summary, why
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.pieces.support import STEP_MAX
from cnna.compiler.graph.node_names import source_of
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.artifact import Artifact
from cnna.spec.config import preset
from cnna.spec.host_time.end_to_end import NODE_SECONDS, PIECE_SECONDS, end_to_end
from cnna.spec.manifest import ACCELERATOR, CPU

from ..distance import quantised_by_onnxruntime
from ..written import Shapes, images, written

TINY = preset("tiny")
FLOAT_SHARE = 0.02  # of clocks: what a float model may be predicted to take more or less than its quantised form
RESIDUAL = """[stem] a = Conv <pads=[1,1,1,1]> (x, w1) [norm] b = BatchNormalization (a, s, t, m, var) [act] c = Relu (b)
    [c1] d = Conv <pads=[1,1,1,1]> (c, w2) [add] e = Add (d, c) [out] f = Relu (e)"""
CLASSIFIER = "[mean] g = GlobalAveragePool (f) [flat] h = Flatten (g) [fc] i = Gemm <transB=1> (h, wfc, bfc) [soft] y = Softmax (i)"
SILU = "[act1] c = Sigmoid (a) [mul1] f = Mul (a, c)"
SQUEEZE = """[pool] p = GlobalAveragePool (a) [down] q = Conv (p, wd) [relu] r = Relu (q) [up] u = Conv (r, wu)
    [gate] v = HardSigmoid (u) [scale] f = Mul (a, v) [last] y = Conv (f, w2)"""
RECOGNISER = """[squeeze] b = ReduceMean <axes=[2], keepdims=0> (a) [perm] c = Transpose <perm=[2,0,1]> (b)
    [lstm] d, e = LSTM <hidden_size=5> (c, lw, lr) [first] f = Squeeze (d, one) [back] g = Transpose <perm=[1,0,2]> (f)
    [classes] h = MatMul (g, wm) [soft] y = Softmax (h)"""
ENLARGED = """[shrunk] b = Conv <strides=[2,2], pads=[1,1,1,1]> (a, w2)
    [cubic] c = Resize <mode="cubic"> (b, none, twice) [cat] d = Concat <axis=1> (c, a) [last] y = Conv (d, wcat)"""
STEM = "[stem] a = Conv <pads=[1,1,1,1]> (x, w1)"
STEEP = ("[act1] y = Exp (a)", "[act1] f = Exp (a) [last] y = Conv (f, w2)")
NETWORKS = {
    "residual": f"{RESIDUAL} {CLASSIFIER}",
    "flat": f"{RESIDUAL} [mean] g = GlobalAveragePool (f) [flat] h = Flatten (g) [fc] y = Gemm <transB=1> (h, wfc, bfc)",
    "silu": f"{STEM} {SILU} [last] y = Conv (f, w2)",
    "wave": f"{STEM} [act1] f = Sin (a) [last] y = Conv (f, w2)",
    "squeeze": f"{STEM} {SQUEEZE}",
    "recogniser": f"{STEM} {RECOGNISER}",
    "enlarged": f"{STEM} {ENLARGED}",
    "cpu": "[one] a = Sin (x) [two] y = Atan (a)",
}
WEIGHTS: Shapes = {
    "w1": (8, 3, 3, 3),
    "w2": (8, 8, 3, 3),
    "wcat": (4, 16, 1, 1),
    "wd": (2, 8, 1, 1),
    "wu": (8, 2, 1, 1),
    "wfc": (4, 8),
    "bfc": (4,),
    "s": (8,),
    "t": (8,),
    "m": (8,),
    "var": (8,),
    "lw": (1, 20, 8),
    "lr": (1, 20, 5),
    "wm": (5, 6),
    "one": np.array([1]),
    "two": np.array([2], np.float32),
    "none": np.zeros(0, np.float32),
    "twice": np.array([1, 1, 2, 2], np.float32),
}


def graph(text: str, weights: Shapes, side: int = 8) -> ModelProto:
    """The model of nodes in ONNX's text form that read `x` and make `y`; of the weights, those that it names."""
    used = {key: value for key, value in weights.items() if re.search(rf"\b{key}\b", text)}
    made = written(f"g (float[N,3,{side},{side}] x) => (float[N,?,?,?] y) {{ {text} }}", used)
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return load_model(made.SerializeToString())


def network(name: str) -> ModelProto:
    return graph(NETWORKS[name], WEIGHTS)


def quantised(model: ModelProto) -> ModelProto:
    return load_model(quantise(model, images(model))[0].SerializeToString())


def compiled(model: ModelProto, batch: int) -> Artifact:
    return compile_model(quantised(model), TINY, batch)


def agree(found: Explanation, artifact: Artifact) -> None:
    """Checks that each layer and each CPU operator is in the piece that its node's row names, and that no row names another."""
    names = dict.fromkeys((row.name for row in found.rows), "")
    rows = {row.name: row for row in found.rows}
    seen = set()
    for number, piece in enumerate(artifact.manifest["pieces"]):
        assert found.pieces[number] == piece["kind"]
        nodes = piece["layers"] if piece["kind"] == ACCELERATOR else piece["operators"]
        for node in nodes:
            if node["op"] in ("QuantizeLinear", "DequantizeLinear"):
                continue
            source = source_of(node["name"], names)
            assert source is not None, node
            row = rows[source]
            assert number in (row.piece, *row.also), (row, node)
            if row.piece == number:
                assert row.side == piece["kind"], (row, node)
                seen.add(row.name)
    assert len(found.pieces) == len(artifact.pieces)
    assert seen >= {row.name for row in found.rows if row.clocks is not None or (row.side == CPU and not row.folded)}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [1, 2])
def test_rows_are_what_compile_does(name, batch):
    """A wrong row would make users rewrite what runs, or believe that everything runs."""
    model = network(name)
    found, artifact = explain(model, TINY, batch=batch), compiled(model, batch)
    agree(found, artifact)
    manifest = artifact.manifest
    assert (found.macs, found.cpu_macs) == (manifest["macs"], manifest["cpu_macs"])
    speed = end_to_end(manifest["pieces"], artifact.predicted_clocks(), TINY.clock_mhz, batch)
    assert explain(quantised(model), TINY, batch=batch).speed == speed
    # the limits of a float model's maps are not known yet, so its program may have some register writes more or fewer
    assert found.speed is not None
    assert found.speed.accelerator_seconds == pytest.approx(speed.accelerator_seconds, rel=FLOAT_SHARE)
    assert replace(found.speed, accelerator_seconds=speed.accelerator_seconds) == speed
    for of_batch in (sum(row.macs for row in found.rows), sum(time.macs for time in found.times)):
        assert of_batch == batch * (found.macs + found.cpu_macs), "MACs of an image would stand beside clocks of a batch"
    assert sum(row.clocks or 0 for row in found.rows) == found.cycles


@pytest.mark.parametrize("name", NETWORKS)
def test_each_node_has_clocks_or_a_word_why_not(name):
    """A sum that a convolution computes would have neither, and look as if it were forgotten."""
    found = explain(network(name), TINY)
    known = {row.name for row in found.rows}
    for row in found.rows:
        assert row.side == CONSTANT or row.seconds is not None or why(row), row
        assert row.folded is None or row.folded in known - {row.name}, row


def test_a_node_of_a_layer_names_the_one_that_does_its_work():
    """Activations behind a convolution, a product with its own sigmoid, and the sum behind both are one layer."""
    text = "[hs] e = HardSwish (a) [c1] b = Conv <pads=[1,1,1,1]> (e, w2) [sg] c = Sigmoid (b) [mul] d = Mul (b, c)"
    rows = {
        row.name: row for row in explain(graph(f"{STEM} {text} [add] f = Add (d, e) [c2] y = Conv (f, w2)", WEIGHTS), TINY).rows
    }
    assert {name: rows[name].folded for name in ("hs", "mul", "add")} == {"hs": "stem", "mul": "c1", "add": "c1"}
    assert [rows[name].folded for name in ("stem", "c1", "c2")] == [None] * 3
    assert [bool(rows[name].clocks) for name in ("stem", "c1", "c2")] == [True] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[s] y = Softmax (x)", r"nothing runs on the accelerator"),
        (
            "[p] y = MaxPool <kernel_shape=[2,2]> (x)",
            r"there are no MACs; the accelerator takes [\d.]+% of the .* time, the host the rest",
        ),
        (STEM.replace("a =", "y ="), r"100.0% of [\d,]+ MACs an image are on the accelerator; the accelerator takes [\d.]+% of .*"),
    ],
)
def test_shares_say_whose_they_are(text, said):
    """The line would give the accelerator 0.0 % of 0 MACs, or a share of the time that reads as one of the MACs."""
    lines = summary(explain(graph(text, WEIGHTS), TINY), "m.onnx", False)
    assert any(re.fullmatch(said, line) for line in lines), lines


def test_a_part_elsewhere_is_named_in_the_right_number():
    """The line would read "in piece 2, 4"."""
    row = explain(network("flat"), TINY).rows[0]
    assert why(replace(row, also=(1,))).endswith("a part of it is in piece 2")
    assert why(replace(row, also=(1, 3))).endswith("parts of it are in pieces 2 and 4")
    assert why(replace(row, also=(1, 3, 5))).endswith("parts of it are in pieces 2, 4 and 6")


def test_a_change_of_shape_is_no_call_of_onnxruntime():
    """Behind a fully connected layer stands a Reshape to two axes. As a call it would slow every small classifier."""
    flat, soft = (explain(network(name), TINY, native=False) for name in ("flat", "residual"))
    assert flat.pieces == soft.pieces == (ACCELERATOR, CPU)
    assert flat.speed.cpu_seconds < NODE_SECONDS < PIECE_SECONDS < soft.speed.cpu_seconds
    assert flat.speed.latency().slow < soft.speed.latency().slow - PIECE_SECONDS
    assert explain(network("residual"), TINY).speed.cpu_seconds == 0, "the run loop computes a softmax behind the last layer itself"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("flat", "0 on the CPU, 0 refused; 1 piece on the accelerator, 1 on the CPU for a part of 'fc' (Reshape)"),
        ("residual", "1 on the CPU, 0 refused; 1 piece on the accelerator, 1 on the CPU"),
    ],
)
def test_a_piece_of_the_cpu_without_nodes_says_what_it_is_for(name, said):
    """The line would name a piece on the CPU after it has said that nothing runs there."""
    (line,) = (line for line in summary(explain(network(name), TINY), "m.onnx", False) if "nodes: " in line)
    assert line.endswith(said)


def test_reasons_and_rewrites_of_a_gate():
    """Without reasons a user would only learn where each node runs."""
    rows = {row.name: row for row in explain(network("wave"), TINY).rows}
    assert rows["act1"].reason == "the accelerator has no such operator"
    assert rows["stem"].reason is None
    folded = {row.name: row.folded for row in explain(network("residual"), TINY).rows}
    assert (folded["norm"], folded["act"], folded["stem"]) == ("stem", "stem", None)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        (SILU, {"act1": "mul1"}),
        ("[soft] c = Softplus (a) [act1] d = Tanh (c) [mul1] f = Mul (d, a)", {"soft": "mul1", "act1": "mul1"}),
        ("[div] c = Div (a, two) [act1] d = Erf (c) [mul1] f = Mul (a, d)", {"div": "stem", "act1": "mul1"}),
    ],
)
def test_activations_in_several_nodes_run_in_front(text, folded):
    """Whoever reads that SiLU runs on the CPU replaces it and trains again, for nothing."""
    rows = {row.name: row for row in explain(graph(f"{STEM} {text} [last] y = Conv (f, w2)", WEIGHTS), TINY).rows}
    assert {row.side for row in rows.values()} == {ACCELERATOR}
    assert rows["mul1"].clocks is None or rows["mul1"].folded is None


def test_a_steep_function_is_named_with_what_helps():
    """A user would take it for an operator that never runs. Between two layers that round it runs anyway."""
    tail, between = (explain(graph(f"{STEM} {text}", WEIGHTS), TINY) for text in STEEP)
    (row,) = [row for row in tail.rows if row.name == "act1"]
    assert row.side == CPU
    assert row.reason == "its curve is too steep for int8"
    assert row.rewrite.startswith("put Q and DQ around it yourself")
    assert {row.side for row in between.rows} == {ACCELERATOR}


def test_a_gate_runs_where_its_map_is():
    """Its factor is made of a mean over the map: on the CPU, both would cross twice."""
    rows = {row.name: row for row in explain(network("squeeze"), TINY).rows}
    assert rows["scale"].side == rows["gate"].side == ACCELERATOR
    assert rows["scale"].clocks is not None


def test_a_limit_is_named():
    """ "It runs on the CPU" alone does not say what to change."""
    step = STEP_MAX + 1
    model = graph(f"[big] y = Conv <strides=[{step},{step}]> (x, w)", {"w": (2, 3, 1, 1)}, side=4 * step)
    (row,) = explain(model, TINY).rows
    assert row.side == CPU
    assert f"must be at most {STEP_MAX}" in row.reason
    assert row.rewrite == "keep it within that limit"


def test_a_model_of_a_fixed_batch_is_told_to_be_exported_again():
    """All of it would run on the CPU, for a reason that no node can change: a constant holds a value for each of two samples."""
    text = "g (float[2,3,8,8] x) => (float[2,8,8,8] y) { [stem] a = Conv <pads=[1,1,1,1]> (x, w1) y = Add (a, c) }"
    model = written(text, {"w1": (8, 3, 3, 3), "c": (2, 8, 8, 8)})
    stem = explain(load_model(model.SerializeToString()), TINY).rows[0]
    assert stem.side == CPU
    assert stem.reason.endswith("of size 1; export the model for a batch of 1, or of any size")


@pytest.mark.parametrize(
    ("odd", "said"), [("com.microsoft.Nothing (a)", "not a registered"), ("Mod <fmod=0> (a, a)", "running Mod node")]
)
def test_what_onnxruntime_cannot_run_is_refused(odd, said):
    """The node must be found among others that run, whether it fails when it is read or only when it runs."""
    found = explain(graph(f"{STEM} [odd] b = {odd} [act] c = Sin (b) [last] y = Conv (c, w2)", WEIGHTS), TINY)
    rows = {row.name: row for row in found.rows}
    assert [name for name, row in rows.items() if row.side == REFUSED] == ["odd"]
    assert said in rows["odd"].reason
    assert rows["stem"].side == ACCELERATOR
    assert rows["act"].side == CPU
    assert found.speed is None
    assert "node 'odd'" in found.problems[0]
    assert "replace it" in found.problems[0]


@pytest.mark.parametrize(
    "text", [f"{STEM} {SILU} [last] y = Conv (f, w2)", f"{STEM} [c1] d = Conv <pads=[1,1,1,1]> (a, w2) [add] y = Add (d, a)"]
)
def test_float_qdq_and_qoperator_are_placed_alike(text, tmp_path):
    """It would depend on the quantiser where a network runs."""
    model = graph(text, WEIGHTS)
    forms = [model, *(quantised_by_onnxruntime(model, images(model), tmp_path, form) for form in QuantFormat)]
    names = {row.name for row in explain(model, TINY).rows}
    sides = []
    for form in forms:
        found = explain(load_model(form.SerializeToString()), TINY)
        rows = {row.name.removesuffix("_quant"): (row.op.removeprefix("QLinear"), row.side, row.piece) for row in found.rows}
        sides.append(({name: rows[name] for name in names}, found.pieces))
        assert found.assumed == (form is model)
    assert sides[0] == sides[1] == sides[2]


def test_constants_are_neither_here_nor_there():
    """A node that no input reaches is computed once, while the model is compiled."""
    rows = {row.name: row for row in explain(graph("[k] k = Neg (w) [y] y = Conv (x, k)", {"w": (2, 3, 1, 1)}), TINY).rows}
    assert rows["k"].side == CONSTANT
    assert rows["y"].side == ACCELERATOR
    assert REFUSED not in {row.side for row in rows.values()}


@pytest.mark.parametrize("kind", ["int64", "bool", "uint8"])
def test_inputs_of_other_types(kind):
    """The sample for the ranges must have the input's type; otherwise a model with a mask or a length would be refused."""
    nodes = "[c] a = Conv (x, w) [t] b = Cast <to=1> (k) [m] y = Mod <fmod=1> (a, b)"
    text = f"g (float[N,3,8,8] x, {kind}[N,4,8,8] k) => (float[N,4,8,8] y) {{ {nodes} }}"
    found = explain(load_model(written(text, {"w": (4, 3, 1, 1)}).SerializeToString()), TINY)
    assert [(row.name, row.side) for row in found.rows] == [("c", ACCELERATOR), ("t", CPU), ("m", CPU)]
    assert not found.problems


def test_a_models_own_integers_on_the_cpu():
    """Tried alone, a Conv would get the integers in place of real numbers, and be called refused, while `compile` takes it."""
    nodes = "d = DequantizeLinear (x, s, z) [c] a = Conv (d, w) y = QuantizeLinear (a, s, z) v = QuantizeLinear (a, t, z)"
    text = f"g (uint8[N,3,8,8] x) => (uint8[N,4,8,8] y, uint8[N,4,8,8] v) {{ {nodes} }}"
    scales = {"s": np.float32(0.02), "t": np.float32(0.03), "z": np.uint8(120)}
    found = explain(load_model(written(text, {**scales, "w": (4, 3, 1, 1)}).SerializeToString()), TINY)
    assert {row.side for row in found.rows} == {CPU}
    assert not found.problems
