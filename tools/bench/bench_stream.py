"""Rows "stream" of docs/performance.md: queued runs that follow each other on the RTL, with a host that reacts late.

The real driver runs RUNS pictures. Their clocks, from the first `clear` to the last end, are held against those of as many runs
alone, which the row of the same network has.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bench_lines import is_stale
from bench_rows import Row, streams
from late_board import LateBoard

from cnna.host.model.session import InferenceSession
from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.artifact import load
from cnna.spec.errors import RunError

Found = Mapping[str, Any]
RUNS, LATE_CLOCKS = 8, 15_000
MORE_CLOCKS = 60  # a run, that a stream may take more than runs alone
HEADS = ("row", "one run alone", f"{RUNS} alone", f"{RUNS} queued", "at most", "between two runs", "what")
ABOUT = f"""\
{RUNS} pictures in the accelerator's queue ([how](queue.md)), in clocks, from the first `clear` to the last end by the accelerator's
counters. The driver keeps one run going and two queued. Its host reacts {LATE_CLOCKS:,} clocks after each end.
A row may take {MORE_CLOCKS} clocks a run more than runs alone.

"""


def run(artifact: Path, test: Path, late_clocks: int = LATE_CLOCKS) -> dict[str, Any]:
    """Runs pictures of `test` behind each other. Returns the clocks of all ("cycles"), of each run, and between two of them.

    RunError: an answer is not the reference's, or runs end sooner than the host reacts.
    """
    rtl = CosimDevice(load(artifact).config)
    try:
        board = LateBoard(rtl, late_clocks)
        feeds, answers = _answers(artifact, test, board)
    finally:
        rtl.close()
    with InferenceSession(artifact, device="reference") as session:
        for number, (feed, answer) in enumerate(zip(feeds, answers, strict=True)):
            if not all(map(np.array_equal, session.run(None, feed), answer)):
                raise RunError(f"run {number} of the stream has another answer than the reference")
    if not board.begins.keys() == board.cycles.keys() == set(range(RUNS)):
        raise RunError(f"the host reacts {late_clocks:,} clocks late, and runs end sooner: take a larger network")
    clocks = [board.cycles[number] for number in range(RUNS)]
    ends = [board.begins[number] + clocks[number] for number in range(RUNS)]
    gaps = [board.begins[number + 1] - ends[number] for number in range(RUNS - 1)]
    return {"cycles": ends[-1] - board.begins[0], "runs": clocks, "between": gaps}


def _answers(artifact: Path, test: Path, board: LateBoard) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """RUNS different inputs, and what the model on the board makes of them."""
    with InferenceSession(artifact, device=board) as session, np.load(test) as pictures:
        ports = [port.name for port in session.get_inputs()]
        given = dict(zip(ports, (pictures[name] for name in pictures.files), strict=False))  # labels come behind the inputs
        feeds = [{name: x[number : number + 1] for name, x in given.items()} for number in range(RUNS)]
        return feeds, list(session.stream(None, feeds))


def most_clocks(one: int) -> int:
    """What a stream may take, from the clocks of one run alone."""
    return RUNS * (one + MORE_CLOCKS)


def section(kept: Mapping[str, Found]) -> list[tuple[str, ...]]:
    """The lines of the table, of rows that the RTL has run both ways."""
    return [_cells(row, kept) for row in _measured(kept)]


def missed(kept: Mapping[str, Found]) -> list[str]:
    """A line for each row that takes more clocks than it may."""
    found = list[str]()
    for row in _measured(kept):
        clocks, most = kept[row.key]["measured"]["cycles"], most_clocks(_alone(row, kept))
        if clocks > most:
            found.append(f"- **{row.key}**: {clocks:,} of {most:,} clocks. The cause is not named yet.")
    return found


def _measured(kept: Mapping[str, Found]) -> list[Row]:
    both = [(row, row.alone) for row in streams()]
    return [row for row, alone in both if all(one.key in kept and kept[one.key]["measured"] for one in (row, alone))]


def _alone(row: Row, kept: Mapping[str, Found]) -> int:
    return int(kept[row.alone.key]["measured"]["cycles"])


def _cells(row: Row, kept: Mapping[str, Found]) -> tuple[str, ...]:
    measured, one = kept[row.key]["measured"], _alone(row, kept)
    stale = "*stale*, " if is_stale(kept[row.key]) or is_stale(kept[row.alone.key]) else ""
    gaps = sorted({min(measured["between"]), max(measured["between"])})
    figures = (one, RUNS * one, measured["cycles"], most_clocks(one))
    between = " to ".join(map(str, gaps))
    return (row.key, *(f"{clocks:,}" for clocks in figures), between, f"{stale}RTL == reference, {measured['date']}")
