"""The counting plugin under QEMU, on programs whose counts are known: loops, threads, stages, registers."""

import subprocess
from pathlib import Path

import pytest
from aarch64_root import HERE, Machine, machine
from host_cost import compared, measured, site
from loops import block_clocks
from stages import BUFFERS, EMPTY, NUMBERS, REGISTERS

from cnna.compiler.compile import compile_model
from cnna.spec.artifact import save
from cnna.spec.config import preset

from ..qdq_networks import model

pytestmark = pytest.mark.host_cost

THREADED = f"""
import os, sys, threading
sys.path.insert(0, {str(HERE)!r})
from stages import *
def spin(times):
    for _ in range(times): pass
def run(threads):
    workers = [threading.Thread(target=spin, args=(40_000 // threads,)) for _ in range(threads)]
    mark(SET_STAGE, {NUMBERS["resize"]} if threads == 1 else {NUMBERS["stream.pack"]})
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    mark(SET_STAGE, 0)
run(1); run(1); run(4)
"""


@pytest.fixture(scope="module")
def on() -> Machine:
    """The aarch64 machine; a tool that is missing fails here."""
    return machine()


def _counted(on: Machine, program: str, folder: Path) -> dict[tuple[str, ...], list[int]]:
    """The plugin's lines of a program, without blocks: counts by kind, stage and whatever words stand before them."""
    (folder / "p.py").write_text(program)
    done = subprocess.run(on.command(folder / "out", folder, [folder / "p.py"]), capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    lines = [line.split() for line in (folder / "out").read_text().splitlines() if not line.startswith("block")]
    names = {"bytes": 4, "call": 3}
    return {tuple(w[: names.get(w[0], 2)]): [int(count) for count in w[names.get(w[0], 2) :]] for w in lines}


def test_four_threads_count_as_one(on, tmp_path):
    """Counters that all vCPUs share would lose a quarter of what four threads execute."""
    found = _counted(on, THREADED, tmp_path)
    (one,), (four,) = (found["instructions", str(NUMBERS[stage])] for stage in ("resize", "stream.pack"))
    assert four == pytest.approx(one / 2, rel=0.1)  # the stage of one thread ran twice


REGIONS = f"""
import ctypes, mmap, sys
sys.path.insert(0, {str(HERE)!r})
from stages import *
import numpy as np
from cnna.spec.regmap import REGISTERS as FIELDS, offset
page, pool = (np.frombuffer(mmap.mmap(-1, size), kind) for size, kind in ((4096, np.uint32), (1 << 16, np.uint8)))
mark_region(REGISTERS, page.ctypes.data, page.nbytes)
mark_region(BUFFERS, pool.ctypes.data, pool.nbytes)
source = np.ones(1 << 16, np.uint8)
mark(SET_STAGE, {NUMBERS["resize"]})
pool[:] = source
page[offset("CTRL") >> 2] = FIELDS["CTRL"].pack(start=1)
done = page[offset("STATUS") >> 2]
page[offset("STATUS") >> 2] = FIELDS["STATUS"].pack(done=1)
clear = page[offset("STATUS") >> 2]
mark(CLEAN_LINES, 1024)
mark(SET_STAGE, 0)
assert FIELDS["STATUS"].unpack(int(done))["done"] == 1, done
assert clear == 0, clear
"""


def test_memory_and_registers_are_told_apart(on, tmp_path):
    """Uncached bytes and register accesses have prices of their own, and a run must end without an accelerator."""
    stage = str(NUMBERS["resize"])
    found = _counted(on, REGIONS, site(tmp_path / "site", "numpy"))
    assert found["bytes", stage, str(BUFFERS), "written"][0] == pytest.approx(65536, rel=1e-3)  # the end of a copy may overlap
    assert found["bytes", stage, str(REGISTERS), "read"] == [8, 2]
    assert found["bytes", stage, str(REGISTERS), "written"] == [8, 2]
    assert found["lines", stage] == [1024]
    assert found["call", stage, "29"] == [1]
    assert 1024 <= found["misses", stage][0] < 3 * 1024, "the copy misses each line once; Python's own lines are fewer"


WRITTEN = f"""
import mmap, sys
sys.path.insert(0, {str(HERE)!r})
from stages import *
import numpy as np
LINES = 4096
pool = np.frombuffer(mmap.mmap(-1, 3 * LINES * LINE_BYTES), np.uint8)
pool[:] = 1
whole, parts, source = (pool[i * LINES * LINE_BYTES : (i + 1) * LINES * LINE_BYTES] for i in range(3))
whole[:LINE_BYTES], parts[::LINE_BYTES][:1], whole[:LINE_BYTES] = 2, 2, source[:LINE_BYTES]
mark(SET_STAGE, {NUMBERS["stream.pack"]})
whole[:] = 2
mark(SET_STAGE, {NUMBERS["stream.unpack"]})
parts[::LINE_BYTES] = 2
mark(SET_STAGE, {NUMBERS["stream.cpu"]})
whole[:] = source
mark(SET_STAGE, 0)
"""


def test_lines_that_are_written_from_end_to_end_are_not_fetched(on, tmp_path):
    """They would be priced as if DDR were read for them; and those of which a part is written, or that are read, must be."""
    found = _counted(on, WRITTEN, site(tmp_path / "site", "numpy"))
    lines, few = 4096, 400  # few: the first 127 in a row go into the second cache, and Python has some lines of its own
    filled, apart, copied = (str(NUMBERS[f"stream.{stage}"]) for stage in ("pack", "unpack", "cpu"))
    into, past = found["whole", filled]
    assert lines - few <= past <= lines
    assert into < few
    assert found["misses", filled][1] < few
    assert found["whole", apart][1] < few
    assert found["misses", apart][1] >= lines - few
    assert lines - few <= found["whole", copied][1] <= lines, "loads from other lines do not end it"
    assert lines - few <= found["misses", copied][1] <= lines + few


QUEUED = f"""
import mmap, sys
sys.path.insert(0, {str(HERE)!r})
from stages import *
import numpy as np
from cnna.spec.regmap import REGISTERS as FIELDS, offset
page = np.frombuffer(mmap.mmap(-1, 4096), np.uint32)
mark_region(REGISTERS, page.ctypes.data, page.nbytes)
ctrl, status, finished = (offset(name) >> 2 for name in ("CTRL", "STATUS", "FINISHED"))
done = FIELDS["STATUS"].pack(done=1)
mark(SET_STAGE, {NUMBERS["resize"]})
def seen():
    return int(page[ctrl]), int(page[status]), int(page[finished])
found = []
for pulse in ("start", "queue", "queue"):
    page[ctrl] = FIELDS["CTRL"].pack(irq_enable=1, **{{pulse: 1}})
    found.append(seen())
for run in range(3):
    page[status] = done
    found.append(seen())
mark(SET_STAGE, 0)
irq = FIELDS["CTRL"].pack(irq_enable=1)
assert found == [(irq, done, 1)] * 3 + [(irq, done, 2), (irq, done, 3), (irq, 0, 3)], found
"""


def test_queued_runs_end_one_by_one(on, tmp_path):
    """All would end before the host looks, so that it would neither wait nor read their counters; or none would."""
    _counted(on, QUEUED, site(tmp_path / "site", "numpy"))


def test_a_loop_has_the_clocks_of_the_a53():
    """llvm-mca must know the A53: it issues two adds a clock, and a chain of them takes a clock each."""
    independent = tuple(0x91000400 | register << 5 | register for register in range(8))  # add xN, xN, #1
    chain = (0x91000400,) * 8  # add x0, x0, #1
    assert block_clocks(independent) == pytest.approx(4, abs=0.3)
    assert block_clocks(chain) == pytest.approx(8, abs=0.3)


def test_a_model_is_counted_twice_alike(tmp_path):
    """Counts that do not repeat to 1 % could not be compared with those kept."""
    save(compile_model(model(1), preset("tiny")), tmp_path / "m.cnna")
    first, again = (measured(tmp_path / "m.cnna", "numpy") for _ in range(2))
    assert not compared(first, again)
    assert {"pack", "wait", "start", "unpack", "python"} <= set(first["stream"])
    assert first["stream"]["wait"]["register_reads"] > 10
    assert "resize" not in first["stream"]
    assert EMPTY not in first["single"]
