"""How near float a network's answers are when it is quantised in several ways: the second table of docs/accuracy.md.

`cnna eval` runs each variant's QDQ model in onnxruntime without graph optimisations, which is quicker than the emulator and gives
the same class on 97.5 to 100 % of the samples, as the first table says.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import detectors
import numpy as np
import onnx
import trained
from measured_files import DATA, evaluated, figures_of, judged_by
from near_float import decibels
from trained import FLOAT, Array, Trained

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise import heads, prepare
from cnna.compiler.quantise.quantise import quantise

MOST = 400  # samples of one row
VARIANTS: dict[str, dict[str, Any]] = {
    "without bias correction": {"correct_bias": False},
    "with bias correction (effort 0)": {},
    "percentile": {"method": "percentile"},
    "effort 1": {"effort": 1},
    "effort 2": {"effort": 2},
}
UNEQUAL = "without equalisation"  # as effort 0
TOGETHER = "one scale for a head"  # of detectors: as effort 0, but boxes and scores share a scale
ROWS = (*VARIANTS, UNEQUAL, TOGETHER)
PICTURES = 32  # of a detector's test
HEAD = f"""
## What parts of the quantiser bring

Here the same float network is quantised in several ways, with the same 100 calibration samples. At most {MOST}
test samples then run in onnxruntime, without graph optimisations.

- *Signal to noise* compares the outputs with the float network's: the power of its answers by that of the differences.
- *As float* is the share of samples with the float network's top-1 class, or of its faces that are found. For detectors
  with a YOLO's head it is the mean overlap (intersection over union) of the surest tenth of a picture's boxes with those of float.
- *Seconds* is the processor time that quantising took, on a machine that other work shared.
- *Percentile* is `--method percentile`, which cuts 0.001 % of the values at each end of a range; the others are min-max.
- *Effort* is the option `--effort` of `cnna quantize`: 1 corrects biases layer by layer, 2 learns the rounding of weights too.
- *Without equalisation* is effort 0 without scaling channels between layers. Networks with ReLU6 throughout have no such layers.
- *One scale for a head* is effort 0 without splitting a detector's head: boxes and scores have one scale.

The detectors `yolov3`, `yolov5`, `yolov8` and `yolox` are small: three convolutions, and the heads of their namesakes at two
strides. Their weights are seeded, and scaled as in trained networks (`tools/detectors.py`).

The first command measures these rows again. It keeps the model's files, and prints the command that measures them, such as the
second; the function is `faces` for faces and `boxes` for the last four detectors:

    .venv/bin/python tools/accuracy.py --models DIR --variants --only MODEL --keep FILES
    cnna eval effort-1.onnx model.onnx --data test.npz --metric tools/near_float.py:classes --truth model.onnx

| model | quantised | samples | signal to noise | as float | seconds |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Network:
    """A float network, its calibration and test samples, and what says how near its answers are to float's."""

    name: str
    load: Callable[[], onnx.ModelProto]
    calibration: Callable[[], Array]
    test: Callable[[], Array]
    judge: str  # a function of near_float.py
    near: Callable[[dict[str, Any]], str]  # the cell, of a variant's figures
    variants: Sequence[str] = (*VARIANTS, UNEQUAL)


def networks(root: Path) -> list[Network]:
    """The trained ones of a folder, then the detectors."""
    return [*(_of_folder(model) for model in trained.find(root) if model.file == FLOAT), *map(_detector, detectors.HEADS)]


def _detector(name: str) -> Network:
    calibration, test = partial(detectors.pictures, 100, seed=2), partial(detectors.pictures, PICTURES, seed=3)
    variants = ("with bias correction (effort 0)", "effort 1", "effort 2", TOGETHER)
    return Network(name, partial(detectors.detector, name), calibration, test, "boxes", _overlap, variants)


def _of_folder(model: Trained) -> Network:
    load = partial(load_model, model.path)
    calibration, test = (partial(_samples, model, split) for split in ("calib", "test"))
    judge, near = ("faces", _faces) if trained.samples(model, "test", 1).classes is None else ("classes", _classes)
    return Network(model.folder.name, load, calibration, test, judge, near)


def _samples(model: Trained, split: str) -> Array:
    return trained.samples(model, split, MOST).x


def measure(network: Network, folder: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Key and line of each variant's row. folder: for the models, and what measures them all at once."""
    proto, calibration, x = network.load(), network.calibration(), network.test()
    constants = {tensor.name for tensor in proto.graph.initializer}
    name = next(value.name for value in proto.graph.input if value.name not in constants)
    onnx.save(proto, folder / FLOAT)
    np.savez(folder / DATA, x=x)
    seconds = {}
    for variant in network.variants:
        started = time.process_time()
        equalising = patch.object(prepare, "pairs", prepare.pairs if variant != UNEQUAL else lambda graph, body: [])
        with equalising, patch.object(heads, "APART", inf if variant == TOGETHER else heads.APART):
            model, _ = quantise(proto, {name: calibration}, **VARIANTS.get(variant, {}))
        seconds[variant] = time.process_time() - started
        onnx.save(model, folder / _file(variant))
    files = [*map(_file, network.variants), FLOAT]
    found = evaluated(files, folder, *judged_by(network.judge), "--truth", FLOAT)
    for variant in network.variants:
        metrics = figures_of(found, _file(variant))
        noise = " and ".join(f"{one:.1f}" for one in decibels(metrics))
        figures = f"{len(x)} | {noise} dB | {network.near(metrics)} | {seconds[variant]:.1f}"
        yield (network.name, variant), f"| {network.name} | {variant} | {figures} |"


def _file(variant: str) -> str:
    """What a variant's model is called."""
    return "-".join(re.findall(r"\w+", variant)) + ".onnx"


def _faces(metrics: dict[str, Any]) -> str:
    """The share of float's faces that are found."""
    return f"{metrics['found']['value'] / metrics['faces']['value']:.1%}"


def _classes(metrics: dict[str, Any]) -> str:
    """The share of samples with float's class."""
    return f"{metrics['same']['value']:.1%}"


def _overlap(metrics: dict[str, Any]) -> str:
    """The mean overlap of boxes."""
    return f"{metrics['overlap']['value']:.3f}"
