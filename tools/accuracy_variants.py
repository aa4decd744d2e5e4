"""How near float a network's answers are when it is quantised in several ways: the second table of docs/accuracy.md.

Each variant's QDQ model runs in onnxruntime without graph optimisations, which is quicker than the emulator and gives the
same class on 97.5 to 100 % of the samples, as the first table says.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import trained
from faces import recall
from trained import FLOAT, Array, Trained

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.divergence import Divergence

MOST = 400  # samples of one row
VARIANTS: dict[str, dict[str, Any]] = {
    "without bias correction": {"correct_bias": False},
    "with bias correction (effort 0)": {},
    "percentile": {"method": "percentile"},
    "effort 1": {"effort": 1},
    "effort 2": {"effort": 2},
}
HEAD = f"""
## What parts of the quantiser bring

Here the same float network is quantised in several ways, with the same 100 calibration samples. At most {MOST}
test samples then run in onnxruntime, without graph optimisations.

- *Signal to noise* compares the outputs with the float network's: the power of its answers by that of the differences.
- *As float* is the share of samples with the float network's top-1 class, or of its faces that are found.
- *Seconds* is the processor time that quantising took, on a machine that other work shared.
- *Percentile* is `--method percentile`, which cuts 0.001 % of the values at each end of a range; the others are min-max.
- *Effort* is the option `--effort` of `cnna quantize`: 1 corrects biases layer by layer, 2 learns the rounding of weights too.

This command measures these rows again:

    .venv/bin/python tools/accuracy.py --models DIR --variants --only MODEL

| model | quantised | samples | signal to noise | as float | seconds |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Network:
    """A float network, its calibration and test samples, and whether its answers are faces."""

    name: str
    load: Callable[[], onnx.ModelProto]
    calibration: Callable[[], Array]
    test: Callable[[], Array]
    faces: bool = False


def networks(root: Path) -> list[Network]:
    """The trained ones of a folder."""
    return [_of_folder(model) for model in trained.find(root) if model.file == FLOAT]


def _of_folder(model: Trained) -> Network:
    load = partial(load_model, model.path)
    calibration, test = (partial(_samples, model, split) for split in ("calib", "test"))
    return Network(model.folder.name, load, calibration, test, faces=trained.samples(model, "test", 1).classes is None)


def _samples(model: Trained, split: str) -> Array:
    return trained.samples(model, split, MOST).x


def measure(network: Network) -> Iterator[tuple[tuple[str, str], str]]:
    """Key and line of each variant's row."""
    proto, calibration, x = network.load(), network.calibration(), network.test()
    constants = {tensor.name for tensor in proto.graph.initializer}
    name = next(value.name for value in proto.graph.input if value.name not in constants)
    in_float = trained.onnxruntime_answers(proto, x)
    for variant, how in VARIANTS.items():
        started = time.process_time()
        model, _ = quantise(proto, {name: calibration}, **how)
        seconds = time.process_time() - started
        ours = trained.onnxruntime_answers(model, x, optimised=False)
        figures = f"{len(x)} | {noise(ours, in_float)} | {agreement(network, ours, in_float):.1%} | {seconds:.1f}"
        yield (network.name, variant), f"| {network.name} | {variant} | {figures} |"


def noise(ours: dict[str, Array], in_float: dict[str, Array]) -> str:
    """Signal to noise of every output, in dB."""
    found = []
    for name, expected in in_float.items():
        one = Divergence(name)
        one.extend(ours[name], expected)
        found.append(f"{one.decibels:.1f}")
    return " and ".join(found) + " dB"


def agreement(network: Network, ours: dict[str, Array], in_float: dict[str, Array]) -> float:
    """The share of samples with float's class, or of float's faces."""
    if network.faces:
        return float(np.divide(*recall(ours, in_float)))
    return float(np.mean(trained.top1(ours) == trained.top1(in_float)))
