"""`make bench`: patterns choose rows, measurements last while program and Verilog stay the same, the others are marked."""

import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import bench
import bench_page
import bench_rows
import pytest

from cnna.cli.main import main
from cnna.compiler.explore.sizes import dsp48e2
from cnna.compiler.zoo import catalogue
from cnna.evaluate.speed.published import DPU
from cnna.spec.config import preset

RUN = {"ddr_read_bytes": 480, "ddr_write_bytes": 0, "date": "a day", "stalls": {"weights": 10, "idle": 5}}


def in_this_process(*arguments: object) -> None:
    """As `bench.cnna`, without the seconds in which another Python imports everything."""
    words = [str(argument) for argument in arguments]
    with redirect_stdout(StringIO()):
        code = main(words)
    if code:
        raise subprocess.CalledProcessError(code, [sys.executable, "-m", "cnna.cli.main", *words])


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of networks, and beside it a folder with digits/b1 predicted at tiny, both made by the commands themselves."""
    made = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "ROOT", made / "networks")
        assert bench.main(["--rows", "digits/b1", "--predict", "--config", "tiny", "--docs", str(made)]) == 0
    return made


@pytest.fixture
def kept(tmp_path: Path, predicted: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with digits/b1 predicted at tiny."""
    monkeypatch.setattr(bench, "ROOT", predicted / "networks")
    monkeypatch.setattr(bench, "cnna", in_this_process)
    for name in (bench.KEPT, bench.PAGE):
        shutil.copy(predicted / name, tmp_path)
    return tmp_path


def _row(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / bench.KEPT).read_text())["digits/b1"]
    return found


def _again(folder: Path, row: dict[str, Any]) -> str:
    """Keeps that row, predicts once more, and returns the page's line."""
    (folder / bench.KEPT).write_text(json.dumps({"digits/b1": row}))
    assert bench.main(["--rows", "digits/b1", "--predict", "--config", "tiny", "--docs", str(folder)]) == 0
    return next(line for line in (folder / bench.PAGE).read_text().splitlines() if line.startswith("| digits/b1 |"))


def test_a_row_is_predicted_marked_and_its_measurement_kept(kept: Path) -> None:
    """A prediction would look measured, or a measurement be lost or belong to another program or Verilog."""
    row = _row(kept)
    assert (row["pieces"], row["cpu_macs_a_batch"]) == ([1, 1], 0)  # the CPU's reshapes the answer
    assert _again(kept, row).endswith("| *predicted* |")
    # the Verilog's digest is known only after a measurement
    row["measured"] = {**row["predicted"], **RUN, "program_sha256": row["program_sha256"], "verilog_sha256": "other"}
    row["layers"] = [[name, clocks, clocks + 1] for name, clocks, _ in row["layers"]]
    assert "*stale*" in _again(kept, row)
    proofs = bench.ROOT / "docs" / bench.PROOFS
    proofs.parent.mkdir()
    proofs.write_text(json.dumps({_row(kept)["verilog_sha256"]: {"equals": "other", "proven": ["cnna.ring"]}}))
    assert _again(kept, row).endswith("| RTL == reference, a day |")
    proofs.unlink()
    assert "*stale*" in _again(kept, row)
    row["measured"]["verilog_sha256"] = _row(kept)["verilog_sha256"]
    assert _again(kept, row).endswith("| RTL == reference, a day |")
    assert _row(kept)["measured"] == row["measured"]
    assert _row(kept)["layers"] == row["layers"]
    row["measured"]["program_sha256"] = "other"
    assert "*stale*" in _again(kept, row)


def test_a_row_says_what_its_compile_took(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody would see that a compile has become slow."""
    _again(kept, _row(kept))
    found = re.search(r"digits/b1: compiled in ([\d.]+) processor seconds", capsys.readouterr().out)
    assert found
    assert float(found[1]) > 0


def test_rows_go_on_after_one_that_fails(kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Hours of rows would be lost to the first failure; the exit code must report it."""
    real = bench.measure

    def measure(row: bench_rows.Row, *others: Any) -> dict[str, Any]:
        if row.batch == 1:
            raise subprocess.CalledProcessError(1, ["python", "-m", "cnna.cli.main", "run"])
        return real(row, *others)

    monkeypatch.setattr(bench, "measure", measure)
    before = (kept / bench.KEPT).read_text()
    assert bench.main(["--rows", "digits/b*", "--predict", "--config", "tiny", "--docs", str(kept)]) == 1
    assert "digits/b1: cnna run failed" in capsys.readouterr().out
    after = json.loads((kept / bench.KEPT).read_text())
    assert after["digits/b1"] == json.loads(before)["digits/b1"]
    assert "digits/b4" in after


def test_what_is_done_stays_when_interrupted(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C in an hour-long row there must be code 130 and whole files."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = (kept / bench.KEPT).read_text()
    monkeypatch.setattr(bench, "measure", interrupt)
    assert bench.main(["--rows", "digits/b*", "--predict", "--config", "tiny", "--docs", str(kept)]) == 130
    assert (kept / bench.KEPT).read_text() == before


@pytest.mark.parametrize(("clocks", "code"), [(1000, 0), (1001, 1)])
def test_a_baseline_is_held(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], clocks: int, code: int
) -> None:
    """One clock more is a change that somebody must have meant: the line must say measured, expected, and how to write it anew."""
    row = _row(kept)
    (kept / bench.KEPT).write_text(json.dumps({"digits/b1": {**row, "measured": {**row["predicted"], **RUN, "cycles": 1000}}}))
    monkeypatch.setattr(bench, "_run", lambda *_: {"cycles": clocks})
    capsys.readouterr()
    assert bench.main(["--check", "digits/b1", "--config", "tiny", "--docs", str(kept)]) == code
    *_, line = capsys.readouterr().out.splitlines()
    assert f"{clocks:,} cycles" in line
    assert ("make bench ROWS=digits/b1" in line) == bool(code)


def test_a_baseline_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check of nothing would pass."""
    assert bench.main(["--check", "digits/b1", "--docs", str(tmp_path)]) == 2
    assert "digits/b1" in capsys.readouterr().out


def test_patterns_choose_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """`ROWS=` would measure for hours what nobody asked for, or a name twice."""
    assert [row.key for row in bench_rows.chosen(["vgg19/b?", "resnet50/b4"])] == ["vgg19/b1", "resnet50/b4", "vgg19/b4"]
    every = [row.key for row in bench_rows.chosen([])]
    once = len(bench_rows.PIX) + len(bench_rows.CODED_FLOORS)
    twice = len(bench_rows.VARIED) + len(bench_rows.DEEP_FLOORS)
    assert len(every) == len(set(every)) == 4 * len(bench_rows.NETWORKS) + once + 2 * twice
    assert bench.main(["--rows", "vgg20/b1"]) == 2
    assert "vgg19/b1" in capsys.readouterr().out


def test_every_row_has_a_network() -> None:
    """A misspelt name would fail only when `make bench` comes to its row, after hours."""
    known = {entry.name for entry in catalogue.entries()}
    assert {row.network for row in bench_rows.rows()} <= known
    assert {*bench_rows.FLOORS, *bench_rows.DEEP_FLOORS, *DPU} <= {*bench_rows.NETWORKS, *bench_rows.VARIED}


def test_only_what_is_worth_it_is_simulated_at_a_slower_memory() -> None:
    """Three networks are simulated without being named; any other must be named in full."""
    slow = [row for row in bench_rows.chosen(["*/32B"]) if row.simulated]
    assert {row.network for row in slow} == set(bench_rows.SLOW_MEASURED)
    assert {row.batch for row in slow} == {1}
    (named,) = bench_rows.chosen(["alexnet/b4/32B"])
    assert named.simulated
    assert named.ddr_bytes == bench_rows.SLOW_BYTES


def test_the_page_says_what_misses_its_floor(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A floor that is missed would be hidden in a table; the cause must stand beside it once it is known."""
    row = _row(kept)
    slow = {**row["predicted"], **RUN, "cycles": 20_000_000, "fps_at_300mhz": 15.0, "mac_utilization": 0.2}
    rows = {"vgg19/b1": {**row, "measured": slow}, "vgg19/b1/32B": {**row, "measured": slow}, "resnet50/b1/pix4": row}
    monkeypatch.setattr(bench_page, "WHY", {})
    text = bench_page.page(rows)
    assert "- **vgg19/b1**: 15 of 38 fps (-60.5%), array 0.200 of 0.61. The cause is not named yet." in text
    monkeypatch.setattr(bench_page, "WHY", {"vgg19/b1": "Its weights."})
    text = bench_page.page(rows)
    assert "0.61. Its weights." in text
    assert "**vgg19/b1/32B**" not in text
    assert re.search(r"\| vgg19/b1/32B \| 15 \| .* to .* \| 100% \|", text)
    assert f"| 4 | 2,048 | {dsp48e2(replace(preset('zcu102'), pix=4)):,} |" in text
    assert "## Where the array's clocks go" in text


def test_rows_at_two_clocks_have_their_own_floors_and_table(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The array at two clocks would be compared with the floors of the other, or the other hidden behind its figures."""
    monkeypatch.setattr(bench_page, "WHY", {})
    (deep,) = bench_rows.chosen(["resnet50/b1/x2"])
    assert (deep.config, deep.floor) == (bench_rows.DEEP, (355, None))
    row = {**_row(kept), "predicted": {**_row(kept)["predicted"], **RUN, "cycles": 1_000_000, "fps_at_300mhz": 300.0}}
    plain, two = bench_page.page({"resnet50/b1": row, deep.key: row}).split("## Two clocks")
    assert f"| {deep.key} |" not in plain
    assert f"- **{deep.key}**: 300 of 355 fps (-15.5%), predicted." in two


def test_rows_of_four_bits_have_their_own_floors_and_table(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network with other weights on another accelerator would be read as the plain one."""
    monkeypatch.setattr(bench_page, "WHY", {})
    (coded,) = bench_rows.chosen(["vgg19/b1/codes"])
    assert (coded.config, coded.floor) == (bench_rows.CODED, (46.5, None))
    row = {**_row(kept), "predicted": {**_row(kept)["predicted"], **RUN, "cycles": 7_000_000, "fps_at_300mhz": 43.0}}
    plain, codes = bench_page.page({"vgg19/b1": row, coded.key: row}).split("## Weights of 4 bits")
    assert f"| {coded.key} |" not in plain
    assert f"- **{coded.key}**: 43 of 46.5 fps (-7.5%), predicted." in codes


def test_the_page_lists_layers_that_are_misjudged(kept: Path) -> None:
    """A network that is predicted well may hide layers whose errors cancel each other."""
    row, same = _row(kept), {"program_sha256": "its own", "verilog_sha256": "today's"}
    layers = [("a", 1200, 1001), ("b", 900, 1001), ("short", 500, 1000), ("c", 950, 1001)]
    assert bench_rows.misjudged(layers) == ["a", "b"]
    rows = {"vgg19/b1": {**row, **same, "layers": layers, "measured": {**row["predicted"], **RUN, **same, "cycles": 3003}}}
    text = bench_page.page(rows).split("## Where the predictor misjudges a layer")[1]
    assert "| vgg19/b1 | a | 1,001 | 1,200 (+19.9%) |" in text
    assert "| vgg19/b1 | c |" not in text


def test_the_page_says_what_the_cpu_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames a second of an accelerator that leaves a tenth of the work to the CPU would look like those of the whole network."""
    figures = {**RUN, "cycles": 15_000_000, "fps_at_300mhz": 20.0, "fps_end_to_end": 1.25, "mac_utilization": 0.5}
    row = {"predicted": figures, "measured": None, "macs_a_batch": 900}
    shared = {**row, "cpu_macs_a_batch": 100, "pieces": [12, 13]}
    monkeypatch.setattr(bench_page, "WHY", {})
    text = bench_page.page({"resnet50/b1": row, "yolov3/b1": shared})
    first, varied = text.split("## Detectors, maps and newer classifiers")
    assert "yolov3" not in first
    assert "| resnet50/b1 |" not in varied
    (line,) = (line for line in varied.splitlines() if line.startswith("| yolov3/b1 |"))
    assert line.startswith("| yolov3/b1 | 20 | 33 | - | - | - | 12 + 13 | 90.0% |")
    assert line.endswith("| *predicted* |")
    assert "- **yolov3/b1**: 20 of 33 fps (-39.4%), predicted." in varied
    assert "newer classifiers" not in bench_page.page({"resnet50/b1": row})


def test_a_varied_row_without_a_floor_must_come_near_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network whose layers the predictor misjudges would stand in the table like one that is as quick as was planned."""
    figures = {**RUN, "cycles": 3_000_000, "fps_at_300mhz": 100.0, "fps_end_to_end": 9.0, "mac_utilization": 0.5}
    row = {"predicted": figures, "measured": None, "macs_a_batch": 900, "cpu_macs_a_batch": 0, "pieces": [1, 1]}
    monkeypatch.setattr(bench_page, "WHY", {})
    same = {"program_sha256": "its own", "verilog_sha256": "today's"}
    near, far = ({**row, **same, "measured": {**figures, **same, "fps_at_300mhz": fps}} for fps in (97.0, 95.0))
    assert "| espcn/b1 | 97 | 96 |" in bench_page.page({"espcn/b1": near})
    assert "Short of a floor" not in bench_page.page({"espcn/b1": near})
    assert "- **espcn/b1**: 95 of 96 fps (-1.0%). The cause is not named yet." in bench_page.page({"espcn/b1": far})
    stale = {**far, "program_sha256": "another"}
    assert "| espcn/b1 | 95 | - |" in bench_page.page({"espcn/b1": stale})


def test_every_measured_verilog_is_linked_by_proofs_that_hold_in_a_measured_run(root: Path) -> None:
    """A proof under an assumption that `bench.py` does not know would make hours of measurements stale."""
    table = json.loads((root / "docs" / bench.PROOFS).read_text())
    assert {text for link in table.values() for text in link.get("assumed", ())} == set(bench.UNHURT)
    newest = table.keys() - {link["equals"] for link in table.values()}
    reached = {old for text in newest for old in (text, *bench.linked(table, text, bench.UNHURT))}
    rows = json.loads((root / "docs" / bench.KEPT).read_text()).values()
    assert {row["measured"]["verilog_sha256"] for row in rows if row["measured"]} <= reached
