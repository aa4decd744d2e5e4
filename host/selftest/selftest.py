"""`cnna board selftest`: is the accelerator on the board sound, and how quick is its memory?

It checks that registers keep patterns and that random bytes come back equal from feature memory. It measures each AXI port's
bandwidth, and compares the accelerator's clock with the host's. All that is done by register programs that are written here.
`sustained` runs networks afterwards.
"""

import struct
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple

import numpy as np

from cnna.host.board.board_device import BoardDevice
from cnna.spec.boards import ddr_of
from cnna.spec.config import BEAT_BYTES
from cnna.spec.errors import RunError
from cnna.spec.regmap import REGISTERS, offset, there

PATTERNS = (0x0000_0000, 0xFFFF_FFFF, 0xAAAA_AAAA, 0x5555_5555, 0x1234_5678)
RUN_BYTES, REPEATS = 2048, 64  # bytes of a run, which goes through one port; commands of a bandwidth test
STREAMED_BYTES = 300_000  # in and out through the streams: more than a packet holds
SEED = 7
# Share of the planned bandwidth; a port at half its width leaves 0.67, and stores wait for feature memory too.
LEAST = {"read": 0.7, "write": 0.25}
SECONDS_MOST = 10.0  # for one of these programs
MOST_CLOCKS = (1 << 32) - 1  # the most that RUN_LIMIT can hold
CLOCK_SECONDS, CLOCK_PART = 0.25, 0.03  # how long the clock is watched; how far it may be from what CLOCK says


class Finding(NamedTuple):
    """One thing that was tried, and its outcome."""

    name: str
    good: bool
    text: str


def command(engine: str, **values: int) -> list[tuple[int, int]]:
    """Register writes (offset, value) of one command of an engine. Registers that are not given hold their least legal values.

    Those that not every accelerator has are not written: a start clears them.
    """
    found = []
    for register in there(codebook=False):
        if register.block == engine and not register.name.endswith("_GO"):
            word = values.pop(register.name.removeprefix(f"{engine.upper()}_").lower(), None)
            least = {field.name: max(0, field.limits[0]) for field in register.fields}
            found.append((register.offset, register.pack(**least) if word is None else word))
    if values:
        raise ValueError(f"{engine} has no register {', '.join(values)}")
    return [*found, (offset(f"{engine.upper()}_GO"), 1)]


def registers(device: BoardDevice) -> Finding:
    """Writes patterns to every register of the general block that keeps what is written, and reads them back.

    Registers of stream copies are tried only where there are streams.
    """
    wrong = []
    for register in REGISTERS.values():
        there = device.config.streams or not register.name.startswith("STREAM_")
        if there and register.block == "general" and {field.access for field in register.fields} == {"rw"}:
            before = device.read(register.offset)
            mask = (1 << sum(field.bits for field in register.fields)) - 1
            for pattern in PATTERNS:
                device.write(register.offset, pattern)
                if (have := device.read(register.offset)) != pattern & mask:
                    wrong.append(f"{register.name} is {have:#x} after {pattern:#x}")
            device.write(register.offset, before)
    return Finding("registers", not wrong, "; ".join(wrong[:3]) or "all keep every pattern")


def copy(device: BoardDevice) -> Finding:
    """Copies random bytes from DDR to feature memory, through every port, and back."""
    program, size = copy_program(device)
    data = np.random.default_rng(SEED).integers(0, 256, size, np.uint8)
    with Placed(device, program, data.size) as placed:
        device.store(placed.input, data)
        device.store(placed.output, np.zeros_like(data))
        placed.run()
        back = np.frombuffer(device.load(placed.output, data.size), np.uint8)
    wrong = int((back != data).sum())
    return Finding("copy", not wrong, f"{wrong:,} of {data.size:,} bytes differ" if wrong else f"{data.size:,} bytes equal")


def copy_program(device: BoardDevice) -> tuple[list[tuple[int, int]], int]:
    """Copies the input to the output through feature memory and every port; and how many bytes that are."""
    walk, size = _walk(device)
    loaded = 1 | 1 << 25  # one unit of `load`, enabled
    return command("load", seg=2, **walk) + command("store", seg=3, **walk, wait_load=loaded), size


def streams(device: BoardDevice) -> Finding:
    """Sends random bytes through the AXI DMA into the PL's DDR4 and back, and measures how quick that is by the host's clock."""
    data = np.random.default_rng(SEED).integers(0, 256, STREAMED_BYTES, np.uint8)
    with device.kept() as made:
        address = device.allocate(data.size)
        began = time.perf_counter()
        device.store(address, data)
        stored = time.perf_counter()
        back = np.frombuffer(device.load(address, data.size), np.uint8)
        rates = [data.size / 1e6 / seconds for seconds in (stored - began, time.perf_counter() - stored)]
    for address in made:
        device.free(address)
    wrong = int((back != data).sum())
    text = f"{data.size:,} bytes equal; {rates[0]:,.1f} MB/s in, {rates[1]:,.1f} MB/s out by the clock on the wall"
    return Finding("streams", not wrong, f"{wrong:,} of {data.size:,} bytes differ" if wrong else text)


def read_bandwidth(device: BoardDevice) -> Finding:
    """Bytes a clock that each port reads while all ports read: weights for their ring, which takes a beat a clock from every port.

    Counts from half a ring to a whole one, so that the delay of the first answer does not count.
    """
    config = device.config
    beats = config.ring_words // 2 * config.stripe_bytes // BEAT_BYTES
    clocks, moved = [], []
    for times in (1, 2):
        program = command("weight", seg=2, port=beats * BEAT_BYTES, beats=beats, repeat=times)
        with Placed(device, program, beats * BEAT_BYTES * config.ports) as placed:
            placed.run()
            clocks.append(device.read(offset("CYCLES")))
            moved.append([device.read(offset(f"READ_BEATS{port}")) for port in range(config.ports)])
    return _rated("read", device, clocks[1] - clocks[0], [after - before for before, after in zip(*moved, strict=True)])


def write_bandwidth(device: BoardDevice) -> Finding:
    """Bytes a clock that `store` writes through each port while all ports write.

    Feature memory delivers no more than DDR takes.
    """
    walk, size = _walk(device)
    with Placed(device, command("store", seg=3, **walk) * REPEATS, size) as placed:
        placed.run()
        clocks = device.read(offset("CYCLES"))
        beats = [device.read(offset(f"WRITE_BEATS{port}")) for port in range(device.config.ports)]
    return _rated("write", device, clocks, beats)


def _rated(kind: str, device: BoardDevice, clocks: int, beats: list[int]) -> Finding:
    """Compares a bandwidth with the plan: it is good if all ports together move `LEAST` of what is planned."""
    name = f"{kind} bandwidth"
    if not clocks:
        return Finding(name, True, "not measured: this board counts no clocks")
    each = [BEAT_BYTES * count / clocks for count in beats]
    planned = min(BEAT_BYTES * len(each), ddr_of(device.config).bytes_per_cycle)
    ports = ", ".join(f"port {port} {value:.2f}" for port, value in enumerate(each))
    text = f"{ports} bytes a clock; {sum(each) * device.config.clock_mhz / 1e3:.1f} GB/s in all"
    good = min(each) > 0 and sum(each) >= LEAST[kind] * planned
    return Finding(
        name,
        good,
        text if good else f"{text}; the plan is {planned} bytes a clock, and less than {LEAST[kind]:.0%} of it is too little",
    )


def clock(device: BoardDevice, virtual: bool, now: Callable[[], float] = time.perf_counter) -> Finding:
    """Clocks that the accelerator counts in a second of the host's while it reads DDR. A `virtual` board keeps no such time.

    now: the host's clock, in seconds.
    """
    walk, size = _walk(device)
    loads, registered = command("load", seg=2, **walk), device.config.clock_mhz
    with Placed(device, loads * REPEATS, size) as placed:
        placed.run()
        counted = device.read(offset("CYCLES"))
    if not counted:
        return Finding("clock", virtual, "not measured: this board counts no clocks")
    if virtual:
        return Finding("clock", True, f"{registered} MHz by its register; a virtual board's seconds are not a real one's")
    again = int(CLOCK_SECONDS * registered * 1e6 / counted * REPEATS)
    with Placed(device, loads + loads[-1:] * again, size) as placed:  # a command's registers keep their values for the next
        placed.start()
        megahertz = _megahertz(device, now)
        placed.finish()
    text = f"{megahertz:.1f} MHz by the host's clock, {registered} by its register (they may differ by {CLOCK_PART:.0%})"
    return Finding("clock", abs(megahertz / registered - 1) < CLOCK_PART, text)


def _megahertz(device: BoardDevice, now: Callable[[], float]) -> float:
    """From two readings of the cycle counter while the accelerator works: the quickest of the first third and of the last third."""
    looks: list[tuple[float, float, int]] = []  # seconds that the reading took, when it was, what it showed
    until = now() + SECONDS_MOST
    while REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["busy"] and now() < until:
        before = now()
        cycles = device.read(offset("CYCLES"))
        after = now()
        looks.append((after - before, (before + after) / 2, cycles))
    third = (len(looks) - 1) // 3  # at the last reading the program may have ended already
    if not third:
        raise RunError(f"the clock cannot be measured: {len(looks)} looks while it worked")
    (_, first, low), (_, last, high) = min(looks[:third]), min(looks[-third - 1 : -1])
    return (high - low) / (last - first) / 1e6


def selftest(device: BoardDevice, virtual: bool) -> list[Finding]:
    """Runs all tests in order. An error of the accelerator is a finding too."""
    found = []
    with device.turns.mine("self-test"):
        tests = {**_TESTS, "clock": lambda device: clock(device, virtual)}
        if device.config.streams:
            tests["streams"] = streams
        for name, test in tests.items():
            try:
                found.append(test(device))
            except RunError as error:
                found.append(Finding(name, False, str(error)))
    return found


_TESTS = {
    "registers": registers,
    "copy": copy,
    "read bandwidth": read_bandwidth,
    "write bandwidth": write_bandwidth,
}


def _walk(device: BoardDevice) -> tuple[dict[str, int], int]:
    """Registers of a command that moves runs, and its bytes.

    It uses every port alike, for at most 16 runs and half of feature memory.
    """
    words = RUN_BYTES // device.config.ci
    fit = device.config.feature_words * device.config.ci // 2 // RUN_BYTES
    runs = max(1, min(16, fit) // device.config.ports) * device.config.ports
    return {"run": words, "runs": runs, "ddr_run": RUN_BYTES, "fm_run": words}, runs * RUN_BYTES


class Placed:
    """A program and two segments on the board, in a `with` block; they are freed when it ends.

    allocate: of the segments; None: the device's.
    """

    def __init__(
        self,
        device: BoardDevice,
        program: list[tuple[int, int]],
        segment_bytes: int,
        allocate: Callable[[int], int] | None = None,
    ) -> None:
        self.device, self._allocate = device, allocate or device.allocate
        self.writes = [*program, (offset("END"), 1)]
        self.segment_bytes = segment_bytes

    def __enter__(self) -> "Placed":
        self._kept = self.device.kept()
        self._made = self._kept.__enter__()
        self.input, self.output = (self._allocate(self.segment_bytes) for _ in range(2))
        self.program = self.device.allocate(8 * len(self.writes))
        self.device.store(self.program, b"".join(struct.pack("<II", *write) for write in self.writes))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kept.__exit__(kind, error, trace)
        for address in self._made:
            self.device.free(address)

    def run(self) -> None:
        """Runs the program from start to end. RunError: as of `finish`."""
        self.start()
        self.finish()

    def start(self) -> None:
        """Resets the accelerator and starts the program."""
        places: Mapping[str, int] = {"PROG_BASE": self.program, "SEG_INPUT": self.input, "SEG_OUTPUT": self.output}
        self.device.playing = None  # what runs now is no model's program
        self.device.reset()
        for name, address in places.items():
            self.device.write(offset(f"{name}_LO"), address & 0xFFFF_FFFF)
            self.device.write(offset(f"{name}_HI"), address >> 32)
        limit = min(MOST_CLOCKS, int(SECONDS_MOST * 1e6 * self.device.config.clock_mhz))
        words = {"SEG_INPUT_BYTES": self.segment_bytes, "SEG_OUTPUT_BYTES": self.segment_bytes, "RUN_LIMIT": limit}
        for name, word in (words | {"PROG_COUNT": len(self.writes)}).items():
            self.device.write(offset(name), word)
        self.device.write(offset("CTRL"), REGISTERS["CTRL"].pack(start=1, irq_enable=1))

    def finish(self) -> None:
        """Waits for the program's end. RunError: it stopped; the message has the number of the cause."""
        self.device.wait()
        if REGISTERS["STATUS"].unpack(self.device.read(offset("STATUS")))["error"]:
            error = REGISTERS["ERROR"].unpack(self.device.read(offset("ERROR")))
            raise RunError(f"the accelerator stopped: cause {error['cause']}, port {error['port']}, response {error['response']}")
        self.device.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1))
