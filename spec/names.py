"""Names that a user gives, beside those that there are: what is missing, what is unknown, and which names are nearest. And the name
of a model.

All lists are bounded, so that a model with thousands of layers still gets one line.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

MOST, NEAREST, LETTERS = 12, 3, 100
ALL_ALIKE = ("", "main_graph", "torch_jit", "torch-jit-export", "main", "graph", "model", "tf2onnx")
ALTERED = ("torch_jit_", "main_graph_")  # beginnings of names that torch and tools make of these


def differences(given: Collection[object], wanted: Collection[str], what: str = "inputs") -> str:
    """How the names differ, for a message that begins with whose they are: "has inputs x, k; missing: k". Empty: they are the same.

    An unknown name comes with the one that it may stand for. what: what is named.
    """
    names = list(map(str, given))
    missing = [name for name in wanted if name not in names]
    unknown = [name if isinstance(name, str) else repr(name) for name in given if name not in wanted]
    if not missing and not unknown:
        return ""
    said = [f"has {what} {in_line(wanted)}"]
    if missing:
        said.append(f"missing: {in_line(missing)}")
    if unknown:
        said.append(f"unknown: {in_line(_asked(name, missing) for name in unknown)}")
    return "; ".join(said)


def in_short(value: object) -> str:
    """A value for a message: itself if it is short and plain, else its type."""
    plain = isinstance(value, bool | int | float | str | bytes | None)
    text = repr(value)[:LETTERS] if plain else ""
    return text if plain and len(text) < LETTERS // 2 else type(value).__name__


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The names that are most like one that is not among them, the likest first; at most three.

    Names that contain it count, and so do those that differ in capitals alone.
    """
    there = list(dict.fromkeys(names))
    lower: dict[str, list[str]] = {}
    for one in there:
        lower.setdefault(one.lower(), []).append(one)
    found = [one for like in get_close_matches(name.lower(), lower, NEAREST) for one in lower[like]]
    holding = sorted((one for one in there if name and name.lower() in one.lower()), key=len)
    return list(dict.fromkeys([*found, *holding]))[:NEAREST]


def in_line(names: Iterable[str]) -> str:
    """The names in a line, each cut to a hundred letters: the first dozen, and how many more there are."""
    there = [name if len(name) <= LETTERS else f"{name[:LETTERS]}..." for name in names]
    more = [f"and {len(there) - MOST:,} more"] if len(there) > MOST else []
    return ", ".join([*there[:MOST], *more]) or "none"


def _asked(name: str, missing: Collection[str]) -> str:
    likely = nearest(name[:LETTERS], missing)
    return f"{name} (did you mean {likely[0]}?)" if likely else name


def called(name: str, file: str | Path) -> str:
    """What a model is called: by the name of its graph or, where an exporter gives that name to all graphs, by its file's."""
    alike = name in ALL_ALIKE or name.startswith(ALTERED)
    return (Path(file).stem or name or "model") if alike else name
