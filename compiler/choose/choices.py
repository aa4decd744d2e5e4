"""Choices of plans as a file of JSON: what a search found, or a person wants, and `cnna compile --choices` compiles.

    {"config": "zcu102", "batch": 4, "programs": [{"macs": 4, "way": {"cut": 20, "banded": true}, "layers": {"n4": {"rows": 14}}}]}

programs: one for each program of the model, in order. macs: the multiply-accumulates of its image, by which it is known. way: the
fields of `plan.Way`; without it all ways are compared as usual. layers: of each layer that is named, the fields of
`plan.ForcedLayer`. All of it may be left out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from cnna.compiler.choose.choose import Choose, Chosen, fastest_plan
from cnna.compiler.lower.kernels import Lowered
from cnna.compiler.plan.forced import Forced, ForcedLayer
from cnna.compiler.plan.plan import Planner, Way
from cnna.compiler.predict.predict import Count
from cnna.spec.config import Config
from cnna.spec.counts import many
from cnna.spec.errors import ModelError, UserError, about_model
from cnna.spec.names import nearest

LIMITS = {"abreast": (1, 16), "waves": (0, 16), "rows": (1, 1 << 31), "blocks": (1, 1 << 31)}  # of what a file may choose
SOURCE = "the choices"


@dataclass(frozen=True)
class ProgramChoices:
    """What is chosen of a program. way: None leaves it to the compiler. layers: by name. macs: of an image of the program for which
    it was chosen; None: any. source: the file's name.
    """

    way: Way | None = None
    layers: Mapping[str, ForcedLayer] = field(default_factory=dict)
    macs: int | None = None
    source: str = field(default=SOURCE, compare=False)

    def entry(self) -> dict[str, Any]:
        """For JSON, without what is left open."""
        known = {} if self.macs is None else {"macs": self.macs}
        way = {} if self.way is None else {"way": asdict(self.way)}
        layers = {name: _chosen(own) for name, own in self.layers.items()}
        return {**known, **way, **({"layers": layers} if layers else {})}

    def chooser(self, network: str, layers: Sequence[str], macs: int) -> Choose:
        """Chooses so. layers: the names of the network's layers, in order. ModelError: there is no such layer, or it was chosen for
        a network of other multiply-accumulates an image. All errors name the file.
        """
        with about_model(self.source):
            forced = self._forced(network, layers, macs)

        def choose(lowered: Lowered, config: Config, name: str, count: Count | None) -> Chosen:
            if self.way is None and not self.layers:
                return fastest_plan(lowered, config, name, count)
            with about_model(self.source):
                forced.check(lowered, config, name)
                if self.way is not None and self.way.cut > len(lowered.kernels):
                    raise ModelError(f"{name}: a batch cannot be cut behind {self.way.cut} of {len(lowered.kernels)} kernels")
                with self._about_plan(name):
                    if self.way is None:
                        return fastest_plan(lowered, config, name, count, forced=forced)
                    return Planner(lowered, config, name, forced=forced).plan(self.way), None

        return choose

    def _forced(self, network: str, layers: Sequence[str], macs: int) -> Forced:
        """What is chosen of the layers. ModelError: as of `chooser`."""
        if self.macs is not None and self.macs != macs:
            which = f"{network}: the choices are for a program of {self.macs:,} MACs an image, and this one has {macs:,}"
            raise ModelError(f"{which}; search again, or leave out their macs to try them")
        numbers = {name: number for number, name in enumerate(layers)}
        for name in self.layers:
            if name not in numbers:
                near = nearest(name, list(numbers))
                hint = f"; the nearest are {', '.join(near)}" if near else ""
                raise ModelError(f"{network}: no layer is called '{name}', for which tiles are chosen{hint}")
        return Forced({numbers[name]: own for name, own in self.layers.items()}, dict(enumerate(layers)))

    @contextmanager
    def _about_plan(self, name: str) -> Iterator[None]:
        """ModelError: there is no plan; says that it may be for what is chosen, where the planner speaks of the configuration."""
        try:
            yield
        except ModelError as error:
            place = str(error).removeprefix(f"{name}: ").partition(": ")[0]
            raise ModelError(f"{name}: {place}: no plan fits that keeps to what is chosen; leave some of it open") from None


@dataclass(frozen=True)
class Choices:
    """What is chosen of a model. config, batch: for which it was chosen; None: any. source: the file's name."""

    programs: tuple[ProgramChoices, ...] = ()
    config: str | None = None
    batch: int | None = None
    source: str = field(default=SOURCE, compare=False)

    def check(self, programs: int) -> None:
        """UserError: there are more entries than the model has programs, so some would choose nothing."""
        if len(self.programs) > programs:
            counts = f"programs has {len(self.programs)} entries, but the model has {many(programs, 'program')}"
            raise UserError(f"{self.source}: {counts}; leave out the others")

    def of(self, number: int) -> ProgramChoices:
        """The choices of a program."""
        return self.programs[number] if number < len(self.programs) else ProgramChoices()

    def text(self) -> str:
        """The file."""
        programs = [own.entry() for own in self.programs]
        return json.dumps({"config": self.config, "batch": self.batch, "programs": programs}, indent=1) + "\n"


def choices_of(text: str | bytes, name: str) -> Choices:
    """The choices in a file. name: the file's. UserError: it is no such file; says where."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{name}: no JSON; choices are what cnna explore --choices writes") from None
    whole = _table(entry, ("config", "batch", "programs"), name)
    programs = whole.get("programs", [])
    if not isinstance(programs, list):
        raise UserError(f"{name}: programs must be a list, one entry for each program of the model")
    made = []
    for number, program in enumerate(programs):
        place = f"{name}: programs[{number}]"
        own = _table(program, ("macs", "way", "layers"), place)
        if not isinstance(own.get("macs"), int | None) or isinstance(own.get("macs"), bool):
            raise UserError(f"{place}.macs: must be a whole number, not {own['macs']!r}")
        way = None if own.get("way") is None else Way(**{"cut": 0, **_fields(own["way"], Way, f"{place}.way")})
        layers = _table(own.get("layers", {}), None, f"{place}.layers")
        found = {layer: ForcedLayer(**_fields(given, ForcedLayer, f"{place}.layers.{layer}")) for layer, given in layers.items()}
        made.append(ProgramChoices(way, found, own.get("macs"), name))
    config, batch = whole.get("config"), whole.get("batch")
    if not isinstance(config, str | None) or type(batch) not in (int, type(None)):
        raise UserError(f"{name}: config must be a text and batch a whole number, or null")
    return Choices(tuple(made), config, batch, name)


def _chosen(own: ForcedLayer) -> dict[str, Any]:
    """The fields that leave nothing open."""
    return {key: value for key, value in asdict(own).items() if value not in (None, False)}


def _table(entry: Any, names: tuple[str, ...] | None, place: str) -> dict[str, Any]:
    """A table of JSON. names: that it may have; None: any."""
    if not isinstance(entry, dict):
        raise UserError(f"{place}: must be a table")
    for key in entry:
        if names is not None and key not in names:
            raise UserError(f"{place}: {key!r} is not known; there are {', '.join(names)}")
    return entry


def _fields(entry: Any, kind: type[Way] | type[ForcedLayer], place: str) -> dict[str, Any]:
    """The fields of a dataclass of numbers and flags. UserError: one is of the wrong kind, or below 0."""
    found = _table(entry, tuple(one.name for one in fields(kind)), place)
    for one in fields(kind):
        value, flag = found.get(one.name), "bool" in str(one.type)
        if one.name not in found or (value is None and "None" in str(one.type)):
            continue
        if type(value) is not (bool if flag else int):
            raise UserError(f"{place}.{one.name}: must be {'true or false' if flag else 'a whole number'}, not {value!r}")
        low, high = LIMITS.get(one.name, (0, 1 << 31))
        if not low <= value <= high:
            raise UserError(f"{place}.{one.name}: must be within {low}..{high}, not {value}")
    return found
