"""A network's programs on a configuration, without what their clocks depend on: DDR and clock.

The compiler plans for one DDR, whatever is predicted with. So configurations that differ in DDR or clock alone share a plan: it is
made once, and predicted for each. Other ports make another plan: weights lie in as many stripes, and the planned DDR is as quick.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from cnna.compiler.accesses import accesses
from cnna.compiler.choose.choose import fastest_plan
from cnna.compiler.compile import Program, compile_graph
from cnna.compiler.explore.point import Part
from cnna.compiler.graph.ir import Graph
from cnna.compiler.predict.predict import predicted_spans
from cnna.compiler.predict.timeline import last_clock
from cnna.compiler.prepared import KeptPlans
from cnna.spec.boards import ddr_of
from cnna.spec.config import Config
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.detection.heads import DetectorEntry
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.detector_time import to_answer
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.manifest import PieceEntry

WORKS = ("stream", "single", "cpu", "packing", "decode")  # fields of EndToEnd that are work of the host
Pieces = Sequence[Graph | PieceEntry]


@dataclass(frozen=True)
class Planned:
    """programs: of the pieces on the accelerator. part: what they take with the first DDR that was predicted for. clocks: of all
    programs, by each DDR for which they are known. placed: what lies where, as of `placed`.
    """

    programs: tuple[bytes, ...]
    part: Part
    clocks: tuple[tuple[DdrSpeed, int], ...]
    placed: str

    def with_memory(self, config: Config, memory: DdrSpeed | None = None) -> Part:
        """What they take with a DDR, at the clock of a configuration for which the plan is. memory: None is its board's."""
        speed = memory or ddr_of(config)
        cycles = dict(self.clocks).get(speed)
        if cycles is None:
            cycles = sum(clocks_of(program, config, speed) for program in self.programs)
        seconds = cycles / (config.clock_mhz * 1e6)
        return replace(self.part, cycles=cycles, whole=replace(self.part.whole, accelerator_seconds=seconds))


def planned(
    pieces: Pieces,
    config: Config,
    batch: int,
    memory: DdrSpeed | None = None,
    native: bool = True,
    kept: KeptPlans | None = None,
    detector: DetectorEntry | None = None,
) -> Planned:
    """Compiles the pieces of a model, in their order, and predicts. ModelError: one of them does not fit.

    memory: None is the DDR of the configuration's board. native: whether the host has its native library. kept: what is known of
    plans for other configurations; gets what is made. detector: whose boxes the host decodes on integers; None: it is none.
    """
    speed, kept = memory or ddr_of(config), kept or KeptPlans()
    made, cycles, entries = list[Program](), 0, list[PieceEntry]()
    for piece in pieces:
        if isinstance(piece, Graph):
            program, clocks = _compiled(piece, config, batch, kept, speed)
            made.append(program)
            cycles += clocks
        entries.append(made[-1].crossing if isinstance(piece, Graph) else piece)
    whole = to_answer(detector, entries, cycles, config.clock_mhz, batch, native)
    moved = [sum(work["ddr_read_bytes"] + work["ddr_write_bytes"] for work in one.layers) for one in made]
    touched = sum(accesses(one.program, config, size) for one, size in zip(made, moved, strict=True))
    known = {speed: cycles}
    if all(one.spans is not None for one in made):  # they were predicted for the choice
        known |= {PLANNED: sum(last_clock(one.spans or ()) for one in made)}
    part = Part(cycles, sum(moved), sum(one.macs for one in made), whole, touched)
    return Planned(tuple(one.program for one in made), part, tuple(known.items()), placed(pieces))


def _compiled(piece: Graph, config: Config, batch: int, kept: KeptPlans, memory: DdrSpeed) -> tuple[Program, int]:
    """A piece on the accelerator, and its clocks with a DDR."""
    with kept.of(piece, config, batch) as ready:
        choose = partial(fastest_plan, plans=ready.known(config), known=ready.stretches(config))
        made = compile_graph(piece, config, batch, choose=choose, ready=ready)
        spans = made.spans if memory == PLANNED else None
        return made, last_clock(spans or predicted_spans(made.program, config, memory, known=ready.stretches(config, memory)))


def clocks_of(program: bytes, config: Config, memory: DdrSpeed) -> int:
    """What a program takes with a DDR."""
    return last_clock(predicted_spans(program, config, memory))


def part_of(pieces: Pieces, config: Config, batch: int, memory: DdrSpeed | None = None, native: bool = True) -> Part:
    """What a model takes on a configuration. Arguments and errors: as of `planned`."""
    return planned(pieces, config, batch, memory, native).part


def placed(pieces: Pieces) -> str:
    """What of a model lies on the accelerator, and what on the CPU. It may be another for another clock."""
    return json.dumps([[piece.name, *piece.outputs] if isinstance(piece, Graph) else piece for piece in pieces])


def written(plan: Planned) -> dict[str, Any]:
    """For JSON."""
    programs = [b64encode(zlib.compress(program)).decode() for program in plan.programs]
    return {**asdict(plan), "programs": programs}


def read(entry: Mapping[str, Any]) -> Planned:
    """The inverse of `written`. ValueError, KeyError, TypeError, zlib.error: it is none."""
    programs = tuple(zlib.decompress(b64decode(text)) for text in entry["programs"])
    clocks = tuple((DdrSpeed(*speed), int(cycles)) for speed, cycles in entry["clocks"])
    return Planned(programs, read_part(entry["part"]), clocks, str(entry["placed"]))


def read_part(entry: Mapping[str, Any]) -> Part:
    """The inverse of `asdict`. ValueError, KeyError, TypeError: it is none."""
    whole = dict(entry["whole"])
    works = {name: None if whole[name] is None else HostWork(**whole[name]) for name in WORKS}
    found = Part(**{**entry, "whole": EndToEnd(**{**whole, **works, "uncounted": Range(**whole["uncounted"])})})
    counts = found.cycles, found.bytes, found.macs, found.accesses
    if found.cycles == 0 or any(type(count) is not int or count < 0 for count in counts):
        raise ValueError(f"{counts} are not all counts")
    return found
