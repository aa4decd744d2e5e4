"""LoadGen in virtual time: what it measures of a simulated device is what arithmetic says, and the same every time."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cnna.evaluate.speed import load as loading
from cnna.evaluate.speed.load import LINE, PACKAGE, built_clock, simulated
from cnna.evaluate.speed.scenarios import ACCURACY, FIGURES, MULTI, OFFLINE, SERVER, SINGLE, Load
from cnna.evaluate.speed.simulated import Service
from cnna.spec.errors import RunError, ToolError

LOADED = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="mlcommons-loadgen (extra `bench`) is not installed")
SERVICE = Service(4_000_000, 4_500_000, 1)


def figure(load: Load, service: Service) -> float:
    """The scenario's figure, in its unit."""
    one = FIGURES[load.scenario]
    return float(simulated(load, service).results[one.key] * one.factor)


@LOADED
def test_closed_scenarios_and_offline_are_what_arithmetic_says() -> None:
    """Figures would hold time of this computer, or answers would come at other times than the device gives them."""
    batched = replace(SERVICE, batch=4)
    assert figure(Load(SINGLE, 10), SERVICE) == 4.5
    assert figure(Load(MULTI, 10, together=8), batched) == pytest.approx(4.0 + 4.5)
    assert figure(Load(OFFLINE, 10), SERVICE) == pytest.approx(250, rel=1e-3)
    assert figure(Load(OFFLINE, 10), batched) == pytest.approx(1000, rel=1e-3)


@LOADED
def test_server_waits_as_a_queue_does_and_the_same_in_two_runs() -> None:
    """A p99 that changes from run to run could not be compared; one of a wrong queue would be believed."""
    load = Load(SERVER, 20, qps=200, latency_seconds=0.1)
    first, began = simulated(load, SERVICE).results, time.monotonic()
    assert simulated(load, SERVICE).results == first
    assert time.monotonic() - began < 20, "virtual seconds pass in real time"
    assert simulated(replace(load, seed=1), SERVICE).results != first
    assert first["result_validity"] == "VALID"
    busy, service = 0.8, 4.0  # the mean wait of Poisson arrivals before a server of constant time: Pollaczek and Khinchine
    assert first["result_mean_latency_ns"] / 1e6 == pytest.approx(4.5 + busy * service / (2 * (1 - busy)), rel=0.15)
    assert first["result_min_latency_ns"] == SERVICE.latency_ns


@LOADED
def test_a_server_that_is_asked_too_much_is_invalid() -> None:
    """A device would be shown with queries a second that it cannot answer in time."""
    found = simulated(Load(SERVER, 5, qps=400, latency_seconds=0.02), SERVICE).results
    assert found["result_validity"] == "INVALID"
    assert "Reduce target QPS" in found["result_invalid_reason"]


@LOADED
def test_accuracy_run_gives_back_each_answer_once() -> None:
    """Accuracy would be of other answers than the model's, or of a part of the samples."""
    answers = np.random.default_rng(5).normal(size=(70, 10)).astype(np.float32)
    found = simulated(Load(ACCURACY, samples=70), replace(SERVICE, batch=4), answers).answers
    assert sorted(found) == list(range(70))
    assert all(np.array_equal(found[number], row) for number, row in enumerate(answers))


PROGRAM = """
import ctypes, threading, time
library = ctypes.CDLL(None)
library.cnna_clock_set.argtypes, library.cnna_clock_now.restype = [ctypes.c_int64], ctypes.c_int64
library.cnna_clock_attach()
began = time.monotonic(), time.time(), time.perf_counter()
time.sleep(1000)
library.cnna_clock_set(library.cnna_clock_now() + 500_000_000)
print(*(round(now - then, 3) for now, then in zip((time.monotonic(), time.time(), time.perf_counter()), began)))
there, at, other = threading.Event(), time.monotonic(), []
print(there.wait(0.2), round(time.monotonic() - at, 3))
def measure():
    start = time.monotonic(); time.sleep(0.05); other.append(time.monotonic() - start)
thread = threading.Thread(target=measure); thread.start(); thread.join()
print(0.05 <= other[0] < 30)
"""


def test_the_clock_stands_still_for_one_thread_alone(tmp_path: Path) -> None:
    """LoadGen's log would never be written, or a wait of the issuing thread would last for hours of this computer's time."""
    environment = {**os.environ, "LD_PRELOAD": str(built_clock(tmp_path))}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["1000.5 1000.5 1000.5", "False 0.2", "True"], done.stderr


def test_an_error_in_the_log_is_said() -> None:
    """Figures of a run that LoadGen has given up would be shown."""
    with pytest.raises(RunError, match="LoadGen: too many"):
        loading.results_of(f'noise\n{LINE}{{"key": "error_runtime", "value": "too  many"}}\n')


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user would see a traceback of another process."""
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"mlcommons-loadgen is missing: pip install '\.\[bench\]'"):
        simulated(Load(SINGLE), SERVICE)
    monkeypatch.setattr(loading.shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match="apt install gcc"):
        built_clock(tmp_path)
