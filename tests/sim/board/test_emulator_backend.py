"""The emulated copies between streams and DDR: STATUS for each end that a copy can have, as in `hw/dma/streams.py`."""

import numpy as np
import pytest

from cnna.sim.board.emulator_backend import EmulatedStreams
from cnna.sim.board.refused import RefusedError
from cnna.spec.regmap import REGISTERS, STREAM_ERRORS, offset

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
