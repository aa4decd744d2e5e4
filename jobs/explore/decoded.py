"""Which networks of an exploration are detectors, whose boxes the host decodes on integers: `cnna explore --detector`.

Heads belong to a way to cut a network between the accelerator and the CPU, and few configurations differ in it. So they are found
before anything is compiled, once for each way. Where head tensors lie is of each program; the model of the host's time looks there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cnna.jobs.detector import TABLES, heads_in
from cnna.jobs.given import Warn
from cnna.spec.config import Config
from cnna.spec.detection.heads import DetectorEntry, Heads, in_words
from cnna.spec.errors import ModelError

if TYPE_CHECKING:
    from cnna.compiler.explore.tasks import Conditions
    from cnna.compiler.placements import Placements


@dataclass(frozen=True)
class Decoded:
    """The heads of one network. name: the network's. wanted: which were looked for. entries: by the cut, as of
    `Conditions.detectors`; there are none if no heads were found.
    """

    name: str
    wanted: str | None = None
    entries: Mapping[str, DetectorEntry] | None = None

    @property
    def kept_as(self) -> str:
        """What tells predictions with these heads from those without, where they are kept."""
        return f"\0{self.wanted}" if self.entries else ""

    def figures(self) -> dict[str, Any] | None:
        """What is known of the heads, for JSON; None: there are none, or nobody asked."""
        entry = self._first
        return None if entry is None else {key: value for key, value in entry.items() if key not in TABLES}

    def __str__(self) -> str:
        """A line about them; empty if there are none."""
        entry = self._first
        return "" if entry is None else f"{self.name}: cnna.Detector decodes boxes on integers ({in_words(entry)})"

    @property
    def _first(self) -> DetectorEntry | None:
        return next(iter((self.entries or {}).values()), None)


def decoded(network: "Placements", configs: Sequence[Config], wanted: str | None, name: str, warn: Warn) -> Decoded:
    """The heads of a network, for every way in which one of the configurations cuts it. A line says why there are none.

    wanted: one of `jobs.detector.WANTED`; None: nobody asks. name: of the model, for that line.
    """
    if wanted is None:
        return Decoded(network.name)
    found = _found(network, configs, wanted)
    entries = {where: _without_tables(one.entry) for where, one in found.items() if isinstance(one, Heads)}
    missed = next((one for one in found.values() if not isinstance(one, Heads)), None)
    if missed is not None:
        which = f", where {len(found) - len(entries)} of {len(found)} ways to cut it are taken" if entries else ""
        warn(f"{name}: {missed}{which}; its outputs stay as they are")
    return Decoded(network.name, wanted, entries)


def _found(network: "Placements", configs: Sequence[Config], wanted: str) -> dict[str, object]:
    """Heads or a `Missed`, by the cut."""
    from cnna.compiler.explore.planned import placed
    from cnna.compiler.frontend.pieces.crossings import macs_a_second

    found, known = dict[str, object](), set[float]()
    for config in configs:
        if macs_a_second(config) in known:
            continue
        try:
            where = placed(network.pieces(config))
            if where not in found:
                found[where] = heads_in(network.outline(config), wanted)
        except ModelError:  # it does not run there; compiling says why
            continue
        known.add(macs_a_second(config))
    return found


def _without_tables(entry: DetectorEntry) -> DetectorEntry:
    """An entry without what only the decode needs: it goes to other processes with each task."""
    made: DetectorEntry = {**entry, "tables": []}
    return made


def with_heads(conditions: "Conditions", networks: Sequence[Decoded]) -> "Conditions":
    """The conditions for networks with these heads. A decode on integers is modelled with the native library alone, so all is."""
    if not any(one.entries for one in networks):
        return conditions
    return replace(conditions, native=True, detectors=tuple(one.entries or {} for one in networks))


def remedy(networks: "Sequence[Placements]", wanted: str | None, configs: Sequence[Config]) -> str:
    """What may help where the host is too slow, in words; empty if no network is like a detector, or somebody asked.

    It takes as long as `hint`.
    """
    found = [heads_in(one.outline(configs[0])) for one in networks if wanted is None and _ends_on_cpu(one, configs[0])]
    # a float model is quantised as a whole, so that heads are alike alone
    like = any(isinstance(one, Heads) or one.likely for one in found)
    return "; a detector's boxes are made on integers with --detector auto" * like


def hint(networks: "Sequence[Placements]", wanted: str | None, configs: Sequence[Config], warn: Warn) -> None:
    """A line for each network that is a detector whose boxes the CPU makes, if nobody asked. To know it takes some seconds for a
    detector, and little for others.
    """
    if wanted is not None:
        return
    for network in (one for one in networks if _ends_on_cpu(one, configs[0])):
        found = heads_in(network.outline(configs[0]))
        if isinstance(found, Heads):
            figures = "its figures from picture to answer are with the tail on the CPU"
            warn(
                f"{network.name}: a detector ({found.said()}); {figures}; --detector auto models cnna.Detector, which needs no tail"
            )


def _ends_on_cpu(network: "Placements", config: Config) -> bool:
    """Whether the last piece runs on the CPU. False also where the network does not run."""
    try:
        return network.outline(config).last is not None
    except ModelError:
        return False
