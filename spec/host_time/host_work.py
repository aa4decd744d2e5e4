"""What the host does for a picture, in counts that no clock enters: instructions, bytes, accesses, system calls.

`make host-cost` counts it under emulation; `spec.cortex_a53` turns it into seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class HostWork:
    """Counts of a stage, of a picture or of many.

    interpreter, libraries, loops: instructions of Python's own program, of numpy and all else, and of the hottest blocks of these.
    loop_clocks: of the loops, by llvm-mca. read, written: bytes of ordinary memory. l1_misses, l2_misses: lines that caches lack.
    streamed: lines that both lack, but that were asked for early. buffer_read, buffer_written: bytes of
    the accelerator's memory. register_reads, register_writes: accesses. lines: of 64 bytes, that cache maintenance covers. native:
    those of the instructions that are the native library's. whole, past: lines that are written from end to end, and so are not
    fetched: into the second cache, or past both. absent: lines that are cleaned, and that no cache has. calls: system calls by
    name.
    """

    interpreter: float = 0
    libraries: float = 0
    loops: float = 0
    loop_clocks: float = 0
    read: float = 0
    written: float = 0
    l1_misses: float = 0
    l2_misses: float = 0
    streamed: float = 0
    buffer_read: float = 0
    buffer_written: float = 0
    register_reads: float = 0
    register_writes: float = 0
    lines: float = 0
    native: float = 0
    whole: float = 0
    past: float = 0
    absent: float = 0
    calls: Mapping[str, float] = field(default_factory=dict)

    @property
    def instructions(self) -> float:
        """All of them."""
        return self.interpreter + self.libraries + self.loops

    @property
    def python(self) -> float:
        """The instructions of Python and of all that it calls but the native library."""
        return self.instructions - self.native

    def apart(self) -> tuple["HostWork", "HostWork"]:
        """Python's part, and that of the native library's thread, to which memory, registers and system calls belong."""
        python = HostWork(self.interpreter, self.python - self.interpreter)
        return python, self.plus(python, -1)

    def plus(self, other: "HostWork", times: float = 1) -> "HostWork":
        """This one and so many of another; no count falls below 0."""
        names = dict.fromkeys((*self.calls, *other.calls))
        calls = {name: max(0.0, self.calls.get(name, 0) + times * other.calls.get(name, 0)) for name in names}
        own = {name: max(0.0, getattr(self, name) + times * getattr(other, name)) for name in vars(self) if name != "calls"}
        return HostWork(**own, calls=calls)

    def scaled(self, factor: float) -> "HostWork":
        """So many times this one."""
        return HostWork().plus(self, factor)

    def counts(self) -> dict[str, Any]:
        """The counts that are not 0, for JSON: in whole numbers but for calls."""
        found: dict[str, Any] = {name: round(value) for name, value in vars(self).items() if name != "calls" and round(value)}
        calls = {name: round(count, 3) for name, count in sorted(self.calls.items()) if round(count, 3)}
        return found | ({"calls": calls} if calls else {})
