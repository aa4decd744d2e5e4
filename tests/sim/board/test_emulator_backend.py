"""The emulated copies between streams and DDR: STATUS for each end that a copy can have, as in `hw/dma/streams.py`.

And starts that a host queues.
"""

import threading
import time

import numpy as np
import pytest

from cnna.sim.board.emulator_backend import EmulatedStreams, EmulatorBackend
from cnna.sim.board.refused import RefusedError
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import preset
from cnna.spec.program.commands import Command
from cnna.spec.regmap import PLACES, REGISTERS, STREAM_ERRORS, offset

from ..programs import Program

SIZE = 4096
Registers = dict[str, int]


@pytest.fixture
def made() -> tuple[EmulatedStreams, Registers, np.ndarray]:
    """EmulatedStreams, the other registers by name, and the DDR from address 0 on."""
    registers: Registers = {}
    memory = np.arange(SIZE, dtype=np.uint32).astype(np.uint8)

    def read(at: int) -> int:
        return next((registers.get(name, 0) for name, register in REGISTERS.items() if register.offset == at), 0)

    def view(address: int, size: int) -> np.ndarray:
        if address + size > SIZE:
            raise IndexError
        return memory[address : address + size]

    return EmulatedStreams(read, view), registers, memory


def begin(made: tuple[EmulatedStreams, Registers, np.ndarray], way: str, address: int, size: int) -> None:
    copies, registers, _ = made
    registers |= {f"{way}_LO": address & 0xFFFF_FFFF, f"{way}_HI": address >> 32, f"{way}_BYTES": size}
    copies.write(offset(f"{way}_START"), 1)


def status(copies: EmulatedStreams, way: str) -> tuple[int, int, str, int]:
    """The fields busy, done, cause and response."""
    word = REGISTERS[f"{way}_STATUS"].unpack(copies.read(offset(f"{way}_STATUS")))
    return word["busy"], word["done"], STREAM_ERRORS[word["cause"]], word["response"]


def test_a_packet_in_and_out(made: tuple[EmulatedStreams, Registers, np.ndarray]) -> None:
    """Bytes must land where they were told to, and none before the copy has begun."""
    copies, _, memory = made
    assert not copies.put(b"abc")
    assert copies.get() is None
    begin(made, "STREAM_IN", 32, 3)
    assert status(copies, "STREAM_IN") == (1, 0, "none", 0)
    assert copies.put(b"abc")
    assert status(copies, "STREAM_IN") == (0, 1, "none", 0)
    assert memory[31:36].tobytes() == bytes([31, *b"abc", 35])
    begin(made, "STREAM_OUT", 32, 3)
    assert copies.get() == b"abc"
    assert status(copies, "STREAM_OUT") == (0, 1, "none", 0)
    assert copies.get() is None


@pytest.mark.parametrize(
    ("address", "size", "packet", "cause", "response"),
    [
        (8, 16, None, "illegal", 0),
        (0, 0, None, "illegal", 0),
        (0, 32, bytes(16), "early_end", 0),
        (0, 16, bytes(32), "late_end", 0),
        (SIZE, 16, bytes(16), "response", 3),
    ],
)
def test_what_stops_a_copy_in(
    made: tuple[EmulatedStreams, Registers, np.ndarray], address: int, size: int, packet: bytes | None, cause: str, response: int
) -> None:
    """The driver tells the user by these; the packet must be taken, so that the next one meets its copy."""
    copies, _, memory = made
    begin(made, "STREAM_IN", address, size)
    assert copies.put(packet or b"x") == (packet is not None)
    assert status(copies, "STREAM_IN") == (0, 0, cause, response)
    assert (memory[size:] == np.arange(size, SIZE, dtype=np.uint32).astype(np.uint8)).all(), "bytes beyond the copy's"
    begin(made, "STREAM_IN", 0, 16)
    assert status(copies, "STREAM_IN") == (1, 0, "none", 0)


def test_a_copy_out_of_nothing_ends_its_packet(made: tuple[EmulatedStreams, Registers, np.ndarray]) -> None:
    """The DMA would wait for a TLAST that never comes."""
    copies, *_ = made
    begin(made, "STREAM_OUT", SIZE, 64)
    assert len(copies.get() or b"") < 64
    assert status(copies, "STREAM_OUT") == (0, 0, "response", 3)


def test_start_is_refused_while_it_cannot_be(made: tuple[EmulatedStreams, Registers, np.ndarray]) -> None:
    """A second start would lose the first; after a program's error nothing may move until a reset."""
    copies, registers, _ = made
    begin(made, "STREAM_IN", 0, 16)
    with pytest.raises(RefusedError, match="SLVERR to STREAM_IN_START"):
        begin(made, "STREAM_IN", 0, 16)
    begin(made, "STREAM_OUT", 0, 16)
    copies.reset()
    registers["STATUS"] = REGISTERS["STATUS"].pack(error=1)
    with pytest.raises(RefusedError, match="SLVERR to STREAM_OUT_START"):
        begin(made, "STREAM_OUT", 0, 16)
    with pytest.raises(RefusedError, match="SLVERR"):
        copies.write(offset("STREAM_IN_STATUS"), 1)


class Held(EmulatorDevice):
    """An emulator whose commands wait until they are let go."""

    def __init__(self) -> None:
        super().__init__(preset("tiny"), 1 << 16, base=1 << 20)
        self.go = threading.Event()

    def execute(self, command: Command) -> None:
        self.go.wait()
        super().execute(command)


def test_a_host_queues_starts_while_a_program_runs() -> None:
    """Registers would wait for the program, so that nothing could be queued; a queued program would be lost or run twice."""
    device = Held()
    backend, program = EmulatorBackend(device), Program()
    program.go("load", seg=2, run=1, runs=1, blocks=1)
    program.write("END", 1)
    base = device.allocate(4096)
    device.store(base, program.bytes())
    for name, word in (("PROG_BASE_LO", base), ("SEG_INPUT_LO", base), ("PROG_COUNT", len(program.writes))):
        backend.write(offset(name), word)
    ctrl, queue = REGISTERS["CTRL"], REGISTERS["QUEUE"]
    backend.write(ctrl.offset, ctrl.pack(queue=1))
    while device.read(queue.offset) != queue.pack(places=PLACES, queued=1):
        time.sleep(1e-3)
    for _ in range(PLACES):
        backend.write(offset("SEG_OUTPUT_LO"), base)
        backend.write(ctrl.offset, ctrl.pack(queue=1))
    for at, word in ((ctrl.offset, ctrl.pack(queue=1)), (offset("SEG_OUTPUT_LO"), base)):
        with pytest.raises(RefusedError, match="2 queued starts are pending"):
            backend.write(at, word)
    assert backend.read(offset("STATUS")) == REGISTERS["STATUS"].pack(busy=1)
    assert backend.read(offset("FINISHED")) == 0
    device.go.set()
    while backend.running.is_set():
        time.sleep(1e-3)
    assert backend.read(offset("FINISHED")) == 1 + PLACES
    assert backend.read(offset("STATUS")) == REGISTERS["STATUS"].pack(done=1)
    backend.close()


def test_a_queued_start_after_an_error_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    """A host that had not seen the error would get SLVERR; or the error would be told once more for each start."""
    backend, program = EmulatorBackend(EmulatorDevice(preset("tiny"), 1 << 16, base=1 << 20)), Program()
    program.write("ID", 0)
    base = backend.device.allocate(4096)
    backend.device.store(base, program.bytes())
    for name, word in (("PROG_BASE_LO", base), ("PROG_COUNT", 1)):
        backend.write(offset(name), word)
    ctrl, queue, status = REGISTERS["CTRL"], REGISTERS["QUEUE"], REGISTERS["STATUS"]
    backend.write(ctrl.offset, ctrl.pack(start=1))
    while backend.running.is_set():
        time.sleep(1e-3)
    capfd.readouterr()
    for dropped in (1, 2):
        backend.write(ctrl.offset, ctrl.pack(queue=1))
        assert backend.read(queue.offset) == queue.pack(places=PLACES, dropped=dropped)
        assert backend.read(status.offset) == status.pack(error=1)
    assert not backend.running.is_set()
    assert not capfd.readouterr().err
    backend.close()


@pytest.mark.parametrize("how", ["start", "begin"])
def test_a_start_while_a_program_of_the_host_plays_is_refused(how):
    """A client would take it that the program runs; an accelerator answers SLVERR."""
    backend = EmulatorBackend(EmulatorDevice(preset("tiny"), 1 << 16))
    ctrl = REGISTERS["CTRL"]
    backend.write(ctrl.offset, ctrl.pack(begin=1))
    with pytest.raises(RefusedError, match="SLVERR to CTRL: it is busy"):
        backend.write(ctrl.offset, ctrl.pack(**{how: 1}))
    backend.write(ctrl.offset, ctrl.pack(soft_reset=1, start=1))
    assert backend.read(offset("STATUS")) == 0
    backend.close()
