"""Generates Verilog in a process of its own, from the hw package as it is on disk now.

`python -m cnna.sim.rtl.generate FILE CONFIG` prints the Verilog of a configuration; `sources.py` keeps it in the cache. With
FOLDER [MODULE] it writes the files of `hw.verilog.writer.write`, for `cnna rtl`; Verilog that lies there already is kept. FILE is
the number of an open file. There it writes which share of its time has passed, when that is known. A process of its own reads the
sources as they are now, and can be ended at once, whereas freeing its millions of objects would take a quarter of a minute.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cnna.sim.rtl.cache import NO_CODE_FROM_HERE
from cnna.sim.rtl.lifetime import die_with_parent
from cnna.spec.config import Config, ConfigError, as_dict
from cnna.spec.errors import RunError

NO_BLOCK = 3  # exit code: there is no such module
TICK_SECONDS = 1.0
GIVEN = "given.v"  # Verilog that was generated before


Tick = Callable[[float | None], None]  # is told the seconds that are left, or None as long as they are not known


def generate_from_disk(config: Config, tick: Tick) -> str:
    """The Verilog of the whole accelerator. Calls `tick` at once, then every second. RunError: it failed."""
    return _answer(config, [], tick)


def write(config: Config, folder: Path, module: str | None, tick: Tick, verilog: str | None = None) -> list[Path]:
    """As `hw.verilog.writer.write`, with Verilog that was generated before, if there is any. ConfigError: no such module.

    Calls `tick` at once, then every second. RunError: it failed.
    """
    if verilog is not None:
        (folder / GIVEN).write_text(verilog)
    printed = _answer(config, [str(folder), *([module] if module else [])], tick)
    return [Path(line) for line in printed.splitlines()]


class _Clock:
    """Estimates the seconds that are left from the shares of the time that a process reports. file: where it reports them."""

    def __init__(self, file: int) -> None:
        self._file, self._began = file, time.monotonic()
        self._whole: float | None = None

    def left(self) -> float | None:
        """The estimate of now; None: no share has been reported."""
        now = time.monotonic() - self._began
        with suppress(BlockingIOError):
            if told := os.read(self._file, 1 << 10).split():
                self._whole = now / float(told[-1])
        return None if self._whole is None else max(self._whole - now, 0.0)


def _answer(config: Config, arguments: Sequence[str], tick: Tick) -> str:
    """What the process prints."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with open(reading, "rb"), open(writing, "wb"):
        child = subprocess.Popen(
            [sys.executable, "-m", "cnna.sim.rtl.generate", str(writing), json.dumps(as_dict(config)), *arguments],
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | NO_CODE_FROM_HERE,
            pass_fds=[writing],
        )  # fmt: skip
        clock = _Clock(reading)
        with child:
            try:
                while True:
                    tick(clock.left())
                    try:
                        printed, said = child.communicate(timeout=TICK_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        continue
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
    if not child.returncode:
        return printed
    reason = (said.strip().splitlines() or ["no reason given"])[-1]
    if child.returncode == NO_BLOCK:
        raise ConfigError(reason)
    raise RunError(f"generating the Verilog of {config.name} failed (code {child.returncode}): {reason}")


def _tell(file: int, share: float) -> None:
    os.write(file, f"{share}\n".encode())


def main(arguments: list[str]) -> int:
    """The body of the process. Returns its exit code."""
    from cnna.hw.verilog import writer

    file, config = int(arguments.pop(0)), Config(**json.loads(arguments[0]))
    if len(arguments) == 1:
        sys.stdout.write(writer.generate(config, lambda share: _tell(file, share)))
        return 0
    try:
        given = Path(arguments[1]) / GIVEN
        text = given.read_text() if given.exists() else None
        written = writer.write(config, Path(arguments[1]), arguments[2] if len(arguments) > 2 else None, text)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return NO_BLOCK
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    die_with_parent()
    gc.disable()  # what is made lives to the end; looking through it, and freeing it at the end, would take a quarter of the time
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
