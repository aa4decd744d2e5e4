"""Random chains of what exporters write between layers, in odd ranks, with computed shapes, at old and new opsets."""

import re

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.errors import ModelError

from ..written import answers, images, written
from .test_quantised_import import run_whole

OPSETS = (7, 9, 10, 12, 13, 17, 18, 21)
LINE = r"node '[^']+' \(\w+\)[^\n]*; [^\n]+"  # which node, why, and what to do


class Chain:
    """Grows the text of a graph; `shape` is that of its last tensor for one sample, behind the batch axis."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.weights: dict[str, np.ndarray] = {}
        self.last = "x"
        self.shape: tuple[int, ...] = (int(self.rng.integers(2, 5)), 6, 4)

    def constant(self, value) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def normal(self, *shape: int) -> str:
        return self.constant((self.rng.normal(size=shape) / np.sqrt(max(1, int(np.prod(shape[1:]))))).astype(np.float32))

    def put(self, call: str, shape: tuple[int, ...]) -> None:
        self.last, self.shape = f"t{len(self.lines)}", shape
        self.lines.append(f"{self.last} = {call}")

    def conv(self) -> None:
        count, kernel = int(self.rng.choice([2, 4, 6])), int(self.rng.choice([1, 3]))
        weights = self.normal(count, self.shape[0], kernel, kernel)
        self.put(f"Conv <pads={[kernel // 2] * 4}> ({self.last}, {weights})", (count, *self.shape[1:]))

    def elementwise(self) -> None:
        kind, count = int(self.rng.integers(4)), self.shape[0]
        along = (count,) + (1,) * (len(self.shape) - 1)
        if kind == 0:
            self.put(f"Relu ({self.last})", self.shape)
        elif kind == 1:
            positive = self.constant(self.rng.uniform(0.5, 2, count).astype(np.float32))
            self.put(
                f"BatchNormalization ({self.last}, {positive}, {self.normal(count)}, {self.normal(count)}, {positive})", self.shape
            )
        elif kind == 2:
            where = along if self.rng.random() < 0.8 else (self.shape[-1],)
            self.put(f"Add ({self.normal(*where)}, {self.last})", self.shape)
        else:
            factor = self.constant(self.rng.uniform(0.5, 2, along).astype(np.float32))
            self.put(f"Mul ({self.last}, {factor})", self.shape)

    def reshape(self, *shape: int) -> None:
        """Adds a Reshape to a constant target, or to one that takes its first size from a tensor, sometimes by way of a float."""
        before = self.last
        if self.rng.random() < 0.5:
            return self.put(f"Reshape ({before}, {self.constant((0, *shape))})", shape)
        self.put(f"Shape ({before})", ())
        self.put(f"Gather ({self.last}, {self.constant([0])})", ())
        if self.rng.random() < 0.5:
            self.put(f"Cast <to=1> ({self.last})", ())
            self.put(f"Cast <to=7> ({self.last})", ())
        self.put(f"Concat <axis=0> ({self.last}, {self.constant(shape)})", ())
        return self.put(f"Reshape ({before}, {self.last})", shape)

    def around(self) -> None:
        """Adds elementwise operators in another shape, and the way back; sometimes groups of channels change their order."""
        whole = self.shape
        shapes = [(whole[0], whole[1] * whole[2]), (1, *whole)] + [(2, whole[0] // 2, *whole[1:])] * (2 - 2 * (whole[0] % 2))
        self.reshape(*shapes[self.rng.integers(len(shapes))])
        for _ in range(self.rng.integers(1, 3)):
            self.elementwise()
        if len(self.shape) == 4 and self.rng.random() < 0.4:
            swapped = (self.shape[1], self.shape[0], *self.shape[2:])
            self.put(f"Transpose <perm=[0, 2, 1, 3, 4]> ({self.last})", swapped)
        self.reshape(*whole)

    def beside(self) -> None:
        """Adds a tensor that goes two ways."""
        before, whole = self.last, self.shape
        self.elementwise()
        if self.rng.random() < 0.5:
            self.put(f"Add ({before}, {self.last})", whole)
        else:
            self.put(f"Concat <axis=1> ({self.last}, {before})", (2 * whole[0], *whole[1:]))

    def classify(self) -> None:
        if self.rng.random() < 0.5:
            self.put(f"GlobalAveragePool ({self.last})", (self.shape[0], 1, 1))
        self.reshape(int(np.prod(self.shape)))
        self.put(f"Gemm ({self.last}, {self.normal(*self.shape, 5)}, {self.normal(5)})", (5,))


def chain(seed: int, opset: int):
    """A model of one to four such parts behind a convolution, sometimes with a classifier."""
    made = Chain(10 * seed + opset)
    channels = made.shape[0]
    made.conv()
    for _ in range(made.rng.integers(1, 5)):
        [made.conv, made.elementwise, made.around, made.around, made.beside][made.rng.integers(5)]()
    if made.rng.random() < 0.6:
        made.classify()
    sizes = ",".join(["N", *map(str, made.shape)])
    text = f"g (float[N,{channels},6,4] x) => (float[{sizes}] {made.last}) {{ {' '.join(made.lines)} }}"
    return written(text, made.weights, opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_runs_or_says_why_not(opset, seed):
    """There would be a traceback, an answer other than the float model's, or a line without node or remedy."""
    lines = []
    for number in range(4):
        model = chain(1000 * seed + number, opset)
        lines.append(_attempt(model, images(model, 8)))
    assert all(line is None or re.search(LINE, line) for line in lines), lines
    assert None in lines, lines  # a compiler that refuses everything would pass otherwise


def _attempt(model, feeds) -> str | None:
    """Quantises a model, reads the result and compares the answers; returns the line that refuses it, or None."""
    try:
        quantised, _ = quantise(load_model(model.SerializeToString()), feeds)
    except ModelError as error:
        return str(error)
    split = import_quantised(load_model(quantised.SerializeToString()))
    (expected,) = answers(model, feeds)
    answer = run_whole(split, feeds)[model.graph.output[0].name].reshape(expected.shape)
    assert np.abs(answer - expected).max() < 0.2 * max(np.ptp(expected), 0.05 * np.abs(expected).max())
    return None
