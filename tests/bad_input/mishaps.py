"""The material of mutants: numbers, words and names that a model may hold by mistake, and picks among its parts."""

import random

from onnx import ModelProto, NodeProto

WHOLE = (-(2**63), -(2**31), -9, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 100, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
REAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, -1.0, 1e-45, 1e-30, 1e30, 3e38, 0.5)
TYPES = (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 16, 17, 21, 22, 77, 2**31 - 1)
WORDS = ("", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "reflect", "edge", "bogus", "ü\n", "\0", "x" * 300)
_KINDS = (
    "Conv Relu Clip Gemm MatMul Add Mul Div Sub MaxPool AveragePool GlobalAveragePool Pad Reshape Flatten "
    "Transpose Concat BatchNormalization Softmax Identity Dropout Cast Shape Squeeze QuantizeLinear "
    "DequantizeLinear QLinearConv QLinearMatMul ConvInteger DynamicQuantizeLinear Constant ReduceMean Slice Split "
    "Expand Tile ConstantOfShape Range If Loop Bogus Max Min Sum Unsqueeze Gather LRN PRelu Resize Upsample TopK "
    "NonZero ArgMax Sigmoid ReduceMax Where"
)
_NAMES = (
    "axis axes kernel_shape strides pads dilations group auto_pad ceil_mode perm to alpha beta transA transB "
    "keepdims epsilon mode value count_include_pad block_size channels_last bogus"
)
KINDS, NAMES = _KINDS.split(), _NAMES.split()


def tensors_of(model: ModelProto) -> list[str]:
    graph = model.graph
    names = [value.name for value in (*graph.input, *graph.output)] + [tensor.name for tensor in graph.initializer]
    return [*names, *(name for node in graph.node for name in node.output), "", "nowhere"]


def place_of(node: NodeProto) -> str:
    return f"{node.op_type} {node.name or list(node.output)}"


def a_node(model: ModelProto, rng: random.Random) -> NodeProto:
    return rng.choice(model.graph.node)
