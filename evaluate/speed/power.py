"""What a board's power sensors read while LoadGen measures: `Meter` samples the rails, `Metered` says when the run began and ended.

Linux shows sensors in /sys/class/hwmon: power*_input in microwatts, curr*_input in milliamperes, in*_input in millivolts.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HWMON = Path("/sys/class/hwmon")
POWER = "power.json"  # beside the job of LoadGen's process: what `power_of` says
INTERVAL_MS = 20  # between readings, where no sensor takes longer for its next value
FEWEST = 10  # readings of a run whose energy is believed
MICROWATTS = 10**6  # in a watt: of power, and of milliamperes times millivolts


class Rail(NamedTuple):
    """One supply. files: whose product is its power in microwatts."""

    name: str
    files: tuple[Path, ...]
    update_ms: int

    def watts(self) -> float:
        """Its power now. OSError: the sensor is gone. ValueError: what it says is no number."""
        found = 1
        for file in self.files:
            found *= int(file.read_text())
        return found / MICROWATTS


def rails_of(root: Path = HWMON) -> list[Rail]:
    """The rails of all chips. A chip that has no power in watts has current times voltage of the same number."""
    chips = sorted(root.glob("hwmon*"), key=lambda chip: (len(chip.name), chip.name))
    return [rail for chip in chips for rail in _rails(chip)]


def _rails(chip: Path) -> list[Rail]:
    """A regulator's input is not counted where its outputs are: that energy would count twice."""
    name, update = _said(chip / "name") or chip.name, _said(chip / "update_interval")
    files: dict[str, tuple[Path, ...]] = {}
    for power in sorted(chip.glob("power*_input")):
        label = _said(power.with_name(power.name.replace("_input", "_label")))
        files[label or power.name.removesuffix("_input")] = (power,)
    if any(label.startswith("pout") for label in files):
        files = {label: own for label, own in files.items() if not label.startswith("pin")}
    for current in [] if files else sorted(chip.glob("curr*_input")):
        volts = current.with_name(current.name.replace("curr", "in", 1))
        if volts.exists():
            label = _said(volts.with_name(volts.name.replace("_input", "_label")))
            files[label or current.name.removesuffix("_input")] = (current, volts)
    wait = int(update) if update.isdecimal() else 0
    return [Rail(f"{chip.name} {name} {label}", own, wait) for label, own in files.items()]


def _said(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""


def energy(readings: Sequence[tuple[float, float]], began: float, ended: float) -> float:
    """Joules between two moments: readings, (seconds, watts), with straight lines between them (trapezoids)."""
    seconds, watts = np.array(readings, np.float64).T
    times = np.concatenate([[began], seconds[(seconds > began) & (seconds < ended)], [ended]])
    values = np.interp(times, seconds, watts)
    return float(np.sum(np.diff(times) * (values[1:] + values[:-1]) / 2))


class Meter:
    """Reads the sum of all rails, in a thread of its own while it is entered. fault: why it no longer reads."""

    def __init__(self, rails: Sequence[Rail], clock: Callable[[], float] = time.monotonic) -> None:
        self.rails, self.clock, self.fault = tuple(rails), clock, ""
        self.interval_ms = max([INTERVAL_MS, *(rail.update_ms for rail in rails)])
        self.readings: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Meter":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def read(self) -> bool:
        """Takes one reading; False: a sensor cannot be read."""
        at, watts = self.clock(), 0.0
        for rail in self.rails:
            try:
                watts += rail.watts()
            except (OSError, ValueError) as error:
                self.fault = f"power sensor {rail.name} cannot be read: {' '.join(str(error).split())}"
                return False
        self.readings.append((at, watts))
        return True

    def _work(self) -> None:
        while self.read() and not self._over.wait(self.interval_ms / 1e3):
            pass


@dataclass
class Span:
    """The measured run: from the first query to the last answer, by the meter's clock. samples: that LoadGen issued."""

    clock: Callable[[], float]
    began: float | None = None
    ended: float = 0.0
    samples: int = 0

    def issued(self, count: int) -> None:
        """LoadGen asks for so many samples."""
        self.began = self.clock() if self.began is None else self.began
        self.samples += count

    def answered(self) -> None:
        """An answer is there."""
        self.ended = self.clock()


class Metered:
    """A `System` whose queries a span notes."""

    def __init__(self, system: Any, span: Span) -> None:
        self._system, self._span = system, span
        self.flush, self.close = system.flush, system.close

    def issue(self, query: Sequence[Any]) -> None:
        """As of `System`."""
        self._span.issued(len(query))
        self._system.issue(query)


def power_of(meter: Meter, span: Span) -> dict[str, Any]:
    """What the JSON says of a run's power. joules_per_sample: None, and `why` says so, where too little was read."""
    began = span.ended if span.began is None else span.began
    count, seconds = sum(began <= at <= span.ended for at, _ in meter.readings), span.ended - began
    about: dict[str, Any] = {"rails": [rail.name for rail in meter.rails], "interval_ms": meter.interval_ms, "readings": count}
    why = meter.fault or (f"{count} power readings are too few, {FEWEST} are needed: more `seconds`" if count < FEWEST else None)
    about |= {"samples": span.samples, "joules_per_sample": None, "mean_watts": None, "why": why}
    if why is None:
        joules = energy(meter.readings, began, span.ended)
        about |= {"joules_per_sample": joules / span.samples, "mean_watts": joules / seconds}
    return about
