"""A file that cannot be a model is refused in one line, before anything is done with it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from cnna.compiler.frontend.onnx_import import OPSET_MAX, load_model, to_graph
from cnna.spec.errors import ModelError

from ..written import written

TEXT = "g (float[N,3,4,4] x) => (float[N,2,4,4] y) { y = Conv <kernel_shape=[1,1]> (x, w) }"


def model(**weights):
    return written(TEXT, weights or {"w": (2, 3, 1, 1)})


def refused(source, name="net.onnx"):
    """The single line of the refusal, which names the file."""
    with pytest.raises(ModelError) as caught:
        load_model(source.SerializeToString() if isinstance(source, onnx.ModelProto) else source, name)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sound_model_is_read_untouched(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    assert load_model(path) == load_model(str(path)) == load_model(path.read_bytes()) == model()


def test_no_file():
    with pytest.raises(ModelError, match=r"nowhere\.onnx: no such file"):
        load_model("nowhere.onnx")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip file", b"\x08\x08", b"\xff" * 40, model().SerializeToString()[:-7]])
def test_not_onnx(content):
    assert "ONNX" in refused(content)


def test_nan_weights_name_tensor_and_node():
    broken = model(w=np.full((2, 3, 1, 1), np.nan, np.float32))
    assert "constant 'w', of node 'y' (Conv), holds NaN" in refused(broken)


def test_future_and_ancient_opsets():
    future = model()
    future.opset_import[0].version = OPSET_MAX + 1
    assert f"opset {OPSET_MAX + 1} is outside" in refused(future)
    ancient = model()
    ancient.opset_import[0].version = 0
    assert "opset 0 is outside 1.." in refused(ancient)


def test_future_ir_version():
    future = model()
    future.ir_version = onnx.IR_VERSION + 1
    assert "is newer than" in refused(future)


def test_external_weights_that_are_missing(tmp_path):
    path = tmp_path / "net.onnx"
    big = model(w=np.ones((2, 3, 1, 1), np.float32))
    onnx.save_model(big, path, save_as_external_data=True, location="net.weights", size_threshold=0)
    read = load_model(path)
    assert (numpy_helper.to_array(read.graph.initializer[0]) == 1).all()
    (tmp_path / "net.weights").unlink()
    with pytest.raises(ModelError, match=r"weights of 'w' are in an external file 'net\.weights', which is not there"):
        load_model(path)


def test_external_weights_outside_the_models_folder(tmp_path):
    """A model could read other files of the machine. onnx refuses that; the user must see which tensor is meant."""
    big = model(w=np.ones((2, 3, 1, 1), np.float32))
    onnx.save_model(big, tmp_path / "net.onnx", save_as_external_data=True, location="net.weights", size_threshold=0)
    moved = onnx.load_model(tmp_path / "net.onnx", load_external_data=False)
    moved.graph.initializer[0].external_data[0].value = str(tmp_path / "net.weights")
    (tmp_path / "net.onnx").write_bytes(moved.SerializeToString())
    with pytest.raises(ModelError, match=r"net\.onnx: external weights cannot be read: .*relative path"):
        load_model(tmp_path / "net.onnx")


def test_a_way_of_padding_that_there_is_not():
    """ONNX's checker accepts the value; padding by none would be a guess."""
    text = TEXT.replace("kernel_shape=[1,1]", 'kernel_shape=[1,1], auto_pad="SAME"')
    assert "node 'y' (Conv): auto_pad is 'SAME', not one of NOTSET," in refused(written(text, {"w": (2, 3, 1, 1)}))


@pytest.mark.parametrize("kind", ["string", "complex64", "float8e4m3fn", "uint4"])
def test_inputs_that_no_array_file_holds(kind):
    """numpy has no such type, so nobody could give the input: a line must say so at once, instead of a traceback later."""
    assert f"input 'x' is {kind.upper()}; only" in refused(
        written(f"g ({kind}[N,3] x) => (float[N,3] y) {{ y = Cast <to=1> (x) }}")
    )


def test_shapes_that_do_not_fit():
    text = "g (float[N,3] x) => (float[N,2] y) { y = MatMul (x, w) }"
    assert "do not fit together" in refused(written(text, {"w": (4, 2)}))


def test_unknown_operator_fails_the_check():
    assert "opset 17 of ONNX has no such operator; replace it" in refused(
        written(TEXT.replace("Conv <kernel_shape=[1,1]>", "Convolve"), {"w": (2, 3, 1, 1)})
    )


def test_weights_listed_as_inputs_are_no_inputs():
    """Old exporters list weights as inputs; the user would have to give more than images."""
    old = model()
    old.graph.input.append(onnx.helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3, 1, 1]))
    assert to_graph(old).inputs == ("x",)


def test_nameless_nodes_get_names():
    assert [node.name for node in to_graph(model()).nodes] == ["Conv:y"]


@pytest.mark.parametrize("part", [0.1, 0.5, 0.999])
def test_a_truncated_file_is_called_one(tmp_path, part):
    """ "Not an ONNX file" would send the user of a broken download to look for another one. The size says how much has come."""
    whole = model().SerializeToString()
    data = whole[: int(part * len(whole))]
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=rf"m\.onnx: truncated or damaged: .* its {len(data):,} bytes .*; copy or export it again"):
        load_model(tmp_path / "m.onnx")


def test_what_is_no_onnx_file_is_not_called_truncated(tmp_path):
    """It would be called truncated: a picture, or an HTML page that says where to log in."""
    for data in (b"<!DOCTYPE html>", b"\x89PNG\r\n"):
        (tmp_path / "m.onnx").write_bytes(data)
        with pytest.raises(ModelError, match=r"m\.onnx: not an ONNX file"):
            load_model(tmp_path / "m.onnx")


def test_a_folder_is_called_one(tmp_path):
    """ "No such file" would send the user to look for a misspelling, although the folder is there."""
    with pytest.raises(ModelError, match=r"a folder, not an ONNX file; name the \.onnx file in it"):
        load_model(tmp_path)
