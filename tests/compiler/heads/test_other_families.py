"""SSD, CenterNet, CenterFace and DBNet are found by their structure, and decoded as a user of their whole outputs decodes them."""

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

import cnna
from cnna.compiler.heads.find import Missed
from cnna.compiler.heads.maps import roles
from cnna.host.native.detect import Decoder, Settings, by_numpy
from cnna.spec.artifact import CpuPiece
from cnna.spec.detection.decode import Labels
from cnna.spec.detection.heads import AREAS, PEAKS, SOFTMAX, TABLES, Heads
from cnna.spec.samples import pack

from ... import detector_models, head_models
from ..written import answers
from .disguise import disguised

SCORES = {
    "ssd": SOFTMAX,
    "ssd in one": SOFTMAX,
    "ssd rows first": SOFTMAX,
    "ssd sigmoid": TABLES,
    "ssd cut": SOFTMAX,
    "ssd sigmoid rows first cut": TABLES,
    "centerface": TABLES,
    "dbnet": AREAS,
}
OVERLAP = 0.5


def heads_of(name: str) -> Heads:
    """The heads of a variant."""
    found = head_models.made(name).found
    assert isinstance(found, Heads), found
    return found


@pytest.mark.parametrize("name", head_models.VARIANTS)
def test_found(name: str) -> None:
    """Their users would decode all boxes in float, or get those of another family."""
    found = heads_of(name)
    assert found.entry["family"] == head_models.VARIANTS[name].family
    assert found.scores == SCORES.get(name, PEAKS)
    labels = {"ssd sigmoid": 5, "ssd sigmoid rows first cut": 5, "centernet of two": 2, "centerface": 1, "dbnet": 1}
    assert found.entry["labels"] == labels.get(name, 4)
    assert bool(found.entry.get("cut")) == ("cut" in name)


@pytest.mark.parametrize("name", ["ssd", "centernet", "centerface", "dbnet"])
def test_names_order_and_constants_do_not_matter(name: str) -> None:
    """Heads would be known by their names, and those of another exporter would not be found."""
    model = head_models.model(name)
    kept = {*head_models.VARIANTS[name].outputs, "x"}
    found = detector_models.compiled(detector_models.quantised(disguised(model, 3, kept))).found
    assert isinstance(found, Heads), found
    assert found.said() == heads_of(name).said()


def test_maps_in_another_order_are_known_by_their_values() -> None:
    """Exporters that put moves before sizes would get boxes of no size."""
    maps = {"v": np.zeros((1, 2, 4, 4)), "y": np.zeros((1, 3, 4, 4)), "z": np.zeros((1, 2, 4, 4))}
    low = {**maps, "v": maps["v"] - 0.1}
    high = {"v": maps["v"] + 1.1, "y": maps["y"] + 1, "z": maps["z"] + 40.0}
    assert roles(maps, (low, high))[:3] == ("y", "z", "v")
    assert roles(maps, (low, {**high, "v": high["z"]}))[:3] == ("y", "v", "z"), "with values of one kind, the order says it"


def _drawn(heads: Heads, seed: int) -> list[np.ndarray]:
    """Drawn head tensors, in which one score is the greatest; for text, patches of cells."""
    rng = np.random.default_rng(seed)
    if heads.scores != AREAS:
        tensors = [rng.integers(-128, 127, shape).astype(np.int8) for shape in heads.shapes]
        head, channel, _ = heads.entry["grids"][0]["classes"]
        tensors[head][channel, 2, 2] = 127
        return tensors
    patches = rng.integers(-128, 128, (1, 8, 8)) * (rng.random((1, 8, 8)) < 0.4)
    cells = np.where(patches > 0, patches, -128).repeat(8, 1).repeat(8, 2) - rng.integers(0, 9, (1, 64, 64))
    return [np.clip(cells, -128, 127).astype(np.int8)]


def _outputs(name: str, tensors: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The model's outputs for some head tensors, its piece on the CPU by onnxruntime."""
    artifact = head_models.made(name).artifact
    ports = {port["name"]: port for program in artifact.programs for port in program.manifest["outputs"]}
    names = artifact.manifest["detector"]["heads"]
    known = {one: pack.dequantise(q[None], ports[one]["scale"], ports[one]["zero"]) for one, q in zip(names, tensors, strict=True)}
    last = artifact.pieces[-1]
    if isinstance(last, CpuPiece):
        model = onnx.load_from_string(last.model)
        feeds = {value.name: known[value.name] for value in model.graph.input}
        known |= zip([value.name for value in model.graph.output], answers(model, feeds), strict=True)
    return {output: known[output] for output in head_models.VARIANTS[name].outputs}


@pytest.mark.parametrize("labels", ["all", "best"])
@pytest.mark.parametrize("name", head_models.VARIANTS)
def test_decode_is_that_of_the_whole_output(name: str, labels: Labels) -> None:
    """Boxes would lie elsewhere than the model says, or scores at the threshold would be lost, where none, one or all pass."""
    heads = heads_of(name)
    tensors = _drawn(heads, 5)
    outputs = _outputs(name, tensors)
    scores = np.unique(head_models.rows_of(name, outputs)[1])
    scores = scores[scores >= 0]
    assert len(scores) > 3
    limits = {0: 1.5, 1: (scores[-1] + scores[-2]) / 2, 2: (scores[-3] + scores[len(scores) // 2]) / 2, 3: 0.0}
    counts = []
    for least in limits.values():
        settings = Settings(float(least), OVERLAP, labels, 200)
        wanted = head_models.wanted(name, outputs, least, OVERLAP, labels)
        for found in (Decoder(heads, settings)(tensors), by_numpy(heads, tensors, settings)):
            _same(found, wanted, name)
        counts.append(len(wanted.scores))
    assert counts[0] == 0
    assert counts[1] == 1
    assert counts[3] == max(counts) > 1


def _same(found: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...], name: str) -> None:
    """The same detections but for the order of scores that are equal within rounding."""
    assert len(found[1]) == len(wanted[1]), name
    np.testing.assert_allclose(found[1], wanted[1], atol=1e-6)
    order = [np.lexsort((*one[0].round(2).T, one[2], one[1].round(4))) for one in (found, wanted)]
    assert found[2][order[0]].tolist() == wanted[2][order[1]].tolist()
    np.testing.assert_allclose(found[0][order[0]], wanted[0][order[1]], rtol=1e-3, atol=1e-3 * detector_models.SIDE)


@pytest.mark.parametrize("name", head_models.VARIANTS)
def test_detections_are_those_of_the_uncut_model(name: str) -> None:
    """Users would get other boxes than the quantised model has in onnxruntime."""
    made, counted = head_models.made(name), 0
    with cnna.Detector(made.artifact, "reference", least=0.2) as detector:
        for picture in detector_models.pictures(3, seed=7):
            outputs = answers(made.model, {"x": detector_models.HOW.apply(picture[None])})
            wanted = head_models.wanted(name, dict(zip(head_models.VARIANTS[name].outputs, outputs, strict=True)), 0.2, OVERLAP)
            found = detector.detect(picture.transpose(1, 2, 0))
            _same(found, wanted._replace(boxes=np.clip(wanted.boxes, 0, detector_models.SIDE)), name)
            counted += len(found.scores)
    assert counted


def _missed(model: ModelProto) -> str:
    found = detector_models.compiled(detector_models.quantised(model)).found
    assert isinstance(found, Missed), found
    return found.why


def test_what_is_missed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user would not know why a detector is slow: priors outside of the model, or maps of another kind."""
    plain = head_models.VARIANTS["ssd"]
    text = plain.text.replace(head_models.SSD_CORNERS, "boxes = Identity (u)")
    monkeypatch.setitem(head_models.VARIANTS, "offsets", plain._replace(text=text))
    assert "priors are not in it" in _missed(head_models.model("offsets"))
    text = head_models.VARIANTS["ssd cut"].text.replace("nought, unit", "nought, half")
    monkeypatch.setitem(head_models.VARIANTS, "cut elsewhere", head_models.VARIANTS["ssd cut"]._replace(text=text))
    assert "should follow one integer" in _missed(head_models.model("cut elsewhere"))
    model = head_models.model("centernet")
    del model.graph.output[1]
    model.graph.output.append(helper.make_tensor_value_info("t_k", 1, ["N", "k", "l", "m"]))
    assert "[1, 4, 16, 16], [1, 2, 16, 16], [1, 4, 16, 16]" in _missed(model)
