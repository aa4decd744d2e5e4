"""A compiled model on a device: places its segments, starts it, waits, and says what went wrong when it stops.

The same code drives the emulator, the simulated RTL and a board (`spec.device.Device`).
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.device.limits import whole
from cnna.host.native.tensors import Feed, Packing, Unpacking
from cnna.spec import progress
from cnna.spec.artifact import ProgramPiece
from cnna.spec.config import BEAT_BYTES, PRESETS, as_dict
from cnna.spec.ddr import DdrSpeed
from cnna.spec.device import Device, MovesCached, soft_reset
from cnna.spec.errors import ArtifactError, DataError, RunError, TurnLostError
from cnna.spec.identity import read_config
from cnna.spec.manifest import Port
from cnna.spec.regmap import REGISTERS, SEGMENTS, offset

SETTLE_SECONDS = 20.0  # for a soft reset: it takes milliseconds, unless the bus owes an answer

MOST = (1 << 32) - 1
MOVED = ("input", "output")  # the segments that the host writes and reads at every run
LIMIT_TIMES, LIMIT_CLOCKS = 20, 100_000  # a run may take so many times its predicted clocks, plus so many more

Int8 = NDArray[np.int8]


class Accelerator:
    """One program on one device. Constants, program and segments are placed once; `run` moves only inputs and outputs.

    There are `slots` places for inputs and for outputs, so that the host can move one batch while another runs. DataError: a number
    out of range.
    """

    def __init__(self, device: Device, piece: ProgramPiece, watchdog_clocks: int | None = None, slots: int = 1) -> None:
        self.device, self.piece = device, piece
        whole("batch", piece.manifest["batch"], 1, MOST)
        self.watchdog_clocks = None if watchdog_clocks is None else whole("watchdog_clocks", watchdog_clocks, 0, MOST)
        slots = whole("slots", slots, 1, MOST)
        self._check_capability()
        soft_reset(device, SETTLE_SECONDS)  # before anything is placed: an earlier program may still write
        self._played = progress.Played(piece.manifest, piece.program, piece.config.chunk_blocks)
        self.counters: dict[str, int] = {}
        sizes = {name: max(BEAT_BYTES, _whole(piece.manifest["segments"][name])) for name in SEGMENTS}
        self._sizes = {f"SEG_{name.upper()}_BYTES": size for name, size in sizes.items()}
        moved = device.allocate_moved if isinstance(device, MovesCached) else device.allocate
        bases = {name: (moved if name in MOVED else device.allocate)(sizes[name]) for name in SEGMENTS}
        own = [{name: moved(sizes[name]) for name in MOVED} for _ in range(slots - 1)]
        self._slots = [bases, *({**bases, **other} for other in own)]
        device.store(bases["constant"], piece.constants)
        self._program = device.allocate(len(piece.program))
        device.store(self._program, piece.program)
        self._set: dict[str, int] = {}  # words that registers are known to hold
        self.set_registers()

    @property
    def slots(self) -> int:
        """Places for inputs and for outputs."""
        return len(self._slots)

    def run(self, inputs: Mapping[str, Int8 | Feed]) -> dict[str, Int8]:
        """Runs one batch: int8 [batch, C, H, W] by input port, or what is not converted yet, gives int8 by output port.

        `counters` has the performance counters afterwards. RunError: the accelerator stopped; the message says why and where.
        """
        self._make_idle()
        self.store_inputs(inputs)
        self.start()
        self.finish()
        return self.load_outputs()

    def start(self, slot: int = 0) -> None:
        """Starts the batch in a slot and returns at once."""
        self.set_registers(slot)
        self.note_start()
        self._write("CTRL", start=1, irq_enable=1)

    def queue(self, slot: int = 0) -> None:
        """Queues the batch in a slot behind those that run or wait; after an error it is dropped. RunError: no place is free."""
        self.set_registers(slot)
        self._write("CTRL", queue=1, irq_enable=1)

    def note_start(self) -> None:
        """Says what runs, for messages about time-outs: whoever starts a program calls this."""
        self.device.playing = self._played

    def set_registers(self, slot: int = 0, by_host: bool = False) -> None:
        """Writes to the accelerator where program and segments are, unless it knows already.

        A program that is sent `by_host` has no RUN_LIMIT, because it takes as long as the host does.
        """
        for name, word in self.words(slot, by_host).items():
            if self._set.get(name) != word:
                self.device.write(offset(name), word)
                self._set[name] = word

    def words(self, slot: int = 0, by_host: bool = False) -> dict[str, int]:
        """What `set_registers` sets, by register."""
        addresses = {f"SEG_{name.upper()}": base for name, base in self._slots[slot].items()} | {"PROG_BASE": self._program}
        words = {f"{name}_LO": address & 0xFFFFFFFF for name, address in addresses.items()}
        words |= {f"{name}_HI": address >> 32 for name, address in addresses.items()}
        words |= self._sizes | {"PROG_COUNT": len(self.piece.program) // 8}
        limit = run_limit(self.piece, self.device.ddr)
        words["RUN_LIMIT"] = limit if limit <= MOST and not by_host else 0
        if self.watchdog_clocks is not None:
            words["WATCHDOG"] = self.watchdog_clocks
        return words

    def forget_registers(self) -> None:
        """Forgets what the registers hold, because others may have used the accelerator: the next start sets all of them."""
        self._set.clear()

    def check_registers(self) -> None:
        """TurnLostError: they hold other words than were set. A process that had lost its turn has written to them late."""
        for name, word in self._set.items():
            if (found := self.device.read(offset(name))) != word:
                raise TurnLostError(
                    f"{name} of the accelerator holds {found:#x}, not {word:#x}: another process, which had lost its turn, has "
                    "written to it late; answers since then are void, run again"
                )

    def run_by_register(self, inputs: Mapping[str, Int8 | Feed]) -> dict[str, Int8]:
        """As `run`, but sends the program's writes one at a time. It is slow and gives the same answer."""
        self._make_idle()
        self.store_inputs(inputs)
        self.set_registers(by_host=True)
        self.device.playing = self._played
        self._write("CTRL", begin=1, irq_enable=1)
        for register, value in struct.iter_unpack("<II", self.piece.program):
            self.device.write(register, value)
        self.finish()
        return self.load_outputs()

    def store_inputs(self, inputs: Mapping[str, Int8 | Feed], slot: int = 0) -> None:
        """Puts a batch into a slot's input segment. DataError: a port is missing, has another shape, or gets NaN."""
        for port in self.piece.manifest["inputs"]:
            given = inputs.get(port["name"])
            feed = given if isinstance(given, Feed) else self._checked(port, given)
            self.device.store(self.place(port, slot), feed.packed())

    def _checked(self, port: Port, x: Int8 | None) -> Feed:
        """What a port gets. DataError: it is missing, or has another shape."""
        wanted = (self.piece.manifest["batch"], *port["shape"])
        if x is None or x.shape != wanted or x.dtype != np.int8:
            found = "nothing" if x is None else f"{x.dtype} {list(x.shape)}"
            raise DataError(f"{self.piece.manifest['name']}: port {port['name']} wants int8 {list(wanted)}, not {found}")
        return Feed(Packing(port, self.piece.config.ci), x, wanted[0])

    def finish(self) -> None:
        """Waits for the end and reads the counters.

        RunError: it stopped, or (TimedOutError) hangs; the message says why and where.
        """
        self.device.wait()
        if self._read("STATUS")["error"]:
            raise self.stopped()
        self.counters = self.read_counters()
        self._write("STATUS", done=1)

    def read_counters(self) -> dict[str, int]:
        """The performance counters, by name."""
        return progress.counters(self._read, self.device.config.ports)

    def stopped(self) -> RunError:
        """Why and where it has stopped, from its registers."""
        return RunError(progress.stopped(self._read, *self._played))

    def load_outputs(self, slot: int = 0) -> dict[str, Int8]:
        """The ports of a slot's output segment: int8 [batch, C, H, W] by name."""
        manifest, answers = self.piece.manifest, {}
        for port in manifest["outputs"]:
            raw = self.device.load(self.place(port, slot), manifest["batch"] * port["image_bytes"])
            unpacking = Unpacking(port, self.piece.config.ci)
            answers[port["name"]] = unpacking.int8(np.frombuffer(raw, np.uint8), manifest["batch"])
        return answers

    def _make_idle(self) -> None:
        """Resets an accelerator that has run anything: STATUS would otherwise report the end of that run, not of the next."""
        if any(self._read("STATUS").values()):
            soft_reset(self.device, SETTLE_SECONDS)

    def address(self, segment: str) -> int:
        """Bus address of a segment."""
        return self._slots[0][segment]

    def place(self, port: Port, slot: int) -> int:
        """Bus address of a port's bytes in a slot."""
        return self._slots[slot][port["segment"]] + int(port["offset"])

    def _read(self, name: str) -> dict[str, int]:
        return REGISTERS[name].unpack(self.device.read(offset(name)))

    def _write(self, name: str, **fields: int) -> None:
        self.device.write(offset(name), REGISTERS[name].pack(**fields))

    def _check_capability(self) -> None:
        """ArtifactError: the artifact was compiled for another accelerator."""
        wanted, have = self.piece.config, read_config(self.device.read)
        codebook = wanted.codebook or have.codebook  # a device that has books plays programs without them too
        unseen = replace(wanted, name=have.name, clock_mhz=have.clock_mhz, streams=have.streams, uram=have.uram)
        sizes = as_dict(replace(unseen, codebook=codebook))
        found = as_dict(have)
        differ = [f"{key} {found.get(key, 0)}, not {value}" for key, value in sizes.items() if found.get(key, 0) != value]
        if differ:
            name = self.piece.manifest["name"]
            again = f"compile it again with --config {have.name}" if have.name in PRESETS else "compile it again for that"
            raise ArtifactError(f"{name} was compiled for {wanted.name}; the device has {', '.join(differ)}: {again}")


def take_turn(all_of: Sequence[Any], chosen: Any) -> None:
    """Lets one of several programs on a device run next. The others must set their registers again, since they hold its words."""
    for other in all_of:
        if other is not chosen and isinstance(other, Accelerator):
            other.forget_registers()


def run_limit(piece: ProgramPiece, ddr: DdrSpeed) -> int:
    """Clocks that no sound run of the program takes on such a DDR."""
    return LIMIT_TIMES * piece.predicted_clocks(ddr) + LIMIT_CLOCKS


def _whole(size_bytes: int) -> int:
    """The bytes rounded up to whole beats."""
    return -(-size_bytes // BEAT_BYTES) * BEAT_BYTES
