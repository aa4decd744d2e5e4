"""Writes docs/boards.md: what the preset of each board takes of its chip, and how quick it is predicted to be.

    PYTHONPATH=tools .venv/bin/python tools/bench/board_rows.py [--predict]

Resources are those that tools/resources.py has counted and kept in docs/resources.json. With --predict the networks are compiled
for the presets (minutes), and the clocks that `cnna report` predicts are kept there too; without it the kept ones are used.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import cnna
from bench_networks import network
from board_rivals import RIVALS
from resources import DOCS, KEPT

from cnna.spec.boards import BOARDS, DSP_SHARE, LUT_SHARE, Board
from cnna.spec.config import Config, preset

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = "boards.md"
NETWORKS = {"resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2", "squeezenet": "SqueezeNet"}
CYCLES = "predicted_cycles"  # entry of a preset in KEPT: by network, for one image
HEAD = """# Boards

You find here which boards have a preset, what each preset takes of its chip, and how quick it is predicted to be. A preset has the
name of its board, which `--config` takes. The resources are those that Yosys counts before placing ([resources.md](resources.md)
says how); flip-flops include those that output registers of block RAMs can hold. Frames a second are those of the accelerator
alone, predicted for one image at a time, at the board's clock and with its DDR. `cnna report` and `explore` predict the same, and
model the frames from picture to answer too. With another clock, such as `--config ultra96,clock_mhz=200`, DDR moves the same bytes
in a second, so more of them in a clock. These commands count and predict:

    make resources CONFIG=kv260        # and the others: some minutes each
    PYTHONPATH=tools .venv/bin/python tools/bench/board_rows.py --predict

**No preset has ever been built in Vivado**, and no board has run one. The clocks are targets. The simulated RTL of each computes a
ResNet-8 as the reference does, to the bit (`make test-all`). [Guides](other-boards.md) say how a KV260, a ZCU104 or
an Ultra96 would run one.
"""
RULE = f"""A preset for a board may take {DSP_SHARE:.0%} of its DSP48E2 and {LUT_SHARE:.0%} of its LUTs; `zcu102` was
chosen before this rule.
Feature memory lies in UltraRAM where the chip has any (`uram=1`). That excludes `depth` 2, whose array reads words twice as wide as
those that the other port of the memory writes.

Of the arrays that we tried, a preset is the one whose predictions for ResNet-50 and MobileNetV2 have the largest product. It need
not have the most multiply-accumulates. The table below has every other array that has at least as many and fits: within these
bounds, with the LUTs that the fit of [explore](explore.md) estimates, and within the chip's memories. Its last columns are the
frames a second of the accelerator alone, divided by those of the preset. The ZCU102 was not compared like this; for it some arrays
were tried by hand.

    PYTHONPATH=tools .venv/bin/python tools/bench/board_rivals.py zcu104 kv260 ultra96      # minutes
"""
NOTES = """On the KV260, LUTs and block RAM leave less room than DSPs: a 4 x 16 x 32 array would take 97 % of the DSPs, and a
4 x 16 x 16 array, as the fit estimates, 74 % of the LUTs. With four ports, not two, `kv260` would take 83,719 LUTs (71.5 %), and be
quicker by 2 % on ResNet-50 and 4 % on MobileNetV2. Its LUTs include 4,192 for multiplexers that Yosys puts behind pairs of
UltraRAM, where the chip has cascades. Yosys also makes two DSP48E2 of products of addresses.

On the Ultra96, 4 x 4 x 32 and 4 x 8 x 16 arrays have as many multiply-accumulates as the preset too, but would take 72 % and 82 %
of the LUTs by the fit; a 2 x 16 x 16 array has more DSPs than the chip.
"""
HEADS = ("preset", "board", "part", "`pix` x `ci` x `co`", "feature memory", "bytes of DDR a clock", "clock, target")


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sizes(), "", *_resources(kept), "", *_speeds(kept), "", RULE, *_rivals(kept), "", NOTES])


def _sizes() -> Iterator[str]:
    yield f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}"
    for board, config in _presets():
        memory = f"{config.feature_words * config.ci >> 10:,} KiB of {'UltraRAM' if config.uram else 'block RAM'}"
        array, ddr = f"{config.pix} x {config.ci} x {config.co}", board.ddr.bytes_per_cycle
        yield f"| `{board.key}` | {board.name} | {board.part} | {array} | {memory} | {ddr} | {config.clock_mhz} MHz |"


def _resources(kept: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| preset | LUTs | flip-flops | DSP48E2 | BRAM36 | URAM288 |\n|---|---|---|---|---|---|"
    for board, _ in _presets():
        chip, used = board.chip, kept[board.key]
        limits = {
            "LUTs": chip.luts,
            "flip-flops": chip.flipflops,
            "DSP48E2": chip.dsps,
            "BRAM36": chip.bram36,
            "URAM288": chip.uram288,
        }
        cells = [f"{used[name]:,g} of {most:,} ({used[name] / most:.1%})" if most else "-" for name, most in limits.items()]
        yield f"| `{board.key}` | {' | '.join(cells)} |"


def _speeds(kept: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    heads = " | ".join(f"{name}, frames a second, accelerator alone" for name in NETWORKS.values())
    yield f"| preset | {heads} |\n|---|{'---|' * len(NETWORKS)}"
    for board, config in _presets():
        cycles = kept[board.key][CYCLES]
        yield f"| `{board.key}` | {' | '.join(f'{config.clock_mhz * 1e6 / cycles[name]:,.1f}' for name in NETWORKS)} |"


def _rivals(kept: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    heads = ("board", "`pix` x `ci` x `co`", "multiply-accumulates", "ring words", "DSP48E2", "LUTs, the fit")
    yield f"| {' | '.join((*heads, 'ResNet-50', 'MobileNetV2', 'product'))} |"
    yield f"|{'---|' * 9}"
    for board, config in _presets():
        for rival in kept[board.key].get(RIVALS, ()):
            array = tuple(rival[name] for name in ("pix", "ci", "co"))
            own = " (the preset's)" if array == (config.pix, config.ci, config.co) else ""
            cells = [board.key, "{} x {} x {}".format(*array) + own, f"{prod(array):,}", f"{rival['ring_words']:,}"]
            cells += [f"{rival['DSP48E2']:,}", f"{rival['LUTs']:,}", *(f"{speed:.2f}" for speed in rival["speed"].values())]
            yield f"| {' | '.join(cells)} | {rival['product']:.2f} |"


def _presets() -> Iterator[tuple[Board, Config]]:
    return ((board, preset(key)) for key, board in BOARDS.items())


def predicted(board: Board, name: str) -> int:
    """Clocks of one image of a network, as `cnna report` predicts them."""
    with TemporaryDirectory() as folder:
        artifact, figures = Path(folder, "m.cnna"), Path(folder, "p.json")
        model = network(name, ROOT / "build" / "networks", cnna) / "q.onnx"
        cnna("compile", model, "--config", board.key, "-o", artifact)
        cnna("report", artifact, "--json", figures)
        return int(json.loads(figures.read_text())["predicted"]["cycles"])


def main() -> int:
    """Writes the page, and with --predict the kept clocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="where the files are")
    args = parser.parse_args()
    kept = json.loads((args.docs / KEPT).read_text())
    if args.predict:
        for key, board in BOARDS.items():
            kept[key][CYCLES] = {name: predicted(board, name) for name in NETWORKS}
            print(f"{key}: {kept[key][CYCLES]}", flush=True)
        (args.docs / KEPT).write_text(json.dumps(kept, indent=1) + "\n")
    (args.docs / PAGE).write_text(page(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
