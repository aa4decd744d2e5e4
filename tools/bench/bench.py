"""Measures networks on the simulated RTL, row by row, into docs/performance.md; docs/performance.json keeps every figure.

    PYTHONPATH=tools .venv/bin/python tools/bench/bench.py [--rows PATTERN ...] [--predict] [--check ROW]

`bench_rows.py` has the rows and their names. A row that was measured with today's program and Verilog is kept, unless a pattern
names it. The command can be interrupted and then goes on where it was. --predict simulates nothing. --check runs one whole row and
compares its clocks with those kept; it exits with code 1 if they differ, and writes nothing.
"""

import argparse
import datetime
import fcntl
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bench_stream
from additions import NEVER_QUEUED
from bench_host import estimated
from bench_lines import is_stale
from bench_networks import network
from bench_page import page
from bench_rows import Row, chosen
from equivalent import PROOFS, digest, linked

from cnna.spec.artifact import Artifact, load
from cnna.spec.errors import RunError
from cnna.spec.files import write_text

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT, PAGE = "performance.json", "performance.md"
COUNTS = "host_cost.json"
DROPPED = ("name", "layers", "programs")  # figures of a run that are not kept: the row has a name and `layers` of its own
# True in every measured run: `cnna run` fails if an error has stopped the accelerator, or if a register write gets SLVERR, as a
# write ahead of a queued start did before there was a queue; and what it wrote to CTRL had no bit for one.
UNHURT = ("cnna.control.error=0", *NEVER_QUEUED)
Found = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures the rows one after another and writes after each. Returns the exit code."""
    args = _arguments(argv)
    if args.check:
        return check(args.check, args.config, args.docs)
    rows = list(chosen(args.rows, streamed=True))
    if not rows:
        _say(f"no row is named {' '.join(args.rows)}; there are {', '.join(row.key for row in chosen([], streamed=True))}")
        return 2
    failed: list[str] = []
    for number, row in enumerate(rows, 1):
        _say(f"row {number} of {len(rows)}: {row.key}")
        try:
            found = measure(row, args.config, read(args.docs).get(row.key), args.predict, bool(args.rows))
        except subprocess.CalledProcessError as error:  # the command has printed why
            _say(f"{row.key}: cnna {error.cmd[3]} failed (code {error.returncode})")
            failed.append(row.key)
            continue
        except RunError as error:
            _say(f"{row.key}: {error}")
            failed.append(row.key)
            continue
        except KeyboardInterrupt:
            _say(f"interrupted; rows done and kept: {number - 1}")
            return 130
        _say(keep(row.key, found, args.docs))
    if failed:
        _say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], metavar="PATTERN")
    parser.add_argument("--predict", action="store_true", help="no RTL")
    parser.add_argument("--check", metavar="ROW", help="compare this row's clocks with those kept")
    parser.add_argument("--config", default="zcu102", help="of rows that name no array (default: zcu102)")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="DIR", help="where the two files are written")
    return parser.parse_args(argv)


def measure(row: Row, config: str, before: Mapping[str, Any] | None, predict: bool, again: bool) -> Found:
    """Figures of one row. before: what is known of it already; its measurement is kept.

    CalledProcessError: a command failed. RunError: a stream did.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        artifact = _compiled(row, config, folder)
        if row.stream:
            return _streamed(row, artifact, folder, before, predict, again)
        cnna("report", folder / "m.cnna", "--json", folder / "p.json", "--ddr-bytes-per-cycle", row.ddr_bytes)
        report = json.loads((folder / "p.json").read_text())
        simulate = row.simulated and not predict
        measured = dict(before["measured"]) if before and before["measured"] else None
        found: Found = {
            "config": artifact.config.name,
            **_programs(artifact),
            **_verilog(artifact, simulate or bool(measured)),
            "predicted": report["predicted"],
            "macs_a_batch": artifact.manifest["macs"] * row.batch,
            "cpu_macs_a_batch": artifact.manifest["cpu_macs"] * row.batch,
            "pieces": [len(artifact.programs), len(artifact.pieces) - len(artifact.programs)],
            "program_bytes": sum(len(program.program) for program in artifact.programs),
            "segments": report["segments"],
            "host": estimated(artifact),
            "measured": measured,
        }
        layers: list[int | None] = [None] * len(report["layers"])
        if measured and before and len(before.get("layers", ())) == len(layers):
            layers = [clocks for _, _, clocks in before["layers"]]
        if simulate and (again or not measured or is_stale(found)):
            figures = _run(row, folder)
            layers = [layer["cycles"] for layer in figures["layers"]]
            found["measured"] = {name: value for name, value in figures.items() if name not in DROPPED} | _stamp(found)
        own = zip(report["layers"], layers, strict=True)
        found["layers"] = [[layer["name"], layer["predicted_cycles"], clocks] for layer, clocks in own]
        return found


def _streamed(row: Row, artifact: Artifact, folder: Path, before: Mapping[str, Any] | None, predict: bool, again: bool) -> Found:
    """Figures of a row of a stream. RunError: as of `bench_stream.run`."""
    found: Found = {
        "config": artifact.config.name,
        **_programs(artifact),
        **_verilog(artifact, True),
        "late_clocks": bench_stream.LATE_CLOCKS,
        "measured": dict(before["measured"]) if before and before["measured"] else None,
    }
    if not predict and (again or not found["measured"] or is_stale(found)):
        found["measured"] = _run(row, folder) | _stamp(found)
    return found


def _stamp(found: Found) -> Found:
    """When a row was measured, and with what."""
    return {"date": datetime.date.today().isoformat(), **{name: found[name] for name in ("program_sha256", "verilog_sha256")}}


def check(key: str, config: str, docs: Path) -> int:
    """Runs a whole row, compares every tensor, and compares its clocks with those kept. Prints one line; returns the exit code."""
    rows = list(chosen([key], streamed=True))
    kept = read(docs).get(key)
    if len(rows) != 1 or not kept or not kept["measured"]:
        _say(f"--check {key}: no such row is measured in {docs / KEPT}")
        return 2
    with TemporaryDirectory() as folder:
        try:
            _compiled(rows[0], config, Path(folder))
            cycles = _run(rows[0], Path(folder))["cycles"]
        except subprocess.CalledProcessError as error:
            _say(f"{key}: cnna {error.cmd[3]} failed (code {error.returncode})")
            return 1
        except RunError as error:
            _say(f"{key}: {error}")
            return 1
    wanted = kept["measured"]["cycles"]
    if cycles == wanted:
        _say(f"{key}: {cycles:,} cycles as {KEPT} has them, RTL == emulator == reference")
        return 0
    again = f"if that is meant, `make bench ROWS={key}` writes it anew: commit docs/{KEPT} and docs/{PAGE} with the change"
    _say(f"{key}: measured {cycles:,} cycles, {KEPT} expects {wanted:,} ({cycles / wanted - 1:+.2%}); {again}")
    return 1


def cnna(*arguments: object) -> None:
    """Runs one command and shows its progress, but not its output. CalledProcessError: it failed, and has printed why."""
    subprocess.run([sys.executable, "-m", "cnna.cli.main", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def _compiled(row: Row, config: str, folder: Path) -> Artifact:
    """The row's program, as m.cnna in `folder`, with test.npz beside it."""
    ready = network(row.network, ROOT / "build" / "networks", cnna, row.coded)
    (folder / "test.npz").symlink_to(ready / "test.npz")
    before = sum(os.times()[:4])  # of this process and of its children
    cnna("compile", ready / "q.onnx", "--config", row.config or config, "--batch", row.batch, "-o", folder / "m.cnna")
    _say(f"{row.key}: compiled in {sum(os.times()[:4]) - before:.2f} processor seconds")
    return load(folder / "m.cnna")


def _run(row: Row, folder: Path) -> Found:
    """Runs one batch on the RTL and compares it tensor by tensor, or a stream. Returns its figures."""
    if row.stream:
        return bench_stream.run(folder / "m.cnna", folder / "test.npz")
    run = ("run", folder / "m.cnna", "--input", folder / "test.npz", "--limit", row.batch, "--device", "rtl", "--check")
    cnna(*run, "--ddr-bytes-per-cycle", row.ddr_bytes, "--json", folder / "r.json")
    found: Found = json.loads((folder / "r.json").read_text())
    return found


def _verilog(artifact: Artifact, wanted: bool) -> Found:
    """The digest of the Verilog that is simulated, and those of older Verilog that is proven to behave alike."""
    from cnna.sim.rtl.sources import generated
    from cnna.spec.files import default_cache

    if not wanted:
        return {"verilog_sha256": None}
    own = digest(generated(artifact.config, default_cache(), _say))
    path = ROOT / "docs" / PROOFS
    equal = linked(json.loads(path.read_text()) if path.exists() else {}, own, UNHURT)
    return {"verilog_sha256": own, **({"verilog_equals": equal} if equal else {})}


def _programs(artifact: Artifact) -> Found:
    """The digest of what the accelerator is told to do."""
    return {"program_sha256": hashlib.sha256(b"".join(program.program for program in artifact.programs)).hexdigest()}


def read(docs: Path) -> dict[str, Found]:
    """The rows that are kept, by key."""
    path = docs / KEPT
    found: dict[str, Found] = json.loads(path.read_text()) if path.exists() else {}
    return found


def host_counts(docs: Path) -> dict[str, Any]:
    """What `make host-cost` has counted, by row."""
    path = docs / COUNTS
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(key: str, found: Found, docs: Path) -> str:
    """Writes both files with this row; other processes may write other rows. Returns the row's line of the page."""
    docs.mkdir(parents=True, exist_ok=True)
    with _locked(docs):
        kept = {**read(docs), key: found}
        order = [row.key for row in chosen([], streamed=True)]
        kept = {name: kept[name] for name in sorted(kept, key=lambda name: order.index(name) if name in order else len(order))}
        text = page(kept, host_counts(docs))
        write_text(docs / KEPT, _lines(kept))
        write_text(docs / PAGE, text)
    return next((line for line in text.splitlines() if line.startswith(f"| {key} ")), key)


def _lines(kept: Mapping[str, Found]) -> str:
    """JSON with every list of plain values on one line, and the host's work for a mode too."""
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda m: f"[{_joined(m[1])}]", json.dumps(kept, indent=1))
    work = r'"(stream|single)": \{\s+([^{}]*(?:\{[^{}]*\}[^{}]*)?)\}'
    return re.sub(work, lambda m: f'"{m[1]}": {{{_joined(m[2])}}}', text) + "\n"


def _joined(lines: str) -> str:
    return re.sub(r"\n *", " ", lines).strip()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds a lock on the folder itself, which leaves no file behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
