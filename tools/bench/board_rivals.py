"""Compares the preset of a board with all arrays as large that fit its chip, by predicted speed, for docs/boards.md.

    PYTHONPATH=tools .venv/bin/python tools/bench/board_rivals.py kv260   # minutes; then board_rows.py writes the page

An array fits if it is within the shares of DSP48E2 and LUTs that a preset may take (LUTs by the fit of `cnna explore`) and within
the chip's block RAM and UltraRAM. Each array is tried with the memories between which it has to choose: the most feature memory,
and the deepest weight ring.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import onnx
from bench import cnna
from bench_networks import network
from resources import DOCS, KEPT

from cnna.compiler.explore.explore import evaluate
from cnna.compiler.explore.grid import BANK_WORDS, CI, PIX
from cnna.compiler.explore.sizes import Budget, dsp48e2, luts
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph.ir import Graph
from cnna.spec.boards import BOARDS, Board
from cnna.spec.config import Config, ConfigError, preset
from cnna.spec.errors import ModelError

ROOT = Path(__file__).resolve().parent.parent.parent
NETWORKS = ("resnet50", "mobilenet_v2")  # a preset is chosen by the product of their speeds
CO = range(4, 257, 4)
RING_WORDS = (256, 512, 1024)
RIVALS = "rivals"  # entry of a preset in KEPT


def budget(board: Board) -> Budget:
    """What a preset of the board may take."""
    return Budget(board.dsp_budget, board.chip.bram36, board.lut_budget, board.chip.uram288)


def fitting(board: Board) -> dict[tuple[int, int, int], list[Config]]:
    """The legal configurations that fit and compute no fewer multiply-accumulates a clock than the preset, by `pix`, `ci`, `co`."""
    own, most = preset(board.key), budget(board)
    found: dict[tuple[int, int, int], list[Config]] = {}
    for pix, ci, co in product(PIX, CI, CO):
        if own.macs <= pix * ci * co < 2 * most.dsp + 1:  # a DSP48E2 makes two products
            sizes = [config for config in _memories(own, pix, ci, co) if most.holds(config)]
            if sizes:
                found[pix, ci, co] = sizes
    return found


def _memories(own: Config, pix: int, ci: int, co: int) -> Iterator[Config]:
    """An array with each size of its memories, and with as many ports as it can have, but no more than the preset."""
    ports = next((count for count in range(own.ports, 0, -1) if ci * co % (16 * count) == 0), 1)
    for regions, bank_words, ring_words in product((1, 2, 3, 4), BANK_WORDS, RING_WORDS):
        sizes = (ports, regions, bank_words, ring_words, own.vector_ring_words, own.clock_mhz)
        try:
            yield Config(f"{pix}x{ci}x{co}", pix, ci, co, *sizes, uram=own.uram)
        except ConfigError:
            continue


def tried(sizes: Sequence[Config]) -> list[Config]:
    """Of the memories of one array: the most feature memory, and the deepest ring; each with the most of the other that is left.

    Feature memory is cut into as many regions as it can be, since engines wait for each other at a region.
    """
    orders = (lambda c: (c.feature_words, c.ring_words, c.regions), lambda c: (c.ring_words, c.feature_words, c.regions))
    return list({repr(best): best for best in (max(sizes, key=order) for order in orders)}.values())


def clocks(graphs: Mapping[str, Sequence[Graph]], config: Config, board: Board) -> list[int] | None:
    """The predicted clocks of an image of each network; None: one of them does not fit into the memories."""
    try:
        return [evaluate(pieces, config, 1, board.ddr).cycles for pieces in graphs.values()]
    except ModelError:
        return None


def rival(config: Config, cycles: Sequence[int], own: Sequence[int]) -> dict[str, Any]:
    """The entry of an array. speed: its frames a second over those of the preset, by network, and their product."""
    speeds = [mine / other for mine, other in zip(own, cycles, strict=True)]
    sizes = {name: getattr(config, name) for name in ("pix", "ci", "co", "ports", "regions", "bank_words", "ring_words")}
    speed = dict(zip(NETWORKS, (round(value, 3) for value in speeds), strict=True))
    return {**sizes, "DSP48E2": dsp48e2(config), "LUTs": luts(config), "speed": speed, "product": round(speeds[0] * speeds[1], 3)}


def rivals(board: Board, graphs: Mapping[str, Sequence[Graph]]) -> list[dict[str, Any]]:
    """The best entry of each array that fits, the quickest first; arrays whose memories hold no plan are left out."""
    own = clocks(graphs, preset(board.key), board)
    assert own is not None
    found = []
    for array, sizes in fitting(board).items():
        entries = [rival(config, cycles, own) for config in tried(sizes) if (cycles := clocks(graphs, config, board))]
        found += [max(entries, key=lambda entry: entry["product"])] if entries else []
        print(board.key, array, found[-1] if entries else "holds no plan", flush=True)
    return sorted(found, key=lambda entry: -entry["product"])


def main() -> int:
    """Predicts for the boards that are named, and keeps what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", nargs="+", choices=[key for key in BOARDS if key != "zcu102"])
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="DIR", help="where the figures are kept")
    args = parser.parse_args()
    graphs = {}
    for name in NETWORKS:
        model = network(name, ROOT / "build" / "networks", cnna) / "q.onnx"
        graphs[name] = import_quantised(onnx.load(str(model))).programs
    for key in args.boards:
        found = rivals(BOARDS[key], graphs)
        kept = json.loads((args.docs / KEPT).read_text())
        kept[key][RIVALS] = found
        (args.docs / KEPT).write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
