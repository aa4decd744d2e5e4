"""The process that runs a simulator: its environment, its waveform, and that it ends with its client."""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.sim.rtl.build import TOP, build, to_stderr
from cnna.sim.rtl.cache import seal
from cnna.sim.rtl.cosim import CosimDevice
from cnna.sim.rtl.sources import generated, sources
from cnna.spec.config import as_dict
from cnna.spec.files import default_cache
from cnna.spec.identity import read_config

from ...agreement import CONFIGS, Case
from ...waiting import PATIENCE_SECONDS, until

TINY = CONFIGS["tiny"]
NETWORK = Case(TINY, "network", 7)


@pytest.mark.cosim
def test_a_simulator_outlives_the_environment_that_built_it(tmp_path, rtl):
    """Each clone would build simulators of its own, or one would not start once the clone that had built it is gone."""
    rtl(TINY)
    verilog = generated(TINY, default_cache(), to_stderr)
    folder = build(sources(TINY, default_cache(), to_stderr, verilog), default_cache(), False, to_stderr)
    copy = tmp_path / "cache" / "simulators" / folder.name
    shutil.copytree(folder, copy)
    for made in (copy.parent, copy.parent.parent):
        made.chmod(0o700)
    program = (copy / TOP).read_bytes()
    moved, count = re.subn(rb"/[^\0:]+/cocotb/libs(?=\0)", lambda found: b"/gone".ljust(len(found[0]), b"/"), program)
    assert count
    (copy / TOP).write_bytes(moved)
    seal(copy / TOP)
    device = CosimDevice(TINY, cache=tmp_path / "cache", verilog=verilog, say=pytest.fail)  # it has nothing to build
    try:
        assert as_dict(read_config(device.read)) == {**as_dict(TINY), "name": read_config(device.read).name}
    finally:
        device.close()


@pytest.mark.cosim
@pytest.mark.usefixtures("quick_build")
def test_a_waveform_holds_the_clocks_asked_for(tmp_path):
    """In a window of a long run, clock n is at time 2 n; the header must have type, length, first and last time."""
    times = []
    for first, last in ((0, None), (100, 199)):
        path = tmp_path / f"{first}.fst"
        device = CosimDevice(TINY, trace=path, from_cycle=first, to_cycle=last)
        try:
            accelerator = Accelerator(device, NETWORK.piece)
            accelerator.run(NETWORK.inputs)
        finally:
            device.close()
        times.append(struct.unpack(">QQ", path.read_bytes()[9:25]))
    assert times[0][0] <= 2
    assert times[0][1] > 2 * accelerator.counters["cycles"]
    assert times[1][0] in range(200, 203)
    assert times[1][1] in range(398, 402)


CLIENT = """
import sys, time
from cnna.spec.config import preset
from cnna.sim.rtl.build import TOP, build, to_stderr
from cnna.sim.rtl.cache import seal
from cnna.spec.files import default_cache
from cnna.sim.rtl.cosim import CosimDevice
device = CosimDevice(preset("tiny"))
print(device.process_group, flush=True)
device.run_clocks(10_000_000_000)
"""


@pytest.mark.cosim
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM], ids=lambda s: s.name)
def test_no_process_outlives_its_client(how, rtl):
    """Ctrl-C, a kill or a crash would leave a simulator running."""
    rtl(TINY)  # built
    client = subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    group = int(client.stdout.readline())
    busy = _clock_ticks(group)
    until(lambda: _clock_ticks(group) > busy + 10, "it does not simulate")
    client.send_signal(how)
    client.wait(PATIENCE_SECONDS)
    client.stdout.close()
    try:
        until(lambda: not _is_alive(group), "the simulator is still there")
    finally:
        if _is_alive(group):
            os.killpg(group, signal.SIGKILL)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _clock_ticks(group: int) -> int:
    """CPU time that the processes of a group have used so far."""
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            used += int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0
    return used
