"""Gives a command to every module of an engine. Each module holds its own share, and takes it when it is ready.

The front of an engine can therefore start a command while its back still finishes the one before.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amaranth import Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

Statements = list[Any]  # Amaranth gives assignments no public type


class Share(NamedTuple):
    """What one part of an engine gets of a command."""

    layout: data.Layout
    assign: Callable[[data.View, data.View], Statements]  # of (share, command)
    wanted: Callable[[data.View], Value] = lambda command: Const(1)  # whether the part gets the command at all


def members(layout: data.StructLayout) -> Share:
    """A share of the command's members that have the names of the layout's members."""
    return Share(layout, lambda share, command: [share[name].eq(command[name]) for name, _ in layout])


class Broadcast(wiring.Component):
    """From `command` to one stream for each share, with the share's name. Each stream holds one share in a register.

    A command is taken once every share that wants it has it. `taken` is set in that clock.
    """

    def __init__(self, layout: data.Layout, shares: dict[str, Share]) -> None:
        self.shares = shares
        super().__init__(
            {"command": In(stream.Signature(layout)), "taken": Out(1)}
            | {name: Out(stream.Signature(share.layout)) for name, share in shares.items()}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command = self.command
        given = Signal(len(self.shares))
        has = Signal(len(self.shares))
        m.d.comb += [self.taken.eq(command.valid & has.all()), command.ready.eq(has.all())]
        for index, (name, share) in enumerate(self.shares.items()):
            part = getattr(self, name)
            m.d.comb += has[index].eq(given[index] | ~share.wanted(command.p))
            with m.If(part.valid & part.ready):
                m.d.sync += part.valid.eq(0)
            with m.If(command.valid & ~has[index] & ~part.valid):
                m.d.sync += [part.valid.eq(1), given[index].eq(1), *share.assign(part.p, command.p)]
            with m.If(self.taken):
                m.d.sync += given[index].eq(0)
        return m
