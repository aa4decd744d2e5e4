"""Counts what the host does for a picture, stage by stage, as aarch64 instructions under QEMU: `make host-cost`.

    PYTHONPATH=tools:tools/bench .venv/bin/python tools/host_cost/host_cost.py [--rows PATTERN ...] [--check NETWORK ...] [--path P]

Rows are those of `tools/bench/bench_rows.py`. docs/host_cost.json keeps the counts. --check counts networks at batch 1 again,
compares them with those kept, and exits with code 1 if one differs by more than 1 %; it writes nothing. --path native takes the way
through the native library instead of numpy's, and --path cached the same with memory that the processor caches. --path boxes takes
that of `cnna.Detector`, for the networks of DETECTORS, and --path own that of a session for the same files, which gives the
networks' own outputs. Nothing is ever left out for want of a tool: the command fails and says what to install.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aarch64_root import COMPILER, HERE, ROOT, Machine, check_tools, machine
from bench import cnna
from bench_networks import network
from bench_rows import BOXES, DETECTORS, HOST_PATHS, OWN, PLANNED_BYTES, Row, chosen
from counts import read_counts

from cnna.host.native import build as native
from cnna.spec.artifact import load
from cnna.spec.errors import ToolError, UserError
from cnna.spec.extras import install
from cnna.spec.files import write_text
from cnna.spec.manifest import CPU

KEPT = "host_cost.json"
KNOWN = (BOXES, OWN)  # paths of files that know their heads
BATCHES = 4  # that are counted in each mode
LONG = 62  # as many where they are few instructions, so that Python's first look at each line does not count: a stream of 64
SHARE = 0.01  # by which a count may differ from the one kept
COMPARED = ("interpreter", "libraries", "loops", "read", "written", "buffer_read", "buffer_written", "lines", "native")
Found = dict[str, Any]  # {mode: {stage: counts}}


def main(argv: Sequence[str] | None = None) -> int:
    """Counts rows, or compares. Returns the exit code."""
    args = _arguments(argv)
    path = args.path
    try:
        check_tools(path != "numpy")
        if args.check:
            return check(args.check, path, args.docs)
        rows = [row for row in chosen(args.rows) if row.ddr_bytes == PLANNED_BYTES]
        rows = [row for row in rows if path not in KNOWN or (row.network in DETECTORS and row.batch == 1 and not row.deep)]
        if not rows:
            raise UserError(f"no row is named {' '.join(args.rows)}; tools/bench/bench_rows.py has them")
        for row in rows:
            if args.rows or path not in read(args.docs).get(row.key, {}):
                keep(row.key, path, measure(row, path), args.docs)
                _say(f"{row.key}: counted")
    except UserError as error:
        _say(str(error))
        return 2
    except subprocess.CalledProcessError as error:  # the command has printed why
        _say(f"cnna {error.cmd[3]} failed (code {error.returncode})")
        return 1
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], metavar="PATTERN")
    parser.add_argument("--check", nargs="+", default=[], metavar="NETWORK", help="compare with the counts kept")
    parser.add_argument("--path", choices=(*HOST_PATHS, *KNOWN), default=HOST_PATHS[0], help="the way through the host")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="DIR", help="where the counts are kept")
    return parser.parse_args(argv)


def check(networks: Sequence[str], path: str, docs: Path) -> int:
    """Counts networks again. Prints a line for each count that differs, and one for each network."""
    kept, failed = read(docs), 0
    for name in networks:
        row = Row(name, 1)
        if path not in kept.get(row.key, {}):
            raise UserError(
                f"{row.key} has no counts of the {path} path in {docs / KEPT}: make host-cost ROWS={row.key} counts them"
            )
        differences = compared(kept[row.key][path], measure(row, path))
        for line in differences:
            _say(f"{row.key}: {line}")
        _say(f"{row.key}: {'differs' if differences else f'all counts are within {SHARE:.0%} of those kept'}")
        failed += bool(differences)
    if failed:
        _say(f"if that is meant, `make host-cost ROWS=NETWORK/b1` counts anew: commit docs/{KEPT} with the change")
    return 1 if failed else 0


def compared(kept: Found, found: Found) -> list[str]:
    """A line for each count of a whole mode that differs by more than SHARE, and for each instruction count of a stage."""
    lines = []
    for mode in kept:
        for name in COMPARED:
            have, want = (sum(stage.get(name, 0) for stage in counts.get(mode, {}).values()) for counts in (found, kept))
            if abs(have - want) > SHARE * max(want, _whole(kept[mode])):
                lines.append(f"{mode}: {have:,.0f} {name}, not {want:,.0f}")
    return lines


def _whole(stages: Mapping[str, Any]) -> float:
    """The instructions of a mode."""
    return sum(stage.get(name, 0) for stage in stages.values() for name in ("interpreter", "libraries", "loops"))


def measure(row: Row, path: str) -> Found:
    """The counts of a row: {mode: {stage: counts of one picture}}."""
    with TemporaryDirectory() as name:
        artifact = Path(name) / "m.cnna"
        if path in KNOWN:
            converted(row, Path(name), artifact)
            return measured(artifact, path)
        ready = network(row.network, ROOT / "build" / "networks", cnna, row.coded)
        cnna("compile", ready / "q.onnx", "--config", row.config or "zcu102", "--batch", row.batch, "-o", artifact)
        return measured(artifact, path)


def converted(row: Row, folder: Path, artifact: Path) -> None:
    """Writes a detector whose heads are known, with files beside it. What lies behind its heads stays in float."""
    model, calib = folder / "m.onnx", folder / "calib.npz"
    cnna("models", row.network, "-o", model, "--calib", calib)
    options = ("--config", "zcu102", "--detector", DETECTORS[row.network].how, "--limit", 1)
    cnna("convert", model, "--calib", calib, *options, "-o", artifact)


def measured(artifact: Path, path: str) -> Found:
    """The counts of one artifact."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        out, maps = folder / "counts.txt", folder / "maps.txt"
        manifest = load(artifact).manifest
        short = path not in KNOWN and all(piece["kind"] != CPU or piece["numpy"] for piece in manifest["pieces"])
        batches = LONG if path != "numpy" and short else BATCHES
        arguments = (HERE / "measured.py", artifact, pynq_folder(), maps, batches, path)
        _run(machine(), out, site(folder / "site", path), arguments)
        found = read_counts(out, maps, batches, manifest["batch"])
    return {mode: {stage: counts.counts() for stage, counts in stages.items()} for mode, stages in found.items()}


def _run(on: Machine, out: Path, rooms: Path, arguments: Sequence[object]) -> None:
    done = subprocess.run(on.command(out, rooms, arguments), capture_output=True, text=True, check=False)
    if done.returncode or not out.exists():
        said = done.stderr.strip().splitlines() or ["no message"]
        raise UserError(f"the measured program failed (code {done.returncode}): {said[-1]}")


def site(folder: Path, path: str) -> Path:
    """A folder that has the rooms of cnna which a board has. ToolError: the native library cannot be built."""
    package = folder / "cnna"
    package.mkdir(parents=True)
    for name, place in (("__init__.py", "api/__init__.py"), ("spec", "spec")):
        (package / name).symlink_to(ROOT / place)
    shutil.copytree(ROOT / "host", package / "host", ignore=shutil.ignore_patterns("__pycache__", native.NAME))
    if path != "numpy":
        _build(package / "host" / "native" / native.NAME)
    return folder


def _build(library: Path) -> None:
    """Builds the native host library as a board's code. ToolError: the compiler is missing, or fails."""
    try:
        subprocess.run(native.command(library, COMPILER), check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolError(f"{COMPILER} cannot build the native host library ({error}): apt install g++-aarch64-linux-gnu") from None


def pynq_folder() -> Path:
    """The folder of pynq's package. ToolError: it is not installed."""
    found = find_spec("pynq")
    if found is None or not found.submodule_search_locations:
        raise ToolError(f"host costs are counted with pynq's registers and buffers, not installed here: {install('board')}")
    return Path(found.submodule_search_locations[0])


def read(docs: Path) -> dict[str, dict[str, Found]]:
    """The counts that are kept: {row: {path: {mode: {stage: counts}}}}."""
    path = docs / KEPT
    found: dict[str, dict[str, Found]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(key: str, path: str, found: Found, docs: Path) -> None:
    """Adds the counts of a row."""
    kept = read(docs)
    kept[key] = {**kept.get(key, {}), path: found}
    order = [row.key for row in chosen([])]
    places = sorted(kept, key=lambda name: order.index(name) if name in order else len(order))
    write_text(docs / KEPT, lines({name: kept[name] for name in places}))


def lines(kept: Mapping[str, Mapping[str, Found]]) -> str:
    """JSON with the counts of a stage on one line."""
    return (
        _nested(
            {
                key: {path: {m: {s: _Line(c) for s, c in f[m].items()} for m in f} for path, f in paths.items()}
                for key, paths in kept.items()
            },
            0,
        )
        + "\n"
    )


class _Line(dict[str, Any]):
    """Counts that stay on one line."""


def _nested(value: Mapping[str, Any], depth: int) -> str:
    if isinstance(value, _Line):
        return json.dumps(value)
    inner = ",\n".join(f"{' ' * (depth + 1)}{json.dumps(name)}: {_nested(part, depth + 1)}" for name, part in value.items())
    return f"{{\n{inner}\n{' ' * depth}}}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
