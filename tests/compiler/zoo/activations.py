"""What a model's layers compute for a picture."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime

LAYERS = ("Conv", "ConvTranspose", "Gemm")


def values(model: onnx.ModelProto, picture: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Tensors of a model by name, in one run."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    del probe.graph.output[:]
    probe.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: picture}), strict=True))


def deviations(model: onnx.ModelProto, picture: np.ndarray) -> tuple[float, float]:
    """The least and the greatest standard deviation of what convolutions and fully connected layers answer."""
    names = [node.output[0] for node in model.graph.node if node.op_type in LAYERS]
    found = [float(value.std()) for value in values(model, picture, names).values()]
    return min(found), max(found)
