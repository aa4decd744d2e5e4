"""The simulator's build: what it refuses, that only one process builds, and that no compiler stays behind."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cnna.sim.rtl import build as building
from cnna.sim.rtl.cache import is_sealed
from cnna.sim.rtl.sources import generated
from cnna.spec.config import preset
from cnna.spec.errors import RunError, ToolError, UserError

from ...waiting import PATIENCE_SECONDS, until

TOOL = """#!{python}
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({pid!r}).write_text(str(child.pid) + chr(10))
child.wait()
"""
BUILD = """
import sys
from pathlib import Path
from types import SimpleNamespace
from cnna.cli import main as cli
from cnna.sim.rtl import build
build.verilator_root = lambda: Path(sys.argv[1])
def run(args):
    build.build({"tb.v": "module tb; endmodule"}, Path(sys.argv[1]) / "cache", False, lambda line: None)
cli.importlib = SimpleNamespace(import_module=lambda name: SimpleNamespace(configure=lambda parser: None, run=run))
sys.exit(cli.main(["doctor"]))
"""


def test_a_path_with_a_space_is_refused(tmp_path):
    """Verilator would fail minutes later, with a log that does not name the cause."""
    with pytest.raises(ToolError, match="no path with a space") as caught:
        building.build({}, tmp_path / "my cache", False, print)
    assert "my cache" in str(caught.value)
    assert not (tmp_path / "my cache").exists()


@pytest.mark.parametrize("kept", ["simulators", "verilog"])
def test_a_cache_that_cannot_be_written_is_one_line(kept, tmp_path, monkeypatch):
    """A full disk is the user's to mend; no temporary file may stay."""
    (tmp_path / kept).write_text("")
    monkeypatch.setattr("cnna.sim.rtl.sources.generate_from_disk", lambda config, tick: "")
    with pytest.raises(UserError, match=kept):
        building.build({}, tmp_path, False, print) if kept == "simulators" else generated(preset("tiny"), tmp_path, print)
    assert [entry.name for entry in tmp_path.iterdir()] == [kept]


def test_a_disk_that_fills_up_while_it_builds_is_one_line(tmp_path, monkeypatch):
    """The simulator's sources are the first file that does not fit."""

    def full(path, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(UserError, match=r"tb\.v: no space left on device; --cache"):
        building.build({"tb.v": ""}, tmp_path, False, print)


def _ended(pid: int) -> bool:
    """Whether a process is gone, or has ended and is not yet reaped."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda s: s.name)
def test_a_build_that_is_ended_takes_its_compilers_along(how, tmp_path):
    """Compilers would go on for minutes, and their folder would stay. A tool with a child process stands for Verilator."""
    pid, tool = tmp_path / "pid", tmp_path / "bin" / "verilator"
    tool.parent.mkdir()
    tool.write_text(TOOL.format(python=sys.executable, pid=str(pid)))
    tool.chmod(0o755)
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    client = subprocess.Popen(command, env={**os.environ, "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"})
    until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the tool has not started")
    compiler = int(pid.read_text())
    client.send_signal(how)
    assert client.wait(PATIENCE_SECONDS) == (-how if how is signal.SIGKILL else 128 + how)
    until(lambda: _ended(compiler), "the compiler goes on")
    left = list((tmp_path / "cache" / "simulators").glob("*/"))
    assert bool(left) == (how is signal.SIGKILL), "what is left is for the next build to remove"


def test_one_of_two_builds_the_other_waits(tmp_path, monkeypatch):
    """Two commands that start together would build twice, or see half a simulator."""
    built, said = [], []

    def slow(sources, folder, trace, say, careful):
        built.append(folder)
        until(lambda: said, "the other does not wait")
        folder.mkdir()
        (folder / building.TOP).write_text("done")

    monkeypatch.setattr(building, "build_into", slow)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(building.build({"a.v": "x"}, tmp_path, False, said.append))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert len(built) == 1
    assert any("waiting for another process" in line for line in said)
    assert building.build({"a.v": "y"}, tmp_path, False, said.append) != found[0], "other text is another simulator"


def test_a_failed_build_says_what_verilator_says(tmp_path):
    """There would be a traceback of the runner instead of the wrong line of Verilog."""
    with pytest.raises(RunError, match=r"build failed:\n%Error: .*tb.v:1:.*syntax error"):
        building.build({"tb.v": "module tb; this is no Verilog endmodule\n"}, tmp_path, False, lambda line: None)
    assert not list((tmp_path / "simulators").glob("*/"))


def test_a_cache_may_be_named_from_the_folder_of_the_user(tmp_path, monkeypatch):
    """make runs beside the simulator, where `--cache mine` is another folder: it would find no file to compile."""
    found = []

    def built(sources, folder, trace, say, careful):
        found.append(folder)
        folder.mkdir()
        (folder / building.TOP).write_text("a simulator")

    monkeypatch.setattr(building, "build_into", built)
    monkeypatch.chdir(tmp_path)
    building.build({}, Path("mine"), False, print)
    assert found[0].is_absolute()
    assert found[0].parent == tmp_path / "mine" / "simulators"


def test_a_build_that_make_refuses_says_what_make_says(tmp_path, monkeypatch):
    """The first lines of the log would be shown, which are Verilator's warnings."""
    log = "%Warning-PINMISSING: a pin\nmake: *** No rule to make target 'ddr.cpp'.  Stop.\n"
    runner = f"import sys; print({log!r}); sys.exit(2)"
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: real([sys.executable, "-c", runner], **how))
    with pytest.raises(RunError, match=r"build failed:\nmake: \*\*\* No rule to make target 'ddr.cpp'"):
        building.build({"tb.v": ""}, tmp_path, False, lambda line: None)


def test_verilators_runtime_and_the_models_are_compiled_once(tmp_path, monkeypatch):
    """Every simulator would compile them again, for 15 s; or a damaged object file would be linked into all that follow."""
    asked, cpp = [], {"ddr.cpp": "", "ddr_road.h": "", "packets.cpp": ""}

    def built(part, arguments, make_flags, say, started):
        out = part / "out"
        out.mkdir()
        (out / building.TOP).write_text("a simulator")
        linked = [argument for argument in arguments if argument.endswith(building.RUNTIME)]
        assert [Path(name).name for name in arguments if name.endswith(".cpp")] == [*([] if linked else ["ddr.cpp"]), "packets.cpp"]
        asked.append((bool(linked), building.WITHOUT_RUNTIME in make_flags.split()))
        if linked:
            assert is_sealed(Path(linked[0]))
            return
        for name in ("verilated", "verilated_vpi", "ddr"):
            (out / f"{name}.c").write_text(f"int {name};")
            subprocess.run(["gcc", "-c", f"{name}.c", "-o", f"{name}.o"], cwd=out, check=True)

    monkeypatch.setattr(building, "_run_builder", built)
    for text in "ab":
        building.build({"tb.v": text, **cpp}, tmp_path, False, print)
    assert asked == [(False, False), (True, True)]
    (runtime,) = tmp_path.glob(f"runtime/*/{building.RUNTIME}")
    named = subprocess.run(["nm", str(runtime)], capture_output=True, text=True, check=True).stdout
    assert {"verilated", "verilated_vpi", "ddr"} <= set(named.split())
    runtime.write_bytes(runtime.read_bytes()[:-1])
    building.build({"tb.v": "c", **cpp}, tmp_path, False, print)
    building.build({"tb.v": "d", **cpp}, tmp_path, True, print)
    assert asked[2:] == [(False, False), (False, False)], "damaged; and the runtime of waveforms is another one"
    building.build({"tb.v": "e", **cpp}, tmp_path, False, print)
    assert asked[4] == (True, True)
    for text in "xxy":
        building.build({"tb.v": f"f{len(asked)}", "zlib.h": text, **cpp}, tmp_path, True, print)
    assert [linked for linked, _ in asked[5:]] == [False, True, False], "a runtime that compresses as an earlier version did"
    building.build({"tb.v": "g", **cpp, "ddr_road.h": "// changed"}, tmp_path, False, print)
    assert asked[8] == (False, False), "the road to DDR as an earlier version had it"
