"""Heads are found by their structure, whatever exporter wrote them; what is no detector is said not to be one."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.heads.find import Missed, agree, with_detector
from cnna.compiler.heads.sources import arrangements
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import preset
from cnna.spec.detection.decode import Candidates, Labels, candidates
from cnna.spec.detection.heads import Heads, heads_of

from ... import detector_models
from ..written import images, written
from .disguise import disguised


@pytest.mark.parametrize("name", detector_models.VARIANTS)
def test_found(name: str) -> None:
    """Users of that exporter would decode all boxes in float."""
    found = detector_models.made(name).found
    assert isinstance(found, Heads), found
    variant = detector_models.VARIANTS[name]
    assert found.entry["family"] == variant.family
    assert found.entry["labels"] == 4
    assert (found.entry["grids"][0]["objectness"] is not None) == variant.objectness


@pytest.mark.parametrize("name", ["yolov5", "yolov8 joined first"])
def test_names_order_and_constants_do_not_matter(name: str) -> None:
    """Heads would be known by their names, and those of another exporter or opset would not be found."""
    plain = detector_models.made(name).found
    found = detector_models.compiled(detector_models.quantised(disguised(detector_models.model(name), 3))).found
    assert isinstance(plain, Heads)
    assert isinstance(found, Heads), found
    assert len(found.entry["grids"]) == len(plain.entry["grids"])
    assert found.entry["family"] == plain.entry["family"]


def test_an_old_opset_is_the_same() -> None:
    """Split, Softmax and Slice of opset 11 have attributes where later ones have inputs."""
    model = detector_models.model("yolov5")
    for node in model.graph.node:
        if node.op_type == "Split":
            del node.input[1:]
            node.attribute.append(helper.make_attribute("split", [2, 2, 5]))
    model.opset_import[0].version = 11
    found = detector_models.compiled(detector_models.quantised(model)).found
    assert isinstance(found, Heads), found


def _least(scores: np.ndarray, passing: str) -> float:
    """A threshold that none, one, some or all of the scores pass, in the middle between two of them."""
    order = np.unique(scores.astype(np.float64))
    places = {"none": len(order), "one": len(order) - 1, "some": int(0.9 * len(order)), "all": 0}
    place = places[passing]
    return 2.0 if place == len(order) else 0.0 if not place else float(order[place - 1] + order[place]) / 2


@pytest.mark.parametrize("labels", ["all", "best"])
@pytest.mark.parametrize("passing", ["none", "one", "some", "all"])
@pytest.mark.parametrize("name", detector_models.VARIANTS)
def test_decode_is_that_of_the_whole_output(name: str, passing: str, labels: Labels) -> None:
    """Boxes would lie elsewhere than the model says, or scores at the threshold would be lost."""
    made = detector_models.made(name)
    assert isinstance(made.found, Heads)
    tensors = [np.random.default_rng(5).integers(-128, 128, shape).astype(np.int8) for shape in made.found.shapes]
    boxes, scores = detector_models.rows_of(name, detector_models.outputs_of_heads(made, tensors))
    counted = scores if labels == "all" else scores.max(axis=1)
    least = _least(counted, passing)
    found = candidates(made.found, tensors, least, labels, scores.size)
    sure = (counted >= least + 1e-6).sum(), (counted >= least - 1e-6).sum()
    assert sure[0] <= len(found.rows) <= sure[1]
    assert (len(found.rows) == 0) == (passing == "none")
    assert np.abs(found.scores - scores[found.rows, found.classes]).max(initial=0) <= 1e-6
    scale = np.maximum(np.abs(boxes[found.rows]), detector_models.SIDE)
    assert (np.abs(found.boxes - boxes[found.rows]) / scale).max(initial=0) <= 1e-4
    assert (np.diff(found.scores) <= 0).all()
    if labels == "best":
        assert (found.scores >= scores[found.rows].max(axis=1) - 1e-6).all()


def test_a_manifest_brings_the_heads_back() -> None:
    """A file would decode otherwise than the compiler has proved."""
    made = detector_models.made("yolov8")
    assert isinstance(made.found, Heads)
    again = heads_of(made.artifact.manifest["detector"], made.found.shapes, "m")
    assert np.array_equal(again.tables, made.found.tables)
    assert again.said() == "YOLOv8: 320 boxes on maps of 16x16, 8x8, 4 classes"


FALLING = ("{l}_score = Sigmoid ({l}_s)", "{l}_neg = Neg ({l}_s) {l}_score = Sigmoid ({l}_neg)")
TWO_FACED = ("{l}_score = Sigmoid ({l}_s)", "{l}_score = Softmax <axis=1> ({l}_s)")
MISSES: dict[str, tuple[Callable[[str], str], str]] = {
    "falls": (lambda text: text.replace(*FALLING), "should be a score that rises"),
    "softmax": (lambda text: text.replace(*TWO_FACED), "each score should be a function of one integer"),
}


@pytest.mark.parametrize("how", MISSES)
def test_a_miss_says_where_the_structure_breaks_off(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user would not know why a detector is slow, or would get boxes that the model does not have."""
    change, said = MISSES[how]
    plain = detector_models.VARIANTS["yolov8"]
    monkeypatch.setitem(detector_models.VARIANTS, "changed", plain._replace(text=change(plain.text)))
    found = detector_models.compiled(detector_models.quantised(detector_models.model("changed"))).found
    assert isinstance(found, Missed)
    assert said in str(found)


def test_rounding_inside_of_a_mean_is_a_miss() -> None:
    """Boxes would differ from those of the model, whose softmax is rounded."""
    int8 = quantise(detector_models.model("yolov8"), {"x": detector_models.pictures(4)}, preprocess=detector_models.HOW)[0]
    assert "quantise it with --detector auto" in str(detector_models.compiled(int8).found)


def test_boxes_beside_many_scores_are_read_with_them() -> None:
    """With more than four classes, scores alone are rows too, whose first four would be taken for a box."""
    for outputs in (
        {"y": np.zeros((1, 4, 320)), "z": np.zeros((1, 80, 320))},
        {"z": np.zeros((1, 320, 80)), "y": np.zeros((1, 320, 4))},
    ):
        assert arrangements(outputs)[0].names == ("y", "z")
        assert arrangements(outputs)[0].beside


def test_scores_alone_have_no_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four scores would be read as the moves and logarithms of a YOLOX."""
    text = "{l}_k = Conv ({l}, w_{l}_k, b_{l}_k) {l}_s = Sigmoid ({l}_k) {l}_f = Reshape ({l}_s, flat)"
    end = "all = Concat <axis=2> (fine_f, coarse_f) y = Transpose <perm=[0,2,1]> (all)"
    monkeypatch.setitem(detector_models.VARIANTS, "scores", detector_models.Variant(text, end, {"k": 9}, ""))
    found = detector_models.compiled(detector_models.quantised(detector_models.model("scores"))).found
    assert isinstance(found, Missed)
    assert found.why == "the first four numbers of a row should be a box, and lie from 0 to 1 as scores do"


def test_a_classifier_is_no_detector() -> None:
    """Its classes would be taken for boxes; the artifact must stay as it was."""
    model = written("g (float[N,3,8,8] x) => (float[N,6,1,1] y) { a = Conv (x, w) y = GlobalAveragePool (a) }", {"w": (6, 3, 3, 3)})
    artifact = compile_model(quantise(model, images(model))[0], preset("tiny"))
    same, found = with_detector(artifact)
    assert "should be rows of boxes and scores" in str(found)
    assert same is artifact
    assert "detector" not in same.manifest


ENDS = {  # behind the rows y of a YOLOv8
    "the best 50": (
        "float[N,50,8] t",
        "s = Slice (y, four_i, many, two_i) m = ReduceMax <keepdims=0> (s, two_i) v, i = TopK <axis=1> (m, fifty) "
        "j = Unsqueeze (i, two_i) k = Expand (j, sizes) t = GatherElements <axis=1> (y, k)",
    ),
    "suppression": (
        "int64[p,3] t",
        "e1, e2 = Split <axis=2> (y, pairs_of_four) e3 = Transpose <perm=[0,2,1]> (e2) "
        "t = NonMaxSuppression (e1, e3, fifty, half, half)",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_decode_that_chooses_by_itself_passes_through(end: str) -> None:
    """The newest YOLOs choose inside of the model; the compiler would fail on an output whose size or order depends on scores."""
    output, nodes = ENDS[end]
    model = detector_models.model("yolov8")
    part = onnx.parser.parse_graph(f"e (float[N,320,8] y) => ({output}) {{ {nodes} }}")
    model.graph.node.extend(part.node)
    del model.graph.output[:]
    model.graph.output.extend(part.output)
    constants = {"fifty": [50], "sizes": [1, 50, 8], "pairs_of_four": [4, 4]}
    more = {"four_i": [4], "many": [1 << 30], "two_i": [2]}
    there = {tensor.name for tensor in model.graph.initializer}
    for name, value in {**constants, **more}.items():
        if name not in there:
            model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    assert isinstance(detector_models.compiled(detector_models.quantised(model)).found, Missed)


def test_the_programs_are_the_same() -> None:
    """The option would change what was measured: clocks, weights, or where they lie."""
    made = detector_models.made("yolov8")
    plain = compile_model(made.model, preset("tiny"))
    assert [piece.program for piece in plain.programs] == [piece.program for piece in made.artifact.programs]
    assert {**made.artifact.manifest, "detector": None} == {**plain.manifest, "detector": None}


def test_scores_at_the_threshold_may_differ_in_their_last_bit() -> None:
    """Of a network that is sure of itself, half of the scores are 1, give or take the last bit: its heads would not be found."""
    least = 1.0
    scores = np.array([[least, np.nextafter(np.float32(least), np.float32(0))], [0.25, 0.5]], np.float32)
    every = Candidates(np.zeros((2, 4), np.float32), np.ones(2, np.float32), np.array([0, 1]), np.array([0, 0]))
    assert agree(scores, every, least)
    one = Candidates(every.boxes[:1], every.scores[:1], every.classes[:1], every.rows[:1])
    assert agree(scores, one, least)
    assert not agree(np.where(scores == 0.5, np.float32(least + 1e-5), scores), every, least), "one that passes is missing"
    assert not agree(np.where(scores < 1, np.float32(0.9), scores), every, least), "one that does not pass was found"
