"""What a program is predicted to do to feature memory and DDR over time.

Which tensor lies where, the bytes that move in a clock, and how full the weight rings are.

Used by `report.figures`. The figures follow from the program's commands and the predicted bar of each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cnna.compiler.cost.cost import ddr_bytes
from cnna.compiler.cost.engine_steps import command_groups
from cnna.compiler.predict.bank_clocks import Words, plane_words, source_words
from cnna.compiler.predict.timeline import Bar, last_clock
from cnna.spec.artifact import Artifact
from cnna.spec.config import Config
from cnna.spec.program.commands import Command, commands
from cnna.spec.program.decks import located, sets_on
from cnna.spec.program.ring_words import brought_words, taken_parameters, taken_weights

STRETCHES = 240  # of equal length, into which the clocks of a run are divided for the bytes that DDR moves
GAP = 64  # words between two blocks of a tensor that no other tensor uses: padding up to the next bank
Range = tuple[int, int]  # the first word, and one past the last


@dataclass
class Held:
    """A tensor, or the part of it that lies in feature memory at one time. low, high: words. begin, end: clocks."""

    tensor: str
    layer: int
    low: int
    high: int
    begin: int
    end: int


def ddr_over_time(artifact: Artifact, bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """The bytes that each engine moves in a clock, on average, in STRETCHES parts of the run.

    A command's bytes are spread evenly over its bar.
    """
    clocks = last_clock(bars)
    if not clocks:
        return []
    edges = np.linspace(0, clocks, min(STRETCHES, clocks) + 1)
    size = edges[1]
    moved: dict[str, np.ndarray[Any, Any]] = {}
    for command, bar in zip(_played(artifact), bars, strict=True):
        amount = ddr_bytes(command.engine, vars(command.f), artifact.config)
        if amount:
            sums = moved.setdefault(command.engine, np.zeros(len(edges) - 1))
            sums += amount * np.diff(np.interp(edges, [bar.begin, max(bar.end, bar.begin + 1)], [0.0, 1.0]))
    parts = zip(edges[:-1], edges[1:], range(len(edges) - 1), strict=True)
    return [
        {"begin": int(low), "end": int(high), "bytes": {name: round(float(sums[at] / size), 2) for name, sums in moved.items()}}
        for low, high, at in parts
    ]


def rings_over_time(artifact: Artifact, bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """The words in the weight ring of the array, and in that of the vector engine, at the ends of STRETCHES parts of the run.

    What a command brings or takes is spread evenly over its bar.
    """
    clocks = last_clock(bars)
    edges = np.linspace(0, clocks, min(STRETCHES, clocks) + 1)
    config = artifact.config
    rings = {"array": np.zeros(len(edges)), "vector": np.zeros(len(edges))}
    for command, bar in zip(_played(artifact), bars, strict=True):
        fields = vars(command.f)
        if command.engine == "weight":
            ring, words = ("vector" if fields["ring"] else "array"), int(brought_words(fields, config))
        elif command.engine in ("conv", "vector"):
            ring = "array" if command.engine == "conv" else "vector"
            words = -int((taken_weights if ring == "array" else taken_parameters)(fields, config))
        else:
            continue
        rings[ring] += np.interp(edges, [bar.begin, max(bar.end, bar.begin + 1)], [0, words])
    sizes = {"array": config.ring_words, "vector": config.vector_ring_words}
    held = {ring: np.clip(words, 0, sizes[ring]).round().astype(int).tolist() for ring, words in rings.items()}
    return (
        [{"clock": int(clock), "words": {ring: held[ring][at] for ring in held}} for at, clock in enumerate(edges)]
        if clocks
        else []
    )


def memory_over_time(artifact: Artifact, bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """The tensors in feature memory, each from its first write to its last use. Words of both decks count once.

    A tensor whose words another one overwrites has ended; a part that is loaded again is an entry of its own.
    """
    entries = [entry for program in artifact.programs for entry in program.manifest["commands"]]
    live: list[Held] = []
    ended: list[Held] = []
    for command, entry, bar in zip(_played(artifact), entries, bars, strict=True):
        read = _read(command, artifact.config)
        for held in live:
            if any(_meet(held, words) for words in read):
                held.end = max(held.end, bar.end)
        for low, high in _written(command, artifact.config):
            name = entry["tensor"] or ""
            over = [held for held in live if held.tensor != name and _meet(held, (low, high))]
            ended += over
            live = [held for held in live if held not in over]
            same = next((held for held in live if held.tensor == name and held.low <= high and low <= held.high), None)
            if same:
                same.low, same.high, same.end = min(same.low, low), max(same.high, high), max(same.end, bar.end)
            else:
                live.append(Held(name, bar.layer, low, high, bar.begin, bar.end))
    return [asdict(held) for held in sorted(ended + live, key=lambda held: (held.begin, held.low))]


def _meet(held: Held, words: Range) -> bool:
    return held.low < words[1] and words[0] < held.high


def _played(artifact: Artifact) -> Iterable[Command]:
    return (command for program in artifact.programs for command in commands(program.program))


def _read(command: Command, config: Config) -> list[Range]:
    """The words that a command reads from feature memory."""
    fields = vars(command.f)
    if command.engine == "store":
        return _moved(fields, config)
    if command.engine not in ("conv", "vector"):
        return []
    groups = (0, command_groups(fields, config))
    blocks = fields["blocks"] * (config.depth if command.engine == "conv" else 1)
    found = _blocks("src", fields, config, blocks, source_words(fields, config, 0, groups))
    if command.engine == "conv" and fields["res_enable"]:
        found += _blocks("res", fields, config, fields["dst_blocks"], plane_words("res", fields, config, (0, 1), groups))
    return found


def _written(command: Command, config: Config) -> list[Range]:
    """The words that a command writes to feature memory."""
    fields = vars(command.f)
    if command.engine == "load":
        return _moved(fields, config)
    if command.engine not in ("conv", "vector"):
        return []
    words = plane_words("dst", fields, config, (0, 1), (0, command_groups(fields, config)))
    return _blocks("dst", fields, config, fields["dst_blocks" if command.engine == "conv" else "blocks"], words)


def _moved(fields: Mapping[str, int], config: Config) -> list[Range]:
    """The words of a load or store: its runs, for each of its blocks."""
    runs = fields["fm"] + np.arange(fields["runs"]) * fields["fm_run"]
    ends = located(np.stack([runs, runs + fields["run"] - 1]), 0, config.depth) % config.deck_words
    return _blocks("fm", fields, config, fields["blocks"], ends)


def _blocks(prefix: str, fields: Mapping[str, int], config: Config, count: int, words: Words) -> list[Range]:
    """The ranges that hold the words of all blocks, joined where they nearly touch. words: of block 0; negative: there is none."""
    there = words[words >= 0]
    if not there.size:
        return []
    low, high = int(there.min()), int(there.max()) + 1
    steps = sets_on(fields[prefix], np.arange(count), config.depth) * fields[f"{prefix}_block"]
    found: list[Range] = []
    for begin in sorted({int(step + low) % config.deck_words for step in steps}):
        end = begin + high - low
        if found and begin <= found[-1][1] + GAP:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found
