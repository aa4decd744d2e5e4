"""Counts how often bits switch while a network runs on the simulated RTL, by part of the array: what its power follows.

.venv/bin/python tools/simulation/switching.py M.cnna X.npz [--verilog FILE] [--cache DIR]

It builds a simulator that writes SAIF (Switching Activity Interchange Format) in place of waveforms, runs one
batch and adds up the toggle counts (TC) of all nets below the array. With --verilog, another Verilog of the same configuration
stands in for today's, for a comparison. The simulators that are built for this are kept in DIR.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from cnna.host.model.model import Model
from cnna.host.samples.arrays import read_arrays
from cnna.sim.rtl import build, cosim
from cnna.sim.rtl.sources import sources
from cnna.spec.artifact import Artifact, load
from cnna.spec.config import Config

ARRAY = ("tb", "dut", "conv", "array")
PARTS = (  # the first that the path of an instance in the array matches
    ("operands, chosen by half", re.compile(r"(activations|weights)\d+_\d+$")),
    ("multipliers (DSP48E2)", re.compile(r"dsp_\d+_\d+$")),
    ("all else in the array", re.compile("")),
)
SAIF_FLAGS = tuple("--trace-saif" if flag == "--trace-fst" else flag for flag in build.TRACE_FLAGS)
TOKEN = re.compile(r"\(|\)|[^\s()]+")


def instances(lines: Iterable[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """(path of an instance, sum of TC of its own nets) for each TC in a SAIF file.

    ValueError: its parentheses do not close.
    """
    path: list[str] = []
    opened: list[bool] = []  # by open parenthesis: whether it began an instance
    before = ["", ""]
    for line in lines:
        for token in TOKEN.findall(line):
            if token == "(":
                opened.append(False)
            elif token == ")":
                if opened.pop():
                    path.pop()
            elif before == ["(", "INSTANCE"]:
                opened[-1] = True
                path.append(token.strip('"'))
            elif before == ["(", "TC"]:
                yield tuple(path), int(token)
            before = [before[1], token]
    if opened:
        raise ValueError("the SAIF file ends too early")


def switched(lines: Iterable[str]) -> Counter[str]:
    """Toggles by part of the array."""
    found: Counter[str] = Counter()
    for path, count in instances(lines):
        if path[: len(ARRAY)] == ARRAY:
            found[next(name for name, pattern in PARTS if pattern.search(path[-1]))] += count
    return found


def _sources(config: Config, cache: Path, say: build.Say, verilog: str | None, trace: bool) -> dict[str, str]:
    """As `sim.rtl.sources.sources`, with a writer of SAIF in the place of the writer of waveforms."""
    texts = sources(config, cache, say, verilog, trace)
    waveforms = texts["trace.cpp"].replace("verilated_fst_c.h", "verilated_saif_c.h")
    return {**texts, "trace.cpp": waveforms.replace("VerilatedFstC", "VerilatedSaifC")}


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def run(artifact: Artifact, images: Path, verilog: str | None, cache: Path) -> tuple[Counter[str], int, int]:
    """Toggles by part, clocks of the run, and clocks of these in which the array took a step."""
    wanted = {entry["name"]: entry["shape"] for entry in artifact.manifest["model_inputs"]}
    batch = {name: x[: artifact.manifest["batch"]] for name, x in read_arrays(images, wanted, allow_uint8=True).items()}
    with TemporaryDirectory() as folder, patch.object(build, "TRACE_FLAGS", SAIF_FLAGS), patch.object(cosim, "sources", _sources):
        path = Path(folder) / "activity.saif"
        device = cosim.CosimDevice(artifact.config, cache=cache, verilog=verilog, trace=path, say=_say)
        with Model(artifact, device=device) as model:
            model.run(batch)
            figures = model.last
        device.close()
        with path.open() as lines:
            return switched(lines), figures["cycles"], figures["cycles"] - sum(figures["stalls"].values())


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path, metavar="M.cnna")
    parser.add_argument("images", type=Path, metavar="X.npz")
    parser.add_argument("--verilog", type=Path, metavar="FILE")
    parser.add_argument("--cache", type=Path, default=Path("build/switching"), metavar="DIR")
    args = parser.parse_args()
    text = args.verilog.read_text() if args.verilog else None
    found, clocks, active = run(load(args.artifact), args.images, text, args.cache)
    print(f"{clocks:,} clocks, a step in {active / clocks:.0%} of them; toggles in a clock:")
    for name, _ in PARTS:
        print(f"  {name:26} {found[name] / clocks:12,.1f}")


if __name__ == "__main__":
    main()
