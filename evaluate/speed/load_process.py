"""The process in which LoadGen runs: `python -m cnna.evaluate.speed.load_process JOB.json` (`load` starts it).

The job has `load`, as of `Load`, `answers`, a .npy with a row for each sample, and either `service`, as of `Service`, with a clock
that stands still, or `live`, as of `live.opened`. LoadGen writes its logs into the job's folder; what it allows nobody to do from
outside, such as to set its clock, is done here.
"""

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.speed.power import POWER, Meter, Metered, Span, power_of, rails_of
from cnna.evaluate.speed.scenarios import ACCURACY, CLOSED, MULTI, OFFLINE, SERVER, SERVER_SHARE, SINGLE, Load
from cnna.evaluate.speed.simulated import Service, Simulated
from cnna.spec.errors import CnnaError

NANOSECONDS = 10**9
LEAST = 0.7  # LoadGen makes its queries beforehand, and a device that is quicker than it was must not run out of them
NO_AUDIT = ""  # LoadGen would read the settings of an auditor from a file of that name


class System(Protocol):
    """What LoadGen asks."""

    def issue(self, query: Sequence[Any]) -> None:
        """Takes the samples of a query."""

    def flush(self) -> None:
        """Nothing more comes."""

    def close(self) -> None:
        """Ends what it has started."""


class Complete:
    """Tells LoadGen that samples are answered. answers: [samples, ...]; None: nobody reads them."""

    def __init__(self, loadgen: Any, answers: NDArray[Any] | None) -> None:
        self._loadgen, self._answers = loadgen, answers

    def __call__(self, samples: Sequence[Any], answers: NDArray[Any] | None = None) -> None:
        """samples: as LoadGen gave them. answers: to them, in their order; None: those that are known beforehand."""
        rows = [self._row(sample, place, answers) for place, sample in enumerate(samples)]
        made = [
            self._loadgen.QuerySampleResponse(sample.id, 0 if row is None else row.ctypes.data, 0 if row is None else row.nbytes)
            for sample, row in zip(samples, rows, strict=True)
        ]
        self._loadgen.QuerySamplesComplete(made)

    def _row(self, sample: Any, place: int, answers: NDArray[Any] | None) -> NDArray[Any] | None:
        if answers is not None:
            return answers[place]
        return None if self._answers is None else self._answers[sample.index]


class Clock:
    """The time of this thread, which stands still from now on. ImportError: the library of `virtual_clock.c` is not preloaded."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        if not hasattr(library, "cnna_clock_attach"):
            raise ImportError("the clock that stands still is not preloaded")
        self.now, self.set = library.cnna_clock_now, library.cnna_clock_set
        self.now.restype, self.set.argtypes = ctypes.c_int64, [ctypes.c_int64]
        library.cnna_clock_attach()


class InVirtualTime:
    """A simulated device. For each answer the clock is put on, and then back where queries come by themselves."""

    def __init__(self, service: Service, scenario: str, complete: Complete) -> None:
        self._device, self._closed, self._complete, self._clock = Simulated(service), scenario in CLOSED, complete, Clock()
        self._samples: dict[int, Any] = {}
        self._last = 0

    def issue(self, query: Sequence[Any]) -> None:
        """As of System."""
        now = self._clock.now()
        self._samples |= {sample.id: sample for sample in query}
        self._device.take(now, [sample.id for sample in query])
        if self._closed:
            self.flush()
        else:
            self._answer(now)
            self._clock.set(now)

    def flush(self) -> None:
        """As of System. The clock then shows when the last answer came."""
        self._answer()
        self._clock.set(max(self._last, self._clock.now()))

    def close(self) -> None:
        """As of System."""

    def _answer(self, *until: int) -> None:
        for batch in self._device.settle(*until):
            self._clock.set(batch.at_ns)
            self._complete([self._samples.pop(number) for number in batch.numbers])
            self._last = max(self._last, batch.at_ns)


def settings_of(loadgen: Any, load: Load, service: Service, least: float = 1.0) -> Any:
    """LoadGen's settings. service: what the device takes, or about so, from which the number of queries follows.

    least: the share of that time in which the device may answer too, so that it does not run out of queries.
    """
    found = loadgen.TestSettings()
    accuracy = load.scenario == ACCURACY
    found.scenario = getattr(loadgen.TestScenario, OFFLINE if accuracy else load.scenario)
    found.mode = loadgen.TestMode.AccuracyOnly if accuracy else loadgen.TestMode.PerformanceOnly
    found.min_duration_ms, found.min_query_count = round(load.seconds * 1000), load.queries
    found.qsl_rng_seed = found.sample_index_rng_seed = found.schedule_rng_seed = load.seed
    if load.scenario == SINGLE:
        found.single_stream_expected_latency_ns = max(1, round(service.query_ns(1) * least))
    elif load.scenario == MULTI:
        found.multi_stream_samples_per_query = load.together
        found.multi_stream_expected_latency_ns = max(1, round(service.query_ns(load.together) * least))
    elif load.scenario == SERVER:
        found.server_target_qps = load.qps or SERVER_SHARE * service.samples_per_second
        found.server_target_latency_ns = round(load.latency_seconds * NANOSECONDS)
    else:
        found.offline_expected_qps = service.samples_per_second / least
    return found


def run(loadgen: Any, folder: Path, load: Load, service: Service, system: System, least: float = 1.0) -> None:
    """One run, which writes LoadGen's logs into the folder. least: as of `settings_of`."""
    logs = loadgen.LogSettings()
    logs.log_output.outdir = str(folder)
    logs.log_output.copy_summary_to_stdout, logs.enable_trace = False, False
    ignored: Callable[[Any], None] = _ignored
    library = loadgen.ConstructQSL(load.samples, load.samples, ignored, ignored)
    asked = loadgen.ConstructSUT(system.issue, system.flush)
    try:
        loadgen.StartTestWithLogSettings(asked, library, settings_of(loadgen, load, service, least), logs, NO_AUDIT)
    finally:
        system.close()
        loadgen.DestroySUT(asked)
        loadgen.DestroyQSL(library)


def _ignored(numbers: Any) -> None:
    """Samples need not be loaded: they are in memory."""


def main() -> int:
    """Runs the job of the command line."""
    import mlperf_loadgen

    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    load = Load(**job["load"])
    answers = np.load(job["answers"]) if job.get("answers") else None
    complete = Complete(mlperf_loadgen, answers)
    if "service" in job:
        service = Service(**job["service"])
        run(mlperf_loadgen, path.parent, load, service, InVirtualTime(service, load.scenario, complete))
    else:
        from cnna.evaluate.speed.live import Live, opened, tried

        device = opened(job["live"])
        rails = rails_of(Path(job["live"]["hwmon"])) if job["live"].get("hwmon") and load.scenario != ACCURACY else []
        if not rails:
            run(mlperf_loadgen, path.parent, load, tried(device), Live(device, complete), LEAST)
            return 0
        meter, service = Meter(rails), tried(device)
        span = Span(meter.clock)

        def answered(samples: Sequence[Any], answers: NDArray[Any]) -> None:
            span.answered()
            complete(samples, answers)

        with meter:
            run(mlperf_loadgen, path.parent, load, service, Metered(Live(device, answered), span), LEAST)
        (path.parent / POWER).write_text(json.dumps(power_of(meter, span)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CnnaError as error:  # its line is for the user; all others come with where they come from
        sys.exit(str(error))
