"""What an artifact predicts of its layers: the spans below a board's run, as parts of it."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cnna.spec.artifact import load
from cnna.spec.errors import CnnaError


class LayerSpan(NamedTuple):
    """A layer, or a piece on the CPU, as the artifact predicts it. start, end: within 0..1 of a run. clocks: None on the CPU."""

    name: str
    op: str
    start: float
    end: float
    clocks: int | None


@lru_cache(maxsize=64)
def layers(path: Path) -> tuple[LayerSpan, ...]:
    """What an artifact predicts of its layers, one after another, and of its pieces on the CPU. Nothing, if it is not there."""
    try:
        artifact = load(path)
    except CnnaError:
        return ()
    parts: list[tuple[str, str, float, int | None]] = []  # name, operator, seconds, clocks
    for number, piece in enumerate(artifact.manifest["pieces"]):
        if piece["kind"] == "cpu":
            parts.append((f"cpu {number}", "cpu", piece["seconds"] * artifact.manifest["batch"], None))
        else:
            for one in piece["layers"]:
                clocks = one["predicted_cycles"]
                parts.append((one["name"], one["op"], clocks / (artifact.config.clock_mhz * 1e6), clocks))
    total, found, start = sum(part[2] for part in parts) or 1.0, list[LayerSpan](), 0.0
    for name, op, seconds, count in parts:
        found.append(LayerSpan(name, op, start / total, min(1.0, (start + seconds) / total), count))
        start += seconds
    return tuple(found)
