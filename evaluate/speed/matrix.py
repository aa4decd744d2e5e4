"""The matrix of a benchmark: models, configurations, batches, scenarios and devices, and the rows that they make.

models: [q.onnx, {name: cpu, file: m.onnx, devices: [onnxruntime]}]   # .onnx, or .cnna, which has a configuration and a batch
configurations: [zcu102, zcu102x2]   # for .onnx
batches: [1, 4]
scenarios: [SingleStream, Offline, Server]
devices: [predicted, modelled, rtl, onnxruntime]   # and cnna.bit, http://HOST:PORT, grpc://HOST:PORT
seconds: 10       # that each run lasts at least
queries: 100      # that it has at least
seed: 0           # of the order of samples and of arrivals
qps: 240          # of Server; without it, 80 % of what the device can do
latency_ms: 100   # that 99 % of Server's answers keep
together: 8       # samples in a query of MultiStream
data: test.npz    # samples; with labels for AccuracyOnly (docs/eval.md). Without it, samples are random
limit: 400        # of these
threads: 2        # of onnxruntime; without it, as many as it likes
clients: 8        # connections to a server
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cnna.evaluate.speed.scenarios import ACCURACY, SCENARIOS
from cnna.serve.models.yaml_file import read_yaml
from cnna.spec.checks.json_kinds import is_number, is_whole
from cnna.spec.errors import UserError
from cnna.spec.names import in_line

PREDICTED, MODELLED, RTL, ONNXRUNTIME = NAMED = ("predicted", "modelled", "rtl", "onnxruntime")
SIMULATED = (PREDICTED, MODELLED, RTL)  # whose time is virtual
BIT, CNNA, ONNX = ".bit", ".cnna", ".onnx"
SERVERS = HTTP, GRPC = ("http://", "grpc://")  # beginnings of addresses
MOST = 1 << 20  # of any number that counts something
MOST_THREADS = 1024  # onnxruntime fell over a million of them after five minutes
WITHOUT = "give cnna.bench a table instead of a file"


@dataclass(frozen=True)
class Entry:
    """A model. devices: those that it is measured on; None: those of the matrix."""

    name: str
    file: Path
    devices: tuple[str, ...] | None = None

    @property
    def compiled(self) -> bool:
        """Whether it is a .cnna."""
        return self.file.suffix.lower() == CNNA

    def __str__(self) -> str:
        return str(self.file)


@dataclass(frozen=True)
class Matrix:
    """What to measure. Paths are as the caller can open them."""

    models: tuple[Entry, ...]
    scenarios: tuple[str, ...]
    devices: tuple[str, ...]
    configurations: tuple[str, ...] = ("zcu102",)
    batches: tuple[int, ...] = (1,)
    seconds: float = 10.0
    queries: int = 100
    seed: int = 0
    qps: float | None = None
    latency_ms: float = 100.0
    together: int = 8
    data: Path | None = None
    limit: int | None = None
    threads: int | None = None
    clients: int = 8

    def figures(self) -> dict[str, Any]:
        """For JSON: what decides the figures, besides the models themselves."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("models", "data")}
        models = [{"name": one.name, "devices": one.devices} for one in self.models]
        return {**own, "models": models, "data": None if self.data is None else self.data.name}


@dataclass(frozen=True)
class Cell:
    """One row of the matrix. configuration: None where no accelerator's is chosen. batch: None where the model says it."""

    model: Entry
    configuration: str | None
    batch: int | None
    scenario: str
    device: str

    def __str__(self) -> str:
        batch = None if self.batch is None else f"batch {self.batch}"
        return ", ".join(filter(None, (self.model.name, self.configuration, batch, self.scenario, self.device)))


def cells_of(matrix: Matrix, fixed: Callable[[Path], int | None]) -> list[Cell]:
    """All rows, those of one compiled model behind each other. fixed: the batch that an .onnx has; None: it takes any."""
    found = []
    for model in matrix.models:
        devices = model.devices or matrix.devices
        for configuration, batch in _compiled(model, matrix):
            on = [device for device in devices if device in SIMULATED or is_board(device)]
            found += [Cell(model, configuration, batch, *pair) for pair in _pairs(matrix.scenarios, on)]
        own = fixed(model.file) if ONNXRUNTIME in devices else None
        for device in devices:
            if device == ONNXRUNTIME or device.startswith(SERVERS):
                batches = matrix.batches if device != ONNXRUNTIME or own is None else (own,)
                found += [Cell(model, None, batch, scenario, device) for batch in batches for scenario in matrix.scenarios]
    return found


def _compiled(model: Entry, matrix: Matrix) -> list[tuple[str | None, int | None]]:
    if model.compiled:
        return [(None, None)]
    return [(configuration, batch) for configuration in matrix.configurations for batch in matrix.batches]


def _pairs(scenarios: Sequence[str], devices: Sequence[str]) -> list[tuple[str, str]]:
    """Answers of simulated devices are the same, so accuracy is measured on the first of them alone."""
    simulated = [device for device in devices if device in SIMULATED]
    return [
        (scenario, device) for scenario in scenarios for device in devices if scenario != ACCURACY or device not in simulated[1:]
    ]


def is_board(device: str) -> bool:
    """Whether a device is a board, by its overlay."""
    return device.endswith(BIT) and not device.startswith(SERVERS)


def read_matrix(given: Path | Mapping[str, Any]) -> Matrix:
    """A matrix from a YAML file, whose paths are found from its folder, or from a table. UserError: it is none."""
    where, folder = (str(given), given.parent) if isinstance(given, Path) else ("the matrix", Path())
    found = read_yaml(given, WITHOUT) if isinstance(given, Path) else dict(given)
    if not isinstance(found, dict):
        raise UserError(f"{where}: must be a list of `key: value` lines; the keys are {', '.join(_READ)}")
    for key in found:
        if key not in _READ:
            raise UserError(f"{where}: unknown key {key!r}; there are {', '.join(_READ)}")
    for key in ("models", "scenarios", "devices"):
        if key not in found:
            raise UserError(f"{where}: {key}: is missing; say which {key} are measured")
    values = {key: _READ[key](f"{where}: {key}", value, folder) for key, value in found.items()}
    made = Matrix(**values)
    _check(where, made)
    return made


def _check(where: str, made: Matrix) -> None:
    """UserError: values that are right alone do not fit together."""
    names = [model.name for model in made.models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{where}: models: two are called {twice}; give one another `name`")
    if ACCURACY in made.scenarios and made.data is None:
        raise UserError(f"{where}: {ACCURACY} needs `data` with labels")
    for model in made.models:
        if model.compiled and ONNXRUNTIME in (model.devices or made.devices):
            raise UserError(
                f"{where}: models: {model.file} cannot run in onnxruntime: name an .onnx, or give its `devices` without onnxruntime"
            )


def _several(read: Callable[[str, Any, Path], Any]) -> Callable[[str, Any, Path], tuple[Any, ...]]:
    """Reads a list, or one value."""

    def all_of(where: str, value: Any, folder: Path) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        made = tuple(read(where, each, folder) for each in values)
        if not made:
            raise UserError(f"{where}: names nothing")
        if twice := next((one for one in made if made.count(one) > 1), None):
            raise UserError(f"{where}: {twice} is there twice")
        return made

    return all_of


def _model(where: str, value: Any, folder: Path) -> Entry:
    table = value if isinstance(value, dict) else {"file": value}
    if wrong := next((key for key in table if key not in ("name", "file", "devices")), None):
        raise UserError(f"{where}: unknown key {wrong!r}; a model has file, name and devices")
    if "file" not in table:
        raise UserError(f"{where}: file is missing; a model has file, name and devices")
    file = _text(where, str(table["file"]) if isinstance(table.get("file"), Path) else table.get("file"), folder)
    path = folder / file
    if path.is_dir():
        raise UserError(f"{where}: {file} is a folder; name the {CNNA} or {ONNX} file in it")
    if path.suffix.lower() not in (CNNA, ONNX):
        raise UserError(f"{where}: {file}: a model is a {CNNA} or an {ONNX} file")
    devices = _several(_device)(where, table["devices"], folder) if table.get("devices") is not None else None
    return Entry(_text(where, table.get("name", path.stem), folder), path, devices)


def _text(where: str, value: Any, folder: Path) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():  # such letters would break a path, or the table
        raise UserError(f"{where}: {value!r:.99} is no text in one line")
    return value


def _device(where: str, value: Any, folder: Path) -> str:
    text = _text(where, value, folder)
    if text in NAMED or (text.startswith(SERVERS) and _is_address(text)):
        return text
    if text.endswith(BIT):
        return str(folder / text)
    others = f"a cnna{BIT}, {HTTP}HOST:PORT and {GRPC}HOST:PORT"
    raise UserError(f"{where}: there is no device {text!r}; there are {', '.join(NAMED)}, {others}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        named = parts.port is not None or text.startswith(HTTP)  # gRPC has no usual port
        plain = not (set(text) & set(" ?#@"))
        return bool(parts.hostname) and parts.port != 0 and named and plain and not parts.path.strip("/")
    except ValueError:  # the port is no number
        return False


def _scenario(where: str, value: Any, folder: Path) -> str:
    if value not in SCENARIOS:
        raise UserError(f"{where}: there is no scenario {value!r:.99}; there are {in_line(SCENARIOS)}")
    return str(value)


def _path(where: str, value: Any, folder: Path) -> Path:
    return folder / (value if isinstance(value, Path) else _text(where, value, folder))


def _whole(least: int, most: int = MOST) -> Callable[[str, Any, Path], int]:
    def read(where: str, value: Any, folder: Path) -> int:
        if not is_whole(value, least, most + 1):
            raise UserError(f"{where}: {value!r} is not a whole number within {least}..{most}")
        return int(value)

    return read


def _positive(where: str, value: Any, folder: Path) -> float:
    if not is_number(value) or not 0 < value < MOST:
        raise UserError(f"{where}: {value!r} is not a number above 0 and below {MOST}")
    return float(value)


_READ: dict[str, Callable[[str, Any, Path], Any]] = {
    "models": _several(_model),
    "configurations": _several(_text),
    "batches": _several(_whole(1)),
    "scenarios": _several(_scenario),
    "devices": _several(_device),
    "seconds": _positive,
    "queries": _whole(1),
    "seed": _whole(0),
    "qps": _positive,
    "latency_ms": _positive,
    "together": _whole(1),
    "data": _path,
    "limit": _whole(1),
    "threads": _whole(1, MOST_THREADS),
    "clients": _whole(1, MOST_THREADS),
}
