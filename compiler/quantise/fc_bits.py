"""Chooses the fully connected layers whose weights get books of 16 values a channel, by what that costs in answers."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from cnna.compiler.graph.ir import Node
from cnna.compiler.quantise.answers import DIGITS, Judge
from cnna.compiler.quantise.books import FEWEST_INPUTS, fully_connected
from cnna.compiler.quantise.calibrate import Progress, check_samples
from cnna.compiler.quantise.quantise import Calibrated
from cnna.spec.errors import ModelError

Counter = Callable[[str], Progress | None]  # makes a printer of progress of what it names


def with_four_bits(given: Calibrated) -> Calibrated:
    """All layers that can have them get books. ModelError: there is none."""
    return replace(given, coded=frozenset(node.output for node in _candidates(given)))


def coded(
    given: Calibrated, samples: Mapping[str, np.ndarray], limit: float, say: Counter, metrics: Mapping[str, str] | None = None
) -> Calibrated:
    """Books for as many layers as the answers allow, the largest first.

    A layer gets them if what the network loses on the samples, without effort, stays within `limit` points of what 8 bits lose
    throughout. say: makes printers of progress. metrics: by which outputs are judged, where that is the user's choice. ModelError:
    there is no such layer, or no output can be compared.
    """
    layers = _candidates(given)
    count = check_samples(given.graph, samples, given.preprocess)
    judge = Judge(given.graph, samples, count, given.preprocess, progress=say("running in float"), metrics=metrics)
    whole = _lost(judge, given)
    progress = say("trying weights of 4 bits")
    for number, node in enumerate(layers, 1):
        tried = replace(given, coded=given.coded | {node.output})
        if round(_lost(judge, tried) - whole, DIGITS) <= limit:
            given = tried
        if progress:
            progress(number, len(layers))
    return given


def _candidates(given: Calibrated) -> list[Node]:
    layers = fully_connected(given.body)
    if not layers:
        what = f"no fully connected layer of {FEWEST_INPUTS} inputs or more runs on the accelerator"
        raise ModelError(f"{given.graph.name}: --fc-bits: {what}; leave the option out")
    return layers


def _lost(judge: Judge, given: Calibrated) -> float:
    """What the network loses against float, in points."""
    found = judge.loss(judge.results(given.trial(())))
    if found is None:
        raise ModelError(f"{judge.graph.name}: --fc-bits auto compares outputs with float, and none can be compared; take 8 or 4")
    return found.points
