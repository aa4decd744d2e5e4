"""Builds the simulator in several ways and says how quickly each runs a network: the figures of docs/simulation.md.

.venv/bin/python tools/simulation/simulation_speed.py M.cnna X.npz [--ways NAME ...] [--cache DIR]

It prints a line for each way as soon as it is measured: seconds to build, then clocks in a second of real and of processor time,
the best of RUNS. Real time is meaningful only on an idle machine. The simulators that are built for this are kept in DIR.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from cnna.host.model.model import Model
from cnna.host.samples.arrays import read_arrays
from cnna.sim.rtl import build
from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.artifact import Artifact, load

RUNS = 3
FLAGS, MAKE = build.VERILATOR_FLAGS, build.MAKE_FLAGS
Way = tuple[tuple[str, ...], str]  # flags of Verilator, then of make
HEAD = ("way", "seconds to build", "clocks a second", "a processor's second")


def _without(*names: str) -> tuple[str, ...]:
    """The flags without these names and their values."""
    found: list[str] = []
    for index, flag in enumerate(FLAGS):
        valued = index and FLAGS[index - 1] in names and not flag.startswith("--")
        if flag not in names and not valued:
            found.append(flag)
    return tuple(found)


WAYS: dict[str, Way] = {
    "as it is": (FLAGS, MAKE),
    "g++ -O2": (FLAGS, MAKE.replace(build.OPT_FAST, "OPT_FAST=-O2")),
    "2 threads": ((*FLAGS, "--threads", "2"), MAKE),
    "g++ -O1": (FLAGS, MAKE.replace(build.OPT_FAST, "OPT_FAST=-O1")),
    "g++ -O3": (FLAGS, MAKE.replace(build.OPT_FAST, "OPT_FAST=-O3")),
    "for any processor": (_without("-CFLAGS"), MAKE),
    "Verilator -O1": (tuple("-O1" if flag == "-O3" else flag for flag in FLAGS), MAKE),
    "files not split": ((*FLAGS, "--output-split", "0"), MAKE),
    "files split finely": ((*FLAGS, "--output-split", "5000", "--output-split-cfuncs", "1000"), MAKE),
    "unknown values random": (_without("--x-assign", "--x-initial"), MAKE),
    "all signals public": (_without("--no-public-flat-rw"), MAKE),
}


def measure(way: Way, artifact: Artifact, images: Path, cache: Path, say: Callable[[str], None]) -> tuple[float, float, float]:
    """Seconds to build (about 0 if it is built), clocks a second of real time, and clocks a second of processor time."""
    with patch.multiple(build, VERILATOR_FLAGS=way[0], MAKE_FLAGS=way[1]):
        started = time.monotonic()
        device = CosimDevice(artifact.config, cache=cache, say=say)
        built = time.monotonic() - started
    wanted = {entry["name"]: entry["shape"] for entry in artifact.manifest["model_inputs"]}
    batch = {name: x[: artifact.manifest["batch"]] for name, x in read_arrays(images, wanted, allow_uint8=True).items()}
    best = [float("inf")] * 2
    with Model(artifact, device=device) as model:
        for _ in range(RUNS):
            before, clocks = (time.monotonic(), processor_seconds(device)), device.clocks
            model.run(batch)
            spent = (time.monotonic() - before[0], processor_seconds(device) - before[1])
            best = [min(old, new / (device.clocks - clocks)) for old, new in zip(best, spent, strict=True)]
    device.close()
    return built, 1 / best[0], 1 / best[1] if best[1] else float("inf")


def processor_seconds(device: CosimDevice) -> float:
    """The processor time of the simulation's processes."""
    total, group = 0, device.process_group
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdecimal() else []
        except OSError:  # the process has ended
            continue
        if fields and int(fields[2]) == group:  # a process of the simulation's group
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures all ways, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path, metavar="M.cnna")
    parser.add_argument("images", type=Path, metavar="X.npz")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="NAME", help=", ".join(WAYS))
    parser.add_argument("--cache", type=Path, default=Path("build/simulation-speed"), metavar="DIR")
    args = parser.parse_args()
    artifact = load(args.artifact)
    print(f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}", flush=True)
    for name in args.ways:
        built, real, processor = measure(WAYS[name], artifact, args.images, args.cache, lambda line: print(line, file=sys.stderr))
        print(f"| {name} | {built:.0f} | {real:,.0f} | {processor:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
