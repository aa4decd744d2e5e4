"""The part of the self-test that proves cached memory, or leaves it uncached: every byte must be as in uncached memory, and sooner.

A wrong byte here is no fault of the board: memory stays uncached, as it is by default, and everything works.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.cached_memory import CachedMemory
from cnna.host.model.session import InferenceSession
from cnna.host.selftest.selftest import SEED, Finding, Placed, copy_program
from cnna.host.selftest.sustained import Workload
from cnna.spec.errors import RunError

ROUNDS = 64  # of patterns, and runs of the network
TIMED_BYTES, TIMES = 1 << 20, 5  # to compare the speed of both kinds of memory; the quickest of so many counts
NAME = "cached memory"

Now = Callable[[], float]


def cached_memory(board: BoardDevice, workload: Workload | None, now: Now = time.perf_counter) -> Finding:
    """Tries cached memory with patterns and with the network, and lets models use it if all is right and it is quicker.

    A RunError is a finding; nothing is concluded from it.
    """
    caching = board.caching
    if caching is None:
        return Finding(NAME, True, "not tried: a program cannot maintain a cache between itself and this board")
    try:
        with caching.tried(True):
            wrong = _patterns(board) or (_network(board, caching, workload) if workload else "") or _slower(board, now)
    except RunError as error:
        return Finding(NAME, False, str(error))
    added = caching.conclude(not wrong)
    if wrong:
        return Finding(NAME, True, f"memory stays uncached: {wrong}")
    network = f" and {ROUNDS} runs of the network" if workload else ""
    return Finding(NAME, True, f"{ROUNDS} patterns{network} are as in uncached memory: models use it from now on{added}")


def _patterns(board: BoardDevice) -> str:
    """Sends random bytes through the accelerator and back, in three parts of random sizes. Returns what is wrong, or nothing.

    What was there before is in the cache: the host has just read it.
    """
    program, size = copy_program(board)
    random = np.random.default_rng(SEED)
    with board.turns.mine("self-test"), Placed(board, program, size, board.allocate_moved) as placed:
        for number in range(ROUNDS):
            board.load(placed.output, size)
            data = random.integers(0, 256, size, np.uint8)
            for first, end in pairwise((0, *sorted(random.integers(1, size, 2).tolist()), size)):
                board.store(placed.input + first, data[first:end])
            placed.run()
            if wrong := int((np.frombuffer(board.load(placed.output, size), np.uint8) != data).sum()):
                return f"{wrong:,} of {size:,} bytes differ in pattern {number + 1}"
    return ""


def _network(board: BoardDevice, caching: CachedMemory, workload: Workload) -> str:
    """Runs the network with other samples each time, in both kinds of memory. Returns what is wrong, or nothing."""
    with InferenceSession(workload.artifact, board, retries=0) as session:
        cached = [_digest(answers) for answers in session.stream(None, _feeds(workload))]
    with caching.tried(False), InferenceSession(workload.artifact, board, retries=0) as session:
        uncached = [_digest(answers) for answers in session.stream(None, _feeds(workload))]
    wrong = [number + 1 for number, (one, other) in enumerate(zip(cached, uncached, strict=True)) if one != other]
    return f"the network's answers differ in run {wrong[0]}" if wrong else ""


def _feeds(workload: Workload) -> Iterator[Mapping[str, NDArray[Any]]]:
    """The workload's first batch, each time turned and raised by one more, so that no two are equal."""
    batch, samples = workload.artifact.manifest["batch"], len(next(iter(workload.inputs.values())))
    first = {name: x[:batch] if len(x) == samples else x for name, x in workload.inputs.items()}
    for number in range(ROUNDS):
        yield {name: np.roll(x, number, -1) + x.dtype.type(number) for name, x in first.items()}


def _digest(answers: Sequence[Any]) -> bytes:
    """What stands for a run's answers, which may be large."""
    found = hashlib.sha256()
    for y in answers:
        for part in y if isinstance(y, list) else [y]:
            found.update(np.ascontiguousarray(part).tobytes())
    return found.digest()


def _slower(board: BoardDevice, now: Now) -> str:
    """Compares how long it takes to store bytes and to load them. Returns what is wrong with cached memory, or nothing."""
    data = np.random.default_rng(SEED).integers(0, 256, TIMED_BYTES, np.uint8)
    seconds = []
    for allocate in (board.allocate, board.allocate_moved):
        with board.turns.mine("self-test"), board.kept() as made:
            address = allocate(TIMED_BYTES)
            seconds.append(min(_seconds(board, address, data, now) for _ in range(TIMES)))
        for address in made:
            board.free(address)
    uncached, cached = seconds
    if cached < uncached:
        return ""
    return f"it is slower: {1e3 * cached:.2f} ms to store and load {TIMED_BYTES >> 20} MiB, {1e3 * uncached:.2f} ms uncached"


def _seconds(board: BoardDevice, address: int, data: NDArray[np.uint8], now: Now) -> float:
    """How long it takes to store and load once."""
    began = now()
    board.store(address, data)
    board.load(address, data.size)
    return now() - began
