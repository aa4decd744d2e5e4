"""The text of `cnna doctor --report`: what a report of a fault needs, and nothing that is the user's own.

Everything in it is chosen here: versions, the kind of machine, what the cache holds by number and size, the last error as it was
kept. At the end the home folder, the user's name and the computer's are looked for once more, and replaced. A part that cannot be
examined says so, since a broken machine needs a report most: even numpy may be missing.
"""

import getpass
import os
import platform
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from cnna.cli.main import installed_version
from cnna.cli.prerequisites import Need
from cnna.cli.trouble import last_error
from cnna.spec.counts import many
from cnna.spec.files import default_cache

HEAD = "What `cnna doctor --report` found. Please read it before you send it; leave out what you do not want to send."
VARIABLES = ("XDG_CACHE_HOME", "CXX", "OTEL_EXPORTER_OTLP_ENDPOINT")  # that cnna reads: it is told whether they are set
COMMON = ("root", "localhost")  # names that name nobody


def bug_report(findings: Sequence[Need], conversion: str) -> str:
    """The text. findings: what was examined of the machine. conversion: what converts pictures and answers, and why."""
    parts = {
        "cnna": lambda: [f"version {installed_version()}, {_installation()}"],
        "interfaces": _interfaces,
        "machine": _machine,
        "packages and programs": lambda: [f"{one.name} {one.version or 'is not there'}" for one in findings],
        "extras": _extras,
        "native host library": lambda: [f"pictures and answers are converted by {_bare(conversion)}"],
        "cache and simulators": _cache,
        "board": _board,
        "environment": lambda: [f"{name} is {'set' if os.environ.get(name) else 'not set'}" for name in VARIABLES],
        "last error": _last,
    }
    text = "\n".join([HEAD, *(line for title, part in parts.items() for line in ("", f"# {title}", *_examined(part)))])
    return anonymous(text) + "\n"


def _examined(part: Callable[[], Iterable[str]]) -> list[str]:
    """The lines of a part. It must not end the report: what is broken is why somebody writes one."""
    try:
        return list(part())
    except Exception as error:
        return [f"cannot be examined: {type(error).__name__}"]


def _interfaces() -> Iterator[str]:
    from cnna.spec.artifact import SCHEMA  # they need numpy
    from cnna.spec.config import PRESETS
    from cnna.spec.regmap import VERSION

    yield f"register map {VERSION[0]}.{VERSION[1]}, schema {SCHEMA} of .cnna files"
    yield f"presets {', '.join(PRESETS)}"


def _installation() -> str:
    try:
        found = distribution("cnna").read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return "never installed"
    return "installed from a clone, editable" if '"editable": true' in found else "installed as a package"


def _machine() -> list[str]:
    found = [f"{platform.system()} {platform.release()}, {platform.machine()}, {' '.join(platform.libc_ver())}".rstrip(", ")]
    with suppress(OSError):
        found.append(platform.freedesktop_os_release().get("PRETTY_NAME", ""))
    bits, where = 8 * struct.calcsize("P"), "an environment of its own" if sys.prefix != sys.base_prefix else "no environment"
    found.append(f"{platform.python_implementation()} {platform.python_version()}, {bits} bits, in {where}")
    with suppress(ValueError, OSError):
        gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        found.append(f"{many(len(os.sched_getaffinity(0)), 'processor')}, {gib:.1f} GiB of memory")
    return list(filter(None, found))


def _extras() -> Iterator[str]:
    """Each group of packages that pip can install with cnna, and the version of each that is there."""
    groups: dict[str, dict[str, str]] = {}
    with suppress(PackageNotFoundError):
        for line in distribution("cnna").requires or ():
            package = re.match(r"[\w.-]+", line)
            group = re.search(r"""extra\s*==\s*['"]([\w-]+)['"]""", line)
            if package and group:
                groups.setdefault(group.group(1), {})[package.group()] = _version(package.group())
    for extra, packages in groups.items():
        yield f"{extra}: {', '.join(f'{name} {found}' for name, found in packages.items())}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is not there"


def _bare(line: str) -> str:
    """A line without paths, but for the name of a file of ours."""
    return re.sub(r"(?:[\w.~-]*/)+", "", line)


def _cache() -> Iterator[str]:
    from cnna.cli import cache  # it needs numpy

    folder = default_cache()
    with suppress(OSError):
        for part in cache.parts_of(folder):
            yield f"{part.name}: {many(part.entries, 'entry', 'entries')}, {part.size_bytes / cache.MIB:,.1f} MiB"
        if (folder / "simulators").is_dir():
            building = any((folder / "simulators").glob("*.lock")) and cache.building(folder)
            yield "a simulator is being built now" if building else "no simulator is being built"
    if not folder.is_dir():
        yield "there is no cache yet"


def _board() -> Iterator[str]:
    """What the device tree calls the board, the state of its FPGA, and whether its cached memory has been proved."""
    from cnna.host.board.cached_memory import BOARD_NAMES, FOLDER  # it needs numpy

    for path in BOARD_NAMES:
        with suppress(OSError):
            yield path.read_bytes().decode("ascii", "replace").strip("\0 \n")[:100]
            break
    else:
        yield "this is no board"
        return
    for path in sorted(Path("/sys/class/fpga_manager").glob("*/state")):
        with suppress(OSError):
            yield f"FPGA: {path.read_text().strip()[:100]}"
    with suppress(OSError):
        yield f"self-tests that proved cached memory: {len(list((default_cache() / FOLDER).glob('*.json')))}"


def _last() -> Iterator[str]:
    found = last_error.read()
    if found is None:
        yield "none is kept"
        return
    yield f"{found.get('at')}, cnna {found.get('version')}: {found.get('command')}"
    yield f"code {found.get('exit_code')}, {found.get('kind')}: {found.get('line')}"
    yield from (f"  {line}" for line in found.get("where", ()))
    yield f"({last_error.LEFT_OUT} stands for words of yours, such as names of files and nodes)"


def anonymous(text: str) -> str:
    """The text without the home folder, the user's name and the computer's."""
    for home in _homes():
        text = text.replace(home, "~")
    for what, names in (("USER", _users()), ("HOST", _hosts())):
        for name in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", what, text, flags=re.IGNORECASE)
    return text


def _homes() -> list[str]:
    home = Path.home()
    found = {str(home), os.path.realpath(home), os.environ.get("HOME", "")}
    return sorted((one.rstrip("/") for one in found if len(one.rstrip("/")) > 1), key=len, reverse=True)


def _users() -> set[str]:
    found = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")} | {Path(home).name for home in _homes()}
    with suppress(KeyError, OSError):  # a user without an entry, as in containers
        found.add(getpass.getuser())
    return {name for name in found if name and name not in COMMON}


def _hosts() -> set[str]:
    found = {socket.gethostname(), platform.node(), os.environ.get("HOSTNAME", "")}
    found |= {name.partition(".")[0] for name in found}
    return {name for name in found if name and name not in COMMON}
