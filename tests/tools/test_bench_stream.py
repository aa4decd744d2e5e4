"""Rows "stream" of `make bench`: what a late host costs, with the queue and without it, and their part of the page."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import bench_stream
import late_board
import pytest
from bench_page import page
from bench_rows import Row, chosen, streams

from cnna.cli.main import main
from cnna.spec.errors import RunError

LATE_CLOCKS = 5000  # less than a run takes


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small network for `tiny` and pictures."""
    made = tmp_path_factory.mktemp("stream")
    with redirect_stdout(StringIO()):
        for line in (
            "models digits -o m.onnx --calib calib.npz --test test.npz",
            "quantize m.onnx --calib calib.npz -o q.onnx",
            "compile q.onnx --config tiny -o m.cnna",
        ):
            words = (str(made / word) if "." in word else word for word in line.split())
            assert main(list(words)) == 0
    return made


def figures(folder: Path, late_clocks: int = LATE_CLOCKS) -> dict[str, Any]:
    return bench_stream.run(folder / "m.cnna", folder / "test.npz", late_clocks)


@pytest.mark.cosim
def test_the_queue_takes_a_late_host_out(digits: Path) -> None:
    """A row would pass although the accelerator waits for its host, or would have the clocks of other runs."""
    found = figures(digits)
    assert len(found["runs"]) == bench_stream.RUNS
    assert len(set(found["runs"])) == 1
    assert max(found["between"]) <= 50
    assert found["cycles"] == sum(found["runs"]) + sum(found["between"]) <= bench_stream.most_clocks(found["runs"][0])


@pytest.mark.cosim
def test_without_the_queue_a_late_host_is_waited_for(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host would not be late at all, so that a row could not fail."""
    monkeypatch.setattr("cnna.host.board.board_device.has_queue", lambda read: False)
    found = figures(digits)
    assert min(found["between"]) >= LATE_CLOCKS
    assert found["cycles"] > bench_stream.most_clocks(found["runs"][0])


@pytest.mark.cosim
def test_a_wrong_answer_fails_the_row(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks of runs that computed something else would be kept."""
    invalidate = late_board.Buffer.invalidate

    def turned(buffer: late_board.Buffer) -> None:
        invalidate(buffer)
        buffer[:] = buffer[::-1]

    monkeypatch.setattr(late_board.Buffer, "invalidate", turned)
    with pytest.raises(RunError, match="run 0 of the stream has another answer"):
        figures(digits)


@pytest.mark.cosim
def test_runs_that_end_before_the_host_looks_are_refused(digits: Path) -> None:
    """Nobody would have seen when they began, and the row would have clocks of other runs."""
    with pytest.raises(RunError, match="reacts 60,000 clocks late, and runs end sooner"):
        figures(digits, 60_000)


def kept(cycles: int, program: str = "p") -> dict[str, Any]:
    """Figures of a network alone and in a stream, as they are kept."""
    stamp = {"program_sha256": program, "verilog_sha256": "v"}
    now = {"config": "c", "program_sha256": "p", "verilog_sha256": "v"}
    row = now | {"late_clocks": 15_000, "measured": {"cycles": cycles, "between": [31, 33], "date": "a day"} | stamp}
    alone = now | {"measured": {"cycles": 1000, "date": "a day"} | stamp}
    return {"squeezenet/b1": alone, "squeezenet/b1/stream": row}


def test_the_page_has_a_stream_beside_runs_alone() -> None:
    """A stream that takes longer than it may, or that was measured with another program, would look well."""
    good, slow, old = kept(8480), kept(8481), kept(8480, "other")
    line = ("squeezenet/b1/stream", "1,000", "8,000", "8,480", "8,480", "31 to 33", "RTL == reference, a day")
    assert bench_stream.section(good) == [line]
    assert bench_stream.missed(good) == []
    assert bench_stream.missed(slow) == ["- **squeezenet/b1/stream**: 8,481 of 8,480 clocks. The cause is not named yet."]
    assert bench_stream.section(old)[0][-1].startswith("*stale*, RTL")
    for name in good:
        assert bench_stream.section({name: good[name]}) == []


def test_streams_are_rows_of_make_bench_alone() -> None:
    """`make bench` would leave them out, or the other tools would count the same network twice."""
    keys = [row.key for row in streams()]
    assert "resnet50/b1/x2/stream" in keys
    assert {row.key for row in chosen([], streamed=True)} - {row.key for row in chosen([])} == set(keys)
    assert [row.key for row in chosen(["squeezenet/b1*"], streamed=True)][-1] == "squeezenet/b1/stream"
    assert Row("squeezenet", 1, stream=True).alone.key == "squeezenet/b1"


def test_a_stream_is_in_no_other_table(root: Path) -> None:
    """It would be taken for one run of a network, whose figures it does not have."""

    found = json.loads((root / "docs" / "performance.json").read_text())
    text = page(found)
    for row in streams():
        if row.key in found:
            assert text.count(f"| {row.key} ") == 1
