"""`model.yaml`: how one model of a repository is served. A key that is not known here is an error.

runtime: cnna           # what runs it: boards with accelerators; or onnxruntime, remote, or another one that is installed
fallback: onnxruntime   # what answers where no board can; there is none unless it is said
onnxruntime: {batch: 4} # what the runtime of that name wants to know
versions: latest 1      # or `all`, or a list such as [1, 3]
max_delay_us: 1000      # how long a sample may wait for others to share a batch
queue: 256              # samples that may wait; more are refused
deadline_ms: 10000      # of a request, from its admission to its answer
retries: 2              # how often a batch is tried again after a board has failed
max_request_samples: 64 # in one request
canary: {version: 3, share: 0.1}  # this part of the requests that name no version go to version 3
detector: {least: 0.4}  # what counts as a detection, and names of classes (`thresholds`)
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeGuard

from cnna.serve.models.thresholds import USUAL, Detecting, Wanted, detecting_of
from cnna.serve.models.yaml_file import read_yaml
from cnna.serve.runtimes.installed import names
from cnna.serve.runtimes.interface import CNNA
from cnna.spec.checks.json_kinds import is_number, is_whole
from cnna.spec.errors import UserError

FILE = "model.yaml"
SCHEMES = ("grpc://", "grpcs://")


@dataclass(frozen=True)
class Canary:
    """A version that gets a share of the requests, from 0 to 1, before it gets all."""

    version: str
    share: float


@dataclass(frozen=True)
class Settings:
    """How a model is served. versions: the number of the latest ones, None for all, or their names. options: by runtime."""

    runtime: str = CNNA
    versions: int | tuple[str, ...] | None = 1
    max_delay_us: int = 1000
    queue: int = 256
    deadline_ms: int = 10_000
    retries: int = 2
    canary: Canary | None = None
    max_request_samples: int = 64
    fallback: str | None = None
    detector: Detecting | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def wanted(self) -> Wanted:
        """What counts as a detection, where a request says nothing else."""
        return USUAL if self.detector is None else self.detector.wanted

    def chosen(self, there: Collection[str]) -> list[str]:
        """The versions to serve of those that are there, in ascending order; the canary's is one of them."""
        ordered = sorted(there, key=int)
        if isinstance(self.versions, tuple):
            wanted = set(self.versions)
        else:
            wanted = set(ordered if self.versions is None else ordered[-self.versions :])
            if self.canary and isinstance(self.versions, int) and self.canary.version in wanted:
                wanted |= set([name for name in ordered if name != self.canary.version][-self.versions :])
        return [name for name in ordered if name in wanted or (self.canary is not None and name == self.canary.version)]


def settings_text(path: Path) -> dict[str, Any]:
    """A file's keys and values. UserError: it is no YAML, or no table."""
    found = read_yaml(path, "remove the file to serve with the defaults")
    found = {} if found is None else found
    if not isinstance(found, dict):
        raise UserError(f"{path}: must be a list of `key: value` lines")
    return found


def settings_of(path: Path) -> Settings:
    """Reads model.yaml. UserError: it is no YAML, or has an unknown key or a value out of range; one line names file and remedy."""
    found = settings_text(path)
    known = [one.name for one in fields(Settings) if one.name in _READ]
    runtime = _runtime(path, "runtime", found.get("runtime", CNNA))
    fallback = _fallback(path, "fallback", found["fallback"]) if "fallback" in found else None
    if fallback == runtime:
        raise UserError(f"{path}: fallback: {fallback} is the model's runtime already; name another one, or remove the line")
    options = {name: found.pop(name) for name in (runtime, fallback) if name is not None and name in found and name != CNNA}
    for name, value in options.items():
        if not isinstance(value, dict):
            raise UserError(f"{path}: {name}: {value!r} must be like {{key: value}}")
    for key in found:
        if key not in known:
            hint = f"; it is for models with `runtime: {key}` or `fallback: {key}`" if key in names() else ""
            raise UserError(f"{path}: unknown key {key!r}; there are {', '.join(known)}{hint}")
    return Settings(**{key: _READ[key](path, key, value) for key, value in found.items()}, options=options)


def is_address(value: Any) -> TypeGuard[str]:
    """Whether a value may be the address of another server: grpc://HOST:PORT or grpcs://HOST:PORT."""
    if not isinstance(value, str) or not value.startswith(SCHEMES):
        return False
    host, _, port = value.partition("//")[2].rpartition(":")
    plain = host.isprintable() and not set(host) & set(" /?#@")
    return bool(host) and plain and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16


def version_name(value: Any) -> str | None:
    """The name of a version, which is a positive integer without leading zeros; None: it is no such name."""
    text = str(value) if type(value) in (int, str) else ""
    return text if len(text) < 19 and text.isdecimal() and text.isascii() and text == str(int(text)) and text != "0" else None


def _whole(low: int, high: int) -> Callable[[Path, str, Any], int]:
    def read(path: Path, key: str, value: Any) -> int:
        if not is_whole(value, low, high + 1):
            raise UserError(f"{path}: {key}: {value!r} is not an integer within {low}..{high}")
        return int(value)

    return read


def _runtime(path: Path, key: str, value: Any) -> str:
    if value not in names():
        raise UserError(f"{path}: {key}: there is no runtime {value!r}; there are {', '.join(names())}")
    return str(value)


def _fallback(path: Path, key: str, value: Any) -> str:
    if value not in (others := names()[1:]):
        raise UserError(f"{path}: {key}: {value!r} cannot stand in for boards; there are {', '.join(others)}")
    return str(value)


def _versions(path: Path, key: str, value: Any) -> int | tuple[str, ...] | None:
    words = value.split() if isinstance(value, str) else []
    if words == ["all"]:
        return None
    if len(words) == 2 and words[0] == "latest" and version_name(words[1]):
        return int(words[1])
    names = [version_name(each) for each in value] if isinstance(value, list) else []
    if names and all(names):
        return tuple(str(name) for name in names)
    raise UserError(f"{path}: {key}: {value!r} is none of `latest N`, `all` and a list of versions such as [1, 3]")


def _canary(path: Path, key: str, value: Any) -> Canary:
    share = value.get("share") if isinstance(value, Mapping) else None
    name = version_name(value.get("version")) if isinstance(value, Mapping) and set(value) == {"version", "share"} else None
    if name is None or not is_number(share) or not 0 <= float(share or 0) <= 1:
        raise UserError(f"{path}: {key}: {value!r} is not like {{version: 3, share: 0.1}}, the share within 0..1")
    return Canary(name, float(share or 0))


_READ: dict[str, Callable[[Path, str, Any], Any]] = {
    "runtime": _runtime,
    "fallback": _fallback,
    "versions": _versions,
    "max_delay_us": _whole(0, 10_000_000),
    "queue": _whole(1, 1_000_000),
    "deadline_ms": _whole(1, 3_600_000),
    "retries": _whole(0, 100),
    "canary": _canary,
    "max_request_samples": _whole(1, 100_000),
    "detector": detecting_of,
}
