"""The accelerator on a PYNQ board, real or virtual, as a `spec.device.Device`: registers by MMIO, memory by `pynq.allocate`.

It gets pynq's MMIO object and device from `pynq_driver`, and does not import pynq. PYNQ.remote always moves a whole buffer, so
every allocation is a buffer of its own. `stream_device` is the device for an accelerator that works on the PL's own DDR4.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.cached_memory import CachedMemory
from cnna.host.board.deferred_signals import reporting_failures, signals_deferred
from cnna.host.board.interrupt import POLLED, Interrupt
from cnna.host.board.remote_turn import RemoteTurn
from cnna.host.board.run_wait import await_end
from cnna.host.board.turn import LocalTurn, Turns
from cnna.host.native.cache import Cache
from cnna.host.native.loop import packing_threads
from cnna.spec.boards import ddr_of
from cnna.spec.config import as_dict
from cnna.spec.device import soft_reset
from cnna.spec.errors import ArtifactError, RunError, TimedOutError, TurnLostError, reason_of
from cnna.spec.identity import CAPABILITIES, has_queue, read_config
from cnna.spec.progress import Played
from cnna.spec.regmap import REGISTERS, offset

STATUS = offset("STATUS")
CAPABILITY_WORDS = [offset(name) // 4 for name in CAPABILITIES]
SETTLE_SECONDS = 5.0  # the longest time that a soft reset may take

Allocate = Callable[[int], Any]  # takes a number of bytes; returns a pynq buffer of that many uint8


class BoardBuffer(NamedTuple):
    """Memory of the accelerator, from an address on. buffer: pynq's buffer, or None if pynq does not know this memory.

    cached: whether the processor caches it, so that lines must be cleaned and invalidated.
    """

    buffer: Any
    address: int
    size: int
    cached: bool = False


class BoardDevice:
    """One accelerator on one board.

    timeout_seconds: after so long without progress, `wait` gives up. limit_clocks: the most clocks of a run; None: no limit. turns:
    shared with every other process that uses the board. uncached: whether its memory goes past the processor's cache, so that
    nothing needs to be flushed. caching: memory that does not, where this process can maintain the cache. interrupt: what tells the
    native run loop of a run's end. threads: of that loop, which pack a run together. places: starts that it may queue; none over a
    network. capabilities: the words of the registers that say what it is. ArtifactError: the registers are not an accelerator's, or
    not those that the overlay describes.
    """

    name = "pynq"

    def __init__(
        self,
        mmio: Any,
        pynq_device: Any,
        allocate: Allocate,
        parameters: Mapping[str, str] | None = None,
        uncached: bool = False,
        caching: CachedMemory | None = None,
        interrupt: Interrupt = POLLED,
    ) -> None:
        self.mmio, self._allocate, self._uncached = mmio, allocate, uncached
        self.caching, self.interrupt = caching, interrupt
        self._remote = _is_remote(pynq_device)
        self.timeout_seconds, self.limit_clocks = 10.0, None  # type: float, int | None
        self.threads = packing_threads()
        self.places = 0
        self.playing: Played | None = None
        self.buffers: dict[int, BoardBuffer] = {}
        self._doubtful = False
        self._process = os.getpid()
        self.config = read_config(self.read)
        self.capabilities = self._read_capabilities()
        if not self._remote and has_queue(self.read):
            self.places = REGISTERS["QUEUE"].unpack(self.read(offset("QUEUE")))["places"]
        self.ddr = ddr_of(self.config)
        self._check_overlay(parameters or {})
        self._check_streams()
        self.turns = Turns(turn_at(pynq_device, mmio.base_addr))
        self.turns.taken = self.turn_taken

    # --- the Device protocol ---

    def read(self, offset: int) -> int:
        """The register at a byte offset. RunError: the bus or the network answers with an error."""
        with self.reporting_failures("reading", offset):
            return int(self.mmio.read(offset))

    def write(self, offset: int, value: int) -> None:
        """Sets a register. RunError: as `read`. TurnLostError: another process has the turn now."""
        self.turns.check()
        with self.reporting_failures("writing", offset):
            self.mmio.write(offset, int(value))

    def allocate(self, size_bytes: int) -> int:
        """The address of newly allocated contiguous memory. RunError: there is none left; the message says what is taken."""
        buffer = self.contiguous(size_bytes)
        address = int(buffer.physical_address)
        self.buffers[address] = BoardBuffer(buffer, address, size_bytes)
        return address

    def allocate_moved(self, size_bytes: int) -> int:
        """As `allocate`, for what the host writes or reads at every run: cached, where the board has proved that this works.

        Its lines belong to it alone. None is dirty, so that none can be written back over what the accelerator writes.
        """
        if self.caching is None or not self.caching.allowed():
            return self.allocate(size_bytes)
        line = self.caching.cache.line_bytes
        whole = -(-size_bytes // line) * line
        buffer = self.contiguous(whole, self.caching.allocate)
        address, place = int(buffer.physical_address), np.asarray(buffer).ctypes.data
        if address % line or place % line:  # a page has whole lines, so this is no page's
            buffer.freebuffer()
            return self.allocate(size_bytes)
        self.caching.cache.invalidate(place, whole)
        self.buffers[address] = BoardBuffer(buffer, address, size_bytes, cached=True)
        return address

    def free(self, address: int) -> None:
        """Frees memory that `allocate` or `allocate_moved` returned."""
        allocation = self.buffers.pop(address)  # first, because another thread may get the address as soon as it is freed
        if not self.ours:
            return
        try:
            with self.reporting_failures("freeing", address):
                allocation.buffer.freebuffer()
        except BaseException:  # Ctrl-C: the user must be able to free it again
            self.buffers.setdefault(address, allocation)
            raise

    def store(self, address: int, data: bytes | np.ndarray) -> None:
        """Copies bytes into an allocation and makes the accelerator see them."""
        raw = as_bytes(data)
        allocation = self.within(address, raw.size)
        start = address - allocation.address
        allocation.buffer[start : start + raw.size] = raw
        self.turns.check()
        if allocation.cached and self.caching:
            self.caching.cache.clean(np.asarray(allocation.buffer).ctypes.data + start, raw.size)
            return
        with self.reporting_failures("sending", address):
            allocation.buffer.flush()

    def load(self, address: int, size_bytes: int) -> bytes:
        """Copies bytes out of an allocation, as the accelerator has written them."""
        allocation = self.within(address, size_bytes)
        start = address - allocation.address
        if allocation.cached and self.caching:
            self.caching.cache.invalidate(np.asarray(allocation.buffer).ctypes.data + start, size_bytes)
        else:
            with self.reporting_failures("fetching", address):
                allocation.buffer.invalidate()
        return np.asarray(allocation.buffer)[start : start + size_bytes].tobytes()

    def wait(self, other: Callable[[], bool] = lambda: False, ended: Callable[[], bool] | None = None) -> None:
        """Returns when STATUS has done or error set, or `other` holds, which is asked again and again. ended: asked in the place of
        STATUS, where several runs may be on the accelerator.

        TimedOutError: no progress, or more than `limit_clocks`; says where. RunError: another image has been loaded meanwhile.
        KeyboardInterrupt: as of `Turns.heed`.
        """

        def over() -> bool:
            self.turns.heed()
            return (ended or self.ended)() or other()

        try:
            await_end(self, over, self.timeout_seconds, self.limit_clocks)
        except TimedOutError:
            self.check_same()
            raise

    def close(self) -> None:
        """Frees all memory."""
        for address in list(self.buffers):
            self.free(address)

    # --- beyond the Device protocol ---

    def reporting_failures(self, doing: str, place: int | str) -> AbstractContextManager[None]:
        """`deferred_signals.reporting_failures` for this board."""
        return reporting_failures(doing, place, self._remote)

    def contiguous(self, size_bytes: int, allocate: Allocate | None = None) -> Any:
        """A buffer in the host's contiguous memory, from `pynq.allocate`. RunError: there is none left."""
        try:
            with signals_deferred() if self._remote else nullcontext():
                buffer = (allocate or self._allocate)(size_bytes)
                int(buffer.physical_address)
        except Exception as error:
            raise RunError(
                f"the PS's DDR has no {size_bytes:,} bytes of contiguous memory left ({reason_of(error)}); {self._remedy()}"
            ) from None
        return buffer

    def _remedy(self) -> str:
        """What the user can do if there is no contiguous memory left."""
        taken = sum(allocation.size for allocation in list(self.buffers.values()))
        return (
            f"models of this process hold {taken:,} bytes in {len(self.buffers)} buffers: close one, or give Linux more CMA "
            "(docs/board.md)"
        )

    @property
    def register_words(self) -> NDArray[np.uint32] | None:
        """The registers as this process has mapped them; None: they are reached through a network, or by calls alone."""
        array = getattr(self.mmio, "array", None)
        return array if not self._remote and isinstance(array, np.ndarray) and array.dtype == np.uint32 else None

    @property
    def cache(self) -> Cache | None:
        """What must be maintained around a run of the native run loop; None: no memory is cached."""
        cached = any(allocation.cached for allocation in list(self.buffers.values()))
        return self.caching.cache if self.caching and cached else None

    @property
    def maps_memory(self) -> bool:
        """Whether contiguous memory is this process's own, without a network or a copy between."""
        return self._uncached and not self._remote

    def mapped(self, address: int, size: int) -> NDArray[np.uint8] | None:
        """Bytes of an allocation, where both sides see what the other writes, at once or by `cache`; else None."""
        allocation = self.within(address, size)
        if self._remote or not (self._uncached or allocation.cached):
            return None
        start = address - allocation.address
        return np.asarray(allocation.buffer)[start : start + size]

    @property
    def ours(self) -> bool:
        """Whether this process has opened the accelerator. A fork has not: its parent goes on, with the same memory."""
        return os.getpid() == self._process

    def reset(self) -> None:
        """Does a soft reset, but in a fork, or if the registers are another design's by now.

        TimedOutError: it does not end, because a burst on the bus is never answered.
        """
        if self.ours and (self.register_words is None or self._is_same()):
            soft_reset(self, SETTLE_SECONDS)

    @contextmanager
    def kept(self, made: list[int] | None = None) -> Iterator[list[int]]:
        """Yields a list, to which the allocations of the block are added when it ends. An exception frees them instead."""
        made = [] if made is None else made
        before = self.buffers.copy()

        def fresh() -> list[int]:  # another thread may have freed an address before this one got it
            return sorted(at for at, allocation in self.buffers.copy().items() if before.get(at) is not allocation)

        try:
            yield made
        except BaseException:
            for address in fresh():
                self.free(address)
            raise
        made += fresh()

    def turn_taken(self, passed: bool) -> None:
        """Called when a turn begins. Resets an accelerator that is not idle: a killed process may have left a program that writes.

        STATUS may also show an end that nobody has cleared, or a reset that still waits for the bus. Either would be taken for the
        end of the next run. This process may have left a program too, as the self-test leaves one that hangs.

        RunError: another image has been loaded, for which nothing fits that this process has placed.
        """
        words = self.register_words
        if passed or words is not None:  # over a network it would cost every turn some milliseconds
            self.check_same(words)
        if passed:
            self.playing = None
        if self.read(STATUS) if words is None else words[STATUS // 4]:
            self.reset()
        if self._doubtful:
            self._put_back()
            self._doubtful = False

    def _read_capabilities(self, words: NDArray[np.uint32] | None = None) -> list[int]:
        """words: the registers, where this process has mapped them."""
        if words is not None:  # every turn looks: a call for each register would take longer than the rest of the turn
            return [*map(words.data.__getitem__, CAPABILITY_WORDS)]
        return [self.read(offset(name)) for name in CAPABILITIES]

    def _is_same(self) -> bool:
        return self._read_capabilities() == self.capabilities

    def check_same(self, words: NDArray[np.uint32] | None = None) -> None:
        """RunError: another image has been loaded since this device was opened. words: as of `_read_capabilities`."""
        if self._read_capabilities(words) == self.capabilities:
            return
        try:
            now = f"it is {read_config(self.read).name} now"
        except ArtifactError as error:
            now = str(error)
        raise RunError(
            f"another image has been loaded since {self.config.name} was opened ({now}): close the session, then open it again"
        )

    def doubt(self) -> None:
        """Notes that a turn was lost or disturbed. At the next turn, everything that this process has stored is stored again."""
        self._doubtful = True

    def check_idle(self) -> None:
        """TurnLostError: the accelerator runs, or has run, a program that this process did not start."""
        status = REGISTERS["STATUS"].unpack(self.read(offset("STATUS")))
        if status["busy"] or status["done"]:
            raise TurnLostError(
                "another process that had lost its turn has started the accelerator: answers since then are void, run again"
            )

    def _put_back(self) -> None:
        for address, allocation in self.buffers.copy().items():
            self.turns.check()
            if address in self.buffers:  # unless another thread has closed its model meanwhile
                with self.reporting_failures("sending", address):
                    allocation.buffer.flush()

    def ended(self) -> bool:
        status = REGISTERS["STATUS"].unpack(self.read(offset("STATUS")))
        return bool(status["done"] or status["error"])

    def within(self, address: int, size: int) -> BoardBuffer:
        """The allocation that holds these bytes. RunError: there is none."""
        for allocation in list(self.buffers.values()):  # a copy, because other threads change it
            if allocation.address <= address and address + size <= allocation.address + allocation.size:
                return allocation
        raise RunError(f"bytes {address:#x}..{address + size:#x} are in no allocation of this process")

    def _check_overlay(self, parameters: Mapping[str, str]) -> None:
        """ArtifactError: the overlay's .hwh describes another accelerator than the one on the board."""
        sizes = {f"C_{name.upper()}": str(value) for name, value in as_dict(self.config).items() if name != "name"}
        known = {name.upper(): value for name, value in parameters.items()}
        differ = [f"{name} {sizes[name]}, not {known[name]}" for name in sizes if name in known and known[name] != sizes[name]]
        if differ:
            raise ArtifactError(
                f"the accelerator on the board is not the one in the overlay's .hwh ({', '.join(differ)}): "
                "put the .bit and .hwh of one build side by side, and remove an older /lib/firmware/cnna.bin"
            )

    def _check_streams(self) -> None:
        """ArtifactError: the accelerator needs an AXI DMA, and the overlay has none."""
        if self.config.streams:
            raise ArtifactError(
                "the accelerator on the board is of variant pl (it has stream ports), but the overlay's .hwh has no AXI DMA: "
                "put the .bit and .hwh of one build side by side"
            )


def _is_remote(pynq_device: Any) -> bool:
    return pynq_device is not None and bool(pynq_device.has_capability("REMOTE"))


def turn_at(pynq_device: Any, base: int) -> LocalTurn | RemoteTurn:
    """The turn of the accelerator whose registers are at `base` on a pynq device."""
    if _is_remote(pynq_device):
        return RemoteTurn(pynq_device, f"/tmp/cnna-{base:x}.lease")
    return LocalTurn(Path(tempfile.gettempdir()) / f"cnna-{base:x}.turn")


def as_bytes(data: bytes | np.ndarray) -> NDArray[np.uint8]:
    """The bytes of `data`, as a flat array."""
    return np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8).reshape(-1)
