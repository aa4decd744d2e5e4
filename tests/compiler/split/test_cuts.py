"""Where models are cut, and that both halves are the whole."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend import scaled_channels
from cnna.compiler.frontend.model_ports import AXES_KEY, store_axes
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.preprocess import Preprocess, store, stored
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.split.costs import edge_seconds
from cnna.compiler.split.cuts import Cuts
from cnna.compiler.split.halves import check_halves, halves_of, ran
from cnna.compiler.zoo.digits import data
from cnna.host.model.session import InferenceSession
from cnna.spec.config import preset
from cnna.spec.errors import CheckError, ModelError

Images = NDArray[np.float32]


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """The digits network, quantised: two residual blocks."""
    found, _ = quantise(load_model(data.NETWORK), {"image": data.load().calibration.images})
    return found


@pytest.fixture(scope="module")
def images() -> Images:
    return data.load().test.images[:5]


def test_both_halves_are_the_whole_at_every_cut(model: onnx.ModelProto, images: Images) -> None:
    """An answer would depend on where the model was cut."""
    cuts = Cuts(model)
    found = cuts.all(2)
    assert [cut.node for cut in found if len(cut.crossings) == 1] == [cut.node for cut in cuts.all(1)]
    assert any(len(cut.crossings) == 2 for cut in found)
    for cut in found:
        assert {crossing.dtype for crossing in cut.crossings} == {"int8"}
        assert cut.bytes == sum(int(np.prod(crossing.shape)) for crossing in cut.crossings)
        halves = halves_of(cuts, cut)
        check_halves(model, halves, {"image": images})
        assert all(node.name not in cut.before or node.op_type == "DequantizeLinear" for node in halves.cloud.graph.node)


def test_each_half_keeps_the_metadata_about_its_own_tensors(model: onnx.ModelProto) -> None:
    """The cloud would compare equalised tensors at the wrong scale, and the edge be refused for an output that it does not have."""
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    store(whole, Preprocess(scale=1 / 255))
    store_axes(whole, {"logits": 0})
    whole.metadata_props.add(key="owner", value="me")
    cuts = Cuts(whole)
    halves = halves_of(cuts, cuts.at("block1.add", 1))
    known = scaled_channels.stored(whole)
    parts = [scaled_channels.stored(half) for half in (halves.edge, halves.cloud)]
    assert all(parts)
    assert {**parts[0], **parts[1]} == known
    for half, found in zip((halves.edge, halves.cloud), parts, strict=True):
        made = {name for node in half.graph.node for name in node.output}
        assert set(found) <= made
        assert "owner" in {entry.key for entry in half.metadata_props}
        compile_model(load_model(half.SerializeToString()), preset("tiny"))
    assert [stored(half) is not None for half in (halves.edge, halves.cloud)] == [True, False]
    assert [AXES_KEY in {entry.key for entry in half.metadata_props} for half in (halves.edge, halves.cloud)] == [False, True]


def test_the_reference_agrees(model: onnx.ModelProto, images: Images) -> None:
    """The accelerator's half would round otherwise than it does within the whole model."""
    cuts, config = Cuts(model), preset("tiny")

    def reference(one: onnx.ModelProto, given: dict[str, Any]) -> list[Any]:
        with InferenceSession(compile_model(load_model(one.SerializeToString()), config, 1), "reference") as session:
            answers: list[Any] = session.run(None, given)
        return answers

    halves = halves_of(cuts, cuts.at("block1.add", 1))
    assert halves.pack is not None
    (floats,) = reference(halves.edge, {"image": images})
    packed = ran(halves.pack, {halves.pack.graph.input[0].name: floats})
    (found,), (wanted,) = reference(halves.cloud, packed), reference(model, {"image": images})
    assert np.array_equal(found, wanted)


def test_a_half_that_differs_is_noticed(model: onnx.ModelProto, images: Images) -> None:
    """The comparison would compare nothing."""
    cuts = Cuts(model)
    halves = halves_of(cuts, cuts.at("pool", 1))
    for one in halves.cloud.graph.initializer:
        if one.name == "fc.weight:bias.1:int32":
            one.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(one) + 5000, one.name))
    with pytest.raises(CheckError, match="output logits of both halves differs"):
        check_halves(model, halves, {"image": images})


@pytest.mark.parametrize(
    ("node", "most", "said"),
    [
        ("block9", 1, "there is no node 'block9' that depends on the inputs; there are"),
        ("conv1", 1, "there are block1.conv1,"),
        ("block1.conv1", 1, r"node block1\.conv1: 2 tensors cross \(pool:dq:int8, block1\.relu1:equalised:dq:int8\), and 1 may"),
        ("image:dq:Q", 1, "all that computes lies on one side of it"),
        ("fc", 1, "all that computes lies on one side of it"),
    ],
)
def test_what_is_no_cut_is_one_line(model: onnx.ModelProto, node: str, most: int, said: str) -> None:
    """A half would be empty, or more would cross than the user allows."""
    with pytest.raises(ModelError, match=said) as caught:
        Cuts(model).at(node, most)
    assert "\n" not in str(caught.value)


def test_layers_are_counted_on_their_side(model: onnx.ModelProto) -> None:
    """The edge would get the clocks of the cloud's layers. A layer that is no node goes with the one before it."""
    cuts = Cuts(model)
    layers = [
        {"name": name, "predicted_cycles": clocks}
        for name, clocks in (("stem", 1), ("load", 2), ("block1.conv1", 4), ("store", 8), ("block2.conv1", 16), ("rest", 32))
    ]
    known = frozenset(node.name for node in model.graph.node)
    assert edge_seconds(cuts.at("pool", 1), layers, known, 1.0) == pytest.approx(3e-6)
    assert edge_seconds(cuts.at("block1.add", 1), layers, known, 1.0) == pytest.approx(15e-6)


def test_nodes_need_names(model: onnx.ModelProto, tmp_path: Path) -> None:
    """`--at` could not name one, and two of the same name would be one."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node[3].name = other.graph.node[4].name
    with pytest.raises(ModelError, match="nodes must have names, each its own"):
        Cuts(other)


def test_a_model_that_cannot_be_cut_is_not_told_to_allow_more_tensors() -> None:
    """A user would raise --tensors for ever; where it helps, the line says how far."""
    port = onnx.helper.make_tensor_value_info
    ports = [port(name, onnx.TensorProto.FLOAT, ["N", 3, 4, 4]) for name in "aby"]

    def cuts_of(*nodes: onnx.NodeProto) -> Cuts:
        return Cuts(onnx.helper.make_model(onnx.helper.make_graph(list(nodes), "g", ports[:2], ports[2:])))

    node = onnx.helper.make_node
    with pytest.raises(ModelError, match="cannot be cut: of 1 node with work, none has others before and behind it"):
        cuts_of(node("Add", ["a", "b"], ["y"], "add")).all(9)
    two = cuts_of(node("Relu", ["a"], ["r"], "relu"), node("Add", ["r", "b"], ["y"], "add"))
    with pytest.raises(ModelError, match="no cut is crossed by 1 tensor or fewer; the fewest are 2: see --tensors"):
        two.all(1)
    assert [cut.node for cut in two.all(2)] == ["relu"]
