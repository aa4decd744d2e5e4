"""The modules of `predict` as machine code, which mypyc makes of these same sources. They then take a third of the time.

    python -m cnna.compiler.predict

makes them, in half a minute; `tools/setup.sh` does so in a clone. It needs mypy, setuptools and a C compiler. `predict/__init__.py`
takes them if they are there, for this Python, and of the present sources; otherwise Python interprets the sources. Both forms give
the same figures to the bit. A profiler or debugger sees nothing in machine code, so with one at work the sources are interpreted.

Source: https://mypyc.readthedocs.io, "Using mypyc".
"""

import hashlib
import json
import shutil
import subprocess
import sys
import sysconfig
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

MODULES = (
    *("ready", "rings", "known_stretches", "request_parts", "shared_port", "beat_banks", "ddr_beats", "beat_model", "read_ahead"),
    *("array_writes", "ddr_division", "active_engines", "flow_rates", "event_loop", "weight_ports", "transfers", "command_walks"),
    *("least_left", "predict"),
)
PACKAGE = "cnna.compiler.predict"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]  # of the packages `spec` and `compiler`, in a clone and where pip has installed them
FOLDER = HERE / "compiled"
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))  # of the modules of this Python, on this processor
SOURCES = f"sources{SUFFIX}.json"  # SHA-256 of each source that the modules in the folder depend on, by its path from ROOT
READY = "machine code"
NEEDED = "it takes mypy, setuptools, a C compiler and Python's headers"
MAKERS = {"mypyc": "mypy", "setuptools": "setuptools"}  # module: the package of PyPI that has it
BUILDING, LEFT_SECONDS = "building-", 3600.0  # a build's own folder, and after which time nobody builds there any more
TOOLS = 6  # of `sys.monitoring`, at most
# What mypyc has to know of numpy is that its values are any; mypy itself checks these modules with the rest of the project.
SETTINGS = """
[mypy]
explicit_package_bases = true
follow_imports = silent
ignore_missing_imports = true
[mypy-numpy.*,onnx.*]
follow_imports = skip
"""
SETUP = f"""
from setuptools import setup
from mypyc.build import mypycify
files = [f"cnna/compiler/predict/{{name}}.py" for name in {MODULES}]
modules = mypycify(
    ["--config-file=settings.ini", *files], group_name="{PACKAGE}.compiled", opt_level="2", debug_level="0", target_dir="c"
)
setup(name="cnna", ext_modules=modules, script_args=["-q", "build_ext", "--build-lib", "made", "--build-temp", "objects"])
"""


class BuildError(Exception):
    """The machine code could not be made. The text says why, in one line."""


def usable(folder: Path = FOLDER) -> bool:
    """Whether the folder has the modules for this Python, made of the present sources, and no profiler or debugger is at work."""
    return state(folder) == READY and not _watched()


def _watched() -> bool:
    """Whether a profiler, debugger or coverage is at work. From Python 3.12 on it may be a tool of `sys.monitoring`."""
    monitoring = getattr(sys, "monitoring", None)
    tools = [monitoring.get_tool(number) for number in range(TOOLS)] if monitoring else []
    return sys.gettrace() is not None or sys.getprofile() is not None or any(tools)


def state(folder: Path = FOLDER) -> str:
    """READY, or why the modules are interpreted, and what to type."""
    remedy = f"{sys.executable} -m {PACKAGE} makes it quicker"
    try:
        made_of = json.loads((folder / SOURCES).read_text())
    except (OSError, ValueError):
        return f"Python ({remedy})"
    changed = next((name for name, known in made_of.items() if digest(ROOT / name) != known), None)
    return f"Python, since {changed} has changed ({remedy})" if changed else READY


def build(folder: Path = FOLDER) -> None:
    """Makes the modules for this Python in the folder. BuildError: something is missing, or a step fails."""
    missing = [package for module, package in MAKERS.items() if find_spec(module) is None]
    if missing:
        raise BuildError(f"{' and '.join(missing)} missing: {sys.executable} -m pip install {' '.join(missing)}")
    import_module(f"{PACKAGE}.predict")
    names = sorted(name for name in map(_source_of, sys.modules) if name)
    try:
        folder.mkdir(exist_ok=True)
        for left in folder.glob(f"{BUILDING}*"):  # by a build that was killed
            if time.time() - left.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        # links to the sources lie outside of the packages, whose files others list and read meanwhile
        with TemporaryDirectory(prefix="cnna-") as place, TemporaryDirectory(prefix=BUILDING, dir=folder) as beside:
            made_of = {name: digest(ROOT / name) for name in names}
            made = [Path(shutil.copy(file, beside)) for file in _made(Path(place))]
            (folder / SOURCES).unlink(missing_ok=True)
            for file in made:
                file.replace(folder / file.name)
            (folder / SOURCES).write_text(json.dumps(made_of, indent=1))
    except OSError as error:
        raise BuildError(f"{error.filename or folder}: {error.strerror or error}") from None


def _made(place: Path) -> list[Path]:
    """The modules, made in this folder."""
    (place / "cnna").mkdir()
    (place / "cnna" / "__init__.py").touch()
    for package in ("spec", "compiler"):
        (place / "cnna" / package).symlink_to(ROOT / package)
    (place / "settings.ini").write_text(SETTINGS)
    done = subprocess.run(
        [sys.executable, "-c", SETUP], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    made = sorted((place / "made").rglob(f"*{SUFFIX}"))
    if done.returncode or len(made) <= len(MODULES):
        raise BuildError(f"{_cause(done.stdout)} ({NEEDED})")
    return made


def _cause(text: str) -> str:
    """The line of a build's output that says why it failed. A C compiler's own says more than what setuptools adds after it."""
    lines = text.splitlines() or ["no module was made"]
    told = next(filter(None, ([line for line in lines if word in line] for word in ("fatal error", "rror"))), lines)
    return told[-1].strip()[:300]


def _source_of(module: str) -> str:
    """The path from ROOT of a module of cnna that has been imported; empty: it is none, or a package of another folder."""
    above, _, path = module.partition("cnna.")
    path = path.replace(".", "/")
    found = [name for name in (f"{path}.py", f"{path}/__init__.py") if path and not above and (ROOT / name).is_file()]
    return found[0] if found else ""


def digest(file: Path) -> str:
    """SHA-256 of a file; empty: there is none."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""
