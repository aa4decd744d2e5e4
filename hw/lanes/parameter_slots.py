"""Requantiser parameters in slots: the head of an engine loads a slot from the ring, its drain reads it for the groups that use it.

Both drains keep their parameters this way. A slot holds the parameters of one chunk (convolution) or one channel block (vector).
"""

from collections.abc import Sequence
from typing import NamedTuple

from amaranth import Module, Value
from amaranth.hdl import ShapeLike
from amaranth.lib import data
from amaranth.lib.memory import Memory

from cnna.hw.base.queues import CreditFifo

SLOTS = 4  # sets of parameters; each is in use from its first word until the last group that names it has drained
GROUPS = 16  # that may have left an engine's head and not yet drained


def param_write_layout(word: ShapeLike) -> data.StructLayout:
    """Which word of which slot the ring's data is."""
    return data.StructLayout({"slot": range(SLOTS), "word": word})


class SlotPart(NamedTuple):
    """What one memory keeps of a slot."""

    word: int  # of the slot's words in the ring, the one that holds this part
    data: Value  # this part of the ring's data


class SlotPorts(NamedTuple):
    """The signals that all memories share."""

    param_valid: Value  # the ring's data is the word `param` of a slot
    param: data.View
    group_push: Value  # a group that uses `slot` joins the queue of groups
    slot: Value
    group_done: Value  # the oldest group has drained


def parameter_slots(m: Module, ports: SlotPorts, parts: Sequence[SlotPart], per_queue: int) -> list[Value]:
    """The parts of the slot that the oldest group names, without a clock's delay.

    Each part has a small memory of its own. Every `per_queue` memories have their own queue of slot numbers, which moves with the
    queue of groups: one number for all memories would be a net of hundreds of loads.
    """
    answers = []
    for number, part in enumerate(parts):
        if number % per_queue == 0:
            m.submodules[f"slots{number}"] = slots = CreditFifo(range(SLOTS), GROUPS, copy=True)
            m.d.comb += [slots.push.eq(ports.group_push), slots.item.eq(ports.slot), slots.o.ready.eq(ports.group_done)]
        m.submodules[f"params{number}"] = memory = Memory(shape=len(part.data), depth=SLOTS, init=[])
        into, out = memory.write_port(), memory.read_port(domain="comb")
        m.d.comb += [
            into.en.eq(ports.param_valid & (ports.param.word == part.word)),
            into.addr.eq(ports.param.slot),
            into.data.eq(part.data),
            out.addr.eq(slots.o.p),
        ]
        answers.append(out.data)
    return answers
