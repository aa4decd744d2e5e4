"""The vector engine: pooling, depthwise convolution, elementwise operations.

`Vector` only connects these; each takes its share of a command by itself.

gate ─▶ fetch ─▶ issue ─▶ sums ─▶ drain ─▶ scatter
"""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.broadcast import Broadcast, Share, Statements, members
from cnna.hw.base.ports import FeatureWrite, RingRead, command_layout
from cnna.hw.units.waits import COUNTS, UnitGate, gate_layout, waits_of
from cnna.hw.vector.drain import VectorDrain
from cnna.hw.vector.issue import VectorIssue, vector_issue_layout
from cnna.hw.vector.sums import VectorSums
from cnna.hw.walk.decks import Decks
from cnna.hw.walk.fetch import Fetch, fetch_read
from cnna.hw.walk.scatter import Scatter
from cnna.hw.walk.walk import plane_walk, source_walk, walk_layout
from cnna.spec.config import TAPS, Config

OPEN_BITS = 20  # counts blocks taken but not yet written


def _gate(share: data.View, command: data.View) -> Statements:
    return [share.waits.eq(waits_of(command)), share.walks.eq(command.blocks), share.readers.eq(1)]


def _source(walk: data.View, command: data.View) -> Statements:
    own = source_walk(walk, command, blocks=1, block=0, units=command.blocks, unit=command.src_block)
    return [*own, walk.flat.eq(command.b_flat), walk.flat_unit.eq(command.b_block), walk.apart.eq(command.window_apart)]


def _destination(walk: data.View, command: data.View) -> Statements:
    own = plane_walk(walk, command, "dst", blocks=1, units=command.blocks, blocks_total=0)
    return [*own, walk.columns.eq(command.window_columns)]


class UnitCount(wiring.Component):
    """Turns block pulses into unit pulses: one for every `span` blocks of a command, and one for the blocks that remain."""

    def __init__(self, span: int) -> None:
        self.span = span
        layout = data.StructLayout({"blocks": unsigned(16)})
        super().__init__({"command": In(stream.Signature(layout)), "block": In(1), "unit": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = Signal()
        left = Signal(16)
        inner = Signal(range(max(self.span, 2)))
        m.d.comb += [
            self.unit.eq(self.block & ((left == 1) | (inner == self.span - 1))),
            self.command.ready.eq(~running | (self.block & (left == 1))),
        ]
        with m.If(self.block):
            m.d.sync += [left.eq(left - 1), inner.eq(Mux(self.unit, 0, inner + 1)), running.eq(left != 1)]
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += [left.eq(self.command.p.blocks), running.eq(1)]
        return m


class Vector(wiring.Component):
    """Plays `vector` commands. `unit` pulses when every reader can see a unit's words; `done` holds the counts of all engines.

    `active` is set in the clock after each step.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("vector"))),
                "done": In(COUNTS),
                "ring": Out(RingRead(8 * config.vector_word_bytes)),
                "source": Out(fetch_read(config, config.pix, window=True)),
                "write": Out(FeatureWrite(config, config.half)),
                "unit": Out(1),
                "busy": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        shares = {
            "gate": Share(gate_layout(1), _gate),
            "source": Share(walk_layout(window=True), _source),
            "issue": members(vector_issue_layout()),
            "scatter": Share(walk_layout(cut=True), _destination),
            "units": members(data.StructLayout({"blocks": unsigned(16)})),
        }
        m.submodules.broadcast = broadcast = Broadcast(command_layout("vector"), shares)
        m.submodules.gate = gate = UnitGate(readers=1, span=config.chunk_blocks)
        m.submodules.source = source = Fetch(config, config.pix, window=True, decks=Decks.UNITS)
        m.submodules.issue = issue = VectorIssue(config)
        m.submodules.sums = sums = VectorSums(config)
        m.submodules.drain = drain = VectorDrain(config)
        m.submodules.scatter = scatter = Scatter(config, cut=True, decks=Decks.UNITS)
        m.submodules.units = units = UnitCount(config.chunk_blocks)
        wiring.connect(m, wiring.flipped(self.command), broadcast.command)
        parts: dict[str, wiring.Component] = {"gate": gate, "source": source, "issue": issue, "scatter": scatter, "units": units}
        for name, part in parts.items():
            wiring.connect(m, getattr(broadcast, name), part.command)
        wiring.connect(m, gate.permit[0], source.permit)
        wiring.connect(m, source.memory, wiring.flipped(self.source))
        wiring.connect(m, source.o, issue.source)
        wiring.connect(m, issue.ring, wiring.flipped(self.ring))
        wiring.connect(m, drain.o, scatter.words)
        wiring.connect(m, scatter.memory, wiring.flipped(self.write))
        m.d.comb += [
            gate.done.eq(self.done),
            sums.feed.eq(issue.feed),
            sums.words.eq(issue.words),
            sums.weights.eq(self.ring.data[: 8 * config.ci * TAPS]),
            drain.sums_valid.eq(sums.o_valid),
            drain.sums.eq(sums.sums),
            drain.ring_data.eq(self.ring.data),
            *(getattr(drain, name).eq(getattr(issue, name)) for name in ("param_valid", "param", "group_push", "group")),
            *(getattr(drain, name).eq(getattr(issue, name)) for name in ("table_load", "table_newest")),
            *(getattr(issue, name).eq(getattr(drain, name)) for name in ("table_written", "table_passed")),
            *(getattr(issue, name).eq(getattr(drain, name)) for name in ("slot_free", "room_free")),
            units.block.eq(scatter.unit_done),
            self.unit.eq(units.unit),
            self.active.eq(issue.active),
        ]
        opened = Signal(OPEN_BITS)
        m.d.sync += opened.eq(opened + Mux(broadcast.taken, self.command.p.blocks, 0) - scatter.unit_done)
        m.d.comb += self.busy.eq(self.command.valid | (opened != 0))
        return m
