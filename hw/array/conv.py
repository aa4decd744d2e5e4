"""The convolution engine: reads, array, requantiser, residual add, writes.

`Conv` only connects these; each takes its share of a command by itself.

gate ─▶ source fetch ─▶ issue ─▶ array ─▶ drain ─▶ residual add ─▶ scatter
  └──────────── residual fetch ──────────────────────┘
"""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.array.drain import Drain
from cnna.hw.array.fast_array import array_of
from cnna.hw.array.issue import Issue, issue_layout
from cnna.hw.array.residual import ResidualAdd, add_layout
from cnna.hw.base.broadcast import Broadcast, Share, Statements, members
from cnna.hw.base.ports import FeatureWrite, RingRead, command_layout
from cnna.hw.units.waits import COUNTS, UnitGate, gate_layout, waits_of
from cnna.hw.walk.decks import Decks
from cnna.hw.walk.fetch import Fetch, fetch_read
from cnna.hw.walk.scatter import Scatter
from cnna.hw.walk.walk import plane_walk, source_walk, walk_layout
from cnna.spec.config import Config
from cnna.spec.regmap import STALLS

UNITS_AHEAD_BITS = 6  # counts units permitted but not yet issued: fetch holds them, at worst each a single step
OPEN_BITS = 20  # counts units taken but not yet written


def _gate(share: data.View, command: data.View) -> Statements:
    return [
        share.waits.eq(waits_of(command)),
        share.walks.eq(command.chunks),
        share.readers.eq(Cat(1, command.res_enable)),
    ]


def _source(walk: data.View, command: data.View) -> Statements:
    return source_walk(walk, command, blocks=command.blocks, block=command.src_block, units=command.chunks, unit=0)


class Conv(wiring.Component):
    """Plays `conv` commands. `unit` pulses when every reader can see a chunk's words; `done` holds the counts of all engines.

    `active` and `stall` are for the counters; `stall` is an index into STALLS and counts only while `active` is 0. `started` is
    the number of commands since reset of which the array has taken a step.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("conv"))),
                "done": In(COUNTS),
                "ring": Out(RingRead(8 * config.ring_word_bytes)),
                "source": Out(fetch_read(config, config.pix, blocks=config.depth)),
                "residual": Out(fetch_read(config, config.half)),
                "write": Out(FeatureWrite(config, config.half)),
                "unit": Out(1),
                "busy": Out(1),
                "active": Out(1),
                "stall": Out(range(len(STALLS))),
                "started": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.broadcast = broadcast = Broadcast(command_layout("conv"), self._shares())
        m.submodules.gate = gate = UnitGate(readers=2, span=1)
        m.submodules.source = source = Fetch(self.config, self.config.pix, blocks=self.config.depth)
        m.submodules.residual = residual = Fetch(self.config, self.config.half, decks=Decks.BLOCKS)
        m.submodules.add = add = ResidualAdd(self.config)
        m.submodules.scatter = scatter = Scatter(self.config, decks=Decks.BLOCKS)
        wiring.connect(m, wiring.flipped(self.command), broadcast.command)
        parts: dict[str, wiring.Component] = {"gate": gate, "source": source, "residual": residual, "add": add, "scatter": scatter}
        for name, part in parts.items():
            wiring.connect(m, getattr(broadcast, name), part.command)
        for permit, fetch, memory in zip(gate.permit, (source, residual), (self.source, self.residual), strict=True):
            wiring.connect(m, permit, fetch.permit)
            wiring.connect(m, fetch.memory, wiring.flipped(memory))
        issue = self._multiply(m, broadcast, source, add)
        wiring.connect(m, residual.o, add.residual)
        wiring.connect(m, add.o, scatter.words)
        wiring.connect(m, scatter.memory, wiring.flipped(self.write))
        m.d.comb += [gate.done.eq(self.done), self.unit.eq(scatter.unit_done)]

        opened = Signal(OPEN_BITS)
        ahead = Signal(UNITS_AHEAD_BITS)
        given = Signal()  # a clock ago: the end of a chunk comes late in its clock
        ended = Signal()  # a clock ago too
        m.d.sync += opened.eq(opened + Mux(broadcast.taken, self.command.p.chunks, 0) - self.unit)
        m.d.sync += [given.eq(gate.given), ended.eq(issue.chunk_end), ahead.eq(ahead + given - ended)]
        m.d.comb += [
            self.busy.eq(self.command.valid | (opened != 0)),
            issue.blocked.eq(Mux(ahead == 0, gate.blocked, 0)),
        ]
        return m

    def _shares(self) -> dict[str, Share]:
        """Each part's share of a command."""

        def plane(name: str) -> Share:
            def assign(walk: data.View, command: data.View) -> Statements:
                blocks, depth = self.config.chunk_blocks, self.config.depth
                return plane_walk(
                    walk, command, name, blocks=blocks, units=command.chunks, blocks_total=command.dst_blocks, depth=depth
                )

            return Share(walk_layout(), assign)

        return {
            "gate": Share(gate_layout(2), _gate),
            "source": Share(walk_layout(), _source),
            "issue": members(issue_layout()),
            "add": members(add_layout()),
            "residual": plane("res")._replace(wanted=lambda command: command.res_enable),
            "scatter": plane("dst"),
        }

    def _multiply(self, m: Module, broadcast: Broadcast, source: Fetch, add: ResidualAdd) -> Issue:
        """Connects what leads from fetched words to the results of the requantiser."""
        m.submodules.issue = issue = Issue(self.config)
        m.submodules.array = array = array_of(self.config)
        m.submodules.drain = drain = Drain(self.config)
        wiring.connect(m, broadcast.issue, issue.command)
        wiring.connect(m, source.o, issue.source)
        wiring.connect(m, issue.ring, wiring.flipped(self.ring))
        wiring.connect(m, drain.o, add.mid)
        m.d.comb += [
            array.valid.eq(issue.feed.valid),
            array.first.eq(issue.feed.first),
            array.last.eq(issue.feed.last),
            array.words.eq(issue.words),
            array.weights.eq(self.ring.data),
            drain.sums_valid.eq(array.o_valid),
            drain.sums.eq(array.sums),
            drain.ring_data.eq(self.ring.data),
            *(getattr(drain, name).eq(getattr(issue, name)) for name in ("param_valid", "param", "group_push", "group")),
            *(getattr(drain, name).eq(getattr(issue, name)) for name in ("table_load", "table_newest")),
            *(getattr(issue, name).eq(getattr(drain, name)) for name in ("table_written", "table_passed")),
            *(getattr(issue, name).eq(getattr(drain, name)) for name in ("slot_free", "room_free")),
            issue.residual_late.eq(add.late),
            *(getattr(self, name).eq(getattr(issue, name)) for name in ("active", "stall", "started")),
        ]
        return issue
