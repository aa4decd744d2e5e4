"""The commands one after another, as in docs/tour.md, on the emulator: files, names and figures that others rely on."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from cnna.cli.main import main
from cnna.spec.config import preset
from cnna.spec.ddr import PLANNED, ROADS

SAMPLES = 3
FIGURES = {  # of R.json, for a run that counted no clocks
    *("name", "config", "device", "batch", "macs", "cycles", "mac_utilization", "fps_at_300mhz"),
    *("ddr_read_bytes", "ddr_write_bytes", "matches_reference", "wall_seconds", "layers"),
}


def _cnna(*arguments: object) -> None:
    assert main([str(argument) for argument in arguments]) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, calib.npz, test.npz, q.onnx, m.cnna; the same from uint8 pictures as q8.onnx, m8.cnna; labels.txt."""
    folder = tmp_path_factory.mktemp("tour")
    _cnna("models", "digits", "-o", folder / "digits.onnx", "--calib", folder / "calib.npz", "--test", folder / "test.npz")
    _cnna("quantize", folder / "digits.onnx", "--calib", folder / "calib.npz", "-o", folder / "q.onnx", "--json", folder / "q.json")
    _cnna("compile", folder / "q.onnx", "--config", "tiny", "-o", folder / "m.cnna", "--dump", folder / "dump")
    for name in ("calib", "test"):
        np.save(folder / f"{name}8.npy", np.rint(np.load(folder / f"{name}.npz")["x"] * 16).astype(np.uint8))
    uint8 = ["--calib", folder / "calib8.npy", "--scale", 1 / 16, "--mean", 0, "--std", 1]
    _cnna("quantize", folder / "digits.onnx", *uint8, "-o", folder / "q8.onnx")
    _cnna("compile", folder / "q8.onnx", "--config", "tiny", "-o", folder / "m8.cnna")
    (folder / "labels.txt").write_text("".join(f"digit {number}\n" for number in range(10)))
    return folder


def _run(folder: Path, *more: object, model: str = "m.cnna", x: str = "test.npz") -> tuple[np.ndarray, dict[str, Any]]:
    """Answers and figures of the first SAMPLES test images on the emulator."""
    outputs = ["-o", folder / "y.npz", "--json", folder / "r.json"]
    _cnna("run", folder / model, "--input", folder / x, "--device", "emulator", "--limit", SAMPLES, *outputs, *more)
    with np.load(folder / "y.npz") as answers:
        assert answers.files == ["logits"]
        return answers["logits"], json.loads((folder / "r.json").read_text())


def test_a_run_says_where_its_seconds_went(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user would not learn whether the device, its opening, or reading pictures takes the time."""
    capsys.readouterr()
    _, figures = _run(folder)
    stages = figures["stage_seconds"]
    assert list(stages) == ["opening", "reading", "running"]
    assert all(seconds >= 0 for seconds in stages.values())
    assert stages["running"] + stages["reading"] >= figures["wall_seconds"] * 0.5
    said = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.items())
    assert f"by stage: {said}\n" in capsys.readouterr().out


def test_answers_have_the_models_names_and_types(folder: Path) -> None:
    """Other programs read Y.npz: names, float32, one row a sample."""
    answers, _ = _run(folder)
    assert answers.dtype == np.float32
    assert answers.shape == (SAMPLES, 10)


def test_answers_are_nearly_the_float_networks(folder: Path) -> None:
    """If scales did not reach the output, int8 numbers would be left in it."""
    import onnxruntime

    with np.load(folder / "test.npz") as test:
        wanted = onnxruntime.InferenceSession(folder / "digits.onnx").run(None, {"image": test["x"][:SAMPLES]})[0]
    answers, _ = _run(folder)
    assert np.abs(answers - wanted).max() < 0.1 * np.abs(wanted).max()


def test_figures_not_measured_are_null(folder: Path) -> None:
    """The emulator counts no clocks: a 0 would be read as a measurement."""
    _, figures = _run(folder)
    assert figures.keys() >= FIGURES
    assert all(figures[name] is None for name in ("cycles", "mac_utilization", "fps_at_300mhz", "matches_reference"))
    assert figures["macs"] == sum(layer["macs"] for layer in figures["layers"])
    assert (figures["config"], figures["device"], figures["batch"]) == ("tiny", "emulator", 1)


def test_pictures_in_uint8_give_the_same_answers(folder: Path) -> None:
    """The preprocessing that quantize has stored must be applied, and only once."""
    in_float, _ = _run(folder)
    in_uint8, _ = _run(folder, model="m8.cnna", x="test8.npy")
    assert np.array_equal(in_float, in_uint8)


def test_four_bits_need_a_large_fully_connected_layer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option would change nothing, and nobody would know."""
    four = ("quantize", folder / "digits.onnx", "--calib", folder / "calib.npz", "--fc-bits", "auto", "-o", folder / "q4.onnx")
    assert main([str(argument) for argument in four]) == 2
    assert "no fully connected layer of 128 inputs or more" in capsys.readouterr().err


def test_a_batch_that_does_not_divide_the_samples(folder: Path) -> None:
    """The last batch must be padded, and the padding dropped."""
    _cnna("compile", folder / "q.onnx", "--config", "tiny", "--batch", SAMPLES - 1, "-o", folder / "m2.cnna")
    one_by_one, _ = _run(folder)
    in_batches, figures = _run(folder, model="m2.cnna")
    assert np.array_equal(one_by_one, in_batches)
    assert figures["batch"] == SAMPLES - 1


@pytest.mark.parametrize(
    ("command", "outputs"),
    [
        (("run", "m.cnna", "--input", "test.npz", "--device", "emulator", "--limit", "1"), {"-o": "w.npz", "--json": "w.json"}),
        (("report", "m.cnna"), {"--html": "w.html", "--png": "w.png", "--trace": "w.trace.json"}),
        (("explore", "q.onnx", "--config", "tiny", "--layer", "fc"), {"--png": "layer.png"}),
        (("compile", "q.onnx", "--config", "tiny", "-o", "w.cnna"), {"--dump": "w.dump"}),
    ],
    ids=["run", "report", "explore", "compile"],
)
def test_files_that_were_written_are_named(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    outputs: dict[str, str],
) -> None:
    """A user looks for the files. Standard output must stay as it is for readers, and what is no file must not be named."""
    monkeypatch.chdir(folder)
    _cnna(*command)
    before = capsys.readouterr()
    assert "wrote" not in before.err
    _cnna(*command, *[word for pair in outputs.items() for word in pair])
    after = capsys.readouterr()
    assert after.err.splitlines()[-1] == f"wrote {', '.join(outputs.values())}"
    assert "wrote" not in after.out
    assert len(after.out.splitlines()) == len(before.out.splitlines())
    _cnna(*command, "--json", "/dev/null")
    assert "wrote" not in capsys.readouterr().err


def test_labels_print_the_best_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first name must be that of the greatest answer, and there must be `--top` names."""
    answers, _ = _run(folder, "--labels", folder / "labels.txt", "--top", 2)
    lines = [line for line in capsys.readouterr().out.splitlines() if "digit" in line]
    assert len(lines) == SAMPLES
    for sample, (line, scores) in enumerate(zip(lines, answers, strict=True)):
        best = np.argsort(-scores)[:2]
        assert line.strip().startswith(f"{sample}: digit {best[0]} ")
        assert f", digit {best[1]} " in line
        assert line.count("digit") == 2


def test_quantised_model_is_standard_qdq(folder: Path) -> None:
    """Other tools read it, so it must have only standard operators, and the scales of `--json`."""
    model = onnx.load(folder / "q.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain for entry in model.opset_import} <= {"", "ai.onnx"}
    operators = {node.op_type for node in model.graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators
    figures = json.loads((folder / "q.json").read_text())
    assert figures["samples"] == 100
    assert all(entry["scale"] > 0 for entry in figures["tensors"].values())


def test_compiling_twice_gives_the_same_bytes(folder: Path) -> None:
    """Artifacts are compared and cached by their content."""
    _cnna("compile", folder / "q.onnx", "--config", "tiny", "-o", folder / "again.cnna")
    assert (folder / "again.cnna").read_bytes() == (folder / "m.cnna").read_bytes()


def test_dump_has_the_graph_after_every_pass(folder: Path) -> None:
    """A reader follows a wrong rewrite there: there must be a file for each pass, with more than names in it."""
    from cnna.compiler.passes.pipeline import INTEGER, QUANTISATION, REWRITES

    names = [path.name for path in sorted((folder / "dump").iterdir())]
    for one in (*REWRITES, *QUANTISATION, *INTEGER):
        assert any(one.__name__ in name for name in names)
    assert all(path.stat().st_size for path in (folder / "dump").iterdir())


@pytest.mark.parametrize(
    "options",
    [["--limit", "0"], ["--from-cycle", "5"], ["--device", "emulator", "--trace", "t.fst"], ["--device", "abacus"]],
)
def test_options_that_make_no_sense_are_refused(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    """A user would wait for a file that never comes."""
    try:
        code = main(["run", str(folder / "m.cnna"), "--input", str(folder / "test.npz"), *options])
    except SystemExit as done:
        code = int(str(done.code))
    assert code == 2
    assert options[-2] in capsys.readouterr().err


def test_configurations_are_refused_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--config` must be required, and the line must list what exists."""
    assert main(["compile", str(folder / "q.onnx"), "--config", "large", "-o", str(folder / "no.cnna")]) == 2
    assert preset("tiny").name in capsys.readouterr().err
    assert not (folder / "no.cnna").exists()


def test_a_report_predicts_for_the_memory_of_the_run(folder: Path) -> None:
    """48 bytes a clock beside figures measured at 4 would make the predictor look wrong; an option must still come first."""
    _, figures = _run(folder)
    clocks = []
    for ddr, options in (
        (None, []),
        ({"bytes_per_cycle": 4, "latency_cycles": 120}, []),
        (None, ["--ddr-bytes-per-cycle", 4]),
        ({"bytes_per_cycle": 4, "latency_cycles": 120}, ["--ddr-bytes-per-cycle", 48]),
    ):
        (folder / "ddr.json").write_text(json.dumps({**figures, "ddr": ddr}))
        _cnna("report", folder / "m.cnna", "--measured", folder / "ddr.json", "--json", folder / "p.json", *options)
        clocks.append(json.loads((folder / "p.json").read_text())["predicted"]["cycles"])
    assert clocks[1] == clocks[2] > clocks[0] == clocks[3]


def test_a_report_predicts_for_the_road_of_the_run(folder: Path) -> None:
    """Figures of a board's road stand beside predictions for it; an option still comes first, and names its own road."""
    _, figures = _run(folder)
    found = []
    for ddr, options in (
        (None, ["--ddr", "zcu102-ps", "--ddr-mts", 2133, "--ddr-latency", 180]),
        ({"road": "zcu102-ps", "mts": 2133, "bytes_per_cycle": 43, "latency_cycles": 180}, []),
        ({"road": "zcu102-pl", "mts": 2666, "bytes_per_cycle": 15, "latency_cycles": 120}, ["--ddr", "plain"]),
        ({"bytes_per_cycle": 4, "latency_cycles": 180}, ["--ddr", "zcu102-pl"]),
    ):
        (folder / "ddr.json").write_text(json.dumps({**figures, "ddr": ddr}))
        _cnna("report", folder / "m.cnna", "--measured", folder / "ddr.json", "--json", folder / "p.json", *options)
        found.append(json.loads((folder / "p.json").read_text())["predicted"]["ddr"])
    ports = preset("tiny").ports
    board = ROADS["zcu102-ps"].speed(2133, 180, ports).entry()
    assert found == [board, board, PLANNED.entry(), ROADS["zcu102-pl"].speed(2666, 180, ports).entry()]


@pytest.mark.cosim
def test_a_slower_memory_is_simulated_and_said(folder: Path) -> None:
    """A row of the performance page for 32 bytes a clock, but measured at 48, would flatter."""
    run = ["run", folder / "m.cnna", "--input", folder / "test.npz", "--limit", 1, "--json", folder / "rtl.json"]
    found = []
    for options in ([], ["--ddr-bytes-per-cycle", 2], ["--ddr-latency", 400]):
        _cnna(*run, *options)
        figures = json.loads((folder / "rtl.json").read_text())
        found.append((figures["ddr"], figures["cycles"]))
    assert [ddr for ddr, _ in found] == [
        {"bytes_per_cycle": bytes_per_cycle, "latency_cycles": latency}
        for bytes_per_cycle, latency in ((48, 120), (2, 120), (48, 400))
    ]
    assert found[1][1] >= figures["ddr_read_bytes"] / 2 > found[0][1]
    assert found[2][1] >= found[0][1] + 280


@pytest.mark.cosim
def test_the_boards_road_to_ddr_is_simulated_and_said(folder: Path) -> None:
    """Clocks of a board's DDR without its name beside them would be taken for the plain one's, or the other way round."""
    run = ["run", folder / "m.cnna", "--input", folder / "test.npz", "--limit", 1, "--check", "--json", folder / "rtl.json"]
    found = []
    for options in ([], ["--ddr", "zcu102-ps", "--ddr-mts", 2133, "--ddr-latency", 180], ["--ddr", "zcu102-pl"]):
        _cnna(*run, *options)
        figures = json.loads((folder / "rtl.json").read_text())
        found.append((figures["ddr"], figures["cycles"]))
    assert found[1][0] == {"road": "zcu102-ps", "mts": 2133, "bytes_per_cycle": 43, "latency_cycles": 180}
    assert found[2][0] == {"road": "zcu102-pl", "mts": 2666, "bytes_per_cycle": 15, "latency_cycles": 120}
    assert found[0][1] < found[1][1]


@pytest.mark.cosim
@pytest.mark.usefixtures("quick_build")
def test_a_waveform_of_clocks_that_never_come_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing would be written or said, and the user would look for the file."""
    arguments = ["run", folder / "m.cnna", "--input", folder / "test.npz", "--limit", "1", "--trace", folder / "late.fst"]
    assert main([*map(str, arguments), "--from-cycle", "9000000", "-o", str(folder / "late.npz")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("cnna: ")] == [
        f"cnna: --from-cycle 9000000: the run ended before that clock; {folder / 'late.fst'} is not written"
    ]
    assert not (folder / "late.fst").exists()
    assert (folder / "late.npz").exists()


def test_an_exploration_that_is_interrupted_leaves_nothing(folder: Path) -> None:
    """Half a sweep is no answer: there must be one line, the shell's code, and no picture of what was done until then.

    What was predicted is kept, and the workers end with the command."""
    command = ["explore", str(folder / "q.onnx"), "--png", str(folder / "half.png"), "--json", str(folder / "half.json")]
    command += ["--jobs", "2", "--cache", str(folder / "kept")]
    ours, theirs = pty.openpty()  # progress is for a terminal alone
    line = [sys.executable, "-m", "cnna.cli.main", *command]
    with subprocess.Popen(line, stderr=theirs, stdout=subprocess.PIPE, text=True) as child:
        os.close(theirs)
        said = b""
        while b" images a second from picture to answer" not in said:
            said += os.read(ours, 1024)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    rest = os.read(ours, 1 << 16)
    os.close(ours)
    assert child.returncode == 130
    assert b" kept; the same command with --resume goes on\r\n" in rest
    assert rest.endswith(b"cnna: interrupted\r\n")
    assert list((folder / "kept" / "explore").iterdir())
    assert b"Traceback" not in rest
    assert not out
    assert not [path for path in folder.iterdir() if "half" in path.name]
