"""`--check` takes each tensor behind the rounding that its piece gives it, and still finds a piece that is wrong."""

from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.host.model.model import Model
from cnna.sim.reference.same_rounding import with_roundings
from cnna.spec.artifact import Artifact, CpuPiece
from cnna.spec.config import preset
from cnna.spec.errors import CheckError

from ...compiler.written import Constant, answers, written

X = np.random.default_rng(900_001).normal(0, 2, (2, 2, 6, 4)).astype(np.float32)
CONSTANTS: dict[str, Constant] = {
    "one": np.float32(0.041), "m": np.int8(-14), "two": np.float32(0.033), "n": np.int8(16),
    "w": np.full((3, 2, 1, 1), 50, np.int8), "v": np.full((3, 6, 1, 1), 50, np.int8),
    "f": np.float32(0.01), "b": np.array([1]), "e": np.array([4]), "last": np.array([3]),
}  # fmt: skip
ROUND = "{q} = QuantizeLinear ({x}, {s}, {z}) {y} = DequantizeLinear ({q}, {s}, {z})"


def rounding(y: str, x: str, which: str) -> str:
    scale, zero = {"one": ("one", "m"), "two": ("two", "n")}[which]
    return ROUND.format(q=f"{y}_q", x=x, y=y, s=scale, z=zero)


def layer(x: str, y: str, weights: str = "w") -> str:
    """A layer of int8 that reads a rounded tensor."""
    return f"{y}_w = DequantizeLinear ({weights}, f) {y}_c = Conv ({x}, {y}_w) {rounding(y, f'{y}_c', 'one')}"


FLIP = "Transpose <perm=[0,2,1,3]>"
MODELS = {  # the input goes beyond what either rounding holds
    "rounded again": f"{rounding('a', 'x', 'one')} {rounding('k', 'a', 'two')} y = {FLIP} (k) "
    f"s = Slice (a, b, e, last) {rounding('t', 's', 'two')} {layer('t', 'z')}",
    "rounded again beside a view": f"{rounding('a', 'x', 'one')} {rounding('k', 'a', 'two')} q = Relu (k) t = {FLIP} (x) "
    f"{rounding('p', 'q', 'one')} {layer('p', 'z')} {rounding('o', 't', 'two')} {layer('o', 'y', 'v')}",
    "a view of what is rounded": f"{rounding('a', 'x', 'one')} t = {FLIP} (a) y = Neg (t) {rounding('r', 't', 'two')} "
    f"{layer('r', 'z', 'v')}",
    "a view that is rounded again": f"{rounding('a', 'x', 'one')} t = {FLIP} (a) {rounding('r', 't', 'two')} y = Sin (r) "
    f"{layer('a', 'z')}",
    "a view before its rounding": f"t = {FLIP} (x) {rounding('r', 't', 'one')} y = Sin (r) {layer('r', 'z', 'v')}",
    "views before their rounding": f"h, i = Split <axis=2> (x) t = {FLIP} (h) u = Slice (t, b, e, last) "
    f"{rounding('r', 'u', 'one')} {rounding('k', 'i', 'one')} y = Sin (k) z = Neg (r)",
    "two roundings": f"t = {FLIP} (x) {rounding('r', 't', 'one')} {rounding('y', 't', 'two')} {layer('r', 'z', 'v')}",
}  # fmt: skip


@cache
def artifact_of(name: str) -> tuple[ModelProto, Artifact]:
    text = MODELS[name]
    used = set(text.replace(",", " ").replace(")", " ").replace("(", " ").split())
    constants = {key: value for key, value in CONSTANTS.items() if key in used}
    model = written(f"g (float[N,2,6,4] x) => (float[N,c,h,u] y, float[N,d,i,k] z) {{ {text} }}", constants)
    model = load_model(model.SerializeToString())
    return model, compile_model(model, preset("tiny"))


def damaged(artifact: Artifact, kind: str) -> list[Artifact]:
    """The artifact with a fault of this kind, one for each place in its pieces on the CPU."""
    found = []
    for number, piece in enumerate(artifact.pieces):
        if not isinstance(piece, CpuPiece):
            continue
        for place in range(len(onnx.load_from_string(piece.model).graph.node)):
            model = onnx.load_from_string(piece.model)
            if _damage(model, place, kind):
                pieces = [*artifact.pieces]
                pieces[number] = replace(piece, model=model.SerializeToString())
                found.append(replace(artifact, pieces=tuple(pieces)))
    return found


def _damage(model: ModelProto, place: int, kind: str) -> bool:
    """Whether a node could be given the fault."""
    node = model.graph.node[place]
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    if kind == "operator" and node.op_type in ("Neg", "Sin"):
        node.op_type = "Tanh"
        return True
    if kind == "zero point" and node.op_type == "QuantizeLinear":
        constants[node.input[2]].CopyFrom(numpy_helper.from_array(np.array(50, np.int8), node.input[2]))
        return True
    if kind == "rounding" and node.op_type == "QuantizeLinear":
        constants[node.input[1]].CopyFrom(numpy_helper.from_array(np.array(0.5, np.float32), node.input[1]))
        return True
    return False


@pytest.mark.parametrize("name", MODELS)
def test_a_right_piece_raises_no_alarm(name: str) -> None:
    """What saturates differs by far more than the tolerance before and behind its rounding; a right piece was called wrong."""
    model, artifact = artifact_of(name)
    with Model(artifact, "emulator", check=True) as opened:
        found = opened.run({"x": X})
        assert opened.cpu_agreement is None or opened.cpu_agreement.tensors >= 1
    for key, number in (("y", 0), ("z", 1)):
        wanted = np.concatenate([answers(model, {"x": X[n : n + 1]})[number] for n in range(2)])
        assert np.abs(found[key] - wanted).max() <= 0.042, key  # a step, where a sum lies on the border of two


@pytest.mark.parametrize("kind", ["operator", "zero point", "rounding"])
@pytest.mark.parametrize("name", MODELS)
def test_a_wrong_piece_is_still_found(name: str, kind: str) -> None:
    """A check that takes its roundings from the piece would call a piece right that rounds with other numbers."""
    _, artifact = artifact_of(name)
    with Model(artifact, "emulator") as opened:
        right = opened.run({"x": X})
    for wrong in damaged(artifact, kind):
        with Model(wrong, "emulator") as opened:
            other = opened.run({"x": X})
        if all(np.allclose(other[key], right[key], atol=0.1) for key in right):
            continue  # nothing that anybody sees is wrong
        with Model(wrong, "emulator", check=True) as opened, pytest.raises(CheckError, match="on the CPU != quantised model"):
            opened.run({"x": X})


def test_there_are_faults_to_find() -> None:
    """Without any, the test above would pass whatever the check does."""
    assert sum(len(damaged(artifact_of(name)[1], kind)) for name in MODELS for kind in ("operator", "zero point", "rounding")) > 20


def test_a_rounding_that_not_all_readers_share_is_not_taken() -> None:
    """A piece that rounds a tensor which the model also reads as it is would be compared behind that rounding, and called right."""
    text = (
        f"g (float[N,2,6,4] x) => (float[N,6,2,4] y, float[N,6,2,4] z) {{ t = {FLIP} (x) {rounding('y', 't', 'one')} z = Neg (t) }}"
    )
    model = written(text, {"one": CONSTANTS["one"], "m": CONSTANTS["m"]})
    part = written(text.replace("QuantizeLinear (t", "QuantizeLinear (k").replace("t = T", "k = T").replace("y = D", "t = D"),
                   {"one": CONSTANTS["one"], "m": CONSTANTS["m"]})  # fmt: skip
    assert with_roundings(model, part, ["t"]) == {"t": "t"}
