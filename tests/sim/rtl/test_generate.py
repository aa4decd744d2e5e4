"""`generate.write`: the files of `hw.verilog.writer.write` from another process, its errors, and a quick end."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cnna.hw.verilog import writer
from cnna.sim.rtl.cosim import CosimDevice
from cnna.sim.rtl.generate import write
from cnna.spec.config import ConfigError, preset
from cnna.spec.errors import RunError
from cnna.spec.identity import read_config


def test_the_files_are_those_of_the_generator(tmp_path: Path) -> None:
    """Another process would make another accelerator, or the waiting user would hear nothing."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    ticks: list[int] = []
    made = write(preset("tiny"), tmp_path / "there", "ring", lambda left: ticks.append(1))
    wanted = writer.write(preset("tiny"), tmp_path / "here", "ring")
    assert [path.name for path in made] == [path.name for path in wanted]
    assert [path.read_text() for path in made] == [path.read_text() for path in wanted]
    assert ticks
    (again, *_) = write(preset("tiny"), tmp_path / "there", None, lambda left: None, "module cnna; endmodule")
    assert (again.name, again.read_text()) == ("cnna_tiny.v", "module cnna; endmodule"), "generated before"


def test_errors_come_across(tmp_path: Path) -> None:
    """The message must say what exists, or what went wrong, as it would without another process."""
    with pytest.raises(ConfigError, match=r"^module flux: no such module; there are array, "):
        write(preset("tiny"), tmp_path, "flux", lambda left: None)
    with pytest.raises(RunError, match=r"generating the Verilog of tiny failed \(code 1\): FileNotFoundError: .*nowhere"):
        write(preset("tiny"), tmp_path / "nowhere", "ring", lambda left: None)


def test_an_interruption_ends_it_at_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C would take up to 14 seconds at `zcu102`, and a process that goes on would heat the machine for a minute."""
    monkeypatch.setattr("cnna.sim.rtl.generate.TICK_SECONDS", 0.5)
    started: list[subprocess.Popen[str]] = []
    ticks: list[None] = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    def tick(left: float | None) -> None:
        ticks.append(None)
        if len(ticks) > 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("cnna.sim.rtl.generate.subprocess.Popen", Recorded)
    with pytest.raises(KeyboardInterrupt):
        write(preset("zcu102"), tmp_path, None, tick)
    assert started[0].returncode == -signal.SIGKILL, "it was left to end by itself"
    assert not list(tmp_path.iterdir())


def test_no_code_in_the_users_folder_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `json.py` beside a model that somebody has sent would be run; a user's own `random.py` would break the tools."""
    for name in ("json", "random", "py", "cocotb_tools"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of this folder')")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    assert write(preset("tiny"), tmp_path / "made", "ring", lambda left: None)


@pytest.mark.cosim
def test_no_code_in_the_users_folder_is_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, for the process that simulates and the Python inside it."""
    for name in ("json", "random", "py", "cocotb_tools", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of this folder')")
    monkeypatch.chdir(tmp_path)
    device = CosimDevice(preset("tiny"))
    try:
        assert read_config(device.read) == preset("tiny")
    finally:
        device.close()
