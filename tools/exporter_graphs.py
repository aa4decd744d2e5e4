"""Exports small networks as PyTorch's two exporters, onnxruntime's quantiser and tf2onnx write them, without their weights.

    python3 -m venv t && t/bin/pip install torch==2.13.0 onnx==1.22.0 onnxruntime==1.32.0 onnxscript==0.7.2
    t/bin/python tools/exporter_graphs.py torch
    python3 -m venv k && k/bin/pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0
    k/bin/python tools/exporter_graphs.py keras

It writes tests/exporter_graphs/NETWORK-EXPORTER.onnx. The project's own environment needs none of this: tests fill in seeded
weights (tools/conformance/exported.py). In place of a large tensor's values its doc_string has `normal MEAN DEVIATION LOW HIGH`.
"""

import argparse
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper

OUT = Path(__file__).resolve().parent.parent / "tests" / "exporter_graphs"
SMALL = 64  # elements that a tensor may keep: shapes, scales, anchors
SEED = 1
QUANTISED = ("residual", "mobilenetv3", "yolov8", "unet", "shuffle", "dense")  # through onnxruntime's quantiser


def main() -> int:
    """Exports the networks that the chosen packages can write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", choices=("torch", "keras"))
    parser.add_argument("--only", metavar="NETWORK", help="this one alone")
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    for name, model in (by_torch if args.packages == "torch" else by_keras)(args.only):
        path = OUT / f"{name}.onnx"
        path.write_bytes(without_weights(model).SerializeToString(deterministic=True))
        print(f"{path.name}: {path.stat().st_size:,} bytes, opset {model.opset_import[0].version}", flush=True)
    return 0


def without_weights(model: ModelProto) -> ModelProto:
    """The model with a recipe in place of every large tensor's values, and nothing of the machine that exported it."""
    model.doc_string = ""
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        del value.metadata_props[:]
    constants = [a.t for node in model.graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
    for tensor in (*model.graph.initializer, *constants):
        tensor.doc_string = ""
        del tensor.metadata_props[:]
        values = numpy_helper.to_array(tensor)
        if values.size > SMALL and values.dtype.kind in "fiu" and tensor.data_type != TensorProto.INT64 and not is_grid(values):
            shape, kind, name = list(tensor.dims), tensor.data_type, tensor.name
            tensor.Clear()
            tensor.dims.extend(shape)
            tensor.data_type, tensor.name, tensor.doc_string = kind, name, recipe(values)
    return model


def is_grid(values: Any) -> bool:
    """Whether these are the places of pixels, which a detector adds: whole or half numbers, some of them different."""
    return bool(values.dtype.kind == "f" and (np.rint(values * 2) == values * 2).all() and np.ptp(values) > 0)


def recipe(values: Any) -> str:
    """A doc_string from which similar values can be drawn."""
    numbers = values.astype(np.float64)
    return " ".join(["normal", *(f"{number:.5g}" for number in (numbers.mean(), numbers.std(), numbers.min(), numbers.max()))])


def by_torch(only: str | None) -> Iterator[tuple[str, ModelProto]]:
    """NETWORK-torchscript and NETWORK-dynamo and, for some networks, what onnxruntime's quantiser makes of them."""
    import torch
    from exporters.networks import NETWORKS

    for name, (make, shape) in NETWORKS.items():
        if only not in (None, name):
            continue
        torch.manual_seed(SEED)
        network, x = make().train(), torch.randn(8, *shape[1:])
        with torch.no_grad():
            for _ in range(20):  # so that batch norms have statistics
                if name != "yolov8":
                    network(x)
                else:
                    network.deep(network.stem(x))
        network.eval()
        buffer = io.BytesIO()
        torch.onnx.export(network, (x[:1],), buffer, dynamo=False, opset_version=13, input_names=["images"])
        script = onnx.load_from_string(buffer.getvalue())
        copy = ModelProto()
        copy.CopyFrom(script)
        program = torch.onnx.export(network, (x[:1],), dynamo=True, input_names=["images"], verbose=False)
        yield f"{name}-torchscript", script
        yield f"{name}-dynamo", program.model_proto
        if name in QUANTISED:
            yield from by_onnxruntime(name, copy, x.numpy())


def by_onnxruntime(name: str, model: ModelProto, x: Any) -> Iterator[tuple[str, ModelProto]]:
    """NETWORK-FORMAT-TYPE-SCALES: all combinations for the first network, two for the others."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(q.CalibrationDataReader):
        """Eight samples."""

        def __init__(self) -> None:
            self.samples = iter(x)

        def get_next(self) -> Any:
            """The next sample; None after the last."""
            sample = next(self.samples, None)
            return None if sample is None else {"images": sample[None]}

    ways = [(form, kind, each) for form in ("qdq", "qoperator") for kind in ("int8", "uint8") for each in ("channel", "tensor")]
    for form, kind, each in ways if name == "residual" else (ways[0], ways[7]):
        with TemporaryDirectory() as folder:
            whole, ready, done = (str(Path(folder) / f"{part}.onnx") for part in ("whole", "ready", "done"))
            onnx.save(model, whole)
            quant_pre_process(whole, ready)
            q.quantize_static(
                *(ready, done, Reader()),
                quant_format=q.QuantFormat.QDQ if form == "qdq" else q.QuantFormat.QOperator,
                activation_type=q.QuantType.QInt8 if kind == "int8" else q.QuantType.QUInt8,
                weight_type=q.QuantType.QInt8,
                per_channel=each == "channel",
            )
            yield f"{name}-{form}-{kind}-{each}", onnx.load(done)


def by_keras(only: str | None) -> Iterator[tuple[str, ModelProto]]:
    """NETWORK-tf2onnx."""
    import tensorflow as tf
    import tf2onnx
    from exporters.keras import NETWORKS

    for name, (make, shape) in NETWORKS.items():
        if only in (None, name):
            tf.keras.utils.set_random_seed(SEED)
            signature = [tf.TensorSpec((1, *shape), tf.float32, name="images")]
            network = make(shape)
            model, _ = tf2onnx.convert.from_function(tf.function(network, input_signature=signature), signature, opset=15)
            yield f"{name}-tf2onnx", model


if __name__ == "__main__":
    sys.exit(main())
