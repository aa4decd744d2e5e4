"""How near float a network's answers are, sample by sample: functions for `cnna eval --metric`; `--truth` names the float model.

    cnna eval q.onnx model.onnx --data test.npz --metric tools/near_float.py:classes --truth model.onnx

Each gives what its name says, and for every output the power of float's answer (`signal NAME`) and that of the difference from it
(`noise NAME`).
"""

from collections.abc import Mapping
from math import inf, log10
from typing import Any

import detectors
import numpy as np
from faces import recall
from numpy.typing import NDArray

Answers = Mapping[str, NDArray[Any]]  # of one sample, by output name
Figures = dict[str, float]
SIGNAL, NOISE = "signal ", "noise "  # before an output's name


def classes(answers: Answers, target: Answers) -> Figures:
    """Whether the top-1 class is float's."""
    ours, wanted = (next(iter(one.values())).argmax() for one in (answers, target))
    return {"same": float(ours == wanted), **powers(answers, target)}


def faces(answers: Answers, target: Answers) -> Figures:
    """How many faces float finds, and how many of them are found."""
    found, total = recall(dict(answers), dict(target))
    return {"found": found, "faces": total, **powers(answers, target)}


def boxes(answers: Answers, target: Answers) -> Figures:
    """The mean overlap of the boxes of which float is surest, and of those in the same places."""
    return {"overlap": detectors.overlap(answers["y"], target["y"]), **powers(answers, target)}


def powers(answers: Answers, target: Answers) -> Figures:
    """Of each output."""
    found = {}
    for name, wanted in target.items():
        right = wanted.astype(np.float64)
        found[SIGNAL + name] = float(np.square(right).sum())
        found[NOISE + name] = float(np.square(answers[name].astype(np.float64) - right).sum())
    return found


def decibels(metrics: Mapping[str, Any]) -> list[float]:
    """Signal to noise of each output over all samples. metrics: of a model, as `cnna eval --json` writes them."""
    names = [name.removeprefix(SIGNAL) for name in metrics if name.startswith(SIGNAL)]
    both = [(metrics[SIGNAL + name]["value"], metrics[NOISE + name]["value"]) for name in names]
    return [10 * log10(signal / noise) if noise else inf for signal, noise in both]
