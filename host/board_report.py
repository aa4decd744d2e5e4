"""What `cnna board info` and `cnna board selftest` say of a board: what it is, whether it is well, how quick, at what power."""

import argparse
import time
from pathlib import Path
from typing import Any

from cnna.host import power
from cnna.host import selftest as tests
from cnna.host.arrays import Arrays, arrays_of, read_arrays
from cnna.host.artifact import load
from cnna.host.board_device import BoardDevice
from cnna.host.cli import Outcome
from cnna.host.compare import compare
from cnna.host.errors import CheckError, UserError
from cnna.host.overlay import open_overlay
from cnna.host.pynq_driver import open_board
from cnna.host.selftest import Finding
from cnna.host.session import Model
from cnna.hw.config import as_dict
from cnna.hw.regmap import REGISTERS, offset

SUSTAINED_SECONDS = 2.0  # of runs that the throughput is taken from
POWER_SECONDS = 0.2  # between two looks at the sensors meanwhile


def info(overlay_path: Path) -> Outcome:
    """Board, accelerator, clock, power."""
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
        "watts": _rails(overlay) or None,
    }
    for name, value in figures.items():
        text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else value
        print(f"{name:12} {'not measured' if value is None else text}")
    return Outcome(figures)


def selftest(args: argparse.Namespace) -> Outcome:
    """Code 1 where something is not as it must be."""
    if (args.model is None) != (args.input is None) or (args.expect and args.model is None):
        raise UserError("--model and --input name a network to try, --expect its answers: give the first two, or none")
    expected = arrays_of(args.expect) if args.expect else None
    overlay = open_overlay(args.overlay)
    device = open_board(overlay)
    found = tests.selftest(device)
    figures: dict[str, Any] = {"watts": sum(_rails(overlay).values()) or None}
    if args.model:
        network, figures = _network(overlay, device, args, expected)
        found += network
    if figures["watts"] and figures.get("images_per_second"):
        figures["joules_per_image"] = figures["watts"] / figures["images_per_second"]
        found.append(Finding("energy", True, f"{figures['joules_per_image']:.4f} J an image at {figures['watts']:.1f} W"))
    for finding in found:
        print(f"{'ok    ' if finding.good else 'FAILED'} {finding.name:16} {finding.text}")
    figures["findings"] = [finding._asdict() for finding in found]
    return Outcome(figures, 0 if all(finding.good for finding in found) else 1)


def _network(
    overlay: Any, device: BoardDevice, args: argparse.Namespace, expected: Arrays | None
) -> tuple[list[Finding], dict[str, Any]]:
    """Right answers; images a second by the clock on the wall beside what the accelerator's own counter says; watts meanwhile."""
    artifact = load(args.model)
    shapes = {entry["name"]: entry["shape"] for entry in artifact.manifest["model_inputs"]}
    inputs = read_arrays(args.input, shapes, allow_uint8=artifact.manifest["preprocess"] is not None)
    with Model(overlay, artifact) as model:
        answers = model.run(inputs)
        found = [_compared(args.expect, expected, answers)]
        began, images, looked, watts = time.perf_counter(), 0, 0.0, list[float]()
        while (now := time.perf_counter()) - began < SUSTAINED_SECONDS:
            run = model.run_async(inputs)
            if now - looked > POWER_SECONDS:  # while it runs
                looked = now
                watts.append(sum(_rails(overlay).values()))
            run.wait()
            images += len(next(iter(inputs.values())))
        rate = images / (time.perf_counter() - began)
        cycles = model.last["cycles"]
    batch, clock = artifact.manifest["batch"], device.config.clock_mhz * 1e6
    counted = batch * clock / cycles if cycles else None
    text = f"{rate:,.1f} images a second by the clock on the wall"
    text += (
        f"; the counter has {cycles:,.0f} clocks a batch of {batch}: {counted:,.0f} at {device.config.clock_mhz} MHz"
        if counted
        else ""
    )
    mean = sum(watts) / len(watts)
    figures = {"images_per_second": rate, "cycles": cycles, "counted_images_per_second": counted, "watts": mean or None}
    return [*found, Finding("throughput", True, text)], figures


def _compared(expect: Path | None, expected: Arrays | None, answers: dict[str, Any]) -> Finding:
    if expect is None or expected is None:
        return Finding("network", True, "it ran; --expect Y.npz would compare the answers")
    try:
        return Finding("network", True, compare("board", answers, expect.name, expected))
    except CheckError as error:
        return Finding("network", False, str(error))


def _rails(overlay: Any) -> dict[str, float]:
    device = overlay.device
    return power.rails(power.remote(device) if device.has_capability("REMOTE") else power.local)
