"""`make compile-cost`: calls of a compile are counted, kept, and compared, whatever the machine does beside."""

from pathlib import Path

import compile_cost
import pytest
from bench_rows import Row

from ..qdq_networks import model


def test_a_compile_makes_the_same_number_of_calls_each_time(tmp_path: Path) -> None:
    """A compile would seem to cost more or less than yesterday though nobody changed it."""
    path = tmp_path / "q.onnx"
    path.write_bytes(model(1).SerializeToString())
    first, second = (compile_cost.counted(path, Row("digits", 1)) for _ in range(2))
    assert first > 10_000
    assert abs(first - second) <= compile_cost.SHARE * first / 10


@pytest.mark.parametrize(("calls", "code"), [(1000, 0), (1019, 0), (700, 0), (1021, 1)])
def test_more_calls_than_those_kept_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], calls: int, code: int
) -> None:
    """Work that is done twice would come in unseen; or a quicker compile would be refused."""
    monkeypatch.setattr(compile_cost, "counted", lambda *_: calls)
    monkeypatch.setattr(compile_cost, "_model", lambda row: tmp_path)
    compile_cost.keep("digits/b1", {"calls": 1000, "seconds": 1.5}, tmp_path)
    assert compile_cost.main(["--check", "digits/b1", "--docs", str(tmp_path)]) == code
    assert ("too many" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize("arguments", [["--check", "digits/b1"], ["--check", "nothing/b1"], ["--rows", "nothing/b1"]])
def test_what_is_not_kept_or_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """A check would succeed that compares nothing."""
    assert compile_cost.main([*arguments, "--docs", str(tmp_path)]) == 2
    assert arguments[1] in capsys.readouterr().out


def test_rows_that_are_checked_in_ci_are_kept(root: Path) -> None:
    """Continuous integration would fail in every clone, or check nothing."""
    lines = [line for line in (root / "Makefile").read_text().splitlines() if "compile_cost.py --check" in line]
    assert len(lines) == 1
    assert set(lines[0].split("--check ")[1].split()) <= set(compile_cost.read(root / "docs"))
