"""Generates Verilog in a process of its own, from the hw package as it is on disk now.

`python -m cnna.sim.rtl.generate CONFIG` prints the Verilog of a configuration; `sources.py` keeps it in the cache. With FOLDER
[MODULE] it writes the files of `hw.verilog.writer.write`, for `cnna rtl`; Verilog that lies there already is kept. A process of its
own reads the files as they are now, and can be ended at once, whereas freeing its millions of objects would take a quarter of a
minute.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cnna.sim.rtl.cache import NO_CODE_FROM_HERE
from cnna.sim.rtl.lifetime import die_with_parent
from cnna.spec.config import Config, ConfigError, as_dict
from cnna.spec.errors import RunError

NO_BLOCK = 3  # exit code: there is no such block
TICK_SECONDS = 1.0
GIVEN = "given.v"  # Verilog that was generated before


def generate_from_disk(config: Config, tick: Callable[[], None]) -> str:
    """The Verilog of the whole accelerator. Calls `tick` at once, then every second. RunError: it failed."""
    return _answer(config, [], tick)


def write(config: Config, folder: Path, module: str | None, tick: Callable[[], None], verilog: str | None = None) -> list[Path]:
    """As `hw.verilog.writer.write`, with Verilog that was generated before, if there is any. ConfigError: no such block.

    Calls `tick` at once, then every second. RunError: it failed.
    """
    if verilog is not None:
        (folder / GIVEN).write_text(verilog)
    printed = _answer(config, [str(folder), *([module] if module else [])], tick)
    return [Path(line) for line in printed.splitlines()]


def _answer(config: Config, arguments: Sequence[str], tick: Callable[[], None]) -> str:
    """What the process prints."""
    child = subprocess.Popen(
        [sys.executable, "-m", "cnna.sim.rtl.generate", json.dumps(as_dict(config)), *arguments],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | NO_CODE_FROM_HERE,
    )  # fmt: skip
    with child:
        try:
            while True:
                tick()
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


def main(arguments: list[str]) -> int:
    """The body of the process. Returns its exit code."""
    from cnna.hw.verilog import writer

    config = Config(**json.loads(arguments[0]))
    if len(arguments) == 1:
        sys.stdout.write(writer.generate(config))
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
