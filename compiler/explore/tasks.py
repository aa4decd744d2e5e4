"""What workers do for an exploration: they predict a network for the points of one plan."""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from cnna.compiler.explore.kept import Refused
from cnna.compiler.explore.planned import Planned, placed, planned
from cnna.compiler.explore.point import Part
from cnna.compiler.placements import Pieces
from cnna.compiler.prepared import KeptPlans, Key, kernels_key
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.detection.heads import DetectorEntry
from cnna.spec.errors import ModelError


class Network(Protocol):
    """A network for any configuration. It goes to other processes as a pickle."""

    def pieces(self, config: Config) -> Pieces:
        """As of `Placements`."""


Source: TypeAlias = "Path | Sequence[Network]"


class Wanted(NamedTuple):
    """A point that is to be predicted. bandwidth: of its DDR, in million bytes a second; None is that of the conditions."""

    config: Config
    batch: int
    bandwidth: int | None = None


@dataclass(frozen=True)
class Conditions:
    """What all predictions have in common. memory: None is the DDR of the configuration's board. native: whether the host has its
    native library. shares: of the images, by network. detectors: of each network whose boxes the host decodes on integers, its
    heads for each way to cut it, by `placed`; none: the host runs all that is on the CPU.
    """

    memory: DdrSpeed | None = None
    native: bool = True
    shares: tuple[float, ...] = (1.0,)
    detectors: tuple[Mapping[str, DetectorEntry], ...] = ()

    def detector(self, network: int, where: str) -> DetectorEntry | None:
        """The heads of the network of this number. where: its `placed`. None: the host runs its tail."""
        return self.detectors[network].get(where) if self.detectors else None

    def memory_of(self, wanted: Wanted) -> DdrSpeed | None:
        """The DDR of a point; None: its board's."""
        if wanted.bandwidth is None:
            return self.memory
        return (self.memory or ddr_of(wanted.config))._replace(bytes_per_cycle=wanted.bandwidth // wanted.config.clock_mhz)


@dataclass(frozen=True)
class Task:
    """A network of this number for points whose configurations and batch have one plan. plan: what is known of it."""

    network: int
    wanted: tuple[Wanted, ...]
    plan: Planned | None = None

    @property
    def near(self) -> Key:
        """A process that did a task with an equal one has kept what both need."""
        return self.network, *kernels_key(self.wanted[0].config, self.wanted[0].batch)


class Done(NamedTuple):
    """What came of a task. found: for each of its points. plan: the last of those that were made. plans: so many were made."""

    found: tuple[Part | Refused, ...]
    plan: Planned | None
    plans: int


def worked(source: Source, conditions: Conditions, task: Task) -> Done:
    """What a worker does. source: the networks, or the file of their pickle. What differs between the points of a task may still
    move the cut between the accelerator and the CPU; then they have several plans.
    """
    network, plans = networks(source)[task.network], dict[str, Planned | Refused]()
    made, found = 0, list[Part | Refused]()
    if task.plan is not None:
        plans[task.plan.placed] = task.plan
    for one in task.wanted:
        memory = conditions.memory_of(one)
        try:
            pieces = network.pieces(one.config)
            where = placed(pieces)
            if where not in plans:
                made += 1
                plans[where] = _planned(pieces, one, memory, conditions.native, conditions.detector(task.network, where))
            plan = plans[where]
            found.append(plan if isinstance(plan, Refused) else plan.with_memory(one.config, memory))
        except ModelError as error:
            found.append(Refused(str(error)))
    last = next((plan for plan in reversed(plans.values()) if isinstance(plan, Planned)), None)
    return Done(tuple(found), last if made else None, made)


def _planned(
    pieces: Pieces, wanted: Wanted, memory: DdrSpeed | None, native: bool, detector: DetectorEntry | None
) -> Planned | Refused:
    try:
        return planned(pieces, wanted.config, wanted.batch, memory, native, _kept(), detector)
    except ModelError as error:
        return Refused(str(error))


@lru_cache(maxsize=1)
def _kept() -> KeptPlans:
    """Of each process: the next point may differ from the last ones in the weight ring alone."""
    return KeptPlans()


def networks(source: Source) -> Sequence[Network]:
    """The networks themselves."""
    return _read(source) if isinstance(source, Path) else source


@lru_cache(maxsize=1)
def _read(source: Path) -> Sequence[Network]:
    """They are read once in each process."""
    with source.open("rb") as file:
        found: Sequence[Network] = pickle.load(file)
    return found
