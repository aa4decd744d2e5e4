"""Runs LoadGen in a process of its own, since its clock, its threads and its logs are of a whole process, and reads its logs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.speed.power import POWER
from cnna.evaluate.speed.scenarios import ACCURACY, Load
from cnna.evaluate.speed.simulated import Service
from cnna.spec.errors import RunError, ToolError
from cnna.spec.extras import install

PACKAGE = "mlperf_loadgen"
SOURCE = Path(__file__).with_name("virtual_clock.c")
FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread")
JOB, DETAIL, LOGGED = "job.json", "mlperf_log_detail.txt", "mlperf_log_accuracy.json"
LINE = ":::MLLOG "  # what a line of the detailed log begins with
FAILED = "LoadGen's process ended"
KEPT = ("result_", "effective_target_qps", "early_stopping_", "num_errors", "loadgen_version")  # beginnings of keys


class Logged(NamedTuple):
    """What LoadGen has logged. results: by its own names. answers: of AccuracyOnly, by the sample's number, as float32.

    power: as of `power_of`; None: no sensor was read.
    """

    results: Mapping[str, Any]
    answers: Mapping[int, NDArray[np.float32]]
    power: Mapping[str, Any] | None = None


def check_installed() -> None:
    """ToolError: LoadGen is missing. Said before anything is compiled."""
    if find_spec(PACKAGE) is None:
        raise ToolError(f"the package mlcommons-loadgen is missing: {install('bench')}")


def measured(load: Load, live: Mapping[str, Any]) -> Logged:
    """A run against a device or a server that takes its own time. live: as of `live.opened`; hwmon: the folder of its sensors."""
    with TemporaryDirectory(prefix="cnna-bench-") as folder:
        return _ran(Path(folder), {"load": asdict(load), "live": dict(live)}, load)


def simulated(load: Load, service: Service, answers: NDArray[Any] | None = None) -> Logged:
    """A run in virtual time. answers: of AccuracyOnly, [samples, numbers]. ToolError: there is no C compiler, or no Linux."""
    with TemporaryDirectory(prefix="cnna-bench-") as name:
        folder = Path(name)
        job: dict[str, Any] = {"load": asdict(load), "service": asdict(service)}
        if answers is not None:
            np.save(folder / "answers.npy", np.ascontiguousarray(answers, np.float32))
            job["answers"] = str(folder / "answers.npy")
        return _ran(folder, job, load, {"LD_PRELOAD": str(built_clock(folder))})


def built_clock(folder: Path) -> Path:
    """The library of `virtual_clock.c`, which the host's compiler makes in a tenth of a second."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None or not sys.platform.startswith("linux"):
        raise ToolError("the clock of simulated devices needs Linux and a C compiler: apt install gcc")
    library = folder / "virtual_clock.so"
    done = subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(library), "-ldl"], capture_output=True, text=True, check=False)
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line.lower()), _last(done.stderr))
        raise ToolError(f"{compiler} cannot build the clock of simulated devices: {said}")
    return library


def _ran(folder: Path, job: Mapping[str, Any], load: Load, more: Mapping[str, str] | None = None) -> Logged:
    """Runs the process. RunError: it failed."""
    check_installed()
    (folder / JOB).write_text(json.dumps(job))
    words = [sys.executable, "-m", "cnna.evaluate.speed.load_process", str(folder / JOB)]
    done = subprocess.run(words, env={**os.environ, **(more or {})}, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / DETAIL).is_file():
        raise RunError(f"{FAILED}: {_last(done.stderr) or f'code {done.returncode}'}")
    answers = _answers(folder / LOGGED) if load.scenario == ACCURACY else {}
    power = json.loads((folder / POWER).read_text()) if (folder / POWER).is_file() else None
    return Logged(results_of((folder / DETAIL).read_text()), answers, power)


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def results_of(text: str) -> dict[str, Any]:
    """The results in the detailed log. RunError: LoadGen speaks of an error."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith(LINE):
            entry = json.loads(line.removeprefix(LINE))
            if entry["key"].startswith("error"):
                raise RunError(f"LoadGen: {' '.join(str(entry['value']).split())}")
            if entry["key"].startswith(KEPT):
                found[entry["key"]] = entry["value"]
    return found


def _answers(path: Path) -> dict[int, NDArray[np.float32]]:
    """The answers that LoadGen was given. RunError: a sample was answered twice."""
    found: dict[int, NDArray[np.float32]] = {}
    for entry in json.loads(path.read_text()):
        number = int(entry["qsl_idx"])
        if number in found:
            raise RunError(f"LoadGen: sample {number} was answered twice")
        found[number] = np.frombuffer(bytes.fromhex(entry["data"]), np.float32)
    return found
