"""Points of an exploration that the RTL confirms: what is run, what is said of it, and what is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from cnna import explore, quantize
from cnna.compiler.explore.explore import evaluate
from cnna.compiler.explore.point import option
from cnna.compiler.frontend.onnx_model.smaller import image_size, sizes, smaller
from cnna.compiler.placements import Placements
from cnna.jobs.explore import confirm
from cnna.jobs.explore.confirm import Confirmation, Confirmed, Means, confirmed
from cnna.jobs.options.ddr import Ddr
from cnna.sim.rtl.cache import private
from cnna.spec.config import preset
from cnna.spec.errors import UserError
from cnna.spec.files import default_cache

TINY = preset("tiny")
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1,3,64,96] x) => (float[1,5] y)
<float[8,3,3,3] w, float[5,8] v, float[5] b>
{ c = Conv<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x, w)
  r = Relu(c)
  p = GlobalAveragePool(r)
  f = Flatten(p)
  y = Gemm<transB=1>(f, v, b) }"""


def quantised(text: str = NETWORK) -> onnx.ModelProto:
    """The network in int8, with random weights."""
    rng, model = np.random.default_rng(5), onnx.parser.parse_model(text)
    shapes = {"w": (8, 3, 3, 3), **({"v": (5, 8), "b": (5,)} if "Gemm" in text else {})}
    weights = [onnx.numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name) for name, shape in shapes.items()]
    model.graph.initializer.extend(weights)
    rows, columns = image_size(model) or (0, 0)
    return quantize(model, {"x": rng.normal(size=(2, 3, rows, columns)).astype(np.float32)}).proto


def means(cache: Path, size: int | None = None, latency: int | None = None) -> Means:
    """Nobody watches."""
    return Means(Ddr(latency=latency), cache, size, lambda done, total, what: None)


def test_a_smaller_model_has_the_same_nodes() -> None:
    """What is confirmed would be another network, or images would be bent."""
    whole = quantised()
    assert sizes(whole) == [32]
    made = smaller(whole, 64)
    assert made is not None
    assert image_size(made) == (32, 64)
    assert [(node.op_type, node.name) for node in made.graph.node] == [(node.op_type, node.name) for node in whole.graph.node]
    assert made.graph.initializer == whole.graph.initializer
    assert image_size(whole) == (64, 96), "the model itself must stay as it is"


def test_a_model_that_names_its_pixels_cannot_be_smaller(tmp_path: Path) -> None:
    """It would run something else, or fail with an error of a library."""
    fixed = NETWORK.replace("GlobalAveragePool(r)", "Reshape(r, s)").replace("Flatten(p)", "ReduceMean<axes=[2], keepdims=0>(p)")
    network = Placements(quantised(fixed.replace("float[5] b>", "float[5] b, int64[3] s = {1, 8, 1536}>")))
    point = evaluate(network.pieces(TINY), TINY, 1)
    with pytest.raises(UserError, match=r"net does not run with images of 64 pixels, .* --confirm-size 96 runs it whole"):
        list(confirmed([point], [network], means(tmp_path, size=64)))


@pytest.mark.cosim
def test_the_rtl_confirms_a_point_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The predictor would be compared with itself, with another DDR or another size, or minutes of simulation be lost."""
    built = private(default_cache()) / "simulators"  # other tests' simulators will do, but counts must not be found
    private(built)
    (tmp_path / built.name).symlink_to(built)
    network = Placements(quantised())
    point = evaluate(network.pieces(TINY), TINY, 2)
    (whole,) = confirmed([point], [network], means(tmp_path))
    assert (whole.size, whole.batch, whole.config) == (None, 2, option(TINY))
    assert abs(whole.missed) < 0.05
    assert whole.predicted == point.cycles
    (small,) = confirmed([point], [network], means(tmp_path, size=32))
    assert small.size == (32, 32)
    assert small.counted < whole.counted
    (late,) = confirmed([point], [network], means(tmp_path, size=32, latency=400))
    assert late.counted > 1.2 * small.counted
    assert abs(late.missed) < 0.1, "of some 4,000 clocks"
    monkeypatch.setattr(confirm, "_counted", None)  # nothing is run a second time
    again = [*confirmed([point], [network], means(tmp_path)), *confirmed([point], [network], means(tmp_path, size=32))]
    assert again == [whole, small]


FIXED = """<ir_version: 8, opset_import: ["" : 17]>
fixed (float[1,3,64,64] x) => (float[1,8,1024] y)
<float[8,3,3,3] w, int64[3] shape = {1, 8, 1024}>
{ c = Conv<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x, w)
  y = Reshape(c, shape) }"""


@pytest.mark.parametrize(
    ("text", "size", "said"),
    [
        (NETWORK, 0, "--confirm-size 0: must be at least 1 pixel"),
        (NETWORK, 40, "--confirm-size 40: must be a multiple of 32"),
        (NETWORK, 128, "--confirm-size 128: net: its images are 64x96"),
        (FIXED, 32, "fixed does not run with images of 32 pixels.*; --confirm-size 64 runs it whole"),
    ],
)
def test_a_size_that_is_none_is_refused_before_the_sweep(text: str, size: int, said: str) -> None:
    """A user would hear it after minutes of work."""

    def found(figures: object) -> None:
        raise AssertionError("something was compiled")

    with pytest.raises(UserError, match=said):
        explore(quantised(text), dsp=100, confirm_size=size, found=found)


def test_the_table_says_by_how_much() -> None:
    """A prediction that is too high would be taken for one that is too low, or both kinds of clocks share a column."""
    run = Confirmed("net", "zcu102", 1, (64, 64), 101_000, 100_000)
    text = str(Confirmation(runs=(run, replace(run, size=None, predicted=99_000))))
    heads, first, second, about = text.splitlines()
    assert "clocks, predicted" in heads
    assert "clocks, RTL" in heads
    assert first.split() == ["zcu102", "1", "64x64", "101,000", "100,000", "+1.00%"]
    assert second.split()[2:] == ["whole", "99,000", "100,000", "-1.00%"]
    assert "until a run takes at most 500,000 clocks or they have 32 pixels" in about
    assert run.figures()["missed"] == pytest.approx(0.01)
