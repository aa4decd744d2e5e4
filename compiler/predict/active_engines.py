"""The engines of `predict`'s model that share DDR and feature memory at one time: flows, walks, and reads for the rings.

`event_loop` and its processes change this state, and `flow_rates` sets the speeds of its flows.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.lower.kernels import Range
from cnna.compiler.predict.ddr_beats import Transfer
from cnna.compiler.predict.known_stretches import WalkGroups
from cnna.compiler.predict.ready import Ready


class Flow(Ready):
    """What is left of a transfer, in bytes, or of the vector engine's work, in clocks. most, speed: per clock.

    kind: a number for its name and its `most`, which `FlowRates` gives; negative: none yet.
    """

    def __init__(self, left: float, most: float, speed: float = 0.0) -> None:
        self.left, self.most, self.speed, self.kind = left, most, speed, -1

    def clock(self, now: float) -> float:
        """The clock at which all has passed at the present speed."""
        return now + (self.left if self.left > 0 else 0.0) / self.speed


class Walk:
    """The blocks that the array or the vector engine works on, group by group. clocks: those of all groups.

    slow: whether every group takes longer to write than to read. follows: whether the engine had no pause since the block before.
    """

    def __init__(
        self, fields: Fields, blocks: Range, groups: WalkGroups, begin: float, slow: bool = False, follows: bool = False
    ) -> None:
        self.fields, self.blocks, self.groups, self.begin = fields, blocks, groups, begin
        self.clocks, self.slow, self.follows = groups.ends[-1], slow, follows

    def group_at(self, clock: float) -> int:
        """The group that is in work `clock` clocks after the first one began."""
        return bisect_right(self.groups.ends, clock)


class OpenReads:
    """The reads for the rings by ports that work in step. open: beats that have not come. asked: those requested since the last
    stretch was simulated.
    """

    def __init__(self) -> None:
        self.open = self.asked = 0

    def unanswered(self) -> list[tuple[float, int]]:
        """For each read in order, the beats of loads that come first, and its own."""
        return []


@dataclass
class ActiveEngines:
    """The engines that share DDR and feature memory at one time.

    reads: by port; ports that work in step have the same object. fetched: beats of the program that no flow moves yet. begun: beats
    of all loads that have begun. changed: whether a flow has begun or ended since rates were set. flows: by name, in the order in
    which they began. passing: the same, as of the last time that rates were set. load: that of the load, if one moves.
    """

    reads: list[OpenReads]
    begun: int = 0
    fetched: int = 0
    changed: bool = False
    flows: dict[str, Flow] = field(default_factory=dict)
    passing: list[Flow] = field(default_factory=list)
    load: Flow | None = None
    writing: Walk | None = None  # what the array writes
    reading: Walk | None = None  # what the vector engine reads
    moving: dict[str, Transfer] = field(default_factory=dict)  # what load and store move, by engine

    @classmethod
    def idle(cls, ports: int) -> "ActiveEngines":
        """The state in which no engine works."""
        return cls([OpenReads()] * ports)

    def begin(self, name: str, flow: Flow) -> None:
        """Notes that a flow begins to pass."""
        self.flows[name] = flow
        self.changed = True
        if name == "load":
            self.load = flow

    def end(self, name: str) -> None:
        """Notes that a flow has passed."""
        del self.flows[name]
        self.changed = True
        if name == "load":
            self.load = None

    def delayed(self) -> bool:
        """Whether a requester of feature memory is at work that can be delayed. The array cannot."""
        return self.reading is not None or len(self.moving) > 0


class Requesters:
    """The requesters of feature memory at one time."""

    def __init__(self, writing: Walk | None, reading: Walk | None, load: Transfer | None, store: Transfer | None) -> None:
        self._writing, self._reading, self._load, self._store = writing, reading, load, store

    def same(self, work: ActiveEngines) -> bool:
        """Whether the same ones are at work."""
        if self._writing is not work.writing or self._reading is not work.reading:
            return False
        return self._load is work.moving.get("load") and self._store is work.moving.get("store")
