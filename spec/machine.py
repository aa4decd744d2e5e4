"""Constants of the hardware by which other rooms size, predict or test; `hw` builds from them.

Widths of register fields are not here: `width` and `limits` take them from the register map.
"""

from typing import Final

from cnna.spec.config import BEAT_BYTES
from cnna.spec.regmap import REGISTERS, SPACE_BYTES, command_fields

BUS_BITS: Final = 40  # of a DDR byte address
BEAT_BITS: Final = 8 * BEAT_BYTES
BURST_BEATS: Final = 16  # in one AXI4 burst at most: 256 bytes
READS_OUTSTANDING: Final = 32  # bursts of a port; 48 bytes a clock over four ports at 120 clocks need 12 of 128 bytes
WRITES_OUTSTANDING: Final = 16  # bursts of a port, from AW to B
RUNS_AHEAD: Final = 64  # runs that a port of load or of store holds: as many runs of one beat can be outstanding
LOAD_ROOM_BEATS: Final = 256  # a port's FIFO: takes a beat a clock at a latency of up to 240 clocks
STORE_ROOM_BEATS: Final = 128  # a port's FIFO: hides the wait for the last B of a command
QUEUE_COMMANDS: Final = 2  # commands that wait for an engine: `skid_buffer` has two places

CONTROL_BITS = SPACE_BYTES.bit_length() - 1  # of an AXI4-Lite address
AXI_LITE_BITS = {"addr": CONTROL_BITS, "prot": 3, "data": 32, "strb": 4, "resp": 2, "valid": 1, "ready": 1}  # of the signals
AXI_BITS = {  # of an AXI4 port's signals, by their names without the channel's letters
    "addr": BUS_BITS,
    "len": 8,
    "size": 3,
    "burst": 2,
    "lock": 1,
    "cache": 4,
    "prot": 3,
    "qos": 4,
    "data": BEAT_BITS,
    "strb": BEAT_BITS // 8,
    "resp": 2,
    "last": 1,
    "valid": 1,
    "ready": 1,
}
STREAM_BITS = {"data": BEAT_BITS, "keep": BEAT_BITS // 8, "last": 1, "valid": 1, "ready": 1}  # of an AXI4-Stream port's
RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")  # RRESP and BRESP, in the order of their numbers


def width(engine: str, field: str) -> int:
    """Bits of a field of an engine's commands."""
    return command_fields(engine)[field].bits


def limits(engine: str, field: str) -> tuple[int, int]:
    """The least and the greatest value of a field of an engine's commands."""
    return command_fields(engine)[field].limits


def signal_bits(signal: str, widths: dict[str, int]) -> int:
    """Bits of a bus signal such as `awaddr`. KeyError: `widths` has no such signal."""
    for ending, bits in widths.items():
        if signal.endswith(ending):
            return bits
    raise KeyError(signal)


MOST_BATCH = limits("conv", "images")[1]  # images of a run of a program
COPY_BITS = REGISTERS["STREAM_IN_BYTES"].fields[0].bits  # of the bytes that a copy between a stream port and DDR moves
