"""What a measured program did in each stage, from the plugin's file: instructions by what they belong to, bytes, calls.

The interpreter is Python's own program, libraries are numpy and all else, and loops are the hottest blocks of libraries.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import loops
from stages import BUFFERS, EMPTY, MODES, NUMBERS, REGISTERS, STAGES, WHOLE

from cnna.host.native.build import NAME
from cnna.spec.host_time.host_work import HostWork

ALONE = MODES[1]
HOT = 0.02  # share of a stage's instructions from which on a library's block is a loop
_CALLS = """
29 ioctl, 32 flock, 46 ftruncate, 56 openat, 57 close, 62 lseek, 63 read, 64 write, 67 pread64, 72 pselect6, 73 ppoll,
79 newfstatat, 80 fstat, 98 futex, 101 nanosleep, 113 clock_gettime, 115 clock_nanosleep, 124 sched_yield, 134 rt_sigaction,
135 rt_sigprocmask, 160 uname, 172 getpid, 178 gettid, 214 brk, 215 munmap, 216 mremap, 222 mmap, 226 mprotect, 233 madvise,
278 getrandom
"""  # system calls of Linux on aarch64, as far as the host makes them
CALLS = {int(number): name for number, name in (entry.split() for entry in _CALLS.split(","))}


@dataclass
class _Raw:
    """A stage as the plugin writes it. counts, calls: as of HostWork. blocks: address and words of each, and how often it ran."""

    instructions: int = 0
    entries: int = 0
    counts: dict[str, float] = field(default_factory=dict)
    calls: dict[str, float] = field(default_factory=dict)
    blocks: Counter[tuple[int, loops.Words]] = field(default_factory=Counter)


def read_counts(out: Path, maps: Path, batches: int, pictures: int) -> dict[str, dict[str, HostWork]]:
    """{mode: {stage: counts of one picture}}, and `resize` of one camera's picture as a mode of its own.

    out, maps: of the measured program. pictures: of each batch.
    """
    raw, interpreter, native = _read(out), _places(maps, "python3", "libpython3"), _places(maps, NAME)
    if native:  # C++'s own library works for it alone
        native += _places(maps, "libstdc++")
    stages = {name: _stage(raw[number], interpreter, native) for name, number in NUMBERS.items() if number in raw}
    each = stages[EMPTY].scaled(1 / raw[NUMBERS[EMPTY]].entries)  # of one pair of marks
    found: dict[str, dict[str, HostWork]] = {}
    for mode in MODES:
        inside = {stage: NUMBERS[f"{mode}.{stage}"] for stage in STAGES if f"{mode}.{stage}" in stages}
        shared = bool(native) and "pack" in inside  # packed once more, by the library alone
        if native and "cpu" in inside:  # of a run alone: in a stream, the run loop's thread works beside a piece on the CPU
            inside["cpu"] = NUMBERS[f"{ALONE}.cpu"]
        counted = {stage: _stage(raw[number], interpreter, native) for stage, number in inside.items()}
        rest = stages[f"{mode}.{WHOLE}"]
        if native:  # what is a loop in one of them is one in all, since they are taken from the whole
            numbers = {WHOLE: NUMBERS[f"{mode}.{WHOLE}"], **{s: n for s, n in inside.items() if s in ("pack", "cpu")}}
            hot = set().union(*(_hot(raw[number], interpreter, native) for number in numbers.values()))
            counted |= {stage: _stage(raw[number], interpreter, native, hot) for stage, number in numbers.items()}
            rest = counted.pop(WHOLE)
        inner = {stage: work.plus(each, -raw[inside[stage]].entries) for stage, work in counted.items()}
        if shared:
            inner["pack"] = _of_library(counted["pack"])
        for name, stage in inner.items():
            if name != "python":
                rest = rest.plus(stage, -1)
        if shared:
            inner["pack"] = _maintained(replace(inner["pack"], streamed=inner["pack"].l2_misses, l2_misses=0))
        found[mode] = {name: stage.scaled(1 / (batches * pictures)) for name, stage in (inner | {"python": rest}).items()}
    if "resize" in stages:
        found["resize"] = {"resize": stages["resize"]}
    return found


def _maintained(pack: HostWork) -> HostWork:
    """What is packed is cleaned: a line that has gone past the caches is in none of them."""
    absent = min(pack.lines, pack.past)
    return replace(pack, lines=pack.lines - absent, absent=absent)


def _of_library(stage: HostWork) -> HostWork:
    """The library's part of a stage: what calls it is not shared."""
    return replace(stage, interpreter=0, libraries=stage.native - stage.loops)


def _read(out: Path) -> dict[int, _Raw]:
    raw: dict[int, _Raw] = defaultdict(_Raw)
    with out.open() as file:
        for line in file:
            kind, *words = line.split()
            if kind == "block":
                end = words.index(":")
                key = int(words[0], 16), tuple(int(word, 16) for word in words[1:end])
                for stage, times in zip(words[end + 1 :: 2], words[end + 2 :: 2], strict=True):
                    raw[int(stage)].blocks[key] += int(times)
            else:
                _take(raw[int(words[0])], kind, words[1:])
    return raw


def _take(raw: _Raw, kind: str, words: list[str]) -> None:
    if kind in ("instructions", "entries"):
        setattr(raw, kind, int(words[0]))
    elif kind == "lines":
        raw.counts["lines"] = int(words[0])
    elif kind == "misses":
        raw.counts |= {"l1_misses": int(words[0]), "l2_misses": int(words[1])}
    elif kind == "whole":
        raw.counts |= {"whole": int(words[0]), "past": int(words[1])}
    elif kind == "call":
        raw.calls[CALLS.get(int(words[0]), words[0])] = int(words[1])
    else:
        region, way, size, accesses = int(words[0]), words[1], int(words[2]), int(words[3])
        if region == REGISTERS:
            raw.counts["register_reads" if way == "read" else "register_writes"] = accesses
        else:
            raw.counts[f"buffer_{way}" if region == BUFFERS else way] = size


def _places(maps: Path, *names: str) -> list[range]:
    """Where files lie whose names begin so."""
    lines = (line.split() for line in maps.read_text().splitlines())
    found = [line[0].split("-") for line in lines if len(line) > 5 and Path(line[5]).name.startswith(names)]
    return [range(int(begin, 16), int(end, 16)) for begin, end in found]


def _apart(raw: _Raw, interpreter: list[range], native: list[range]) -> tuple[Counter[loops.Words], int, int]:
    """How often the blocks of libraries ran, by their instructions; instructions of Python's own program; of the native library."""
    libraries: Counter[loops.Words] = Counter()
    own = of_native = 0
    for (address, words), times in raw.blocks.items():
        if any(address in places for places in native):
            of_native += len(words) * times
        if any(address in places for places in interpreter):
            own += len(words) * times
        else:
            libraries[words] += times
    assert own + sum(len(words) * times for words, times in libraries.items()) == raw.instructions, "a block was lost"
    return libraries, own, of_native


def _hot(raw: _Raw, interpreter: list[range], native: list[range]) -> set[loops.Words]:
    """The blocks that are loops."""
    return {w for w, times in _apart(raw, interpreter, native)[0].items() if len(w) * times > HOT * raw.instructions}


def _stage(raw: _Raw, interpreter: list[range], native: list[range], hot: set[loops.Words] | None = None) -> HostWork:
    """The work of a stage. hot: blocks that are loops; None: its own."""
    libraries, own, of_native = _apart(raw, interpreter, native)
    chosen = _hot(raw, interpreter, native) if hot is None else hot
    hottest = {words: times for words, times in libraries.items() if words in chosen}
    inside = sum(len(words) * times for words, times in hottest.items())
    split = {"interpreter": own, "loops": inside, "libraries": raw.instructions - own - inside, "native": of_native}
    return HostWork(**split, **raw.counts, loop_clocks=loops.clocks(hottest), calls=raw.calls)
