"""A board's power sensors: energy is what arithmetic says of what they read, and there is no figure where they were not read."""

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save

from cnna.evaluate.speed.compare import compared
from cnna.evaluate.speed.compare import text as text_of_both
from cnna.evaluate.speed.load import measured
from cnna.evaluate.speed.power import Meter, Metered, Span, power_of, rails_of
from cnna.evaluate.speed.scenarios import SINGLE, Load
from cnna.evaluate.speed.text import text
from tests.evaluate.speed.test_compare import benchmark, row
from tests.evaluate.speed.test_load import LOADED


def chip(root: Path, number: int, **files: Any) -> Path:
    """A made-up chip."""
    made = root / f"hwmon{number}"
    made.mkdir()
    for name, value in files.items():
        (made / name).write_text(f"{value}\n")
    return made


def metered(root: Path, watts: Iterable[int], microwatts: Path) -> tuple[Meter, Span]:
    """A run with a reading each second; the first query comes at 0.5 s, the last answer 0.5 s before the last reading."""
    now = [0.0]
    meter = Meter(rails_of(root), lambda: now[0])
    span = Span(meter.clock)
    for second, value in enumerate(watts):
        now[0] = float(second)
        microwatts.write_text(str(value * 10**6))
        assert meter.read()
        if second == 0:
            now[0] = 0.5
            span.issued(4)
    now[0] -= 0.5
    span.answered()
    return meter, span


def test_units_and_rails_are_those_of_linux(tmp_path: Path) -> None:
    """Energy would be wrong by thousands, or a regulator's input would count beside its outputs."""
    chip(tmp_path, 0, name="ina226_u79", power1_input=2_500_000, curr1_input=9, in1_input=9, update_interval=35)
    chip(tmp_path, 1, name="ina3221", curr1_input=1500, in1_input=850, in1_label="VCCINT", in2_input=7, curr3_input=5)
    names = {"power1_label": "pin", "power2_label": "pout1"}
    chip(tmp_path, 2, name="irps5401", power1_input=9_000_000, power2_input=3_000_000, **names)
    chip(tmp_path, 10, name="thermal", temp1_input=40_000)
    rails = rails_of(tmp_path)
    assert [(rail.name, rail.watts()) for rail in rails] == [
        ("hwmon0 ina226_u79 power1", 2.5),
        ("hwmon1 ina3221 VCCINT", 1.275),
        ("hwmon2 irps5401 pout1", 3.0),
    ]
    assert Meter(rails).interval_ms == 35
    assert rails_of(tmp_path / "absent") == []


def test_energy_is_that_between_the_first_query_and_the_last_answer(tmp_path: Path) -> None:
    """Joules would hold start-up, or what LoadGen does after the last answer."""
    file = chip(tmp_path, 0, name="ina226", power1_input=0) / "power1_input"
    found = power_of(*metered(tmp_path, range(13), file))
    assert found["joules_per_sample"] == pytest.approx((11.5**2 - 0.5**2) / 2 / 4)  # watts are as many as seconds
    assert found["mean_watts"] == pytest.approx(6.0)
    assert (found["readings"], found["samples"], found["why"]) == (11, 4, None)


def test_a_short_run_or_a_broken_sensor_gives_a_line_and_no_figure(tmp_path: Path) -> None:
    """A figure would be called measured that nothing has measured."""
    file = chip(tmp_path, 0, name="ina226", power1_input=0) / "power1_input"
    short = power_of(*metered(tmp_path, range(11), file))
    assert short["joules_per_sample"] is short["mean_watts"] is None
    assert short["why"] == "9 power readings are too few, 10 are needed: more `seconds`"
    for broken in (lambda: file.write_text("garbage"), file.unlink):
        meter, span = metered(tmp_path, range(13), file)
        broken()
        assert not meter.read()
        found = power_of(meter, span)
        assert found["joules_per_sample"] is None
        assert found["why"].startswith("power sensor hwmon0 ina226 power1 cannot be read: ")
        assert "\n" not in found["why"]


def test_a_thread_reads_while_the_system_is_asked(tmp_path: Path) -> None:
    """Nothing would be read during a run, or the samples would be miscounted."""
    chip(tmp_path, 0, name="ina226", power1_input=5_000_000)
    asked, enough = [], threading.Event()

    class System:
        def issue(self, query: Any) -> None:
            asked.extend(query)

        def flush(self) -> None: ...
        def close(self) -> None: ...

    def clock() -> float:
        if len(meter.readings) >= 14:
            enough.set()
        return float(len(meter.readings))

    meter = Meter(rails_of(tmp_path), clock)
    span = Span(clock)
    with meter:
        Metered(System(), span).issue([1, 2])
        assert enough.wait(60)
        span.answered()
    found = power_of(meter, span)
    assert asked == [1, 2]
    assert found["joules_per_sample"] == pytest.approx(5 * (span.ended - (span.began or 0)) / 2)
    assert found["mean_watts"] == pytest.approx(5.0)


@LOADED
def test_loadgens_process_reads_the_sensors_of_its_run(tmp_path: Path) -> None:
    """The row of a board would have no joules, or they would be divided by another number of samples."""
    chip(tmp_path, 0, name="ina226", power1_input=5_000_000)
    model = tmp_path / "m.onnx"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    live = {"kind": "onnx", "model": str(model), "batch": 1, "inputs": None, "samples": 8, "threads": 1}
    load = Load(SINGLE, seconds=1.0, queries=10, samples=8)
    assert measured(load, live).power is None
    found = measured(load, {**live, "hwmon": str(tmp_path)})
    assert found.power is not None
    assert found.power["rails"] == ["hwmon0 ina226 power1"]
    assert found.power["mean_watts"] == pytest.approx(5.0)
    assert found.power["samples"] >= 10


def test_joules_are_a_column_and_compare(tmp_path: Path) -> None:
    """A user would see joules of a row that has none, or not see which rails they are of."""
    power = {"joules_per_sample": 0.5, "mean_watts": 5.0, "rails": ["VCCINT", "DDR"], "why": None}
    board = {"device": "boards/cnna.bit", "configuration": "zcu102"}
    predicted = row("Offline", "predicted", 90.0, batch=4)
    first = benchmark(row("Offline", "measured", 20.0, **board, power=power), predicted)
    lines = text(first).splitlines()
    assert "joules a sample" in lines[1]
    assert lines[2].split()[-2:] == ["0.5", "190"]
    assert lines[3].split()[-2:] == ["-", "190"]
    assert "joules a sample: measured by the board's power sensors, the sum of VCCINT, DDR" in lines
    better = benchmark(row("Offline", "measured", 20.0, **board, power={**power, "joules_per_sample": 0.25}))
    found = compared(first, better, ("a", "b"))
    assert [(one["unit"], one["ratio"], one["better"]) for one in found["rows"]][1:] == [("joules a sample", 0.5, True)]
    assert "0.500 better" in text_of_both(found)
    none = benchmark(row("Offline", "measured", 20.0, **board, power={**power, "joules_per_sample": None, "why": "too few"}))
    assert "joules a sample" not in text(none)
    assert "no joules: resnet50, zcu102, batch 1, Offline: too few" in text(none)
    assert len(compared(first, none, ("a", "b"))["rows"]) == 1
