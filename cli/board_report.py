"""What `cnna board info` and `cnna board selftest` print about a board: what it is, whether it works, its speed and its power."""

import argparse
from pathlib import Path
from typing import Any

from cnna.cli.main import Outcome
from cnna.host.board import power
from cnna.host.board.overlay import is_virtual, open_overlay
from cnna.host.board.pynq_driver import open_board
from cnna.host.samples.arrays import arrays_of, read_arrays
from cnna.host.selftest import selftest as tests
from cnna.host.selftest.cached_memory import cached_memory
from cnna.host.selftest.selftest import Finding
from cnna.host.selftest.sustained import BATCHES, Workload, own_workload, sustain
from cnna.host.selftest.waiting import interrupt
from cnna.spec.artifact import load
from cnna.spec.config import as_dict
from cnna.spec.errors import UserError
from cnna.spec.regmap import REGISTERS, offset

UNCACHED = "not cached, or moved by pynq: a program cannot maintain a cache between itself and this board"


def info(overlay_path: Path) -> Outcome:
    """Prints board, accelerator, clock and power, what memory models get, and how a run's end is seen."""
    overlay = open_overlay(overlay_path)
    device = open_board(overlay)
    version = REGISTERS["VERSION"].unpack(device.read(offset("VERSION")))
    import pynq

    figures: dict[str, Any] = {
        "board": getattr(overlay.device, "name", None),
        "pynq": pynq.__version__,
        "register_map": f"{version['major']}.{version['minor']}",
        "config": as_dict(device.config),
        "variant": "pl: it works on the PL's own DDR4" if device.config.streams else "ps: it works on the PS's DDR",
        "clock_mhz": float(pynq.Clocks.fclk0_mhz),
        "watts": power.board(overlay) or None,
        "memory": str(device.caching or UNCACHED),
        "waiting": str(device.interrupt),
    }
    for name, value in figures.items():
        text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else value
        print(f"{name:12} {'not measured' if value is None else text}")
    return Outcome(figures)


def selftest(args: argparse.Namespace) -> Outcome:
    """Prints all findings; code 1 if one of them is bad."""
    if (args.model is None) != (args.input is None) or (args.expect and args.model is None):
        raise UserError("--model and --input name a network to try, --expect its answers: give the first two, or none")
    given = _given(args) if args.model else None
    overlay, virtual = open_overlay(args.overlay), is_virtual(args.overlay)
    device = open_board(overlay)
    found = tests.selftest(device, virtual)
    workload = given or own_workload(device, 1 if virtual else BATCHES)
    found += [interrupt(device), cached_memory(device, workload)]
    figures: dict[str, Any] = {}
    if workload is None:
        found.append(
            Finding("network", True, f"not tried: none comes with cnna for {device.config}; --model M.cnna --input X tries one"),
        )
    else:
        more, figures = sustain(device, workload, lambda: power.board(overlay), virtual)
        found += more
    for finding in found:
        print(f"{'ok    ' if finding.good else 'FAILED'} {finding.name:16} {finding.text}")
    figures["findings"] = [finding._asdict() for finding in found]
    return Outcome(figures, 0 if all(finding.good for finding in found) else 1)


def _given(args: argparse.Namespace) -> Workload:
    """The user's network. All of it is read before the board is touched."""
    expected = arrays_of(args.expect) if args.expect else None
    artifact = load(args.model)
    shapes = {entry["name"]: entry["shape"] for entry in artifact.manifest["model_inputs"]}
    inputs = read_arrays(args.input, shapes, allow_uint8=artifact.manifest["preprocess"] is not None)
    return Workload(artifact, inputs, expected, args.expect.name if args.expect else "")
