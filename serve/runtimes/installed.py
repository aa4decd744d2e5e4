"""The runtimes that are installed: entry points of the group `cnna.serve.runtimes`."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from cnna.serve.runtimes.interface import CNNA, Place, Runtime
from cnna.spec.errors import CnnaError, ToolError, UserError, reason_of

GROUP = "cnna.serve.runtimes"


def names() -> list[str]:
    """All of them; that of accelerators is always there. Imports none."""
    return [CNNA, *sorted({point.name for point in entry_points(group=GROUP)} - {CNNA})]


def opened(name: str, place: Place) -> Runtime:
    """A version, opened by a runtime. UserError: there is no such runtime, it cannot be imported, or the version is at fault."""
    where = f"{place.folder}: runtime {name}"
    try:
        make: Any = _point(name).load()
    except (ImportError, AttributeError) as error:
        missing = f" (pip install {error.name})" if isinstance(error, ModuleNotFoundError) and error.name else ""
        raise ToolError(f"{where}: cannot be imported: {reason_of(error)}{missing}") from None
    try:
        found: Runtime = make(place)
    except CnnaError:
        raise
    except Exception as error:
        raise UserError(f"{where}: cannot open it: {type(error).__name__}: {reason_of(error)}") from None
    return found


def _point(name: str) -> EntryPoint:
    for point in entry_points(group=GROUP):
        if point.name == name and name != CNNA:
            return point
    raise UserError(f"there is no runtime {name!r} without an accelerator; there are {', '.join(names()[1:]) or 'none'}")
