"""A benchmark in words: one table, with a column for each kind of time, and notes below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnna.evaluate.speed.benchmark import MEASURED
from cnna.evaluate.speed.matrix import HTTP, MODELLED, ONNXRUNTIME, PREDICTED
from cnna.evaluate.speed.published import DPU
from cnna.evaluate.speed.scenarios import ACCURACY, FIGURES, OFFLINE, SERVER
from cnna.evaluate.standard_errors import Estimate
from cnna.evaluate.text import shown, title

COUNTED = "counted"
COLUMNS = (PREDICTED, COUNTED, MODELLED, MEASURED)
OF_COLUMNS = {
    PREDICTED: "predicted clocks, of the accelerator alone",
    COUNTED: "clocks that the simulated RTL counts, of the accelerator alone",
    MODELLED: "predicted clocks and a model of the host, its slow end: from picture to answer",
    MEASURED: "by the clock on the wall",
}
DISCLAIMER = "measured with LoadGen; these are not results of MLPerf"
OTHERS = "DPU"  # the column of published figures
OF_OTHERS = (
    "DPU: frames a second from picture to answer, as published of Vitis AI's own model of that name on a ZCU102, int8, "
    "224x224 pixels (yolov3: 416x416)"
)
JOULES = "joules a sample"  # measured
OF_JOULES = "joules a sample: measured by the board's power sensors, the sum of"
LEFT = 3  # columns of words


@dataclass(frozen=True)
class Line:
    """One line of the table: rows that differ in their kind of time alone. where: a configuration, or what else answers."""

    model: str
    where: str
    batch: int | None
    scenario: str
    rows: Mapping[str, Mapping[str, Any]]  # by column
    accuracy: Mapping[str, Any] | None
    simulated: Mapping[str, Any] | None = None  # the accuracy of a simulated device, where a board's is another

    @property
    def asked(self) -> str:
        """The scenario, with how much Server asks."""
        rates = {row["target_qps"] for row in self.rows.values()} if self.scenario == SERVER else set()
        return f"{self.scenario}, {min(rates):,.4g}/s" if len(rates) == 1 else self.scenario

    @property
    def power(self) -> Mapping[str, Any]:
        """What the board's sensors read; empty: none was read."""
        return self.rows.get(MEASURED, {}).get("power") or {}

    @property
    def unit(self) -> str:
        """Of its figures."""
        return FIGURES[self.scenario].unit


def places_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """`where_of` each row, and which board it was where several have measured one model: they are not one place."""
    found: dict[tuple[Any, ...], set[str]] = {}
    for row in rows:
        if _on_board(row):
            found.setdefault((row["model"], where_of(row), row["batch"]), set()).add(row["device"])
    several = {key for key, boards in found.items() if len(boards) > 1}
    return [
        f"{where}, {row['device']}" if _on_board(row) and (row["model"], where, row["batch"]) in several else where
        for row in rows
        for where in (where_of(row),)
    ]


def _on_board(row: Mapping[str, Any]) -> bool:
    return row["configuration"] is not None and row["column"] == MEASURED


def where_of(row: Mapping[str, Any]) -> str:
    """A configuration, or what else answers."""
    device = str(row["device"])
    if row["configuration"] is not None:
        return str(row["configuration"])
    return "CPU, onnxruntime" if device == ONNXRUNTIME else device.removeprefix(HTTP)


def lines_of(found: Mapping[str, Any]) -> list[Line]:
    """The table's lines, in the order of the rows."""
    keys: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    accuracies: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row, where in zip(found["rows"], places_of(found["rows"]), strict=True):
        place = (row["model"], where, row["batch"])
        if row["scenario"] == ACCURACY:
            accuracies.setdefault((*place, row["column"] == MEASURED), row["accuracy"])
        else:
            asked = row["target_qps"] if row["scenario"] == SERVER else None
            keys.setdefault((*place, row["scenario"], asked), {})[row["column"]] = row
    made = []
    for (model, where, batch, scenario, _), rows in keys.items():
        measured, simulated = (accuracies.get((model, where, batch, real)) for real in (True, False))
        own = measured if MEASURED in rows and measured is not None else simulated
        made.append(Line(model, where, batch, scenario, rows, own, simulated if own is measured != simulated else None))
    return made


def text(found: Mapping[str, Any]) -> str:
    """The table and its notes."""
    lines = lines_of(found)
    if not lines:
        return "\n".join([_head(found), *_accuracies(found)])
    columns = [column for column in COLUMNS if any(column in line.rows for line in lines)]
    others = any(_other(line) for line in lines)
    figures = list(dict.fromkeys(name for line in lines for name in line.accuracy or ()))
    joules = any(line.power.get("joules_per_sample") for line in lines)
    heads = (
        "model",
        "on",
        "scenario",
        "batch",
        "unit",
        *columns,
        *([JOULES] if joules else []),
        *([OTHERS] if others else []),
        *map(title, figures),
    )
    rows = [heads, *(_row(line, columns, joules, others, figures) for line in lines)]
    notes = [f"{column}: {OF_COLUMNS[column]}" for column in columns] + ([OF_OTHERS] if others else [])
    return "\n".join([_head(found), *table(rows), *notes, *_powers(lines), *_differences(lines), *_invalid(lines)])


def _head(found: Mapping[str, Any]) -> str:
    versions = found["versions"]
    commit = f" ({found['commit']})" if found["commit"] else ""
    return f"cnna {versions['cnna']}{commit}, LoadGen {versions['mlcommons-loadgen']}, on {found['processor']}: {DISCLAIMER}"


def _row(line: Line, columns: Sequence[str], joules: bool, others: bool, figures: Sequence[str]) -> tuple[str, ...]:
    cells = [_figure(line.rows[column]) if column in line.rows else "-" for column in columns]
    energy = line.power.get("joules_per_sample")
    measured = [number(energy) if energy else "-"] if joules else []
    published = [f"{_other(line):,.0f}" if _other(line) else "-"] if others else []
    accuracy = [
        shown(Estimate(**line.accuracy[name]), True) if line.accuracy and name in line.accuracy else "-" for name in figures
    ]
    batch = "-" if line.batch is None else str(line.batch)
    return (line.model, line.where, line.asked, batch, line.unit, *cells, *measured, *published, *accuracy)


def _other(line: Line) -> float:
    return DPU.get(line.model, 0.0) if line.scenario == OFFLINE else 0.0


def _figure(row: Mapping[str, Any]) -> str:
    return f"{number(row['figure'])}{'' if row['valid'] else ' !'}"


def number(value: float) -> str:
    """Four digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _powers(lines: Sequence[Line]) -> list[str]:
    """Which rails were summed, and why a board that has sensors has no joules."""
    rails = dict.fromkeys(", ".join(line.power["rails"]) for line in lines if line.power.get("joules_per_sample"))
    absent = [
        f"no joules: {line.model}, {line.where}, batch {line.batch}, {line.asked}: {line.power['why']}"
        for line in lines
        if line.power and not line.power.get("joules_per_sample")
    ]
    return [*(f"{OF_JOULES} {one}" for one in rails), *absent]


def _differences(lines: Sequence[Line]) -> list[str]:
    """Where a board answers otherwise than the simulation, which has the same bits."""
    return list(
        dict.fromkeys(
            f"not equal: {line.model}, {line.where}, batch {line.batch}: {title(name)} of the board is {shown(own, True)}, "
            f"simulated {shown(other, True)}"
            for line in lines
            for name in (line.simulated or {})
            if line.accuracy and name in line.accuracy
            for own, other in ((Estimate(**line.accuracy[name]), Estimate(**(line.simulated or {})[name])),)
            if own != other
        )
    )


def _invalid(lines: Sequence[Line]) -> list[str]:
    """Why LoadGen does not call runs valid. Rows with one cause stand together below it."""
    causes: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        place = f"{line.model}, {line.where}, batch {line.batch}, {line.asked}"
        for column, row in line.rows.items():
            if not row["valid"]:
                why = " ".join(str(row["why_invalid"]).replace("* ", "").split())
                causes.setdefault(why, {}).setdefault(place, []).append(column)
    made = []
    for why, places in causes.items():
        rows = [f"{place}, {' and '.join(columns)}" for place, columns in places.items()]
        made += [f"! {rows[0]}: {why}"] if len(rows) == 1 else [f"! {why}", *(f"    {one}" for one in rows)]
    return made


def _accuracies(found: Mapping[str, Any]) -> list[str]:
    """Lines for a matrix that has AccuracyOnly alone."""
    made = []
    for row, where in zip(found["rows"], places_of(found["rows"]), strict=True):
        figures = ", ".join(f"{title(name)} {shown(Estimate(**one), True)}" for name, one in row["accuracy"].items())
        made.append(f"{row['model']}, {where}, batch {row['batch']}: {figures}")
    return made


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(wide) if n < LEFT else cell.rjust(wide) for n, (cell, wide) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
