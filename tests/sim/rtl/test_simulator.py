"""What the simulation's process says while it runs, and what its client makes of that."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnna.sim import server
from cnna.sim.rtl import build, cosim
from cnna.sim.rtl.simulator import DiedError, answer_of
from cnna.sim.rtl.sources import sources
from cnna.spec.config import preset
from cnna.spec.files import default_cache
from cnna.spec.regmap import REGISTERS, offset


def test_progress_counts_the_clocks_of_all_runs() -> None:
    """With each batch the time left would begin again, as if nothing had been simulated before."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("r") as lines:
        bench: Any = SimpleNamespace(ddr=SimpleNamespace(clocks=0))
        requests, counted = server.ClientRequests(bench, theirs), list[int]()
        for begin in (0, 5000):
            requests.began = begin, time.monotonic() - 2 * server.REPORT_SECONDS
            requests.report(begin + 3000, time.monotonic())
            requests.send(value="done")
            assert answer_of(lines, lambda text: None, counted.append) == "done"
        requests.lines.close()
    assert counted == [3000, 8000]


def dying(folder: Path, name: str) -> Path:
    """The folder of a simulator that a signal ends as it starts."""
    folder.mkdir()
    (folder / build.TOP).write_text(f"#!/bin/sh\nkill -{name} $$\n")
    (folder / build.TOP).chmod(0o700)
    return folder


@pytest.mark.parametrize(("name", "builds"), [("SEGV", [False, True]), ("ILL", [False, True]), ("KILL", [False])])
def test_a_simulator_that_dies_says_so_in_one_line(
    name: str, builds: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user would see a log of cocotb; or a machine without memory would build for minutes, for nothing."""
    asked: list[bool] = []

    def made(texts: object, cache: object, trace: bool, say: object, *, careful: bool = False) -> Path:
        asked.append(careful)
        return dying(tmp_path / str(careful), name)

    monkeypatch.setattr(cosim, "sources", lambda *given: {})
    monkeypatch.setattr(cosim, "build", made)
    said: list[str] = []
    with pytest.raises(DiedError, match=rf"^configuration tiny: the simulator has died of SIG{name}; [^\n]+$") as caught:
        cosim.CosimDevice(preset("tiny"), 1 << 20, say=said.append)
    assert caught.value.number == getattr(signal, f"SIG{name}")
    assert asked == builds
    assert len(said) == len(builds) - 1


@pytest.mark.cosim
def test_a_simulator_that_dies_is_built_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of g++ would keep a configuration from being simulated at all."""

    def made(texts: Mapping[str, str], cache: Path, trace: bool, say: build.Say, *, careful: bool = False) -> Path:
        return build.build(texts, cache, trace, say) if careful else dying(tmp_path / "dying", "SEGV")

    monkeypatch.setattr(cosim, "build", made)
    said: list[str] = []
    device = cosim.CosimDevice(preset("tiny"), 1 << 20, say=said.append)
    try:
        assert device.read(offset("ID")) == REGISTERS["ID"].fields[0].reset
    finally:
        device.close()
    assert "the simulator has died of SIGSEGV" in said[0]
    assert "built once more, with fewer optimisations" in said[0]


@pytest.mark.cosim
def test_no_access_of_a_simulator_needs_an_alignment_of_32_bytes() -> None:
    """g++ gives such accesses places that 32 does not divide, so some configurations' simulators would die at the start.

    Constants have places of their own, beside the program counter; registers have none.
    """
    texts = sources(preset("tiny"), default_cache(), lambda _: None)
    folder = build.build(texts, default_cache(), False, lambda _: None)
    listed = subprocess.run(["objdump", "-d", folder / build.TOP], capture_output=True, text=True, check=True).stdout
    assert len(listed) > 1_000_000
    assert [line for function in listed.split("\n\n") for line in unaligned(function)] == []


def unaligned(function: str) -> list[str]:
    """The accesses of a disassembled function that must be at multiples of 32, except where its first lines see to it.

    These align the stack pointer, push the return address and %rbp, and copy it to %rbp, which then lies 16 beyond a multiple.
    """
    lines = function.splitlines()
    found = [line for line in lines if re.search(r"vmov(dqa|aps|apd|ntdq)", line) and "%ymm" in line]
    found = [line for line in found if "(%" in line and "(%rip)" not in line]
    if not re.search(
        r"and +\$0xf+[ec]0,%rsp\n(.*\n)*.*push +-0x8\(%r10\)\n(.*\n)*.*push +%rbp\n(.*\n)*.*mov +%rsp,%rbp", "\n".join(lines[:20])
    ):
        return found
    places = [re.search(r"(-?)0x([0-9a-f]+)\(%rbp\)", line) for line in found]
    return [line for line, place in zip(found, places, strict=True) if place is None or (16 + int(place[1] + place[2], 16)) % 32]


def test_an_access_that_is_not_aligned_is_seen() -> None:
    """The test above could not fail."""
    access = "  e2020:\tc5\tvmovdqa %ymm4,{}"
    steps = ("lea 0x8(%rsp),%r10", "and    $0xffffffffffffffc0,%rsp", "push   -0x8(%r10)", "push   %rbp", "mov    %rsp,%rbp")
    begin = "".join(f"{line}\n" for line in ("f:", *steps))
    assert unaligned(f"{begin}{access.format('-0xb0(%rbp)')}") == []
    for place in ("-0xa0(%rbp)", "0x20(%rsp)", "(%rax)"):
        assert unaligned(f"{begin}{access.format(place)}") == [access.format(place)]
    assert unaligned(f"f:\n{access.format('-0xb0(%rbp)')}") == [access.format("-0xb0(%rbp)")]
    assert unaligned(f"f:\n{access.format('0x20(%rip)')}") == []


@pytest.mark.parametrize("trace", [False, True])
def test_a_careful_build_leaves_out_what_g_plus_plus_got_wrong(trace: bool) -> None:
    """The simulator that is built once more would die as the first one did."""
    (verilator, make), (usual, usual_make) = build.flags_of(trace, careful=True), build.flags_of(trace, careful=False)
    assert [flag for flag in usual if flag not in verilator] == ["-CFLAGS", "-march=native"]
    assert [word for word in make.replace("\\ ", "~").split() if word.startswith("OPT_FAST")] == ["OPT_FAST=-O1"]
    assert usual_make != make
