"""A model of a ZCU102's Cortex-A53: seconds of the host's work, as a range. `spec.host_model` has its constants with sources."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from cnna.spec.host_time import host_model
from cnna.spec.host_time.host_model import Constant, Counted
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.manifest import Port

_FILES = ("openat", "newfstatat", "fstat", "ftruncate", "mmap", "munmap", "mremap", "brk", "madvise")
_NOT_COUNTED = ("nanosleep", "clock_nanosleep", "ppoll", "pselect6")  # waits


@dataclass(frozen=True)
class Range:
    """Seconds at the quick end of the model and at the slow end."""

    quick: float
    slow: float

    @classmethod
    def of(cls, constant: Constant, times: float = 1) -> "Range":
        """So many times a constant."""
        return cls(constant.quick * times, constant.slow * times)

    def __add__(self, other: "Range") -> "Range":
        return Range(self.quick + other.quick, self.slow + other.slow)

    def scaled(self, factor: float) -> "Range":
        """So many times this range."""
        return Range(self.quick * factor, self.slow * factor)

    def turned(self) -> "Range":
        """The same ends, the other way round: a text has the slow end of a rate first, and the quick end of a time."""
        return Range(self.slow, self.quick)

    def per(self, constant: Constant) -> "Range":
        """This range in another unit: each end times the constant's."""
        return Range(self.quick * constant.quick, self.slow * constant.slow)

    @property
    def middle(self) -> float:
        """Between the ends."""
        return (self.quick + self.slow) / 2


NOTHING = Range(0.0, 0.0)


def seconds(work: HostWork) -> Range:
    """What one core takes for the work, waits left out."""
    m = host_model
    clocks = [
        Range.of(m.INTERPRETER_CLOCKS, work.interpreter),
        Range.of(m.LIBRARY_CLOCKS, work.libraries),
        Range.of(m.LOOP_FACTOR, work.loop_clocks),
        Range.of(m.L2_HIT_CLOCKS, work.l1_misses + work.whole),
    ]
    rest = [
        Range.of(m.DDR_SECONDS, work.l2_misses),
        Range.of(m.STREAM_SECONDS, work.streamed),
        Range.of(m.BUFFER_READ_SECONDS, work.buffer_read),
        Range.of(m.BUFFER_WRITE_SECONDS, work.buffer_written),
        Range.of(m.REGISTER_READ_SECONDS, work.register_reads),
        Range.of(m.REGISTER_WRITE_SECONDS, work.register_writes),
        Range.of(m.LINE_SECONDS, work.lines),
        Range.of(m.WRITE_SECONDS, work.past),
        Range.of(m.ABSENT_SECONDS, work.absent),
        *(Range.of(_price(name), times) for name, times in work.calls.items() if name not in _NOT_COUNTED),
    ]
    return total(clocks).per(m.CLOCK_SECONDS) + total(rest)


def total(ranges: Iterable[Range]) -> Range:
    """The sum."""
    return sum(ranges, NOTHING)


def moved_bytes(work: HostWork) -> float:
    """Bytes that the work moves between the processor and DDR."""
    return 64 * (work.l2_misses + work.streamed + work.lines + work.past) + work.buffer_read + work.buffer_written


def run_work(inputs: Iterable[Port], outputs: Iterable[Port], batch: int) -> HostWork:
    """An estimate of Python's work for a run of a program: what `make host-cost` would count in a stream.

    `host_model.BATCH` comes on top for each batch, and pieces on the CPU.
    """
    work = host_model.RUN.work
    for port in inputs:
        work = work.plus(_input_work(port, batch))
    for port in outputs:
        work = work.plus(host_model.OUTPUT.work).plus(_elements(host_model.UNPACK_ELEMENT, prod(port["shape"]), batch))
        work = work.plus(HostWork(buffer_read=port.get("image_bytes", prod(port["shape"])) * batch))
    return work


def _input_work(port: Port, batch: int) -> HostWork:
    fold = port.get("fold")
    places = prod(fold["span"]) if fold else 1
    packed = prod(fold["shape"]) if fold else prod(port["shape"])
    work = host_model.INPUT.work.plus(host_model.PLACE.work, places)
    work = work.plus(_elements(host_model.TABLE_ELEMENT, prod(port["shape"]), batch))
    work = work.plus(_elements(host_model.PACK_ELEMENT, packed, batch))
    return work.plus(HostWork(buffer_written=port.get("image_bytes", packed) * batch))


def _elements(counted: Counted, elements: int, batch: int) -> HostWork:
    """The work for so many elements of each image; of a large array, what the first cache lacks is not in the second either."""
    work = counted.work.scaled(elements * batch)
    return work.plus(HostWork(l2_misses=work.l1_misses)) if elements * batch > host_model.L2_BYTES else work


def _price(call: str) -> Constant:
    if call == "clock_gettime":
        return host_model.CLOCK_CALL_SECONDS
    if call == "ioctl":
        return host_model.SYNC_SECONDS
    return host_model.FILE_SECONDS if call in _FILES else host_model.CALL_SECONDS
