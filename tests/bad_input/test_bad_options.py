"""What a user can get wrong in options and figures: one line that names it, exit code 2, no traceback, no output file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .cases import words_of


def test_a_cache_that_is_no_folder(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The cache may be a file, or a folder that nobody can make."""
    (tmp_path / "file").write_text("precious")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        assert str(bad) in refused("run", good / "m.cnna", "--input", good / "calib.npy", "--cache", bad)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("models squeezenet -o out", "--seed -1"),
        ("models squeezenet -o out", "--count 3"),
        ("models digits --calib out", "--count 0"),
        ("models digits --calib out", "--count 100000"),
        ("quantize m.onnx --calib calib.npy -o out", "--std -1"),
        ("quantize m.onnx --calib calib.npy -o out", "--std 0"),
        ("quantize m.onnx --calib calib.npy -o out", "--report out.pdf"),
        ("quantize m.onnx --calib calib.npy -o out", "--config tiny"),
        ("quantize m.onnx --calib calib.npy -o out", "--std 1 nan 1"),
        ("run m.cnna --device emulator --input calib.npy -o out --labels labels.txt", "--top 0"),
        ("run m.cnna --device emulator --input calib.npy -o out --labels labels.txt", "--top -2"),
        ("run m.cnna --input calib.npy --trace out", "--from-cycle -5"),
        ("run m.cnna --input calib.npy --trace out", "--to-cycle -5"),
        ("run m.cnna --input calib.npy --trace out", "--to-cycle 50 --from-cycle 100"),
        ("run m.cnna --input calib.npy -o out", "--ddr-bytes-per-cycle 0"),
        ("run m.cnna --input calib.npy -o out", "--ddr-bytes-per-cycle 65"),
        ("run m.cnna --input calib.npy -o out", "--ddr-latency 0"),
        ("run m.cnna --input calib.npy -o out --ddr zcu102-ps", "--ddr-bytes-per-cycle 32"),
        ("run m.cnna --input calib.npy -o out --ddr zcu102-pl", "--ddr-mts 2133"),
        ("quantize m.onnx --calib calib.npy -o out", "--shape x:2,3,6,6"),
        ("convert m.onnx --calib calib.npy --config tiny -o out", "--limit 0"),
        ("convert m.onnx --calib calib.npy --config tiny -o out", "--std 0"),
        ("compile q.onnx --config tiny -o out", "--shape x:1,3,6,7"),
        ("explore q.onnx --png out", "--shape 1x3x6x6"),
        ("report m.cnna --html out", "--ddr-bytes-per-cycle -48"),
        ("report m.cnna --html out --ddr zcu102-pl", "--ddr-bytes-per-cycle 8"),
        ("report m.cnna --html out", "--ddr-mts 2133"),
        ("explore q.onnx --png out", "--ddr-latency 10001"),
    ],
)
def test_numbers_out_of_range(good: Path, refused: Callable[..., str], command: str, options: str) -> None:
    """Each value would answer another question: a negative picture, the worst classes, an empty waveform."""
    assert options.split()[0] in refused(*words_of(command, good, good), *options.split())


@pytest.mark.parametrize(
    "command",
    [
        "run m.cnna --device emulator --input calib.npy -o out --ddr-bytes-per-cycle 32",
        "run m.cnna --device emulator --input calib.npy -o out --ddr zcu102-ps",
        "explore q.onnx --layer conv --config tiny --png out --ddr-latency 99",
    ],
)
def test_a_memory_for_what_has_none(good: Path, refused: Callable[..., str], command: str) -> None:
    """The figures would be those of the planned memory, but look like the other one's."""
    assert "--ddr-bytes-per-cycle" in refused(*words_of(command, good, good))


@pytest.mark.parametrize("option", ["--config tiny", "--layer conv --batch 4"])
def test_what_an_exploration_takes_no_account_of(good: Path, refused: Callable[..., str], option: str) -> None:
    """All configurations would look like the one that was asked for, or a layer's clocks like those of four images."""
    assert option.split()[-2] in refused(*words_of("explore q.onnx --png out", good, good), *option.split())


def test_a_waveform_by_another_formats_name(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """An FST file called .vcd or .txt cannot be opened anywhere."""
    line = refused("run", good / "m.cnna", "--input", good / "calib.npy", "--trace", tmp_path / "w.txt")
    assert "w.txt" in line
    assert ".fst" in line


@pytest.mark.parametrize(
    "found",
    [
        *('{"layers": [], "ddr": 48}', '{"layers": [], "ddr": {"bytes_per_cycle": 0, "latency_cycles": 120}}'),
        '{"layers": [], "ddr": {"road": "zcu102-ps", "mts": 1, "bytes_per_cycle": 48, "latency_cycles": 120}}',
        *("{", "[]", "{}", '{"config": "zcu102", "batch": 1, "layers": [], "cycles": 1, "device": "rtl"}'),
        *(f'{{"layers": [], "unit_clocks": {clocks}}}' for clocks in ("3", "[1]", '{"conv": 1}', '{"conv": [2, 1]}')),
    ],
)
def test_figures_of_something_else(good: Path, tmp_path: Path, refused: Callable[..., str], found: str) -> None:
    """For no JSON, no figures, or those of another model, the line must name the file, since a script has many."""
    (tmp_path / "r.json").write_text(found)
    assert str(tmp_path / "r.json") in refused("report", good / "m.cnna", "--measured", tmp_path / "r.json")
