"""Says which lines the tests reach, room by room. `make coverage`; TESTS=tests/spec chooses some.

    .venv/bin/python tools/covered.py [what pytest takes ...]

The processes that tests start are counted too, unless they are killed; the Verilog and the C++ are not. There is no threshold:
a line that was reached is not thereby tested, but one that was not is certainly untested.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "coverage"  # as in pyproject.toml, [tool.coverage]


class Count(NamedTuple):
    """Lines of a room that can be reached, those that were, and its files."""

    files: int = 0
    lines: int = 0
    reached: int = 0

    def __add__(self, other: object) -> "Count":
        """Both together."""
        assert isinstance(other, Count)
        return Count(*(one + two for one, two in zip(self, other, strict=True)))


def main(arguments: list[str]) -> int:
    """Runs the tests and writes the pages; returns what pytest did."""
    OUT.mkdir(parents=True, exist_ok=True)
    coverage("erase")
    tests = coverage("run", "-m", "pytest", *arguments, may_fail=True)
    coverage("combine", "--quiet")
    coverage("html", "--quiet")
    coverage("json", "--quiet")
    print("\n" + table(by_room(json.loads((OUT / "coverage.json").read_text())["files"])))
    print(f"line by line: {(OUT / 'html' / 'index.html').relative_to(ROOT)}")
    return tests


def coverage(*words: str, may_fail: bool = False) -> int:
    """Runs coverage.py in the clone's root. CalledProcessError: it failed."""
    return subprocess.run([sys.executable, "-m", "coverage", *words], cwd=ROOT, check=not may_fail).returncode


def by_room(files: Mapping[str, Any]) -> dict[str, Count]:
    """Counts by folder, at most two deep, in order. files: of coverage.py's JSON, by path from the root."""
    rooms: dict[str, Count] = {}
    for name in sorted(files):
        summary, room = files[name]["summary"], "/".join(Path(name).parts[:-1][:2])
        rooms[room] = rooms.get(room, Count()) + Count(1, summary["num_statements"], summary["covered_lines"])
    return rooms


def table(rooms: Mapping[str, Count]) -> str:
    """A line for each room, and one for all."""
    rows = {**rooms, "all": sum(rooms.values(), Count())}
    width = max(map(len, rows))
    lines = [f"{'room':{width}} {'files':>6} {'lines':>7} {'reached':>8}"]
    for room, count in rows.items():
        share = f"{count.reached / count.lines:.1%}" if count.lines else "-"
        lines.append(f"{room:{width}} {count.files:6} {count.lines:7,} {share:>8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
