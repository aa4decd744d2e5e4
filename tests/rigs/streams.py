"""Feeds a stream component in the Amaranth simulator and collects its answers, at several paces.

It is for blocks without a DSP48E2; blocks with one run under Verilator, see `bench`.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.lib.wiring import Component
from amaranth.sim import Simulator


class StreamPace(NamedTuple):
    """How often the two sides take part in a clock."""

    offer: float  # chance that the source offers its next item
    accept: float  # chance that the sink is ready
    waits_for_valid: bool = False  # the sink is ready only when it sees an answer: a source that waits for ready would hang


PACES = {
    "full": StreamPace(1, 1),
    "ragged": StreamPace(0.7, 0.5),
    "starved": StreamPace(0.2, 1),
    "blocked": StreamPace(1, 0.2),
    "shy": StreamPace(1, 0.8, waits_for_valid=True),
}


def run_stream(component: Component, items: Sequence[Any], pace: str = "full", clocks_per_item: int = 100) -> tuple[list[Any], int]:
    """Sends `items` into `component.i`; returns as many payloads of `component.o`, and the clocks that this took.

    AssertionError: answers take longer than `clocks_per_item` clocks an item, or one changes or vanishes while it waits for
    `ready`.
    """
    draw, manner, clocks = random.Random(1), PACES[pace], clocks_per_item * len(items)
    answers: list[Any] = []
    source, sink = component.i, component.o

    async def drive(ctx: Any) -> None:
        nonlocal clocks
        sent, waiting = 0, None
        for clock in range(clocks):
            if sent < len(items) and not ctx.get(source.valid) and draw.random() < manner.offer:
                ctx.set(source.payload, items[sent])
                ctx.set(source.valid, 1)
            seen = ctx.get(sink.valid)
            ctx.set(sink.ready, int(draw.random() < manner.accept and (seen or not manner.waits_for_valid)))
            valid, payload = ctx.get(sink.valid), ctx.get(sink.payload)
            assert waiting is None or (valid and payload == waiting[0]), f"answer {len(answers)} did not hold still"
            taken = valid and ctx.get(sink.ready)
            waiting = (payload,) if valid and not taken else None
            if taken:
                answers.append(payload)
            went = ctx.get(source.valid) and ctx.get(source.ready)
            if len(answers) == len(items):
                clocks = clock + 1
                return
            await ctx.tick()
            if went:
                sent += 1
                ctx.set(source.valid, 0)
        raise AssertionError(f"{len(answers)} of {len(items)} answers in {clocks} clocks")

    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return answers, clocks
