"""What the emulated accelerator holds: feature memory, rings, the DDR it sees, and a log of what commands write.

`engines` moves data between these; `emulator` is the device around them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.sim.emulator.walk import ADDRESS_MASK
from cnna.spec.commands import Command
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import NO_LIMIT, SEGMENTS

Words = NDArray[Any]


class BusError(Exception):
    """An AXI access that the memory refuses: cause as in `regmap.ERRORS`, port and response (3 is DECERR)."""

    def __init__(self, cause: str, port: int, response: int = 3) -> None:
        super().__init__(f"{cause} on port {port}")
        self.cause, self.port, self.response = cause, port, response


class OutsideError(Exception):
    """A command that would reach beyond its segment; nothing of it is carried out."""


class ProgramError(Exception):
    """A command that no accelerator could carry out: outside feature memory, or for want of ring words."""


@dataclass(frozen=True)
class LoggedWrite:
    """What one command wrote, or a part of it. words: uint8 [*addresses.shape, ci]; addresses: feature words, of `store` DDR bytes.

    Of conv and vector the shape is [pixels, blocks], from pixel number `first` on; of load and store [blocks, runs, words].
    Every engine writes one address at most once in a command.
    """

    command: Command
    addresses: NDArray[np.int64]
    words: NDArray[np.uint8]
    first: int = 0


class RingWords:
    """Words in the order in which they came, without a limit: what the limit would break, `engines` checks."""

    def __init__(self, name: str, word_bytes: int) -> None:
        self.name, self.word_bytes = name, word_bytes
        self._parts: list[tuple[Words, int]] = []  # (uint8 [words, word_bytes], how many times)

    def append(self, words: Words, times: int = 1) -> None:
        """Adds uint8 [words, word_bytes], that many times over."""
        self._parts.append((words, times))

    def take(self, count: int) -> Words:
        """The oldest words: uint8 [count, word_bytes]. ProgramError: there are fewer."""
        taken: list[Words] = []
        while count:
            if not self._parts:
                raise ProgramError(f"waits for {count} words that nothing brings to the {self.name} ring")
            words, times = self._parts.pop(0)
            taken.append(words[:count])
            rest = words[count:]
            count -= len(taken[-1])
            if times > 1:
                self._parts.insert(0, (words, times - 1))
            if len(rest):
                self._parts.insert(0, (rest, 1))
        return taken[0] if len(taken) == 1 else np.concatenate(taken) if taken else np.empty((0, self.word_bytes), np.uint8)

    @property
    def empty(self) -> bool:
        """Whether every word was taken."""
        return not self._parts


@dataclass
class EmulatorState:
    """State of one accelerator. `features` is uint8 [words + 1, ci]; its last word is what padded taps read."""

    config: Config
    ddr: NDArray[np.uint8]
    ddr_base: int  # bus address of ddr[0]
    segments: list[int] = field(default_factory=lambda: [0] * len(SEGMENTS))
    sizes: list[int] = field(default_factory=lambda: [NO_LIMIT] * len(SEGMENTS))  # of the segments, in bytes
    log: list[LoggedWrite] | None = None

    def __post_init__(self) -> None:
        config = self.config
        self.features = np.zeros((config.feature_words + 1, config.ci), np.uint8)
        self.weights = RingWords("weight", config.ring_word_bytes)
        self.vector_ring = RingWords("vector", BEAT_BYTES)

    def write(self, command: Command, addresses: NDArray[np.int64], words: Words, first: int = 0) -> None:
        """Writes feature words [*addresses.shape, ci]. ProgramError: an address outside feature memory."""
        addresses = addresses & ADDRESS_MASK
        self.check_addresses(addresses)
        self._cells[addresses] = self.as_cells(words)
        self.record(command, addresses, words, first)

    def record(self, command: Command, addresses: NDArray[np.int64], words: Words, first: int = 0) -> None:
        """Keeps what a command writes, where there is a log."""
        if self.log is not None:
            self.log.append(LoggedWrite(command, addresses, words.view(np.uint8), first))

    def read(self, addresses: NDArray[np.int64], outside: NDArray[np.bool_] | None = None, pad: int = 0) -> Words:
        """Feature words int8 [*addresses.shape, ci]; where `outside`, all channels are `pad`. ProgramError: as `write`."""
        addresses = addresses & ADDRESS_MASK
        if outside is not None:
            self.features[-1] = pad & 0xFF
            self.check_addresses(np.where(outside, 0, addresses))
            addresses = np.where(outside, len(self.features) - 1, addresses)
        else:
            self.check_addresses(addresses)
        return self._cells.take(addresses).view(np.int8).reshape(*addresses.shape, self.config.ci)

    def check_addresses(self, addresses: NDArray[np.int64]) -> None:
        """ProgramError: a feature word address beyond the last."""
        if addresses.size and int(addresses.max()) >= self.config.feature_words:
            raise ProgramError(f"feature word {int(addresses.max())} is outside the {self.config.feature_words} there are")

    def check_segment(self, number: int, last_beat: int) -> None:
        """OutsideError: the beat, counted from the start of the segment, is beyond its last."""
        limit = self.sizes[number] // BEAT_BYTES
        if limit != NO_LIMIT // BEAT_BYTES and last_beat >= limit:
            raise OutsideError(f"beat {last_beat} of segment {SEGMENTS[number]}, which has {limit}")

    def bus(self, addresses: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Indices into `ddr` of `size` bytes at each bus address. IndexError: any of them is outside."""
        index = addresses - self.ddr_base
        if index.size and (int(index.min()) < 0 or int(index.max()) + size > len(self.ddr)):
            raise IndexError("outside the memory")
        return index

    @property
    def _cells(self) -> Words:
        """Feature memory, a whole word an item: gathers move words, not bytes."""
        return self.as_cells(self.features)

    def as_cells(self, words: Words) -> Words:
        """[..., ci] bytes as [...] words of ci bytes, without copying where they lie together."""
        kind = {4: np.uint32, 8: np.uint64, 16: np.complex128}[self.config.ci]
        return np.ascontiguousarray(words).view(kind)[..., 0]
