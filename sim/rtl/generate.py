"""Generates Verilog in a process of its own, from the hw package as it is on disk now.

`python -m cnna.sim.rtl.generate CONFIG` prints the Verilog of a configuration; `sources.py` calls it. With FOLDER [MODULE] it
writes the files of `hw.verilog.writer.write`; the function `write`, which `cnna rtl` calls, starts it in this way. A process of its
own can be ended at once, whereas freeing its millions of objects would take a quarter of a minute.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cnna.sim.rtl.lifetime import die_with_parent
from cnna.spec.config import Config, ConfigError, as_dict
from cnna.spec.errors import RunError

NO_BLOCK = 3  # exit code: there is no such block
TICK_SECONDS = 1.0


def write(config: Config, folder: Path, module: str | None, tick: Callable[[], None]) -> list[Path]:
    """As `hw.verilog.writer.write`; calls `tick` at once, then every second. ConfigError: no such block. RunError: it failed."""
    command = [sys.executable, "-m", "cnna.sim.rtl.generate", json.dumps(as_dict(config)), str(folder)]
    child = subprocess.Popen(
        [*command, *([module] if module else [])],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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
        return [Path(line) for line in printed.splitlines()]
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
        written = writer.write(config, Path(arguments[1]), *arguments[2:])
    except ConfigError as error:
        print(error, file=sys.stderr)
        return NO_BLOCK
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        die_with_parent()
    sys.exit(main(sys.argv[1:]))
