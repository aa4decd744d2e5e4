"""A dry run of a release: builds the archives, installs them as users do, and runs the demo. `make release`; half an hour.

    .venv/bin/python tools/release.py [--only 3.13 ...]

It takes the files that git tracks, as they stand. Archives, logs and simulators are kept in build/release, environments are not.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "release"
EXTRAS = "tools,serve,trace"  # `board` is for a board's own image
# By kind of wheel: the environment that builds it; the second finds no compiler.
NEW: dict[str, dict[str, str]] = {"native": {}, "numpy": {"CXX": "none"}}
TAGS = {"native": "cp310-abi3-linux_*", "numpy": "py3-none-any"}
HOST_ALONE = ("3.10",)  # where `cnna doctor` asks for a newer Python: the versions of constraints.txt do not install there
NATIVE = "the native host library"  # what `cnna doctor` says of a wheel that has it
AGREED = "RTL == emulator == reference"  # the last line of the demo
UNLESS = ("pynq", "pynqutils")  # packages of a board: the modules that import them are left out
IMPORTS = f"""
import importlib, pkgutil, cnna
count = 0
for module in pkgutil.walk_packages(cnna.__path__, "cnna."):
    try:
        importlib.import_module(module.name)
        count += 1
    except ModuleNotFoundError as error:
        if error.name not in {UNLESS}:
            raise
print(count)
"""


class StepError(Exception):
    """A step that failed: its sentence is for the table."""


class Row(NamedTuple):
    """What one Python made of one wheel. wrong: empty if all went well."""

    python: str
    wheel: str
    wrong: str = ""
    install: str = "-"
    converts: str = "-"
    modules: str = "-"
    demo: str = "-"


def main() -> int:
    """Builds, tries and prints; 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(description="tries a release without publishing anything")
    parser.add_argument(
        "--only", nargs="+", metavar="VERSION", help="of Python, such as 3.13 (default: all that pyproject.toml names)"
    )
    wanted = parser.parse_args().only or supported(ROOT)
    shutil.rmtree(OUT / "dist", ignore_errors=True)
    (OUT / "dist").mkdir(parents=True)
    print(f"cnna {project(ROOT)['version']} of {commit(ROOT)}, for Python {', '.join(wanted)}", flush=True)
    try:
        source, wheels = archives(ROOT, OUT)
    except StepError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    rows = [row for version in wanted for row in tried(version, wheels, source)]
    print("\n" + table(rows))
    wrong = [line for line in (unnoted(ROOT), *(row.wrong for row in rows)) if line]
    print(f"\nnot ready: {'; '.join(sorted(set(wrong)))}" if wrong else "\nready; docs/howto/release.md has what is left to do")
    return bool(wrong)


def project(root: Path) -> dict[str, str]:
    """The table `project` of pyproject.toml."""
    found: dict[str, str] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return found


def supported(root: Path) -> list[str]:
    """The versions of Python that pyproject.toml promises."""
    return re.findall(r"Python :: (3\.\d+)$", "\n".join(project(root)["classifiers"]), re.M)


def commit(root: Path) -> str:
    """What is tried: the commit, and whether files differ from it."""
    words = ["git", "-C", str(root)]
    head = subprocess.run([*words, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    changed = subprocess.run([*words, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True).stdout
    return head + (" with changes that are not committed" if changed else "")


def unnoted(root: Path) -> str:
    """Empty if the changelog has the version."""
    version = project(root)["version"]
    noted = re.search(rf"^## {re.escape(version)}\b", (root / "CHANGELOG.md").read_text(), re.M)
    return "" if noted else f"CHANGELOG.md has no entry for {version}"


def interpreter(version: str) -> Path | None:
    """A Python of this version that starts: on the path, or among pyenv's. A shim of pyenv's may be there and not start."""
    named = shutil.which(f"python{version}")
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for path in (*([Path(named)] if named else []), *reversed(pyenv)):
        asked = subprocess.run(
            [path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() == version:
            return path
    return None


def archives(root: Path, out: Path) -> tuple[Path, dict[str, Path]]:
    """The source archive, and the wheels that pip makes of it by their kinds, all in `out`/dist. StepError: a step failed."""
    log = out / "archives.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="cnna-release-") as name:
        folder, made = Path(name), out / "dist"
        copied(root, folder / "tree")
        call(log, sys.executable, "-m", "venv", folder / "tools")
        python = folder / "tools" / "bin" / "python"
        call(log, python, "-m", "pip", "install", "--quiet", "build", "twine")
        call(log, python, "-m", "build", "--sdist", "--outdir", made, folder / "tree")
        (source,) = made.glob("*.tar.gz")
        wheels = {}
        for kind, environment in NEW.items():
            call(log, python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", made, source, more=environment)
            wheels[kind] = next(made.glob(f"*-{TAGS[kind]}.whl"), None)
        call(log, python, "-m", "twine", "check", "--strict", *made.iterdir())
    complete = {kind: wheel for kind, wheel in wheels.items() if wheel}
    if len(complete) < len(NEW):
        raise StepError(f"no wheel {' or '.join(TAGS[kind] for kind in NEW if kind not in complete)} was built; see {log}")
    for path in (source, *complete.values()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, passes twine check", flush=True)
    return source, complete


def copied(root: Path, target: Path) -> None:
    """Copies the files that git tracks, since setuptools writes into its source; links stay links."""
    named = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, named.split("\0")):
        if (root / name).exists():  # a file that is deleted and not committed is still tracked
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)


def tried(version: str, wheels: Mapping[str, Path], source: Path) -> list[Row]:
    """Has one Python try the wheels, one after another, in an environment that is made for them."""
    python = interpreter(version)
    if python is None:
        return [Row(version, kind, f"there is no Python {version}: `pyenv install {version}`") for kind in wheels]
    rows = []
    with tempfile.TemporaryDirectory(prefix="cnna-release-") as name:
        for kind, wheel in wheels.items():
            log = OUT / f"{version}-{kind}.log"
            log.unlink(missing_ok=True)
            try:
                rows.append(examined(Row(version, kind), python, wheel, source, Path(name), log))
            except StepError as error:
                rows.append(Row(version, kind, str(error)))
            print(f"{version}, {kind}: {rows[-1].wrong or 'good'}", flush=True)
    return rows


def examined(row: Row, python: Path, wheel: Path, source: Path, folder: Path, log: Path) -> Row:
    """The row, filled: installs the wheel, asks `cnna doctor`, imports everything and runs the demo. StepError: a step failed."""
    started = time.perf_counter()
    programs = installed(python, wheel, folder, log)
    row = row._replace(install=f"{time.perf_counter() - started:.0f} s")
    call(log, programs / "cnna", "doctor", "--json", folder / "doctor.json", may_fail=True)
    found = json.loads((folder / "doctor.json").read_text())
    with_library = found["conversion"].startswith(NATIVE)
    if with_library != (row.wheel == "native"):
        raise StepError(f"the wheel {row.wheel} converts pictures by {found['conversion']}")
    if set(found["missing"]) - ({"python"} if row.python in HOST_ALONE else set()):
        raise StepError(f"doctor misses {', '.join(found['missing'])}")
    row = row._replace(converts="C++" if with_library else "numpy", modules=call(log, programs / "python", "-c", IMPORTS).strip())
    started = time.perf_counter()
    cache = {"XDG_CACHE_HOME": str(OUT / "cache")}  # kept: a simulator of this Python and this Verilog is built once
    lines = call(log, programs / "python", demo(source, folder), more=cache).splitlines()
    if not lines[-1].startswith(AGREED):
        raise StepError(f"the demo ends with {lines[-1]!r}")
    (accuracy,) = (line.split()[-1] for line in lines if line.startswith("int8 "))
    return row._replace(demo=f"{accuracy} in {time.perf_counter() - started:.0f} s")


def installed(python: Path, wheel: Path, folder: Path, log: Path) -> Path:
    """The folder of programs of the environment, with the wheel in it; a second wheel takes the place of the first one."""
    programs = folder / "env" / "bin"
    if programs.is_dir():
        call(log, programs / "python", "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", wheel)
    else:
        call(log, python, "-m", "venv", folder / "env")
        call(log, programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]")
    call(log, programs / "python", "-m", "pip", "check")
    return programs


def demo(source: Path, folder: Path) -> Path:
    """The demo of the source archive, in a folder of its own."""
    target = folder / "run" / "examples" / "demo.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(source) as archive:
        (member,) = (member for member in archive.getmembers() if member.name.endswith("/examples/demo.py"))
        text = archive.extractfile(member)
        assert text is not None
        target.write_bytes(text.read())
    return target


def call(log: Path, *line: object, may_fail: bool = False, more: Mapping[str, str] | None = None) -> str:
    """Runs a command line outside of the clone, and returns what it prints; the log has everything. more: of the environment.

    StepError: the command failed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment.update(more or {})
    words = [str(word) for word in line]
    done = subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, check=False)
    with log.open("a") as file:
        print("$", *words, file=file)
        print(done.stdout + done.stderr, file=file)
    if done.returncode and not may_fail:
        raise StepError(f"`{' '.join([Path(words[0]).name, *words[1:4]])} ...` failed: see {log}")
    return done.stdout


def table(rows: Sequence[Row]) -> str:
    """The rows below each other, in columns."""
    head = ("Python", "wheel", "installed in", "converts by", "modules", "demo: int8 accuracy", "")
    cells = [
        head,
        *((row.python, row.wheel, row.install, row.converts, row.modules, row.demo, row.wrong or "good") for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)


if __name__ == "__main__":
    sys.exit(main())
