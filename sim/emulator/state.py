"""What the emulated accelerator holds: feature memory, rings, the DDR that it sees, and a log of what commands write.

`engines` moves data between these; `emulator` is the device around them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.sim.emulator.walk import ADDRESS_MASK
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.program.commands import Command
from cnna.spec.program.decks import word_number
from cnna.spec.regmap import NO_LIMIT, SEGMENTS

Words = NDArray[Any]


class BusError(Exception):
    """An AXI access that the memory refuses. It has a cause of `regmap.ERRORS`, the port, and the response (3 is DECERR)."""

    def __init__(self, cause: str, port: int, response: int = 3) -> None:
        super().__init__(f"{cause} on port {port}")
        self.cause, self.port, self.response = cause, port, response


class OutsideError(Exception):
    """A command would reach beyond its segment; nothing of it is carried out."""


class ProgramError(Exception):
    """No accelerator could carry out the command: it reaches outside feature memory, or ring words are missing."""


@dataclass(frozen=True)
class LoggedWrite:
    """What one command, or a part of it, wrote.

    words: uint8 [*addresses.shape, ci]. addresses: of feature words, or of DDR bytes for `store`. The shape is [pixels, blocks] for
    conv and vector, whose pixels have the numbers `pixels`, and [blocks, runs, words] for load and store. An engine writes an
    address at most once in a command.
    """

    command: Command
    addresses: NDArray[np.int64]
    words: NDArray[np.uint8]
    pixels: NDArray[np.int64] | None = None


class RingWords:
    """A ring's words in the order in which they came, without a limit. `engines` checks whatever the limit would break."""

    def __init__(self, name: str, word_bytes: int) -> None:
        self.name, self.word_bytes = name, word_bytes
        self._parts: list[tuple[Words, int]] = []  # (uint8 [words, word_bytes], how many times)

    def append(self, words: Words, times: int = 1) -> None:
        """Adds uint8 [words, word_bytes], `times` times."""
        self._parts.append((words, times))

    def take(self, count: int) -> Words:
        """Takes the oldest words: uint8 [count, word_bytes]. ProgramError: there are fewer."""
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
        """Whether all words have been taken."""
        return not self._parts


@dataclass
class EmulatorState:
    """State of one accelerator. `features` is uint8 [words + 1, ci]; padded taps read its last word."""

    config: Config
    ddr: NDArray[np.uint8]
    ddr_base: int  # bus address of ddr[0]
    segments: list[int] = field(default_factory=lambda: [0] * len(SEGMENTS))
    sizes: list[int] = field(default_factory=lambda: [NO_LIMIT] * len(SEGMENTS))  # bytes of each segment
    log: list[LoggedWrite] | None = None

    def __post_init__(self) -> None:
        config = self.config
        self.features = np.zeros((config.feature_words + 1, config.ci), np.uint8)
        self.weights = RingWords("weight", config.ring_word_bytes)
        self.vector_ring = RingWords("vector", config.vector_word_bytes)
        self.tables: dict[str, NDArray[np.int8]] = {}  # by engine; a start forgets them
        self.books: list[NDArray[np.int8]] = []  # of the rows of each port's stripe; a start forgets them

    def write(self, command: Command, addresses: NDArray[np.int64], words: Words, pixels: NDArray[np.int64] | None = None) -> None:
        """Writes feature words [*addresses.shape, ci]. ProgramError: an address is outside feature memory."""
        addresses = addresses & ADDRESS_MASK
        numbers = self.numbers(addresses)
        self.check_addresses(numbers)
        self._cells[numbers] = self.as_cells(words)
        self.record(command, addresses, words, pixels)

    def numbers(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of addresses among all words; too great for those outside feature memory."""
        return word_number(addresses & ADDRESS_MASK, self.config.deck_words, self.config.depth)

    def record(self, command: Command, addresses: NDArray[np.int64], words: Words, pixels: NDArray[np.int64] | None = None) -> None:
        """Logs what a command writes, if there is a log."""
        if self.log is not None:
            self.log.append(LoggedWrite(command, addresses, words.view(np.uint8), pixels))

    def read(self, addresses: NDArray[np.int64], outside: NDArray[np.bool_] | None = None, pad: int = 0) -> Words:
        """Reads feature words, int8 [*addresses.shape, ci]; where `outside`, all channels are `pad`.

        ProgramError: as of `write`.
        """
        addresses = self.numbers(addresses)
        if outside is not None:
            self.features[-1] = pad & 0xFF
            if addresses.size and int(addresses.max()) >= self.config.feature_words:  # a tap that is not read may be anywhere
                self.check_addresses(np.where(outside, 0, addresses))
            addresses = np.where(outside, len(self.features) - 1, addresses)
        else:
            self.check_addresses(addresses)
        return self._cells.take(addresses).view(np.int8).reshape(*addresses.shape, self.config.ci)

    def check_addresses(self, addresses: NDArray[np.int64]) -> None:
        """ProgramError: an address is beyond the last feature word."""
        if addresses.size and int(addresses.max()) >= self.config.feature_words:
            raise ProgramError(
                f"feature word {int(addresses.max())} is outside feature memory, which has {self.config.feature_words}"
            )

    def check_segment(self, number: int, last_beat: int) -> None:
        """OutsideError: the beat, counted from the start of the segment, lies beyond the segment's end."""
        limit = self.sizes[number] // BEAT_BYTES
        if limit != NO_LIMIT // BEAT_BYTES and last_beat >= limit:
            raise OutsideError(f"beat {last_beat} of segment {SEGMENTS[number]}, which has {limit}")

    def bus(self, addresses: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """Indices into `ddr` of `size` bytes at each bus address. IndexError: some lie outside."""
        index = addresses - self.ddr_base
        if index.size and (int(index.min()) < 0 or int(index.max()) + size > len(self.ddr)):
            raise IndexError("outside the memory")
        return index

    @property
    def _cells(self) -> Words:
        """Feature memory with one item for each word, so that gathers move words and not bytes."""
        return self.as_cells(self.features)

    def as_cells(self, words: Words) -> Words:
        """[..., ci] bytes as [...] words of ci bytes each, without a copy if the bytes are contiguous."""
        kind = {4: np.uint32, 8: np.uint64, 16: np.complex128}[self.config.ci]
        return np.ascontiguousarray(words).view(kind)[..., 0]
