"""Every command states the speed of a configuration for the same clock and the same DDR: those of its board."""

import json
from pathlib import Path

import numpy as np
import pytest

from cnna.cli.main import main
from cnna.cli.options import configuration, native_host
from cnna.compiler.explore.explore import evaluate
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.placements import Placements
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.runner import Paced
from cnna.spec.boards import clock_and_ddr, ddr_of, described

CONFIGS = ["ultra96", "ultra96,clock_mhz=100", "zcu102", "zcu102,clock_mhz=250", "tiny"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    where = {name: str(folder / f"{name}.npz") for name in ("calib", "test")}
    assert main(["models", "digits", "-o", str(folder / "m.onnx"), "--calib", where["calib"], "--test", where["test"]]) == 0
    assert main(["quantize", str(folder / "m.onnx"), "--calib", where["calib"], "-o", str(folder / "q.onnx")]) == 0
    return folder


@pytest.mark.parametrize("named", CONFIGS)
def test_all_commands_agree(digits: Path, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A user would read three speeds of one network, one of them for a clock or a DDR that the board has not."""
    config, printed, figures = configuration(named), {}, {}
    artifact = digits / "m.cnna"
    for command in (
        ["compile", str(digits / "q.onnx"), "--config", named, "-o", str(artifact)],
        ["explain", str(digits / "q.onnx"), "--config", named],
        ["report", str(artifact)],
        ["run", str(artifact), "--input", str(digits / "test.npz"), "--limit", "1", "--device", "emulator"],
    ):
        capsys.readouterr()
        assert main([*command, "--json", str(digits / "f.json")]) == 0
        figures[command[0]] = json.loads((digits / "f.json").read_text())
        printed[command[0]] = capsys.readouterr().out
    assert {found["clock_mhz"] for found in figures.values()} == {config.clock_mhz}
    clocks = figures["compile"]["predicted_cycles"]
    predicted = figures["report"]["predicted"]
    assert clocks == figures["explain"]["predicted_cycles"] == predicted["cycles"]
    assert predicted["fps"] == config.clock_mhz * 1e6 / clocks
    assert predicted["ddr"] == figures["explain"]["ddr"] == ddr_of(config).entry()
    ends = [figures["explain"]["predicted_end_to_end"], figures["compile"]["predicted_end_to_end"], predicted]
    assert len({found["fps_end_to_end"] for found in ends}) == 1
    assert all(described(config) in printed[name] for name in ("compile", "report"))
    assert f"q.onnx on {config.name}, {clock_and_ddr(config)}, one image" in printed["explain"]
    assert f"{predicted['fps']:,.1f} images a second of the accelerator alone at {config.clock_mhz} MHz" in printed["report"]
    pieces = Placements(load_model(digits / "q.onnx")).pieces(config)
    point = evaluate(pieces, config, 1, native=native_host())
    assert (point.cycles, point.alone) == (clocks, predicted["fps"])
    assert point.whole.figures() == figures["compile"]["predicted_end_to_end"]
    cpu = sum(piece["seconds"] for piece in figures["report"]["pieces"] if piece["kind"] == "cpu")
    assert _paced_seconds(artifact) == pytest.approx(clocks / (config.clock_mhz * 1e6) + cpu)


def _paced_seconds(artifact: Path) -> float:
    """What a paced board takes for an image, once its artifact is loaded."""
    slept: list[float] = []
    image, board = {"image": np.zeros((1, 1, 16, 16), np.float32)}, Paced(BoardSpec("a", "paced"), lambda: 0.0, slept.append)
    board.load("digits/1/b1", str(artifact), image)
    board.run("digits/1/b1", image, received=0.0)
    return sum(slept)
