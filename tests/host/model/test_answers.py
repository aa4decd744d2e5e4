"""Outputs of every layout: one sample has the source model's answer, several are joined along the batch, on every device.

Scales are powers of two, so the answers are onnxruntime's to the bit. The source model is asked sample by sample.
"""

import re

import numpy as np
import pytest

from cnna.cli.main import main
from cnna.compiler.compile import compile_model
from cnna.host.model.board_model import BoardModel
from cnna.host.model.model import Model
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.errors import ArtifactError
from cnna.spec.manifest import TRACED

from ...compiler.pairs import with_pairs
from ...compiler.written import answers, images, written
from ..emulated_board import EmulatedBoard
from ..hand_made import SHAPE, expected, requantised_copy, samples

IN, MID = (1 / 32, 3), (1 / 16, -5)
STEPS = "p = MaxPool <kernel_shape=[2,1], strides=[2,1]> (c) s = Squeeze (p, n2) t = Transpose <perm=[2,0,1]> (s)"  # [8, N, 6]
MEAN = "g = GlobalAveragePool (c)"
BATCH = "h = Shape (c) b = Gather (h, n0)"
BEST = f"{MEAN} f = Flatten (g) a = ArgMax <axis=1, keepdims=0> (f)"
COLUMN = f"{MEAN} f = Flatten (g) t = Transpose <perm=[1,0]> (f)"  # [6, N]
CONSTANTS = {
    "w": (6, 3, 3, 3), "anchors": (24, 4), "layer": (6, 4), "left": (5, 6), "table": (6, 5), "wide": (1, 32, 6), "turn": (1, 32, 8),
    "half": np.float32(0.5), "many": np.float32(200), "fine": np.float32(1 / 128), "depth": np.array(6),
    "ends": np.array([0, 1], np.float32), "scalar0": np.array(0), "n0": np.array([0]), "n00": np.array([0, 0]), "n2": np.array([2]),
    "n3": np.array([3]), "n4": np.array([4]), "n23": np.array([2, 3]), "open": np.array([-1]), "open_4": np.array([-1, 4]),
    "one_open_4": np.array([1, -1, 4]), "whole_24_4": np.array([24, 4]), "open_6": np.array([-1, 6]), "again": np.array([8, 1, -1]),
    "thrice": np.array([3, 1, 1, 1]), "thrice1": np.array([1, 3, 1, 1]), "new3": np.array([3, 1, 1, 1, 1]),
}  # fmt: skip
BRANCH = """m = ReduceMax <keepdims=0> (c) big = Greater (m, half)
    y = If (big) <then_branch = a () => (float[?,?,?,?] o) { o = Sin (c) },
                  else_branch = b () => (float[?,?,?,?] o) { o = Atan (c) }>"""
TAILS = {  # type of y, its axis of the batch or None, nodes behind c = Conv (x), which is [N, 6, 2, 8]
    "no tail": ("float[?,?,?,?]", 0, "y = Relu (c)"),
    "batch in front": ("float[?,?,?,?]", 0, "y = Softmax <axis=1> (c)"),
    "boxes": ("float[?,?]", 0, "y = Reshape (c, open_4)"),
    "boxes, turned": ("float[?,?]", 0, "t = Transpose <perm=[0,2,3,1]> (c) r = Reshape (t, open_4) y = Sin (r)"),
    "boxes of one image": ("float[?,?]", 0, "r = Reshape (c, whole_24_4) y = Add (r, anchors)"),
    "boxes in a batch of one": ("float[?,?,?]", 0, "y = Reshape (c, one_open_4)"),
    "boxes, shape computed": ("float[?,?,?]", 0, f"{BATCH} q = Concat <axis=0> (b, open, n4) y = Reshape (c, q)"),
    "boxes and back": ("float[?,?,?]", 0, "r = Reshape (c, open_4) y = Reshape (r, one_open_4)"),
    "boxes in columns": ("float[?,?]", 1, "r = Reshape (c, open_4) y = Transpose <perm=[1,0]> (r)"),
    "one row": ("float[?]", 0, "y = Reshape (c, open)"),
    "flatten 0": ("float[?,?]", 1, "y = Flatten <axis=0> (c)"),
    "flatten 2": ("float[?,?]", 0, "y = Flatten <axis=2> (c)"),
    "flatten 3": ("float[?,?]", 0, "y = Flatten <axis=3> (c)"),
    "flatten 4": ("float[?,?]", 0, "y = Flatten <axis=4> (c)"),
    "squeeze": ("float[?]", None, f"{MEAN} y = Squeeze (g)"),
    "squeeze of maps": ("float[?,?]", 0, f"{MEAN} y = Squeeze (g, n23)"),
    "squeeze of the batch": ("float[?,?,?]", None, "y = Squeeze (c, n0)"),
    "unsqueeze": ("float[?,?,?,?,?]", 1, "y = Unsqueeze (c, n0)"),
    "tile of channels": ("float[?,?,?,?]", 0, "r = Tile (c, thrice1) y = Sin (r)"),
    "tile of the batch": ("float[?,?,?,?]", None, "y = Tile (c, thrice)"),
    "concat of channels": ("float[?,?,?,?]", 0, "s = Sin (c) y = Concat <axis=1> (c, s)"),
    "concat of the batch": ("float[?,?,?,?]", None, "s = Sin (c) y = Concat <axis=0> (c, s)"),
    "half of the channels": ("float[?,?,?,?]", 0, "s, y = Split <axis=1, num_outputs=2> (c)"),
    "a sample": ("float[?,?,?]", None, "y = Gather (c, scalar0)"),
    "samples": ("float[?,?,?,?]", None, "y = Gather (c, n00)"),
    "a channel": ("float[?,?,?]", 0, "t = Transpose <perm=[1,0,2,3]> (c) y = Gather (t, scalar0)"),
    "channels": ("float[?,?,?,?]", 1, "t = Transpose <perm=[1,0,2,3]> (c) y = Gather (t, n00)"),
    "expand of the batch": ("float[?,?,?,?]", None, "y = Expand (c, thrice)"),
    "expand to a new axis": ("float[?,?,?,?,?]", 1, "y = Expand (c, new3)"),
    "transpose": ("float[?,?,?,?]", 1, "y = Transpose <perm=[1,0,2,3]> (c)"),
    "transpose to the end": ("float[?,?,?,?]", 3, "y = Transpose <perm=[3,2,1,0]> (c)"),
    "time steps": ("float[?,?,?]", 1, f"{STEPS} y = Softmax <axis=2> (t)"),
    "time steps in rows": ("float[?,?]", None, f"{STEPS} y = Reshape (t, open_6)"),
    "a layer for time steps": ("float[?,?,?]", 1, f"{STEPS} r = Reshape (t, open_6) l = Gemm (r, layer) y = Reshape (l, again)"),
    "LSTM": ("float[?,?,?,?]", 2, f"{STEPS} y, h, z = LSTM <hidden_size=8> (t, wide, turn)"),
    "LSTM's last state": ("float[?,?,?]", 1, f"{STEPS} l, y, z = LSTM <hidden_size=8> (t, wide, turn)"),
    "sum of the batch": ("float[?,?,?]", None, "y = ReduceSum <keepdims=0> (c, n0)"),
    "mean over rows": ("float[?,?,?]", 0, "t = Transpose <perm=[2,0,1,3]> (c) y = ReduceMean <keepdims=0> (t, n0)"),
    "products of maps": ("float[?,?,?,?]", 0, "t = Transpose <perm=[0,1,3,2]> (c) y = MatMul (c, t)"),
    "columns": ("float[?,?]", 1, f"{COLUMN} y = MatMul (left, t)"),
    "columns by letters": ("float[?,?]", 0, f'{COLUMN} y = Einsum <equation="ij,jn->ni"> (left, t)'),
    "best channel": ("int64[?,?,?]", 0, "y = ArgMax <axis=1, keepdims=0> (c)"),
    "places of the best": ("int64[?,?]", 0, f"{MEAN} f = Flatten (g) v, y = TopK (f, n3)"),
    "mask": ("bool[?,?,?,?]", 0, "y = Greater (c, half)"),
    "few bits": ("uint8[?,?,?,?]", 0, "s = Sin (c) l = Mul (s, many) y = Cast <to=2> (l)"),
    "rounded": ("uint8[?,?,?,?]", 0, "s = Sin (c) y = QuantizeLinear (s, fine)"),
    "rows of a table": ("float[?,?]", 0, f"{BEST} y = Gather (table, a)"),
    "a branch": ("float[?,?,?,?]", None, BRANCH),
    "a branch whose batch has a name": ("float[N,6,2,8]", 0, BRANCH),
    "a part of a sequence": ("float[?,?,?,?]", 0, "s = SplitToSequence <axis=1> (c) y = SequenceAt (s, scalar0)"),
    "one hot": ("float[?,?]", 1, f"{BEST} y = OneHot <axis=0> (a, depth, ends)"),
}  # fmt: skip


def network(kind, tail):
    """A quantised convolution, and a tail of float operators that the accelerator leaves to the CPU."""
    text = f"g (float[N,3,4,8] x) => ({kind} y) {{ c = Conv <kernel_shape=[3,3], pads=[0,1,0,1]> (x, w) {tail} }}"
    named = set(re.findall(r"\w+", text))
    model = written(text, {name: value for name, value in CONSTANTS.items() if name in named}, opset=18)
    return with_pairs(model, {"x": IN, "c": MID}, {"w": 1 / 64})


@pytest.mark.parametrize("case", TAILS)
def test_several_samples_are_joined_along_the_batch(case):
    """If the first axis were taken for the batch, only the first rows of a box head or a sequence would be answered."""
    kind, axis, tail = TAILS[case]
    model = network(kind, tail)
    x = images(model)["x"]
    single = [answers(model, {"x": x[i : i + 1]})[0] for i in range(len(x))]
    with Model(compile_model(model, preset("tiny"), batch=2), device="reference") as compiled:
        same(compiled.run(x[:1]), single[0])
        same(compiled.run(x), np.stack(single) if axis is None else np.concatenate(single, axis))
        assert compiled.manifest["model_outputs"] == [
            {"name": "y", "shape": list(single[0].shape), "dtype": str(single[0].dtype), "batch_axis": axis}
        ]


def same(got, wanted):
    """Compares shape, type and values; float products may be summed in another order."""
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 if got.dtype == np.float32 else 0)


NAMED = """g (float[N,3,4,8] x) => (float[?,?] rows, int64[?,?] places, float[?,?,?,?] c, float[?,?] flat) {
    c = Conv <kernel_shape=[3,3], pads=[0,1,0,1]> (x, w)
    m = Greater (c, half) places = NonZero (m)
    rows = Reshape (c, open_4) f = Flatten (c) t = Transpose <perm=[1,0]> (f) flat = Sin (t) }"""


def test_every_way_to_a_device_joins_alike(tmp_path, capsys):
    """Outputs whose size depends on the data differ between samples, so each sample must keep its own.

    Types must stay, in files too.
    """
    model = with_pairs(
        written(NAMED, {name: CONSTANTS[name] for name in ("w", "half", "open_4")}), {"x": IN, "c": MID}, {"w": 1 / 64}
    )
    x = images(model)["x"]
    rows, places, maps, flat = zip(*(answers(model, {"x": x[i : i + 1]}) for i in range(len(x))), strict=True)
    numbered = {f"places.{number}": y for number, y in enumerate(places)}
    wanted = {"rows": np.concatenate(rows), **numbered, "c": np.concatenate(maps), "flat": np.concatenate(flat, 1)}
    artifact = compile_model(model, preset("tiny"), batch=2)
    for device in ("emulator", "reference"):
        with Model(artifact, device=device, check=True) as compiled:
            agree(compiled.run({"x": x}), wanted)
            agree(compiled.run(x[:1]), {"rows": rows[0], "places": places[0], "c": maps[0], "flat": flat[0]})
    with BoardModel(artifact, EmulatedBoard()) as session:
        agree(session.run(x), wanted)
        first, last = session.stream([x[:2], x[2:]])
        numbered.pop("places.2")
        agree(first, {"rows": wanted["rows"][:48], **numbered, "c": wanted["c"][:2], "flat": wanted["flat"][:, :2]})
        agree(last, {"rows": rows[2], "places": places[2], "c": maps[2], "flat": flat[2]})
    save(artifact, tmp_path / "m.cnna")
    np.save(tmp_path / "x.npy", x)
    options = ["--device", "emulator", "--check", "--input", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz")]
    assert main(["run", str(tmp_path / "m.cnna"), *options]) == 0
    with np.load(tmp_path / "y.npz") as file:
        agree(file, wanted)


def agree(found, wanted):
    """Compares names, their order, and arrays."""
    assert list(found) == list(wanted)
    for name, y in wanted.items():
        same(found[name], y)


HEADS = {  # what the CPU does before c = Conv (h, w); the batch's axis in t, which the head makes too
    "time first": ("t = Transpose <perm=[1,0,2,3]> (x) s = Sin (t) h = Transpose <perm=[1,0,2,3]> (s)", 1),
    "rows": ("s = Sin (x) t = Reshape (s, open_4) h = Reshape (t, maps)", 0),
    "no batch": ("s = Sin (x) t = Squeeze (s, n0) h = Unsqueeze (t, n0)", None),
}


@pytest.mark.parametrize("case", HEADS)
def test_a_head_may_move_the_batch(case):
    """What the head makes for the accelerator, the tail or the user would be cut to as many rows as there are samples."""
    head, axis = HEADS[case]
    shape = "float[?,?]" if case == "rows" else "float[?,?,?]" if axis is None else "float[?,?,?,?]"
    text = f"g (float[N,3,4,8] x) => ({shape} t, float[?,?,?,?] c) {{ {head} c = Conv <kernel_shape=[3,3]> (h, w) }}"
    constants = {name: value for name, value in CONSTANTS.items() if name in re.findall(r"\w+", text)}
    model = with_pairs(written(text, {**constants, "maps": np.array([-1, 3, 4, 8])}), {"h": IN, "c": MID}, {"w": 1 / 64})
    x = images(model)["x"]
    tensors, maps = zip(*(answers(model, {"x": x[i : i + 1]}) for i in range(len(x))), strict=True)
    with Model(compile_model(model, preset("tiny"), batch=2), device="reference") as compiled:
        joined = np.stack(tensors) if axis is None else np.concatenate(tensors, axis)
        agree(compiled.run(x), {"t": joined, "c": np.concatenate(maps)})


def test_several_maps_of_a_sample_are_no_batch():
    """A convolution of [2, ...] for one sample would lose the second half: it must stay on the CPU, as must what follows it."""
    text = """g (float[N,3,4,8] x) => (float[?,?,?,?] y) { d = Conv <kernel_shape=[3,3], pads=[0,1,0,1]> (x, w)
        r = Reshape (d, halves) c = Conv <kernel_shape=[1,1]> (r, v) y = Sin (c) }"""
    model = written(text, {"w": (6, 3, 3, 3), "v": (4, 3, 1, 1), "halves": np.array([-1, 3, 2, 8])})
    model = with_pairs(model, {"x": IN, "d": MID, "c": MID}, {"w": 1 / 64, "v": 1 / 64})
    x = images(model)["x"]
    with Model(compile_model(model, preset("tiny")), device="reference") as compiled:
        assert [layer["op"] for layer in compiled.artifact.program.manifest["layers"]] == ["Conv"]
        same(compiled.run(x), np.concatenate([answers(model, {"x": x[i : i + 1]})[0] for i in range(len(x))]))


@pytest.mark.parametrize("axis", [4, -1, "0"])
def test_a_batch_axis_that_the_output_has_not_is_refused(axis, tmp_path):
    """An edited file would end in numpy's own message in the middle of a run."""
    entry = {"name": "y", "shape": [1, *SHAPE], "dtype": "float32", "batch_axis": axis}
    with pytest.raises(ArtifactError, match="batch_axis"):
        save(requantised_copy(model_outputs=[entry]), tmp_path / "m.cnna")


def test_a_file_from_before_the_batch_was_traced_is_believed_if_it_fits():
    """Its shapes have no batch, which is the first axis. An answer of another shape must be refused and not cut."""
    entry, x = {"name": "y", "shape": list(SHAPE), "dtype": "float32"}, samples(3)
    with Model(requantised_copy(schema=TRACED - 1, model_outputs=[entry])) as model:
        assert np.array_equal(model.run(x), expected(x))
    entry["shape"] = [SHAPE[0]]
    refused = pytest.raises(
        ArtifactError, match=r"output y has shape \[1, 6, 3, 4\], but the artifact says \[1, 6\]; compile it again"
    )
    with Model(requantised_copy(schema=TRACED - 1, model_outputs=[entry])) as model, refused:
        model.run(x)
