"""Images a second and latency from picture to answer, modelled, as `cnna explain`, `compile` and `report` show them.

Two batches or more are in flight. While the accelerator runs a piece of one, the host does the CPU pieces of the other and packs
its tensors (docs/pieces.md). So a batch takes the time of the busier side. The accelerator waits for its host only if that is
the busier one: runs wait in its queue (docs/queue.md), and the next begins some clocks after the one before.

The host's work is counted or estimated, with the native library (`native_work`) or in Python alone, and a model of the board's CPU
makes a range of seconds of it (`cortex_a53`). The compiler chooses the quicker of two placements by the middle of such ranges. It
measures nothing while it compiles, so equal input gives equal artifacts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from cnna.spec.host_time import host_model
from cnna.spec.host_time.cortex_a53 import NOTHING, Range, moved_bytes, run_work, seconds, total
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.host_time.native_work import BYTES, more_seconds, native_work, planned, programs_of
from cnna.spec.manifest import CPU, PieceEntry, Port

CORES = (1, 4)
ALONE, TO_ANSWER = "of the accelerator alone", "from picture to answer"  # of what a frame rate is, wherever one is shown
NATIVELY, IN_PYTHON = "natively", "in Python"  # how the host does its work, where a range of it is shown
ELEMENT_SECONDS = host_model.ELEMENT_SECONDS.middle
MAC_SECONDS = host_model.MAC_SECONDS.middle
NODE_SECONDS = host_model.NODE_SECONDS.middle
PIECE_SECONDS = host_model.PIECE_SECONDS.middle
VIEW_SECONDS = host_model.VIEW_SECONDS.middle


@dataclass(frozen=True)
class EndToEnd:
    """What a batch is modelled to take.

    accelerator_seconds: of the programs' clocks. cpu_seconds: of the pieces on the CPU, on four cores, at the middle; None where an
    older file does not say. cpu: the same on one core, where it was counted. crossings: tensors that go to or come from the
    accelerator. crossing_bytes: of all crossings. starts: of the accelerator. stream, single: the host's work besides the pieces,
    for a batch of a stream and for one alone. packing: the part of both that four threads share. decode: that which makes boxes of
    a detector's heads. uncounted: seconds of a batch that
    are neither in `stream` nor in `single`, since no counts are known.
    """

    batch: int
    accelerator_seconds: float
    cpu_seconds: float | None
    crossings: int
    crossing_bytes: int
    starts: int
    stream: HostWork
    single: HostWork
    cpu: HostWork | None = None
    packing: HostWork = field(default_factory=HostWork)
    uncounted: Range = NOTHING
    decode: HostWork = field(default_factory=HostWork)

    @property
    def native(self) -> bool:
        """Whether the run loop of the native library runs the batches."""
        return self.stream.native > 0

    @property
    def crossing_seconds(self) -> Range:
        """One core's time for the crossings of a batch in a stream: packing, unpacking, and starting the accelerator."""
        return seconds(self.stream) + self.uncounted

    @property
    def way(self) -> str:
        """How the host does its work, in a word."""
        return NATIVELY if self.native else IN_PYTHON

    @property
    def accelerator_share(self) -> float | None:
        """The accelerator's share of the time that all the work would take without overlap, at the middle."""
        if self.cpu_seconds is None:
            return None
        whole = self.accelerator_seconds + self.cpu_seconds + self.crossing_seconds.middle
        return self.accelerator_seconds / whole if whole else None

    def fps(self, cores: int = CORES[-1]) -> Range | None:
        """Images a second of a stream, at the quick end and at the slow end."""
        batch = self.in_stream(cores)
        return None if batch is None or not batch.quick else Range(self.batch / batch.quick, self.batch / batch.slow)

    def in_stream(self, cores: int = CORES[-1]) -> Range | None:
        """Seconds from the answer of one batch of a stream to that of the next; the busier side decides."""
        host = self.host_in_stream(cores)
        if host is None:
            return None
        busy = self.accelerator_seconds_beside(self.stream) + Range.of(host_model.LAUNCH_SECONDS, self.starts)
        return Range(max(busy.quick, host.quick), max(busy.slow, host.slow))

    def host_in_stream(self, cores: int = CORES[-1]) -> Range | None:
        """Seconds of the host for a batch of a stream."""
        pieces = self._pieces(cores)
        return None if pieces is None else pieces + self._moving(cores)

    def gap(self, cores: int = CORES[-1]) -> Range | None:
        """Seconds of a batch of a stream in which the accelerator has no run, since it is between two or waits for the host."""
        batch, runs = self.in_stream(cores), self.accelerator_seconds_beside(self.stream)
        return None if batch is None else Range(batch.quick - runs.quick, batch.slow - runs.slow)

    def latency(self, cores: int = CORES[-1]) -> Range | None:
        """Seconds from one batch alone to its answer. The host moves nothing while the accelerator runs: it has packed before."""
        found = self.stages(cores)
        return None if found is None else total(found.values())

    def stages(self, cores: int = CORES[-1]) -> dict[str, Range] | None:
        """The same by stage, in their order. "host" is what is neither packing nor decode: starts, ends, answers, and Python."""
        pieces = self._pieces(cores)
        if pieces is None:
            return None
        packs = self.packing.native > 0
        shared = self.packing if self._shares(cores) else HostWork()
        host = seconds(self.single.plus(self.packing if packs else shared, -1).plus(self.decode, -1))
        if self.native and not (shared.native and self._alone):  # Python wakes the thread, and the thread Python
            host += Range.of(host_model.THREAD_SECONDS, 2)
        packing = _shared(shared) if shared.native else seconds(self.packing)
        alone = Range(self.accelerator_seconds, self.accelerator_seconds)
        parts = {"packing": packing if packs else NOTHING, "accelerator": alone, "host": host + self._late(cores) + self.uncounted}
        parts |= {"CPU": pieces, "decode": seconds(self.decode)}
        return {name: part for name, part in parts.items() if part.slow}

    def accelerator_seconds_beside(self, work: HostWork) -> Range:
        """What the accelerator takes while the host moves its bytes through the same DDR."""
        taken = Range.of(host_model.DDR_TAKEN_SECONDS, moved_bytes(work))
        return taken + Range(self.accelerator_seconds, self.accelerator_seconds)

    def _late(self, cores: int) -> Range:
        """How much later than the end of its runs the host knows of them: one batch alone waits for that."""
        m = host_model
        if self.native and cores > 1:
            return Range.of(m.LOOP_LOOK_SECONDS, self.starts)
        wake, share = (m.LOOP_WAKE_SECONDS, m.LOOP_LATE_SHARE) if self.native else (m.WAKE_SECONDS, m.LATE_SHARE)
        return Range.of(wake, self.starts) + Range.of(share, self.accelerator_seconds)

    def _moving(self, cores: int) -> Range:
        """The host's work for a batch of a stream besides the pieces; on several cores, the loop's threads work beside Python."""
        if not self.native or cores == 1:
            return seconds(self.stream) + self.uncounted
        own, native = self.stream.apart()
        python, loop = seconds(own) + self.uncounted, seconds(native)
        if self._shares(cores):  # one thread alone reaches the registers, and all others unpack and pack
            registers = HostWork(register_reads=native.register_reads, register_writes=native.register_writes)
            loop = seconds(registers) + _shared(native.plus(registers, -1))
        return Range(max(python.quick, loop.quick), max(python.slow, loop.slow))

    def _shares(self, cores: int) -> bool:
        """Whether several threads pack."""
        return cores > 1 and self.packing.native > 0

    @property
    def _alone(self) -> bool:
        """Whether a batch alone is one run, which the caller's thread does itself, so that its helpers alone are woken."""
        return self.starts == 1 and not (self.cpu.instructions if self.cpu else self.cpu_seconds)

    def _pieces(self, cores: int) -> Range | None:
        """Seconds of the pieces on the CPU."""
        shared = host_model.ONE_CORE
        if self.cpu is not None:
            one = seconds(self.cpu)
            return one if cores == 1 else Range(one.quick / shared.slow, one.slow / shared.quick)
        if self.cpu_seconds is None:
            return None
        four = Range.of(host_model.PIECE_FACTOR, self.cpu_seconds)
        return four.per(shared) if cores == 1 else four

    def figures(self) -> dict[str, Any]:
        """The figures for `--json`. Ranges have the slow end first; a frame rate without cores is of four."""
        rates, delays = ({f"{cores}": _ends(at(cores)) for cores in CORES} for at in (self.fps, self.latency))
        fps, parts = self.fps(), self.stages() or {}
        return {
            "accelerator_seconds": self.accelerator_seconds,
            "accelerator_share": self.accelerator_share,
            "cpu_seconds": self.cpu_seconds,
            "crossings": self.crossings,
            "crossing_bytes": self.crossing_bytes,
            "crossing_seconds": self.crossing_seconds.middle,
            "fps_end_to_end": fps.slow if fps else None,
            "modelled": {"host": "native" if self.native else "python", "fps_by_cores": rates, "latency_seconds_by_cores": delays}
            | {"latency_seconds_by_stage": {name: _ends(part) for name, part in parts.items()}, "gap_seconds": _ends(self.gap())},
        }

    def __str__(self) -> str:
        """One line."""
        fps, latency = self.fps(), self.latency()
        if fps is None or latency is None:
            return f"images a second {TO_ANSWER} are not predicted: the file does not say what the CPU takes; compile it again"
        parts = [f"CPU {_duration(self.cpu_seconds or 0)}"]
        if self.starts:
            count = f"{self.crossings} crossing{'s' * (self.crossings != 1)} of {self.crossing_bytes:,} bytes"
            parts = [f"accelerator {_duration(self.accelerator_seconds)}", *parts, f"{count} {_durations(self.crossing_seconds)}"]
        speed = f"modelled {TO_ANSWER}, {self.way}: {rates(fps)} images a second, {_durations(latency)} for a batch alone"
        return f"{speed}; a batch of {self.batch} takes {', '.join(parts)}"


def _shared(work: HostWork) -> Range:
    """The time of four threads, of which three are woken."""
    return seconds(work).per(host_model.PACK_SHARE) + Range.of(host_model.THREAD_SECONDS)


def end_to_end(
    pieces: Sequence[PieceEntry], cycles: float, clock_mhz: int, batch: int, native: bool = True, cached: bool = False
) -> EndToEnd:
    """The model of an artifact's pieces. cycles: of all programs, for a batch. native, cached: whether the host has the native
    library, and the processor caches the accelerator's memory, which is so only once a board's self-test has proved it.
    """
    cpu = [piece["seconds"] for piece in pieces if piece["kind"] == CPU]
    programs = programs_of(pieces)
    ports = [port for program in programs for port in (*program["inputs"], *program["outputs"])]
    cpu_seconds = batch * sum(cpu) if all(cpu) else None
    packing, uncounted, alone = HostWork(), NOTHING, host_model.ALONE.work
    if programs and native:
        found = native_work(pieces, batch, cached)
        work, packing, uncounted = found.stream, found.packing, found.uncounted
        alone = (host_model.NATIVE_ALONE if planned(pieces) else host_model.NATIVE_ALONE_GENERAL).work
        cpu_seconds = 0.0 if planned(pieces) and cpu_seconds is not None else cpu_seconds
    else:
        work = host_model.BATCH.work if programs else HostWork()
        for program in programs:
            work = work.plus(run_work(program["inputs"], program["outputs"], batch))
    return EndToEnd(
        batch,
        cycles / (clock_mhz * 1e6),
        cpu_seconds,
        len(ports),
        batch * sum(prod(port["shape"]) for port in ports),
        len(programs),
        work,
        work.plus(alone) if programs else work,
        packing=packing,
        uncounted=uncounted,
    )


def crossing_seconds(starts: int, elements: int) -> float:
    """The host's time for so many more runs of the accelerator that read and write so many elements, at the middle of the model.

    Natively, whatever this installation has: equal input gives equal artifacts.
    """
    shape = (BYTES, 56, 56)  # a map as networks have them in their middle
    each, ports = more_seconds([], [], 1).middle, [_plain(shape, BYTES)]
    there, back = more_seconds(ports, [], 1).middle - each, more_seconds([], ports, 1).middle - each
    return starts * each + elements * (there + back) / (2 * prod(shape))


def run_seconds(
    given: Iterable[Sequence[int]], taken: Iterable[Sequence[int]], batch: int, ci: int, native: bool = True, first: bool = False
) -> float:
    """The host's time for one more run with ports of these shapes [..., C, H, W], at the middle. ci: channels of a word. first:
    whether it is the first that keeps the run loop from completing batches by itself.
    """
    inputs, outputs = ([_plain(shape, ci) for shape in shapes] for shapes in (given, taken))
    if not native:
        return seconds(run_work(inputs, outputs, batch)).middle
    general = host_model.NATIVE_GENERAL.work if first else HostWork()
    return more_seconds(inputs, outputs, batch).middle + seconds(general).middle


def _plain(shape: Sequence[int], ci: int) -> Port:
    """A port of a shape, of which nothing else counts here."""
    words = -(-(shape[-3] if len(shape) > 2 else prod(shape)) // ci) * ci * prod(shape[-2:] if len(shape) > 2 else ())
    place: Any = dict.fromkeys(("name", "tensor", "segment"), "") | dict.fromkeys(("offset", "block_bytes", "row_bytes", "zero"), 0)
    place |= {"shape": list(shape), "scale": 1.0, "image_bytes": words}
    port: Port = place
    return port


def way(figures: Mapping[str, Any]) -> str:
    """As `EndToEnd.way`, from its figures."""
    return NATIVELY if figures["modelled"]["host"] == "native" else IN_PYTHON


def modelled(figures: Mapping[str, Any]) -> str | None:
    """The frame rates of `EndToEnd.figures`, on one core and on four; None: they are not known."""
    found = [figures.get("modelled", {}).get("fps_by_cores", {}).get(f"{cores}") for cores in CORES]
    if None in found:
        return None
    one, four = (rates(Range(quick, slow)) for slow, quick in found)
    return four if one == four else f"{four} on four cores and {one} on one"


def by_stage(figures: Mapping[str, Any]) -> str | None:
    """The stages of a batch alone, from `EndToEnd.figures`, in words; None: they are not known."""
    found = figures.get("modelled", {}).get("latency_seconds_by_stage")
    if not found:
        return None
    parts = [f"{name} {_durations(Range(quick, slow))}" for name, (slow, quick) in found.items()]
    return ", ".join(parts)


def gaps(figures: Mapping[str, Any]) -> str | None:
    """How long the accelerator has no run between two of a stream, from `EndToEnd.figures`, in words; None: it is not known."""
    found = figures.get("modelled", {}).get("gap_seconds")
    if not found or not figures["accelerator_seconds"]:
        return None
    slow, quick = found
    return f"{quick * 1e6:,.3g} to {slow * 1e6:,.3g} us" if slow > quick else f"{slow * 1e6:,.3g} us"


def rates(fps: Range) -> str:
    """Both ends of a frame rate, the slow one first."""
    return f"{rate(fps.slow)} to {rate(fps.quick)}"


def rate(value: float) -> str:
    """Images a second: tenths below 100, and no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def _ends(found: Range | None) -> list[float] | None:
    return None if found is None else [found.slow, found.quick]


def _durations(found: Range) -> str:
    return _duration(found.slow) if found.quick == found.slow else f"{found.quick * 1e3:.3g} to {_duration(found.slow)}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
