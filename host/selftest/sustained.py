"""Runs a network on a board again and again: are all answers right, is it as quick as its counter says, and how much power does
it take?

`cnna board selftest` does this after registers and memory (`selftest`), with the network of `selftest_network` or a user's own.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.model.answers import compare_answers
from cnna.host.model.session import InferenceSession
from cnna.host.selftest.selftest import CLOCK_PART, Finding
from cnna.host.selftest.selftest_network import network_for
from cnna.spec.artifact import Artifact
from cnna.spec.errors import CheckError, RunError
from cnna.spec.host_time.end_to_end import ALONE, TO_ANSWER
from cnna.spec.regmap import offset

SECONDS = 2.0  # of runs, for the throughput
POWER_SECONDS = 0.2  # between two readings of the sensors
BATCHES = 8  # in one run of the network that comes with the self-test
HOST_SECONDS, ACCESSES = 0.02, 100  # the host may add to each of its batches this much, and the time of so many register accesses
LOOKS = 21  # at a register, to find the time of one access

Watts = Callable[[], Mapping[str, float]]  # by sensor
Now = Callable[[], float]  # the clock on the wall, in seconds


@dataclass(frozen=True)
class Workload:
    """A network and samples for it. `expected`: the answers by output, from a named source; or None.

    `quick`: its CPU parts and copies are known to be small, so that the host's time can be limited.
    """

    artifact: Artifact
    inputs: Mapping[str, NDArray[Any]]
    expected: Mapping[str, NDArray[Any]] | None
    source: str
    quick: bool = False


def own_workload(board: BoardDevice, batches: int = BATCHES) -> Workload | None:
    """The network that comes with the self-test, with pictures for so many batches; None if no preset fits this accelerator."""
    found = network_for(board.config)
    if found is None:
        return None
    manifest = found.artifact.manifest
    times = -(-batches * manifest["batch"] // len(found.pictures))
    inputs = {manifest["model_inputs"][0]["name"]: np.tile(found.pictures, (times, 1, 1, 1))}
    answers = {manifest["model_outputs"][0]["name"]: np.tile(found.answers, (times, 1, 1, 1))}
    return Workload(found.artifact, inputs, answers, "the reference", quick=True)


def sustain(
    board: BoardDevice, workload: Workload, watts: Watts, virtual: bool, now: Now = time.perf_counter
) -> tuple[list[Finding], dict[str, Any]]:
    """Runs the workload for `SECONDS`, at least once. Returns the findings `network`, `throughput` and `energy`, and their figures.

    A figure that was not measured is None. On a `virtual` board time is not compared with the counter. An error that stops the
    accelerator is a finding; nothing is tried again.
    """
    figures: dict[str, Any] = dict.fromkeys(("images_per_second", "cycles", "counted_images_per_second", "watts"))
    samples = len(next(iter(workload.inputs.values())))
    found, runs = Finding("network", True, ""), 0
    seen: list[Mapping[str, float]] = []
    looked = float("-inf")
    try:
        with InferenceSession(workload.artifact, board, retries=0) as session:
            names = [output.name for output in session.get_outputs()]
            began = now()
            while found.good and (not runs or now() - began < SECONDS):
                run = session.run_async(None, workload.inputs)
                if now() - looked > POWER_SECONDS:  # while the network runs
                    looked = now()
                    seen.append(watts())
                found, runs = _compared(workload, dict(zip(names, run.result(), strict=True)), runs), runs + 1
            seconds = now() - began
            cycles = session.last["cycles"]
    except RunError as error:
        return [Finding("network", False, f"run {runs + 1}: {error}")], figures
    batches = runs * -(-samples // workload.artifact.manifest["batch"])
    figures |= {"images_per_second": runs * samples / seconds, "cycles": cycles}
    if cycles:
        figures["counted_images_per_second"] = workload.artifact.manifest["batch"] * board.config.clock_mhz * 1e6 / cycles
    figures |= _power(seen, figures["images_per_second"])
    return [found, throughput(board, workload, seconds / batches, cycles, virtual, now), energy(seen, figures)], figures


def throughput(board: BoardDevice, workload: Workload, seconds: float, cycles: float | None, virtual: bool, now: Now) -> Finding:
    """Compares the host's seconds of a batch, copies and Python included, with the clocks that the accelerator counted."""
    batch, images = workload.artifact.manifest["batch"], workload.artifact.manifest["batch"] / seconds
    text = f"{images:,.1f} images a second {TO_ANSWER}, by the clock on the wall"
    if not cycles:
        return Finding("throughput", virtual, f"{text}; this board counts no clocks")
    counted = cycles / (board.config.clock_mhz * 1e6)
    text += f"; the counter has {cycles:,.0f} clocks a batch of {batch}: "
    text += f"{batch / counted:,.0f} images a second {ALONE} at {board.config.clock_mhz} MHz"
    if virtual:
        return Finding("throughput", True, f"{text}; a virtual board's seconds are not a real one's")
    if seconds < counted * (1 - CLOCK_PART):
        return Finding("throughput", False, f"{text}; quicker than its own counter: is that its clock?")
    added, most = 1e3 * (seconds - counted), 1e3 * (HOST_SECONDS + ACCESSES * _access_seconds(board, now) + counted * CLOCK_PART)
    text += f"; the host adds {max(0.0, added):.1f} ms to a batch"
    return Finding("throughput", added < most or not workload.quick, f"{text} ({most:.0f} at most)" if workload.quick else text)


def energy(seen: list[Mapping[str, float]], figures: Mapping[str, Any]) -> Finding:
    """Joules an image, from what the sensors showed while the network ran."""
    if not any(seen):
        return Finding("energy", True, "not measured: no power sensors here")
    if not figures["watts"]:
        return Finding("energy", False, f"{', '.join(seen[-1])} show no power while the network runs")
    return Finding("energy", True, f"{figures['joules_per_image']:.4f} J an image at {figures['watts']:.1f} W")


def _power(seen: list[Mapping[str, float]], images_per_second: float) -> dict[str, float | None]:
    watts = statistics.fmean(sum(rails.values()) for rails in seen) if seen else 0.0
    return {"watts": watts or None, "joules_per_image": watts / images_per_second if watts else None}


def _compared(workload: Workload, answers: Mapping[str, NDArray[Any]], before: int) -> Finding:
    if workload.expected is None:
        return Finding("network", True, "it ran; --expect Y.npz would compare the answers")
    try:
        again = f", {before + 1:,} times" if before else ""
        return Finding("network", True, compare_answers("board", answers, workload.source, workload.expected) + again)
    except CheckError as error:
        return Finding("network", False, f"run {before + 1}: {error}")


def _access_seconds(board: BoardDevice, now: Now) -> float:
    """The median time of a register read: microseconds on a board, a thousand times as much over a network."""
    times = []
    for _ in range(LOOKS):
        began = now()
        board.read(offset("ID"))
        times.append(now() - began)
    return statistics.median(times)
