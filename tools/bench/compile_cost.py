"""Counts what a compile costs, as calls of functions, and compares with the counts kept: `make compile-cost`.

    PYTHONPATH=tools .venv/bin/python tools/bench/compile_cost.py [--rows PATTERN ...] [--check ROW ...]

Rows are those of `tools/bench/bench_rows.py`; docs/compile_cost.json keeps them. A count of calls is the same on a busy machine,
where seconds are not. It sees work that is done again and again, in Python or in calls of libraries, but not how long one call of a
library lasts. The predictor's calls are those of its Python form; `seconds` are processor seconds of `cnna compile` as a whole,
where it may run as machine code, for information. --check counts rows again, and exits
with code 1 if one makes over 2 % more calls than those kept; it writes nothing.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import cnna
from bench_networks import network
from bench_rows import PLANNED_BYTES, Row, chosen

from cnna.spec.errors import UserError
from cnna.spec.files import write_text

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = "compile_cost.json"
SHARE = 0.02  # by which a row may make more calls than those kept
COUNTED = """
import cProfile, json, pstats, sys
with cProfile.Profile():  # so that the predictor is Python, whose calls can be counted
    import cnna.compiler.choose.choose, cnna.compiler.compile
from cnna.jobs.compile import compile
model, config, batch = sys.argv[1:]
profile = cProfile.Profile()
profile.runcall(compile, model, config, batch=int(batch))
print(json.dumps(pstats.Stats(profile).total_calls))
"""
Found = dict[str, float]  # calls, seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Counts rows, or compares. Returns the exit code."""
    args = _arguments(argv)
    try:
        if args.check:
            return check(args.check, args.docs)
        rows = [row for row in chosen(args.rows) if row.ddr_bytes == PLANNED_BYTES]
        if not rows:
            raise UserError(f"no row is named {' '.join(args.rows)}; tools/bench/bench_rows.py has them")
        for row in rows:
            if args.rows or row.key not in read(args.docs):
                keep(row.key, measure(row), args.docs)
    except UserError as error:
        _say(str(error))
        return 2
    except subprocess.CalledProcessError as error:  # the process has printed why
        _say(f"{error.cmd[0]} failed (code {error.returncode})")
        return 1
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=[], metavar="PATTERN")
    parser.add_argument("--check", nargs="+", default=[], metavar="ROW", help="compare with the counts kept")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="DIR", help="where the counts are kept")
    return parser.parse_args(argv)


def check(keys: Sequence[str], docs: Path) -> int:
    """Counts rows again, and prints a line for each. Returns the exit code. UserError: one is not kept."""
    kept, failed = read(docs), 0
    for key in keys:
        rows = list(chosen([key]))
        if len(rows) != 1 or key not in kept:
            raise UserError(f"{key} has no count in {docs / KEPT}: make compile-cost ROWS={key} counts it")
        row = rows[0]
        calls, most = counted(_model(row), row), kept[key]["calls"]
        more = calls > most * (1 + SHARE)
        failed += more
        _say(f"{key}: {calls:,} calls, {calls / most - 1:+.1%}{', too many' if more else ''} against {most:,} in {KEPT}")
    if failed:
        _say(f"if that is meant, `make compile-cost ROWS=...` counts anew: commit docs/{KEPT} with the change, and say why")
    return 1 if failed else 0


def measure(row: Row) -> Found:
    """The calls and the processor seconds of a row's compile."""
    model = _model(row)
    before = os.times()
    with TemporaryDirectory() as folder:
        cnna("compile", model, "--config", _config(row), "--batch", row.batch, "-o", Path(folder) / "m.cnna")
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return {"calls": counted(model, row), "seconds": round(seconds, 1)}


def counted(model: Path, row: Row) -> int:
    """The calls that compiling a row makes, in a process of its own, where sets have the same order each time."""
    command = [sys.executable, "-c", COUNTED, str(model), _config(row), str(row.batch)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": "0"})
    return int(json.loads(done.stdout))


def _model(row: Row) -> Path:
    return network(row.network, ROOT / "build" / "networks", cnna, row.coded) / "q.onnx"


def _config(row: Row) -> str:
    return row.config or "zcu102"


def read(docs: Path) -> Mapping[str, Found]:
    """The rows that are kept, by key."""
    path = docs / KEPT
    found: Mapping[str, Found] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(key: str, found: Found, docs: Path) -> None:
    """Writes the file with this row, and prints its line."""
    rows = {**read(docs), key: found}
    lines = [f" {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows)]
    write_text(docs / KEPT, "{\n" + ",\n".join(lines) + "\n}\n")
    _say(f"{key}: {found['calls']:,} calls, {found['seconds']} processor seconds")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
