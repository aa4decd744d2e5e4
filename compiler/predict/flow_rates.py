"""Rates of the engines that share a resource: DDR bandwidth, and the shared port of the feature-memory banks. Used by `event_loop`.

`ddr_division` divides the bandwidth of DDR. For bank conflicts, a short stretch is simulated clock by clock (`shared_port`,
`beat_model`), from the present positions of the engines. The rates found hold until another engine starts or stops, or until the
stretch ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from cnna.compiler.cost.engine_steps import taps_of
from cnna.compiler.predict.active_engines import ActiveEngines, Flow, Requesters, Walk
from cnna.compiler.predict.array_writes import WalkWrites
from cnna.compiler.predict.beat_model import NOTED_CLOCKS, BeatModel, Behind, DdrClocks, Notes
from cnna.compiler.predict.ddr_beats import Transfer
from cnna.compiler.predict.ddr_division import LEAST, DdrDivision
from cnna.compiler.predict.known_stretches import KnownStretches, Positions, Stretch
from cnna.compiler.predict.read_ahead import GroupReads, QuickReads, SlowWrites, first_reads
from cnna.compiler.predict.request_parts import GroupParts
from cnna.compiler.predict.shared_port import (
    WRITTEN_CLOCKS,
    Requester,
    VectorReads,
    VectorWrites,
    WrittenPart,
    simulate,
)
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import DdrSpeed

Held = tuple[float, int]  # beats that a transfer had moved, and beats in its FIFOs
Shares = dict[int, list[float]]  # by the kinds of the flows in their order, their speeds; negative: as they are
STRETCH_CLOCKS: Final = 256  # length of a simulated stretch
STEADY_CLOCKS: Final = 512  # how long the rates of a stretch are reused while no load or store runs: rows visit the banks in turn
FAR: Final = 0.05  # from DDR's rate: where a simulated stretch differs by less, DDR's rate holds
KINDS: Final = 1 << 15  # more than there are kinds of flows: the digits of the keys of `Shares`
NO_NOTES: Final = Notes([])


@dataclass(frozen=True)
class SlowStretch:
    """A simulated stretch of a slow walk, from group `first` on. done: the parts of the walk that had been written at its begin."""

    walk: Walk
    first: int
    done: int
    reads: QuickReads
    writes: SlowWrites
    begin: float


class FlowRates:
    """Sets the rates of the flows.

    ports: by name, the number of ports of each flow from or to DDR. known: stretches of the same configuration and DDR. until: the
    clock at which to set rates again; inf: never.
    """

    def __init__(self, config: Config, memory: DdrSpeed, ports: Mapping[str, int], known: KnownStretches | None = None) -> None:
        self._known = KnownStretches() if known is None else known
        self._config, self._ports = config, ports
        self._division = DdrDivision(config, memory, ports)
        self._ddr = BeatModel(memory.bytes_per_cycle / BEAT_BYTES, config.ports, memory.latency_cycles)
        self._kinds: dict[tuple[str, float], int] = {}  # by name and `most`, of flows
        self._shares: dict[tuple[object, ...], Shares] = {}  # by what `_limit` has set
        self._unlimited: Shares = {}
        self._limit({}, {})
        self._seen: Requesters | None = None  # those of the last simulated stretch; None: it is over
        self._begin = 0.0  # start of that stretch
        self._ahead: SlowStretch | None = None
        self._parts: tuple[Walk, GroupParts] | None = None
        self._written: tuple[Walk | None, VectorWrites, float] | None = None  # what a walk writes; the begin of its stretch
        self._simulated = 0  # clocks of the last stretch
        self._drained = 0  # the clocks of that stretch until a store had ended; 0 if it had not
        self._idle = True  # whether nothing could be delayed since the last stretch
        self._writes_now: WalkWrites | None = None
        self._noted: list[Transfer] = []  # those of the stretch
        self.notes = NO_NOTES  # and their positions
        self.until = inf

    def set(self, work: ActiveEngines, now: float) -> None:
        """Sets the rates of the engines now at work. Feature memory limits loads, stores and the vector engine."""
        if not work.delayed():
            self.until = inf
            self._seen, self._idle = None, True
        elif self._seen is None or now >= self.until or not self._seen.same(work):
            self._look_ahead(work, now)
            self._seen = Requesters(work.writing, work.reading, work.moving.get("load"), work.moving.get("store"))
        if work.changed:
            work.passing = self._share_ddr(work.flows)
            work.changed = False

    def _look_ahead(self, work: ActiveEngines, now: float) -> None:
        """Simulates a stretch, and notes the rates that feature memory allows and until when they hold."""
        if self._idle:  # what was requested before is no part of a stretch
            self._idle = False
            for reads in work.reads:
                reads.asked = 0
        self._limit({}, {})
        self._share_ddr(work.flows)
        self._limit(self._memory_rates(work, now), self._beside)
        work.changed = True
        slow = work.reading and work.reading.slow
        self.until = now + (STRETCH_CLOCKS if work.moving or slow else STEADY_CLOCKS)
        if not work.reading and self._written and self._written[2] == now:
            self.until = now + self._simulated  # then all that the vector engine had read is written

    def _limit(self, most: dict[str, float], beside: dict[str, float]) -> None:
        """Sets the rates that feature memory allows, and what flows get besides DDR, from FIFOs; negative: what goes into these."""
        self._most, self._beside = most, beside
        if most or beside:
            self._known_shares = self._shares.setdefault((*most.items(), None, *beside.items()), {})
        else:
            self._known_shares = self._unlimited

    def _share_ddr(self, flows: dict[str, Flow]) -> list[Flow]:
        """Divides DDR between the flows, and returns them. Most divisions come again and again, so each is computed once."""
        passing, key = list(flows.values()), 0
        for flow in passing:
            if flow.kind < 0:
                self._set_kinds(flows)
            key = key * KINDS + flow.kind
        speeds = self._known_shares.get(key)
        if speeds is None:
            asked = [
                (name, min(flow.most, self._most.get(name, inf)), self._beside.get(name, 0.0))
                for name, flow in flows.items()
                if name in self._ports
            ]
            found = self._division.divide(asked)
            speeds = self._known_shares[key] = [found.get(name, self._most.get(name, -1.0)) for name in flows]
        for number, flow in enumerate(passing):
            speed = speeds[number]
            if speed >= 0:
                flow.speed = speed
        return passing

    def _set_kinds(self, flows: dict[str, Flow]) -> None:
        """Numbers the kinds of flows that have no number yet."""
        for name, flow in flows.items():
            if flow.kind < 0:
                flow.kind = self._kinds.setdefault((name, flow.most), len(self._kinds) + 1)
        assert len(self._kinds) < KINDS

    def _memory_rates(self, work: ActiveEngines, now: float) -> dict[str, float]:
        """Simulates a stretch; returns the rates that feature memory allows.

        Those of loads and stores are what they take of DDR, in bytes a clock, and are left out where feature memory changes little.
        """
        clocks = _stretch_clocks(work, now)
        requesters = self._requesters_now(work, now, clocks)
        self._go_back(work, now)
        for engine, transfer in work.moving.items():
            transfer.go_to(transfer.size - work.flows[engine].left / BEAT_BYTES)
        self._ddr.load, self._ddr.store = work.moving.get("load"), work.moving.get("store")
        others = [max(reads.open, reads.asked) for reads in work.reads]
        if program := work.flows.get("program"):
            others[0] += ceil(program.left / BEAT_BYTES)  # the sequencer reads at port 0
        self._ddr.others = others = [min(beats, STRETCH_CLOCKS) for beats in others]  # no more than one comes in a clock
        self._ddr.set_behind(_by_port(work))
        for reads in work.reads:
            reads.asked = 0
        held = {engine: (transfer.done, transfer.fifo) for engine, transfer in work.moving.items()}
        due = sum(others)
        speeds = dict(zip(requesters, self._known_or_simulated(requesters, clocks, work, now), strict=True))
        found = {"vector": max(speeds["vector"], LEAST)} if "vector" in speeds else {}
        if load := work.moving.get("load"):
            found |= self._load_limit(load, held["load"], speeds["load"] * BEAT_BYTES, work.flows["load"])
        if store := work.moving.get("store"):
            self._limit(found, self._beside)
            self._share_ddr(work.flows)  # the store may get what the load leaves
            rings = (due - sum(self._ddr.others)) * BEAT_BYTES / self._simulated  # flows of their own
            found |= self._store_limit(store, held["store"], work.flows["store"].speed - rings)
        return found

    def _load_limit(self, load: Transfer, held: Held, written: float, flow: Flow) -> dict[str, float]:
        """What a load takes of DDR, where that is not `flow`'s share. written: the bytes a clock that feature memory gets."""
        done, fifo = held
        ddr = (load.done - done + load.fifo - fifo) * BEAT_BYTES / self._simulated
        speed = min(written, flow.most)
        ended = load.over and not speed
        if ended or abs(speed / flow.speed - 1) <= FAR:
            return {}
        self._beside["load"] = speed - ddr
        return {"load": ddr}

    def _store_limit(self, store: Transfer, held: Held, share: float) -> dict[str, float]:
        """What a store gives to DDR, where that is less than its share."""
        done, fifo = held
        ddr = (store.done - done - store.fifo + fifo) * BEAT_BYTES / (self._drained or self._simulated)
        alone = store.over and store.fifo  # DDR alone has to get the last beats
        return {} if alone or ddr >= (1 - FAR) * share else {"store": max(ddr, LEAST)}

    def _known_or_simulated(
        self, requesters: dict[str, Requester], clocks: int, work: ActiveEngines, now: float
    ) -> Sequence[float]:
        """As `_simulate`. A stretch of the array's writes, loads and stores alone is simulated once."""
        if not work.moving or not requesters.keys() <= {"dst", "res", "load", "store"}:
            return self._simulate(requesters, clocks, work)
        walk = work.writing
        writes = self._writes_of(walk).key(walk.group_at(now - walk.begin), clocks) if walk else tuple[int, ...]()
        moving = [*work.moving.values()]
        key = self._known.key(clocks, self._ddr, moving, writes)
        if stretch := self._known.get(key, clocks):
            stretch.after.put(self._ddr, moving)
            self._noted, self.notes, self._simulated, self._drained = moving, stretch.notes, clocks, stretch.drained
            return stretch.speeds
        speeds = self._simulate(requesters, clocks, work)
        self._known.keep(key, clocks, Stretch(speeds, self._drained, Positions(self._ddr, moving), self.notes))
        return speeds

    def _simulate(self, requesters: dict[str, Requester], clocks: int, work: ActiveEngines) -> list[float]:
        """Simulates requesters and DDR together; returns each requester's rate. Without a load or store the two are independent.

        The stretch ends early with the vector engine's block, or with the writes that were left of it.
        """
        slow = work.reading and work.reading.slow
        moving = [*work.moving.values()]
        beside = DdrClocks(self._ddr, moving) if moving else None
        last = None if slow else requesters.get("vector" if work.reading else "written")
        speeds = simulate([*requesters.values()], clocks, beside, last)
        self._simulated = int(min(clocks, last.ended + 1)) if last else clocks
        if beside:
            self._noted, self.notes, self._drained = moving, beside.notes, beside.drained
        else:
            self._ddr.alone(self._simulated)
        return speeds

    def _go_back(self, work: ActiveEngines, now: float) -> None:
        """Returns loads and stores to their positions at `now`, if the engines change before the simulated stretch has ended."""
        self.notes.go_back(self._noted, int((now - self._begin) / NOTED_CLOCKS))
        self._begin, self._drained, self._noted, self.notes = now, 0, [], NO_NOTES

    def _requesters_now(self, work: ActiveEngines, now: float, clocks: int) -> dict[str, Requester]:
        """The requesters of the port in order of priority, with their requests for `clocks` clocks."""
        requesters = dict[str, Requester]()
        if walk := work.writing:
            requesters = self._writes_of(walk).requesters(walk.group_at(now - walk.begin))
        if (walk := work.reading) and walk.slow:
            requesters |= self._slow(walk, work.flows["vector"], now)
        elif walk:
            self._ahead = None
            count = len(walk.groups.ends)
            first = min(walk.group_at(walk.clocks - work.flows["vector"].left), count - 1)
            requesters["written"] = written = VectorWrites(self._behind(walk, first, now))
            self._written = walk, written, now
            pace = max(walk.clocks / count, 2.0)
            requesters["vector"] = VectorReads(self._parts_of(walk), first, pace, written)
        elif behind := self._behind(None, 0, now):
            requesters["written"] = written = VectorWrites(behind)
            self._written = None, written, now
        return requesters | {engine: work.moving[engine] for engine in ("load", "store") if engine in work.moving}

    def _writes_of(self, walk: Walk) -> WalkWrites:
        """The writes of the walk that the array writes now. Many stretches in a row have the same one."""
        if self._writes_now is None or self._writes_now.walk is not walk:
            self._writes_now = WalkWrites(walk, self._config, self._known)
        return self._writes_now

    def _parts_of(self, walk: Walk) -> GroupParts:
        """The parts of the walk's groups. Many stretches in a row have the same walk."""
        if self._parts is None or self._parts[0] is not walk:
            self._parts = walk, self._known.group_parts(walk.fields, self._config, walk.blocks[0])
        return self._parts[1]

    def _behind(self, walk: Walk | None, first: int, now: float) -> list[WrittenPart] | None:
        """The vector engine's writes that are left of groups before `first` of a walk, by clocks from `now`.

        None: not known, since the stretch was shorter than it held. walk: None if the engine stands still.
        """
        if self._written is None:
            return None
        last, written, begin = self._written
        if last is walk and now - begin > self._simulated + 1:
            return None
        return written.left(now - begin, first if last is walk else inf, self._simulated)

    def _slow(self, walk: Walk, flow: Flow, now: float) -> dict[str, Requester]:
        """The requesters of a slow walk. It goes on from what has been read and written by `now`; `flow` gets what is left."""
        done, before, begun = int(walk.clocks - flow.left), list[GroupReads](), list[int]()
        if self._ahead and (self._ahead.walk is walk or walk.follows):
            last, gone = self._ahead, now - self._ahead.begin
            if last.walk is walk:  # rates are averages, but writes come in bursts
                done = min(last.done + last.writes.passed(gone), walk.clocks - 1)
                flow.left = float(walk.clocks - done)
            passed = (walk.group_at(done) if last.walk is walk else len(last.walk.groups.ends)) - last.first
            before = last.reads.before(passed, gone)
            begun = last.reads.begun(int(gone))
        else:
            before = first_reads(taps_of(walk.fields))
        first = min(walk.group_at(done), len(walk.groups.ends) - 1)
        writes = SlowWrites(walk.clocks - done)
        skip = done - (walk.groups.ends[first] - walk.groups.clocks[first])
        reads = QuickReads(self._parts_of(walk), first, before, skip, writes, begun)
        self._ahead = SlowStretch(walk, first, done, reads, writes, now)
        return {"vector": writes, "reads": reads}


def _by_port(work: ActiveEngines) -> list[Behind]:
    """What `BeatModel.set_behind` takes, for as many beats as a stretch can bring. Ports of one part have the same."""
    found, ports = list[Behind](), len(work.reads)
    load = work.moving.get("load")
    if load is None:
        return [() for _ in work.reads]
    before = work.begun - load.size  # beats of loads that have ended
    for port, reads in enumerate(work.reads):
        if port and reads is work.reads[port - 1]:
            found.append(found[-1])
            continue
        pairs, total = list[tuple[float, int]](), 0
        for first, beats in reads.unanswered():
            pairs.append(((first - before) / ports, beats))
            total += beats
            if total >= STRETCH_CLOCKS:
                break
        found.append(tuple(pairs))
    return found


def _stretch_clocks(work: ActiveEngines, now: float) -> int:
    """Length of the stretch to simulate. It ends early with the writes of the array's chunk, or with the vector engine's block."""
    left = float(STRETCH_CLOCKS)
    if work.writing:
        left = min(left, work.writing.clocks - (now - work.writing.begin))
    if work.reading:
        own = work.flows["vector"].left
        left = min(left, 2 * own + WRITTEN_CLOCKS)
    return max(int(left), NOTED_CLOCKS)
