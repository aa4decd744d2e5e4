"""A run's figures, as `cnna run --json` writes them, checked before anything reads them."""

import json
import math
from pathlib import Path
from typing import Any

from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes

_TEXTS = ("config", "device", "name", "op", "engine")  # a run's figures that are text
_NUMBERS = (
    *("batch", "macs", "cpu_macs", "cycles", "mac_utilization", "clock_mhz", "fps", "fps_at_300mhz", "fps_end_to_end"),
    *("ddr_read_bytes", "ddr_write_bytes", "wall_seconds", "cpu_seconds"),
)


def read_measured(path: Path) -> dict[str, Any]:
    """The figures in a file. DataError: it is not JSON, or a figure in it is not of the kind that `cnna run --json` writes."""
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        raise DataError(f"{path}: {where}not JSON, as `cnna run --json R.json` writes it") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: not what `cnna run --json` writes")
    layers = found.get("layers")
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise DataError(f"{path}: has no list of layers; not what `cnna run --json` writes")
    programs = found.get("programs", [])
    if not isinstance(programs, list) or not all(isinstance(program, dict) for program in programs):
        raise DataError(f"{path}: its programs are no list; not what `cnna run --json` writes")
    parts = [("", found), *((f"layers[{index}].", layer) for index, layer in enumerate(layers))]
    parts += [(f"programs[{index}].", program) for index, program in enumerate(programs)]
    for where, figures in parts:
        for name, value in figures.items():
            if not _is_figure(name, value):
                raise DataError(f"{path}: {where}{name} is {json.dumps(value)[:40]}; not what `cnna run --json` writes")
    return found


def _is_figure(name: str, value: Any) -> bool:
    """Whether the figure of that name can have this value. Unknown names can have any value."""
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return _is_number(value)
    if name == "unit_clocks":
        return value is None or (isinstance(value, dict) and all(map(_are_clocks, value.values())))
    if name == "weight_clocks":
        return value is None or (isinstance(value, list) and all(_are_clocks(span) and len(span) == 2 for span in value))
    return name != "stalls" or value is None or (isinstance(value, dict) and all(map(_is_number, value.values())))


def _are_clocks(value: Any) -> bool:
    """Whether the value lists clocks: those at which an engine finished its units, in order."""
    return isinstance(value, list) and all(type(clock) is int for clock in value) and value == sorted([0, *value])[1:]


def _is_number(value: Any) -> bool:
    """Whether the value is a number, or None, which stands for what was not measured."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf)
