"""Reads feature memory along a walk, and gives a stream of word groups with the padding already put in.

A `Walker` says where, a read port of feature memory brings the words, and a FIFO holds them until the engine takes them. Feature
memory cannot be stopped, so a read is asked for only when the FIFO has room for its answer. The flags of a step and the value of
its padding go through feature memory as the tag.
"""

from amaranth import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import KEEP
from cnna.hw.base.ports import FeatureRead, Permit
from cnna.hw.base.queues import CreditFifo
from cnna.hw.base.timing import tally
from cnna.hw.walk.walk import flags_of, walk_layout
from cnna.hw.walk.walker import Walker
from cnna.spec.config import Config

DEPTH = 16  # groups under way: the latency of feature memory and of the FIFO, and a few more
FLAGS = flags_of(False)


def fetched_layout(config: Config, lanes: int) -> data.StructLayout:
    """A step's words, or the padding where a lane's tap lies outside the source; flags as in `walk.step_layout`."""
    return data.StructLayout(
        {
            "words": data.ArrayLayout(unsigned(8 * config.ci), lanes),
            "exists": unsigned(lanes),
            **dict.fromkeys(FLAGS, unsigned(1)),
        }
    )


def fetch_tag_layout(lanes: int, flat: bool = False) -> data.StructLayout:
    """The tag of a request: what comes back with its words."""
    flags = dict.fromkeys(flags_of(flat), unsigned(1))
    return data.StructLayout({"exists": unsigned(lanes), "inside": unsigned(lanes), **flags, "pad": signed(8)})


def fetch_read(config: Config, lanes: int, flat: bool = False) -> FeatureRead:
    """The read port that a fetch of `lanes` lanes needs."""
    return FeatureRead(config, lanes, fetch_tag_layout(lanes, flat).size)


class Fetch(wiring.Component):
    """Fetches a step a clock. A unit starts only after `permit` has allowed it.

    The next command's walk is set up while the last unit of this one is read. With `flat`, walks may have a flat tap, whose word
    goes to every lane.
    """

    def __init__(self, config: Config, lanes: int, flat: bool = False) -> None:
        self._config, self._lanes, self._flat = config, lanes, flat
        super().__init__(
            {
                "command": In(stream.Signature(walk_layout(flat))),
                "permit": In(Permit()),
                "memory": Out(fetch_read(config, lanes, flat)),
                "o": Out(stream.Signature(fetched_layout(config, lanes))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = Walker(self._lanes, self._flat)
        m.submodules.fifo = fifo = CreditFifo(fetched_layout(self._config, self._lanes), DEPTH)
        wiring.connect(m, wiring.flipped(self.permit), walker.permit)
        wiring.connect(m, wiring.flipped(self.o), fifo.o)
        step, request, response = walker.step, self.memory.request, self.memory.response
        layout = fetch_tag_layout(self._lanes, self._flat)
        sent, taken, given = Signal(layout), Signal(), Signal()
        room = tally(m, DEPTH, taken, given).room  # `given` comes late, through all that reads `o`
        wiring.connect(m, walker.command, wiring.flipped(self.command))
        m.d.comb += [
            taken.eq(request.valid & request.ready),
            given.eq(fifo.o.valid & fifo.o.ready),
            request.valid.eq(step.valid & room),
            step.ready.eq(request.ready & room),
            request.p.active.eq(step.p.inside),
            request.p.address.eq(step.p.address),
            request.p.tag.eq(sent),
            *(sent[name].eq(step.p[name]) for name, _ in layout),
        ]

        tag = data.View(layout, response.p.tag)
        pad = tag.pad.replicate(self._config.ci)
        if self._flat:
            other = Signal(8 * self._config.ci, attrs=KEEP)  # kept: otherwise `flat` would lead to each bit of every lane
            m.d.comb += other.eq(Mux(tag.flat, response.p.words[0], pad))
            pad = other
        m.d.comb += [fifo.push.eq(response.valid), *(fifo.item[name].eq(tag[name]) for name in ("exists", *FLAGS))]
        m.d.comb += [fifo.item.words[i].eq(Mux(tag.inside[i], response.p.words[i], pad)) for i in range(self._lanes)]
        return m
