"""`benchmark`: runs LoadGen for each row of a matrix, and keeps the rows in a journal, from which one that was ended goes on."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cnna.evaluate.datasets.labels import digest_of_file
from cnna.evaluate.evaluate import journal_path
from cnna.evaluate.journal import BENCHMARK, Entry, Journal
from cnna.evaluate.runners import Runner, close_all, open_models
from cnna.evaluate.speed import judged
from cnna.evaluate.speed.device_times import timed
from cnna.evaluate.speed.grpc_endpoint import endpoint
from cnna.evaluate.speed.live import BOARD, ONNX, SERVER
from cnna.evaluate.speed.load import Logged, check_installed, measured, simulated
from cnna.evaluate.speed.machine import changes, machine
from cnna.evaluate.speed.matrix import ONNXRUNTIME, RTL, SERVERS, SIMULATED, Cell, Matrix, cells_of, is_board
from cnna.evaluate.speed.power import HWMON
from cnna.evaluate.speed.scenarios import ACCURACY, FIGURES, Load
from cnna.host.board.overlay import is_virtual
from cnna.spec.artifact import Artifact, save
from cnna.spec.counts import many
from cnna.spec.errors import DataError, RunError, UserError

KIND, SCHEMA = "benchmark", 1
JOURNAL = 3  # what its rows hold
COUNTED = {RTL: "counted"}  # by simulated device: the column of its figures, where it is not the device's name
MEASURED = "measured"

Compile = Callable[[Path, str, int], Artifact]  # an .onnx for a configuration and a batch


@dataclass(frozen=True)
class Means:
    """What a benchmark is given besides its matrix. load, compile: a .cnna, and an .onnx, as artifacts.

    native: whether the host has its native library. rtl: options of the simulated RTL. count: called with the rows that are done,
    all, and the next one. say: called with lines for the user. hwmon: the folder of a board's sensors.
    """

    load: Callable[[Path], Artifact]
    compile: Compile
    native: bool
    rtl: Mapping[str, Any] = field(default_factory=dict)
    journal: Path | None = None
    hwmon: Path = HWMON
    cache: Path | None = None
    count: Callable[[int, int, str], object] = lambda done, total, what: None
    say: Callable[[str], object] = lambda line: None


def benchmark(matrix: Matrix, means: Means) -> dict[str, Any]:
    """The figures of all rows, as `cnna bench --json` writes them. UserError: a file or a value is at fault."""
    check_installed()
    cells = cells_of(matrix, _fixed_batch)
    _check_boards(cells)
    bench = _Bench(matrix, means)
    data = None if matrix.data is None else bench.data().data.identity  # so that a mistake in it is known before the first row
    host = machine()
    files = {model.name: digest_of_file(model.file) for model in matrix.models}
    about = {
        "models": [*files.values()],
        "matrix": matrix.figures(),
        "data": data,
        "boards": {str(device): digest_of_file(Path(device)) for device in _boards(cells)},
        "program": {"versions": host["versions"], "commit": host["commit"], "changes": changes(), "journal": JOURNAL},
        "processor": host["processor"],
    }
    where = journal_path({"journal": means.journal, "cache": means.cache}, about)
    with Journal(where, about, BENCHMARK) as kept:
        with _said(kept, len(cells), means.say):
            _run(bench, cells, kept)
        rows = [kept.entries[number].records[0] for number in range(len(cells))]
        if means.journal is None:
            kept.remove()
    said = {"files": {"models": files, "data": data}, "matrix": matrix.figures()}
    return {"kind": KIND, "schema": SCHEMA, "measured_with": "LoadGen", **host, **said, "rows": rows}


def _run(bench: "_Bench", cells: Sequence[Cell], kept: Journal) -> None:
    """Measures each row that the journal lacks."""
    _check_servers(cell for number, cell in enumerate(cells) if number not in kept.entries)
    with TemporaryDirectory(prefix="cnna-bench-") as folder:
        bench.folder = Path(folder)
        for number, cell in enumerate(cells):
            bench.means.count(number, len(cells), str(cell))
            if number not in kept.entries:
                kept.add({number: Entry((bench.row(cell),))})
        bench.means.count(len(cells), len(cells), "done")


class _Bench:
    """A benchmark under way: it compiles a model once for the rows that share it."""

    folder = Path()

    def __init__(self, matrix: Matrix, means: Means) -> None:
        self.matrix, self.means = matrix, means
        self._last: tuple[Any, Artifact] | None = None
        self._samples: judged.Samples | None = None

    def row(self, cell: Cell) -> dict[str, Any]:
        """One row, as the JSON has it."""
        began = time.perf_counter()
        try:
            own = self._in_virtual_time(cell) if cell.device in SIMULATED else self._by_the_wall(cell)
        except RunError as error:
            raise RunError(f"{cell}: {error}") from None
        about = {"model": cell.model.name, "scenario": cell.scenario, "device": cell.device}
        return {**about, **own, "wall_seconds": time.perf_counter() - began}

    def _in_virtual_time(self, cell: Cell) -> dict[str, Any]:
        artifact = self._artifact(cell)
        found = timed(artifact, cell.device, self.means.rtl, self.means.native)
        about = {
            "column": COUNTED.get(cell.device, cell.device),
            "configuration": artifact.config.name,
            "batch": int(artifact.manifest["batch"]),
            "clocks": found.clocks,
            "clock_mhz": artifact.config.clock_mhz,
            "service": asdict(found.service),
        }
        if cell.scenario != ACCURACY:
            return {**about, **figures_of(cell, simulated(self._load(cell), found.service))}
        with self._runner(self._saved(artifact)) as runner:
            samples = self.data()
            inputs = samples.inputs(runner)
            shapes = judged.shapes_of(runner, inputs)
            answers = judged.answered(runner, inputs, shapes)
            logged = simulated(self._load(cell, len(answers)), found.service, answers)
            return {**about, **figures_of(cell, logged), "accuracy": _accuracy(samples, runner, logged, shapes)}

    def _by_the_wall(self, cell: Cell) -> dict[str, Any]:
        about = {"column": MEASURED, "configuration": None, "batch": cell.batch, "clocks": None, "clock_mhz": None, "service": None}
        job: dict[str, Any] = {"model": str(cell.model.file), "batch": cell.batch, "inputs": None}
        path = cell.model.file
        if is_board(cell.device):
            artifact = self._artifact(cell)
            path = self._saved(artifact)
            job |= {"kind": BOARD, "model": str(path), "overlay": cell.device, "hwmon": str(self.means.hwmon)}
            about |= {"configuration": artifact.config.name, "batch": int(artifact.manifest["batch"])}
        elif cell.device == ONNXRUNTIME:
            job |= {"kind": ONNX, "threads": self.matrix.threads}
        else:
            job |= {"kind": SERVER, "address": cell.device, "model": cell.model.name, "clients": self.matrix.clients}
        if self.matrix.data is None:
            load = self._load(cell)
            return {**about, **figures_of(cell, measured(load, {**job, "samples": load.samples}))}
        with self._runner(path) as runner:
            samples = self.data()
            inputs = samples.inputs(runner)
            np.savez(self.folder / "inputs.npz", **inputs)
            job |= {"inputs": str(self.folder / "inputs.npz"), "samples": len(samples.numbers)}
            logged = measured(self._load(cell, len(samples.numbers)), job)
            found = {**about, **figures_of(cell, logged)}
            if cell.scenario == ACCURACY:
                found["accuracy"] = _accuracy(samples, runner, logged, judged.shapes_of(runner, inputs))
            return found

    def _load(self, cell: Cell, samples: int = 64) -> Load:
        m = self.matrix
        return Load(cell.scenario, m.seconds, m.queries, m.seed, samples, m.qps, m.latency_ms / 1e3, m.together)

    def data(self) -> judged.Samples:
        """The samples, read once. DataError: there are none."""
        if self._samples is None:
            if self.matrix.data is None:
                raise DataError(f"{ACCURACY} needs data with labels")
            self._samples = judged.samples_of(self.matrix.data, self.matrix.limit, ACCURACY in self.matrix.scenarios)
        return self._samples

    def _artifact(self, cell: Cell) -> Artifact:
        key = (cell.model.file, cell.configuration, cell.batch)
        if self._last is None or self._last[0] != key:
            compiled = cell.configuration is None or cell.batch is None
            made = self.means.load(cell.model.file) if compiled else self.means.compile(*key)  # type: ignore[arg-type]  # no None here
            self._last = (key, made)
        return self._last[1]

    def _saved(self, artifact: Artifact) -> Path:
        path = self.folder / "model.cnna"
        save(artifact, path)
        return path

    @contextmanager
    def _runner(self, path: Path) -> Iterator[Runner]:
        """The model on the emulator, or in onnxruntime: what it takes, and what it answers."""
        runners = open_models([path], {})
        try:
            yield runners[0]
        finally:
            close_all(runners)


def figures_of(cell: Cell, logged: Logged) -> dict[str, Any]:
    """What a row says of a run: the scenario's figure, LoadGen's verdict, and all that it has logged."""
    found = logged.results
    figure = FIGURES.get(cell.scenario)
    return {
        "figure": None if figure is None else found[figure.key] * figure.factor,
        "unit": None if figure is None else figure.unit,
        "valid": None if figure is None else found["result_validity"] == "VALID",
        "why_invalid": found.get("result_invalid_reason") or found.get("early_stopping_result"),
        "target_qps": found.get("effective_target_qps"),
        "power": None if logged.power is None else dict(logged.power),
        "loadgen": dict(found),
    }


def _accuracy(samples: judged.Samples, runner: Runner, logged: Logged, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    return {name: one._asdict() for name, one in judged.judged(samples, runner, logged.answers, shapes).items()}


def _fixed_batch(path: Path) -> int | None:
    """The batch that an .onnx has; None: it takes any."""
    from cnna.compiler.frontend.onnx_import import read

    sizes = [value.type.tensor_type.shape.dim for value in read(path).inputs]
    return next((dims[0].dim_value for dims in sizes if len(dims) and dims[0].dim_value > 0), None)


def _boards(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.device for cell in cells if is_board(cell.device)))


def _check_boards(cells: Sequence[Cell]) -> None:
    """DataError: a board is a virtual one, whose seconds are those of a simulation."""
    for device in _boards(cells):
        if is_virtual(Path(device)):
            raise DataError(f"{device}: a virtual board does not run in real time; measure on `rtl`, which counts its clocks")


def _check_servers(cells: Iterable[Cell]) -> None:
    """UserError: a server that is to be measured does not answer, or has no such model. Said before the first row."""
    for address, model in dict.fromkeys((cell.device, cell.model.name) for cell in cells if cell.device.startswith(SERVERS)):
        try:
            with closing(endpoint(address, model)) as end:
                end.inputs()
        except RunError as error:
            raise UserError(str(error)) from None


@contextmanager
def _said(journal: Journal, total: int, say: Callable[[str], object]) -> Iterator[None]:
    """Says what is kept: before the work, and where it ends early."""
    if journal.entries:
        say(f"{many(len(journal.entries), 'row')} of {total:,} are in {journal.path}; going on from there")
    try:
        yield
    except BaseException:
        if journal.entries:
            say(f"{many(len(journal.entries), 'row')} of {total:,} are kept in {journal.path}; the same command goes on from there")
        raise
