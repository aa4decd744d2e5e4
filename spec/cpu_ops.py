"""The parts of a model before and after the accelerator: run by onnxruntime if it is installed, else in numpy as far as possible.

The manifest's `cpu_head` and `cpu_tail` list the operators, so that a softmax needs no ONNX parser on a board.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import ArtifactError, ToolError, reason_of
from cnna.spec.manifest import CpuOperator

Arrays = dict[str, NDArray[Any]]


# exp in float32, as host/native/answers.cpp has it: 2^k times the series of what is left, without a fused operation
_LEAST = np.float32(-87)  # below it the answer is 0, so that no number is subnormal
_LOG2_E, _LN2_HIGH, _LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_SERIES = tuple(np.float32(1) / np.float32(number) for number in (720, 120, 24, 6, 2, 1, 1))
_FRACTION_BITS = np.int32(23)  # of a float32
_SUM_UNIT = np.float32(2**30)  # the sum counts in units of 2^-30, so that it does not depend on the order


def softmax(x: NDArray[Any], axis: int = -1) -> NDArray[np.float32]:
    """exp(x) divided by its sum along an axis, without overflow; as exact as float32 differences from the greatest value are.

    Where a row holds NaN or +infinity, all of it is NaN.
    """
    x = x.astype(np.float32)
    most = x.max(axis=axis, keepdims=True)
    known = np.isfinite(most)  # NaN is a row's greatest value
    whole = bool(known.all())
    if not whole:
        x, most = np.where(known, x, np.float32(0)), np.where(known, most, np.float32(0))
    x -= most
    power = _exponential(x)
    power /= np.rint(power * _SUM_UNIT).astype(np.int64).sum(axis=axis, keepdims=True).astype(np.float32) / _SUM_UNIT
    return power if whole else np.where(known, power, np.float32(np.nan))


def _exponential(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """exp(x) for x up to 0, and 0 below _LEAST. It works in x itself, since scores are few and every new array costs its time."""
    counts = x >= _LEAST
    rest = np.maximum(x, _LEAST, out=x)
    power = rest * _LOG2_E
    np.rint(power, out=power)
    rest -= power * _LN2_HIGH
    rest -= power * _LN2_LOW
    value = rest * _SERIES[0]
    for term in _SERIES[1:-1]:
        value += term
        value *= rest
    value += _SERIES[-1]
    bits = value.view(np.int32)  # 2^power goes to the exponent
    bits += power.astype(np.int32) << _FRACTION_BITS
    value *= counts
    return value


def top_k(x: NDArray[Any], k: int, axis: int = -1) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The k greatest values along an axis and their indices, greatest first; of equal values the lower index comes first."""
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"a top-k of {k} of {x.shape[axis]} values")
    index = np.argsort(-x, axis=axis, kind="stable").take(np.arange(k), axis=axis)
    return np.take_along_axis(x, index, axis), index


def _argmax(x: NDArray[Any], axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> NDArray[np.int64]:
    best = x.shape[axis] - 1 - np.flip(x, axis).argmax(axis) if select_last_index else x.argmax(axis)
    return np.expand_dims(best, axis) if keepdims else best


def _flatten(x: NDArray[Any], axis: int = 1) -> NDArray[Any]:
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def _reshape(x: NDArray[Any], shape: NDArray[Any], allowzero: int = 0) -> NDArray[Any]:
    sizes = [x.shape[i] if size == 0 and not allowzero else int(size) for i, size in enumerate(shape)]
    return x.reshape(sizes)


def _top_k(x: NDArray[Any], k: NDArray[Any], axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[NDArray[Any], ...]:
    return top_k(x, int(k.reshape(-1)[0]), axis) if largest else _bottom_k(x, int(k.reshape(-1)[0]), axis)


def _bottom_k(x: NDArray[Any], k: int, axis: int) -> tuple[NDArray[Any], ...]:
    index = np.argsort(x, axis=axis, kind="stable").take(np.arange(k), axis=axis)
    return np.take_along_axis(x, index, axis), index


def _quantize(x: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None = None, axis: int = 1) -> NDArray[Any]:
    scale, zero = _along(scale, x, axis), _along(np.zeros(1, np.uint8) if zero is None else zero, x, axis)
    limits = np.iinfo(zero.dtype)
    with np.errstate(over="ignore"):  # infinity saturates
        steps = np.rint(x / scale) + zero.astype(np.float32)
    return np.clip(steps, limits.min, limits.max).astype(zero.dtype)


def _dequantize(q: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any] | None = None, axis: int = 1) -> NDArray[Any]:
    whole = q.astype(np.float32) if zero is None else q.astype(np.float32) - _along(zero, q, axis).astype(np.float32)
    return whole * _along(scale, q, axis)


def _along(value: NDArray[Any], x: NDArray[Any], axis: int) -> NDArray[Any]:
    """One number, or one for each index of an axis of x, in a shape that broadcasts."""
    shape = [1] * x.ndim
    if value.size > 1:
        shape[axis] = value.size
    return value.reshape(shape)


# ONNX operator: a function of inputs, then attributes, that gives an output or a tuple of them.
_NUMPY: dict[str, Callable[..., Any]] = {
    "ArgMax": _argmax,
    "Concat": lambda *x, axis: np.concatenate(x, axis),
    "DequantizeLinear": _dequantize,
    "Flatten": _flatten,
    "Identity": lambda x: x,
    "LogSoftmax": lambda x, axis=-1: np.log(softmax(x, axis)),
    "QuantizeLinear": _quantize,
    "Reshape": _reshape,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softmax": softmax,
    "TopK": _top_k,
    "Squeeze": lambda x, axes=None: np.squeeze(x, None if axes is None else tuple(axes)),
    "Transpose": lambda x, perm=None: x.transpose(perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
}


_PLAIN = frozenset(np.dtype(kind).name for kind in (*np.typecodes["AllInteger"], "e", "f", "d", "?"))  # of constants
VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")  # of those in numpy: they move no elements


def only_views(operators: Sequence[CpuOperator]) -> bool:
    """Whether these operators only change shapes; then the host does it sooner than it could call onnxruntime."""
    return all(entry["op"] in VIEWS for entry in operators)


def numpy_suffices(operators: Sequence[CpuOperator], given: Collection[str]) -> bool:
    """Whether these operators run without onnxruntime. given: the piece's inputs. The piece must need no large constants."""
    return all(map(_in_numpy, operators)) and set(reads(operators)) <= set(given)


def _in_numpy(entry: CpuOperator) -> bool:
    """Whether numpy has the operator, and knows its attributes and the types of its constants, such as no int4."""
    if entry["op"] not in _NUMPY:
        return False
    known = signature(_NUMPY[entry["op"]]).parameters
    return set(entry["attributes"]) <= set(known) and all(one["dtype"] in _PLAIN for one in entry["constants"].values())


def makes(operators: Sequence[CpuOperator]) -> set[str]:
    """All tensors that these operators make."""
    return {name for entry in operators for name in entry["outputs"]}


def reads(operators: Sequence[CpuOperator]) -> list[str]:
    """The tensors that these operators read but do not make: the part's inputs, and constants that only its ONNX file has."""
    made = makes(operators)
    names = [name for entry in operators for name in entry["inputs"] if name not in entry["constants"]]
    return [name for name in dict.fromkeys(names) if name and name not in made]


# Rewrites of onnxruntime that change answers, or fail. The first two take every zero point for one of 8 bits: they drop a Relu
# before integers of 4 bits or short floats, and stop at a Clip. The third makes one rounding of two in a row. The fourth lets
# a MaxPool ignore the values of the Pad before it. The last two, which are one at two levels, move a rounding before a
# Transpose, where others read.
UNFAITHFUL = (
    *("ReluQuantRewrite", "ClipQuantRewrite", "DoubleQDQPairsRemover", "Pad_Fusion"),
    *("TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider"),
)


def session_options(onnxruntime: Any, threads: int | None = None) -> Any:
    """Options for sessions of onnxruntime: they round wherever Q and DQ stand, and nowhere else.

    onnxruntime: the module that the caller imported, since a board may lack it. threads: None: as many as onnxruntime likes.
    """
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 4  # an error is raised, so it need not be printed as well
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    leave_out_unfaithful(options)
    return options


def leave_out_unfaithful(options: Any) -> None:
    """Keeps the rewrites that change answers out of onnxruntime's session options; the others, and their speed, stay."""
    options.add_session_config_entry("optimization.disable_specified_optimizers", ";".join(UNFAITHFUL))


def onnxruntime_errors() -> tuple[type[Exception], ...]:
    """The classes that onnxruntime raises, which have no common base; none if it is not installed."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        return ()
    return tuple(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception))


class CpuPart:
    """A piece on the CPU; `model` is its ONNX file, `operators` the manifest's list, `name` what errors call it.

    numpy: whether it runs without onnxruntime, as far as the compiler knows. threads: as of `session_options`. quick: functions by
    operator that are quicker than a call of onnxruntime; a piece that has no others, but for views, does not use it.

    ToolError: nothing here can run it. ArtifactError: its file is damaged, so nothing can run it, when it is opened or later.
    """

    def __init__(
        self,
        model: bytes,
        operators: Sequence[CpuOperator],
        outputs: Sequence[str],
        name: str = "the part on the CPU",
        numpy: bool = True,
        threads: int | None = None,
        quick: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.operators, self.outputs, self.name = operators, list(outputs), name
        self._session = None
        self._functions = {**_NUMPY, **(quick or {})}
        with self._believed():
            self._constants = [
                {name: np.array(c["values"], c["dtype"]) for name, c in entry["constants"].items()} for entry in operators
            ]
        if numpy and all(entry["op"] in (*VIEWS, *(quick or ())) for entry in operators):
            return
        try:
            import onnxruntime
        except ImportError:
            foreign = sorted({entry["op"] for entry in operators} - set(_NUMPY))
            if foreign:
                raise ToolError(f"{', '.join(foreign)} runs on the CPU and needs onnxruntime: pip install onnxruntime") from None
            if not numpy:
                raise ToolError(f"{name} has large constants and needs onnxruntime: pip install onnxruntime") from None
            return
        with self._believed():
            self._session = onnxruntime.InferenceSession(
                model, session_options(onnxruntime, threads), ["CPUExecutionProvider"], enable_fallback=0
            )
            missing = {*self.outputs} - {entry.name for entry in self._session.get_outputs()}
            if missing:
                raise ValueError(f"it has no output {', '.join(sorted(missing))}")

    @contextmanager
    def _believed(self) -> Iterator[None]:
        """ArtifactError: the part is not what a compiler writes."""
        own = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)  # numpy's, depending on the damage
        failures: tuple[type[Exception], ...] = (*own, *onnxruntime_errors())
        try:
            yield
        except failures as error:
            raise ArtifactError(f"{self.name} cannot be run: {reason_of(error)[:200]}; compile it again") from None

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """As `_run`, with errors named. ArtifactError: as of the class."""
        with self._believed():
            return self._run(inputs)

    def _run(self, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """Every output by name, for one sample: a batch of one, wherever its axis is.

        `inputs` may hold more tensors than the part reads.
        """
        if self._session is None:
            return self._run_numpy({name: inputs[name] for name in reads(self.operators) if name in inputs})
        feeds = {entry.name: np.ascontiguousarray(inputs[entry.name]) for entry in self._session.get_inputs()}
        return dict(zip(self.outputs, self._session.run(self.outputs, feeds), strict=True))

    def steps(self) -> list[tuple[CpuOperator, Arrays]]:
        """The operators with their constants, in order; none where onnxruntime runs the part."""
        return list(zip(self.operators, self._constants, strict=True)) if self._session is None else []

    def call(self, entry: CpuOperator, operands: Sequence[NDArray[Any]]) -> Any:
        """What an operator makes of its inputs: an array, or a tuple of them."""
        return self._functions[entry["op"]](*operands, **entry["attributes"])

    def _run_numpy(self, values: Arrays) -> Arrays:
        for entry, constants in self.steps():
            made = self.call(entry, [constants[name] if name in constants else values[name] for name in entry["inputs"]])
            values |= dict(zip(entry["outputs"], made if isinstance(made, tuple) else (made,), strict=True))
        return {name: values[name] for name in self.outputs}
