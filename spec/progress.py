"""Says in words where in its program the accelerator is, for error messages: turns registers into the name of a layer."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.machine import RESPONSES
from cnna.spec.manifest import ProgramManifest
from cnna.spec.program.commands import go_writes
from cnna.spec.regmap import BOUNDED, COUNT_BITS, COUNTED, ENGINES, ERRORS, GO_OFFSETS, REGISTERS, STALLS, offset

Read = Callable[[str], Mapping[str, int]]  # reads a register by its name, and gives its fields


class Played(NamedTuple):
    """What the accelerator was started with: manifest and program of an artifact, and `chunk_blocks` of its `Config`."""

    manifest: ProgramManifest
    program: bytes
    chunk_blocks: int


class Go(NamedTuple):
    """A `*_GO` write of a program: its engine, its number in the program, and the units that its command makes."""

    engine: str
    pc: int
    units: int


def gos_of(program: bytes, chunk_blocks: int) -> list[Go]:
    """Every command of a program, in order, for an accelerator with that many blocks in a chunk. The program may be damaged."""
    writes, pcs = np.frombuffer(program, "<u4").reshape(-1, 2), go_writes(program)
    engines = [GO_OFFSETS[register] for register in writes[pcs, 0].tolist()]
    chunks, blocks = (_last(writes, name, pcs) for name in ("CONV_CHUNKS", "VECTOR_BLOCKS"))
    units = {"conv": chunks, "vector": -(-blocks // chunk_blocks), "weight": np.zeros_like(pcs)}
    ones = np.ones_like(pcs)
    return [
        Go(engine, int(pc), int(units.get(engine, ones)[row])) for row, (engine, pc) in enumerate(zip(engines, pcs, strict=True))
    ]


def _last(writes: NDArray[np.uint32], register: str, pcs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The value of a register before each of the writes `pcs`; 0 if it was never set."""
    own = np.flatnonzero(writes[:, 0] == offset(register))
    values = np.concatenate([[0], writes[own, 1].astype(np.int64)])
    return values[np.searchsorted(own, pcs)]


def stopped(read: Read, manifest: ProgramManifest, program: bytes, chunk_blocks: int) -> str:
    """Why and where the accelerator stopped: the cause, then `whereabouts`."""
    error = read("ERROR")
    cause = ERRORS[error["cause"]] if error["cause"] < len(ERRORS) else f"cause {error['cause']}"
    if cause.endswith("response"):
        cause += f" {RESPONSES[error['response']]} on port {error['port']}"
    elif cause.startswith("illegal"):
        register = next((r.name for r in REGISTERS.values() if r.offset == read("ERROR_INFO")["offset"]), "no register")
        cause += f" at offset {read('ERROR_INFO')['offset']:#x} ({register})"
    elif cause == "outside_segment":
        engine = next((e for e in BOUNDED if offset(f"{e.upper()}_SEG") == read("ERROR_INFO")["offset"]), "an engine")
        cause += f" ({engine} would have left its segment)"
    elif cause == "run_limit":
        cause += f" (not at its end after {read('RUN_LIMIT')['clocks']:,} clocks)"
    elif cause == "watchdog":
        cause += f" (no progress for {read('WATCHDOG')['clocks']} clocks)"
    left = f"; {outstanding(read)}" if cause.startswith(("watchdog", "run_limit")) else ""
    return f"the accelerator stopped: {cause} {whereabouts(read, manifest, program, chunk_blocks)}{left}"


def whereabouts(read: Read, manifest: ProgramManifest, program: bytes, chunk_blocks: int) -> str:
    """Program counter, layer, and the command of each engine."""
    pc, gos = read("PC")["count"], gos_of(program, chunk_blocks)
    return f"at program write {pc} of {len(program) // 8}, {_layer(manifest, _after(gos, pc))}; {_engines(read, manifest, gos, pc)}"


def standing(read: Read, played: Played | None) -> str:
    """The report of a time-out: program counter, layer, engines, STATUS, errors, AXI traffic.

    If `played` is None, the program is not one of ours.
    """
    if played is not None:
        where = whereabouts(read, *played)
    else:
        busy = [engine for bit, engine in enumerate(ENGINES) if read("STATUS")["engines"] >> bit & 1]
        where = f"at program write {read('PC')['count']}, in no layer of this process's models; engines: "
        where += ", ".join(f"{engine} busy" for engine in busy) or "all idle"
    return f"{where}; {registers(read, read('ARRAY')['ports'])}"


def registers(read: Read, ports: int) -> str:
    """STATUS, ERROR and the beats of each AXI port, for the report of an accelerator that hangs."""
    status, error = read("STATUS"), read("ERROR")
    beats = ", ".join(f"port {p} {read(f'READ_BEATS{p}')['beats']:,}/{read(f'WRITE_BEATS{p}')['beats']:,}" for p in range(ports))
    flags = [name for name in ("busy", "done", "error", "resetting") if status[name]]
    cause = ERRORS[error["cause"]] if error["cause"] < len(ERRORS) else error["cause"]
    info = read("ERROR_INFO")["offset"]
    flags_text = " ".join(flags) or "idle"
    return f"STATUS {flags_text}, ERROR {cause}, ERROR_INFO {info:#x}; beats read/written: {beats}; {outstanding(read)}"


def outstanding(read: Read) -> str:
    """The AXI bursts of each port that have no answer yet."""
    ports, reads, writes = read("ARRAY")["ports"], read("OUTSTANDING_READS"), read("OUTSTANDING_WRITES")
    return "; ".join(f"port {p}: {reads[f'port{p}']} reads, {writes[f'port{p}']} writes outstanding" for p in range(ports))


def _after(gos: list[Go], pc: int) -> int | None:
    """The command to which write `pc` belongs: the first whose GO is at `pc` or behind it."""
    return next((index for index, go in enumerate(gos) if go.pc >= pc), len(gos) - 1 if gos else None)


def _layer(manifest: ProgramManifest, command: int | None) -> str:
    if command is None or command >= len(manifest["commands"]):
        return "in no layer"
    index = manifest["commands"][command]["layer"]
    return "in no layer" if index is None or index < 0 else f"layer {manifest['layers'][index]['name']}"


def _engines(read: Read, manifest: ProgramManifest, gos: list[Go], pc: int) -> str:
    """The command and unit of every engine with unfinished commands."""
    busy = read("STATUS")["engines"]
    parts = []
    for engine in COUNTED:
        done, total = read(f"DONE_{engine.upper()}")["units"], 0
        for index, go in enumerate(gos):
            if go.engine != engine or go.pc >= pc:
                continue
            if total + go.units > done:
                state = "busy" if busy >> ENGINES.index(engine) & 1 else "waiting"
                parts.append(f"{engine} {state} at command {index} ({_layer(manifest, index)}, unit {done - total} of {go.units})")
                break
            total = (total + go.units) % (1 << COUNT_BITS)
    return "engines: " + (", ".join(parts) if parts else "all idle")


def counters(read: Read, ports: int) -> dict[str, int]:
    """The performance counters, by register name in lower case; only of the ports that exist."""
    return {name.lower(): next(iter(read(name).values())) for name in counter_names(ports)}


def counter_names(ports: int) -> list[str]:
    """The registers that `counters` reads."""
    names = ["CYCLES", "ARRAY_ACTIVE", "VECTOR_ACTIVE", *(f"STALL_{cause.upper()}" for cause in STALLS)]
    return names + [f"{kind}_BEATS{port}" for kind in ("READ", "WRITE") for port in range(ports)]
