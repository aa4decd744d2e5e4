"""An explanation as text: a line for each node, then the summary."""

from cnna.compiler.explain.explain import Explanation
from cnna.compiler.explain.rows import CONSTANT, Row
from cnna.compiler.frontend.pieces.hints import NORM
from cnna.compiler.report.table import printed
from cnna.spec.boards import clock_and_ddr
from cnna.spec.counts import listed, many
from cnna.spec.host_time.piece_times import aligned, microseconds, piece_lines, several
from cnna.spec.manifest import ACCELERATOR, CPU, pieces_text

HEADS = ("node", "operator", "where", "MACs", "clocks", "us")
WORDS = 3  # columns of nodes, from the left, that hold words
LISTED = 3  # nodes that are named one by one
LONGEST = 40  # letters of a name; the end of a longer name says more than its beginning


def table(found: Explanation) -> str:
    """The lines of all nodes but constants. A reason stands at the end of its node's line, so that the columns stay narrow."""
    shown = [row for row in found.rows if row.side != CONSTANT]
    reasons = ["why; what would help", *(printed(why(row)) for row in shown)]
    lines = aligned([HEADS, *(tuple(map(printed, _cells(row))) for row in shown)], WORDS)
    return "\n".join(f"{line}  {reason}".rstrip() for line, reason in zip(lines, reasons, strict=True))


def pieces(found: Explanation) -> str:
    """A line for each piece, if there are several: what its nodes take, and what calls, starts and crossings add."""
    return "\n".join(piece_lines(found.times)) if several(found.times) else ""


def _cells(row: Row) -> tuple[str, ...]:
    name = row.name if len(row.name) <= LONGEST else f"...{row.name[3 - LONGEST :]}"
    return name, row.op, where(row), f"{row.macs:,}" if row.macs else "-", *costs(row)


def where(row: Row) -> str:
    """The side that a node runs on, and the number of its piece, from 1."""
    return row.side if row.piece is None else f"{row.side} {row.piece + 1}"


def costs(row: Row) -> tuple[str, str]:
    """What a node costs: its clocks, if it is on the accelerator, and microseconds."""
    clocks = "-" if row.clocks is None else f"{row.clocks:,}"
    return clocks, "-" if row.seconds is None else microseconds(row.seconds)


def cost(row: Row) -> str:
    """The same in words."""
    clocks, time = costs(row)
    return ", ".join([*([f"{clocks} clocks"] if clocks != "-" else []), *([f"{time} us"] if time != "-" else [])]) or "-"


def why(row: Row) -> str:
    """Why a node runs where it does, and what would bring it to the accelerator.

    Of a layer that is there: what weights of 4 bits would bring, or nothing.
    """
    parts = [f"part of '{row.folded}'" if row.folded else "", row.reason or ""]
    if row.rewrite:
        parts.append(row.rewrite)
    if row.also:
        one = len(row.also) == 1
        where = listed([number + 1 for number in row.also])
        parts.append(f"a part of it is in piece {where}" if one else f"parts of it are in pieces {where}")
    if row.gain_seconds is not None and row.gain_clocks is not None and row.gain_clocks > 0:
        clocks = f" ({row.gain_clocks:,} clocks)" if row.side == ACCELERATOR else ""
        parts.append(f"saves {microseconds(row.gain_seconds)} us{clocks}")
    return "; ".join(filter(None, parts))


def summary(found: Explanation, model: str, default: bool) -> list[str]:
    """Lines about the whole. model: what the user calls it; default: whether the configuration was not chosen."""
    of_all = f"{found.batch} images at a time; MACs, clocks and times of nodes are of all of them"
    images = "one image at a time" if found.batch == 1 else of_all
    chosen = " (the default; --config chooses another)" if default else ""
    count = {side: sum(row.side == side for row in found.rows) for side in (ACCELERATOR, CPU, "refused")}
    sides = [
        f"{number} {name}" for name, number in zip(("on the accelerator", "on the CPU", "refused"), count.values(), strict=True)
    ]
    folded = sum(row.side == CONSTANT for row in found.rows)
    lines = [
        f"{model} on {found.config.name}{chosen}, {clock_and_ddr(found.config)}, {images}"
        + ("; its ranges are assumed, which changes neither places nor clocks" if found.assumed else ""),
        f"{many(len(found.rows), 'node')}: {', '.join(sides)}{f', {folded} constant' if folded else ''}; "
        f"{pieces_text(found.pieces)}{_parts(found)}",
        _mac_share(found),
    ]
    if found.speed is not None:
        lines.append(str(found.speed))
    if found.detector is not None:
        lines.append(found.detector)
    lines += _normalisations(found)
    return [*lines, *(f"cnna compile will refuse it: {problem}" for problem in found.problems)]


def _normalisations(found: Explanation) -> list[str]:
    """What normalisations by computed means cost, and what helps; no line if there are none."""
    gains = [row.gain_seconds for row in found.rows if row.rewrite == NORM and row.gain_seconds is not None]
    if not gains:
        return []
    cost = f"{sum(gains) * 1e3:.3g} ms of the host's time for a batch, as modelled"
    takes = f"{many(len(gains), 'normalisation')} take{'s' * (len(gains) == 1)}"
    return [f"{takes} {cost}; with BatchNormalization, trained again, the accelerator would do that work"]


def _parts(found: Explanation) -> str:
    """What pieces on the CPU are for that have no node of their own, but parts of nodes that run on the accelerator."""
    own = {row.piece for row in found.rows}
    bare = [number for number, kind in enumerate(found.pieces) if kind == CPU and number not in own]
    if not bare:
        return ""
    names = [f"'{row.name}'" for row in found.rows if set(row.also) & set(bare)]
    more = f" and {len(names) - LISTED} others" if len(names) > LISTED else ""
    operators = ", ".join(dict.fromkeys(name for number in bare for name in found.operators[number]))
    some = "" if len(bare) == found.pieces.count(CPU) else f", {len(bare)} of them"
    what = "a part" if len(names) == 1 else "parts"
    whose = f" for {what} of {', '.join(names[:LISTED])}{more}" if names else " for the model's inputs or outputs"
    return f"{some}{whose}{f' ({operators})' if operators else ''}"


def _mac_share(found: Explanation) -> str:
    """Where the multiply-accumulates are, and which share of the time that side takes."""
    whole = found.macs + found.cpu_macs
    if ACCELERATOR not in found.pieces:
        return "nothing runs on the accelerator" + (f": all {whole:,} MACs an image are on the CPU" if whole else "")
    share = f"{found.mac_share:.1%} of {whole:,} MACs an image are on the accelerator" if whole else "there are no MACs"
    return f"{share}{_time_share(found)}"


def _time_share(found: Explanation) -> str:
    share = found.speed and found.speed.accelerator_share
    return "" if share is None else f"; the accelerator takes {share:.1%} of the predicted time, the host the rest"
