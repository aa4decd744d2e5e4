"""Two benchmarks side by side, and the table of one: figures of different times never share a column."""

from typing import Any

import pytest

from cnna.evaluate.speed.compare import checked, compared
from cnna.evaluate.speed.compare import text as text_of_both
from cnna.evaluate.speed.published import DPU
from cnna.evaluate.speed.text import text
from cnna.spec.errors import DataError


def row(scenario: str, column: str, figure: float | None, **changed: Any) -> dict[str, Any]:
    """A row of the JSON."""
    devices = {"measured": "onnxruntime", "counted": "rtl"}
    own: dict[str, Any] = {"model": "resnet50", "scenario": scenario, "device": devices.get(column, column), "column": column}
    own |= {"configuration": None if column == "measured" else "zcu102", "batch": 1, "figure": figure, "valid": True}
    return {**own, "why_invalid": None, "target_qps": 200.0, "clocks": 1000, **changed}


def benchmark(*rows: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """What `cnna bench --json` writes."""
    own = {"kind": "benchmark", "schema": 1, "versions": {"cnna": "1", "mlcommons-loadgen": "6"}, "commit": "a"}
    return {**own, "processor": "p", "matrix": {"seconds": 10}, "rows": list(rows), **changed}


RIGHT = {"top1": {"value": 0.5, "standard_error": 0.1, "samples": 4}}
FIRST = benchmark(
    row("Offline", "predicted", 100.0),
    row("Offline", "counted", 99.0),
    row("Offline", "measured", 20.0),
    row("Server", "predicted", 30.0, valid=False, why_invalid="too slow"),
    row("AccuracyOnly", "predicted", None, accuracy=RIGHT),
)


def test_the_table_has_a_column_for_each_kind_of_time() -> None:
    """A prediction would be read as a measurement, or a published figure as ours."""
    lines = text(FIRST).splitlines()
    assert lines[0].endswith("measured with LoadGen; these are not results of MLPerf")
    heads, offline, cpu, server = (line.split("  ") for line in lines[1:5])
    assert [cell.strip() for cell in heads if cell.strip()][-5:] == ["predicted", "counted", "measured", "DPU", "top-1"]
    assert [cell.strip() for cell in offline if cell.strip()][-5:] == ["100", "99", "-", f"{DPU['resnet50']:.0f}", "50.0% ± 10.0"]
    assert [cell.strip() for cell in cpu if cell.strip()][-5:] == ["-", "-", "20", "190", "-"]
    assert [cell.strip() for cell in server if cell.strip()][-5:] == ["30 !", "-", "-", "-", "50.0% ± 10.0"]
    assert "! resnet50, zcu102, batch 1, Server, 200/s, predicted: too slow" in lines


def test_rows_that_are_invalid_for_one_cause_share_a_line() -> None:
    """A matrix of 32 rows printed one sentence of LoadGen twelve times."""
    few = {"valid": False, "why_invalid": " * Run unsuccessful.\n * Processed 392 queries.\n"}
    rows = [row("Server", column, 30.0, batch=batch, **few) for batch in (1, 4) for column in ("predicted", "modelled")]
    lines = text(benchmark(*rows, row("Server", "measured", 9.0, valid=False, why_invalid="too slow"))).splitlines()
    assert lines[-4:] == [
        "! Run unsuccessful. Processed 392 queries.",
        "    resnet50, zcu102, batch 1, Server, 200/s, predicted and modelled",
        "    resnet50, zcu102, batch 4, Server, 200/s, predicted and modelled",
        "! resnet50, CPU, onnxruntime, batch 1, Server, 200/s, measured: too slow",
    ]


def test_two_benchmarks_show_figures_and_what_has_changed() -> None:
    """A slower accelerator would be looked for where another version, or a shorter run, is the cause."""
    other = benchmark(
        row("Offline", "predicted", 110.0),
        row("Server", "predicted", 33.0),
        row("AccuracyOnly", "predicted", None, accuracy={"top1": {**RIGHT["top1"], "value": 0.45}}),
        row("SingleStream", "predicted", 1.0),
        versions={"cnna": "2", "mlcommons-loadgen": "6"},
        matrix={"seconds": 20},
    )
    found = compared(checked(FIRST, "a.json"), checked(other, "b.json"), ("a.json", "b.json"))
    assert [(one["scenario"], one["better"]) for one in found["rows"]] == [
        ("Offline", True),
        ("Server", False),
        ("AccuracyOnly", None),
    ]
    assert found["rows"][0]["ratio"] == pytest.approx(1.1)
    assert found["changed"] == {"version of cnna": ["1", "2"], "seconds": [10, 20]}
    assert found["a"]["only"] == [
        "resnet50, zcu102, batch 1, Offline, counted",
        "resnet50, CPU, onnxruntime, batch 1, Offline, measured",
    ]
    assert found["b"]["only"] == ["resnet50, zcu102, batch 1, SingleStream, predicted"]
    said = text_of_both(found)
    assert "changed: seconds: 10 became 20" in said
    assert "1.100 better" in said
    assert "-5.00 points" in said


def test_a_prediction_is_compared_with_the_rtl_and_named_as_one() -> None:
    """A user could not see how far a prediction misses, or would take it for a change of the accelerator."""
    first, second = (benchmark(row("Offline", column, figure)) for column, figure in (("predicted", 100.0), ("counted", 99.0)))
    found = compared(first, second, ("a.json", "b.json"))
    assert [(one["column"], one["ratio"], one["better"]) for one in found["rows"]] == [("predicted, counted", 0.99, None)]
    assert found["a"]["only"] == found["b"]["only"] == []
    assert "predicted, counted: A is predicted, B is counted; the ratio says how far" in text_of_both(found)
    both = benchmark(*first["rows"], *second["rows"])
    assert [one["column"] for one in compared(both, second, ("a", "b"))["rows"]] == ["counted"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schema": 2}, "has schema 2, but"),
        ({"rows": 5}, "not what `cnna bench --json` writes"),
        ({"rows": [{}]}, "not what `cnna bench --json` writes"),
        ({"rows": [row("Offline", "predicted", 0.0)]}, "not what `cnna bench --json` writes"),
        ({"rows": [row("Offline", "measured", 1.0, power=5)]}, "not what `cnna bench --json` writes"),
        ({"rows": [row("Offline", "measured", 1.0, power={"rails": ["a"]})]}, "not what `cnna bench --json` writes"),
        ({"rows": [row("Offline", "measured", 1.0, power={"rails": 1, "joules_per_sample": 1.0})]}, "not what `cnna bench"),
        ({"rows": [row("Offline", "measured", 1.0, power={"rails": [], "joules_per_sample": "1"})]}, "not what `cnna bench"),
        ({"rows": [row("Offline", "measured", 1.0, power={"rails": [], "joules_per_sample": 0})]}, "not what `cnna bench"),
        ({"versions": []}, "not what `cnna bench --json` writes"),
        ({"versions": {"cnna": "\ud800"}}, "not what `cnna bench --json` writes"),
        ({"rows": [row("Offline", "predicted", float("inf"))]}, r"rows\[0\].figure: not what"),
        ({"rows": [row("Offline", "predicted", 10**400)]}, r"rows\[0\].figure: not what"),
        ({"rows": [row("Offline", "predicted", 1.0, model=[])]}, r"rows\[0\].model: not what"),
        ({"rows": [row("Offline", "predicted", 1.0, configuration={})]}, r"rows\[0\].configuration: not what"),
        ({"rows": [row("Online", "predicted", 1.0)]}, r"rows\[0\].scenario: not what"),
        ({"rows": [row("AccuracyOnly", "predicted", None)]}, r"rows\[0\].accuracy: not what"),
        ({"rows": [row("AccuracyOnly", "predicted", None, accuracy={"top1": 1})]}, r"rows\[0\].accuracy.top1: not what"),
        ({"rows": [row("AccuracyOnly", "predicted", None, accuracy={"a": {"value": "x"}})]}, r"accuracy.a.value: not what"),
        ({"rows": [*FIRST["rows"], FIRST["rows"][0]]}, "has two rows of resnet50, zcu102, batch 1, Offline, predicted"),
    ],
)
def test_another_file_is_refused(wrong: dict[str, Any], said: str) -> None:
    """A user would see a traceback."""
    with pytest.raises(DataError, match=f"x.json: .*{said}|x.json: {said}"):
        checked({**FIRST, **wrong}, "x.json")


def test_benchmarks_without_a_common_row_do_not_compare() -> None:
    """An empty table would look like no change."""
    with pytest.raises(DataError, match="have no row in common"):
        compared(FIRST, benchmark(row("SingleStream", "predicted", 1.0)), ("a", "b"))


def on_board(board: str, scenario: str, figure: float | None, **changed: Any) -> dict[str, Any]:
    """A row of a board with zcu102."""
    return row(scenario, "measured", figure, device=board, configuration="zcu102", **changed)


def test_two_boards_of_one_configuration_are_two_places() -> None:
    """The second board's figure would stand for both, and a slow one be hidden."""
    both = benchmark(
        row("Offline", "predicted", 100.0),
        *(on_board(board, "Offline", figure) for board, figure in (("a/cnna.bit", 50.0), ("b/cnna.bit", 25.0))),
        on_board("b/cnna.bit", "AccuracyOnly", None, accuracy=RIGHT),
    )
    lines = text(both).splitlines()
    assert [line.split("  ")[1].strip() for line in lines[2:5]] == ["zcu102", "zcu102, a/cnna.bit", "zcu102, b/cnna.bit"]
    assert [one in line for one, line in zip(("100", " 50 ", " 25 "), lines[2:5], strict=True)] == [True] * 3
    assert ["50.0% ± 10.0" in line for line in lines[2:5]] == [False, False, True]
    found = compared(both, both, ("a.json", "b.json"))
    assert len({(one["on"], one["scenario"]) for one in found["rows"]}) == len(found["rows"]) == 4
    one = benchmark(on_board("c/cnna.bit", "Offline", 60.0))
    assert [pair["on"] for pair in compared(one, benchmark(on_board("d/cnna.bit", "Offline", 66.0)), ("a", "b"))["rows"]] == [
        "zcu102"
    ]


def test_the_accuracy_of_a_board_is_its_own() -> None:
    """A board that answers wrongly would be shown with the simulation's accuracy."""
    wrong = {"top1": {**RIGHT["top1"], "value": 0.25}}
    simulated = [row("Offline", "predicted", 100.0), row("AccuracyOnly", "predicted", None, accuracy=RIGHT)]
    board = [on_board("cnna.bit", "Offline", 50.0), on_board("cnna.bit", "AccuracyOnly", None, accuracy=wrong)]
    said = text(benchmark(*simulated, *board))
    assert "25.0% ± 10.0" in said.splitlines()[2]
    assert "not equal: resnet50, zcu102, batch 1: top-1 of the board is 25.0% ± 10.0, simulated 50.0% ± 10.0" in said
    board[1] = on_board("cnna.bit", "AccuracyOnly", None, accuracy=RIGHT)
    assert "not equal" not in text(benchmark(*simulated, *board))


def test_another_file_of_one_name_is_said() -> None:
    """A model that was quantised anew would be as quick as before, and nobody read why its accuracy is another."""
    one, other = (
        benchmark(row("Offline", "predicted", 100.0), files={"models": {"resnet50": digest * 64, name: "c"}, "data": digest})
        for digest, name in (("a", "alone"), ("b", "other"))
    )
    changed = {"SHA-256 of resnet50": ["a" * 12, "b" * 12], "SHA-256 of the data": ["a", "b"]}
    assert compared(checked(one, "a"), checked(other, "b"), ("a", "b"))["changed"] == changed
    assert not compared(checked(one, "a"), checked(FIRST, "b"), ("a", "b"))["changed"], "earlier ones did not say it"
    with pytest.raises(DataError, match="a: files"):
        checked({**one, "files": {"models": {"resnet50": 5}, "data": None}}, "a")


def test_a_name_of_several_lines_is_refused() -> None:
    """What a terminal takes for orders would come from a file of somebody else."""
    with pytest.raises(DataError, match=r"a: rows\[0\]\.model: not what"):
        checked(benchmark(row("Offline", "predicted", 1.0, model="x\n\x1b[31m")), "a")
