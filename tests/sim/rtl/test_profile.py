"""Beats in the weight rings are given to the commands that asked for them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.sim.rtl.linked_models import BROUGHT
from cnna.sim.rtl.profile import weight_clocks
from cnna.spec.errors import RunError
from cnna.spec.program.commands import commands

from ... import networks
from ...configurations import ODD


@pytest.fixture(scope="module")
def piece() -> Any:
    """A program for three ports, with weights for both rings."""
    return compile_graph(networks.network(12), ODD, 1).piece()


def asked(piece: Any) -> list[SimpleNamespace]:
    """The weight commands of a program."""
    return [command.f for command in commands(piece.program) if command.engine == "weight"]


def log_of(piece: Any) -> tuple[np.ndarray[Any, Any], list[tuple[int, int]]]:
    """A log in which each port brings a beat a clock, port n beginning n clocks later, and what the commands' clocks then are.

    The vector ring's beats come by port 0, as those of its column 0 do.
    """
    taken: dict[int, int] = {}
    clocks, spans = [0, 1, 2], []
    for f in asked(piece):
        beats, columns = f.beats * f.repeat, [ODD.ports] if f.ring else range(ODD.ports)
        begins = []
        for column in columns:
            port = column % ODD.ports
            begins.append(clocks[port])
            for clock in range(clocks[port], clocks[port] + beats):
                taken[clock] = taken.get(clock, 0) | 1 << column
            clocks[port] += beats
        spans.append((min(begins), max(begins) + beats - 1))
    return np.array(sorted(taken.items()), np.uint32).reshape(-1).view(BROUGHT), spans


def test_each_command_gets_its_own_beats(piece: Any) -> None:
    """The clocks would be those of the command before, or of a port that is ahead."""
    assert {f.ring for f in asked(piece)} == {0, 1}
    log, spans = log_of(piece)
    assert weight_clocks(piece, log) == spans


@pytest.mark.parametrize("change", ["fewer", "none", "more"])
def test_beats_of_another_program_are_refused(piece: Any, change: str) -> None:
    """They would shift the clocks of all commands behind them."""
    log, _ = log_of(piece)
    log = {"fewer": log[:-1], "none": log[:0], "more": np.concatenate([log, log[-1:]])}[change]
    with pytest.raises(RunError, match="weight rings took"):
        weight_clocks(piece, log)
