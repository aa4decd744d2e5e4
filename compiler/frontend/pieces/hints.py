"""What helps a node that the accelerator cannot run: a line for each operator, and reasons that bring their own remedy.

`support` says what runs, and picks the line for a node.
"""


class Excess(str):
    """A reason that is a number beyond what the accelerator's registers or commands hold. remedy: what helps."""

    remedy = "keep it within that limit"


class TooLarge(Excess):
    """Of a map: no change of the node itself makes it smaller."""

    remedy = "give the model smaller inputs, or keep apart the maps that it joins into this one"


CUT = "cut the model there and run two"
STEEP = "put Q and DQ around it yourself, with scales that suit it"
SLOPE = "only one constant slope, or one for each channel, all from 0 to 1 or all above, runs"
NORM = "replace it with BatchNormalization and train again"
NORMALISATIONS = (
    *("LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization", "MeanVarianceNormalization"),
    *("SimplifiedLayerNormalization", "SkipLayerNormalization", "GroupNorm"),
)
REDUCED = "only means, sums and maxima over all rows and columns of a map run"
POINTWISE = "a 1x1 Conv with equal weights computes a mean or sum over channels"
RESIZED = "use mode nearest with known factors, or linear by 2 or 4 with half_pixel or asymmetric"
SHAPES = "operands must have equal shapes, or one hold a value for each channel"
FLOAT_MODEL = "give `cnna quantize` the float model that this one was made from"
PAIRS = "quantise activations per tensor in int8 or uint8, the same at Q and DQ"

JUMPS = ("Round", "Floor", "Ceil", "ThresholdedRelu")
STEEP_KINDS = ("Exp", "Log", "Sqrt", "Reciprocal", *JUMPS)  # run with Q and DQ around them
WHOLE_NUMBERS = (
    *("ConvInteger", "ConvIntegerToFloat", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger"),
    "MatMulIntegerToFloat",
)

HINTS = {
    "Conv": "weights must be constant, with one or two spatial axes",
    "ConvTranspose": "weights must be constant, with two spatial axes of one stride and explicit padding",
    "MatMul": "only what is computed times constant weights runs",
    "Gemm": "only a vector times constant weights, without transA, runs",
    **dict.fromkeys(("Add", "Sum", "Mul", "Sub", "Min", "Max"), SHAPES),
    "Div": "its divisor must be a constant for each channel",
    "Resize": f"{RESIZED}, or {CUT}",
    "Pad": "only constants that are known, edge, reflect and wrap run, at rows and columns",
    "Slice": "only constant slices of channels, rows and columns run",
    "Gather": "only a constant choice of channels, rows or columns runs",
    "Concat": "only channels, or rows or columns of maps of four axes, can be concatenated",
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax"), REDUCED),
    "PRelu": SLOPE,
    **dict.fromkeys(STEEP_KINDS, STEEP),
    "Clip": "its limits must be constants of one number",
    "Pow": "its exponent must be a constant of one number",
    "LRN": NORM,
    **dict.fromkeys(NORMALISATIONS, NORM),
    "Split": "only constant parts of channels, rows or columns run",
    "QuantizeLinear": PAIRS,
    "DequantizeLinear": PAIRS,
    **dict.fromkeys(WHOLE_NUMBERS, FLOAT_MODEL),
}
