"""The driver under the stock pynq package, on virtual boards: the emulator, and the RTL with the clocks of a direct simulation."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.host.board.overlay import register_base
from cnna.host.board.pynq_driver import bind, open_board
from cnna.host.model import model
from cnna.spec import artifact
from cnna.spec.config import preset
from cnna.spec.errors import DataError
from cnna.spec.identity import DRIVEN_VLNVS, VLNV
from cnna.spec.regmap import VERSION

from ...sim.board import stock
from ...sim.board.served import serving
from ..hand_made import SHAPE, requantised_copy

CLIENT = """
import json
overlay = Overlay(sys.argv[1])
import cnna
x = np.load(sys.argv[2])
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """An overlay, samples and an artifact."""
    x = np.random.default_rng(3).normal(0, 20, (5, *SHAPE)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    artifact.save(requantised_copy(batch=2), tmp_path / "copy.cnna")
    return stock.images(tmp_path), tmp_path / "x.npy", tmp_path / "copy.cnna"


@pytest.fixture
def served(request: pytest.FixtureRequest, address: str) -> Iterator[str]:
    """The address of a board of `tiny`, with the backend that the test asks for."""
    with serving(address, backend=request.param):
        yield address


@pytest.mark.parametrize("served", ["emulator", pytest.param("rtl", marks=pytest.mark.cosim)], indirect=True)
def test_a_model_through_stock_pynq(
    served: str, files: tuple[Path, Path, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The bits would differ from those without a board or, on the RTL, the clocks."""
    code = (
        CLIENT
        + """
with cnna.InferenceSession(sys.argv[3], overlay) as first, cnna.InferenceSession(sys.argv[3], overlay.device) as second:
    y = first.run(None, {"x": x})[0]
    cycles = first.last["cycles"]
    assert np.array_equal(second.run(None, {"x": x})[0], y)
    assert np.array_equal(first.run_async(["y"], {"x": x}).result()[0], y)
    assert np.array_equal(np.concatenate([y for (y,) in second.stream(None, ({"x": x[i : i + 1]} for i in range(5)))]), y)
np.save(sys.argv[4], y)
print(json.dumps([cycles, type(overlay.cnna_0).__name__]))
"""
    )
    said = stock.run(served, code, *files, tmp_path / "y.npy")
    x, rtl = np.load(files[1]), "rtl" in request.node.callspec.id
    device = request.getfixturevalue("rtl")(preset("tiny")) if rtl else "emulator"
    with model.Model(files[2], device=device) as direct:
        assert np.array_equal(np.load(tmp_path / "y.npy"), direct.run(x))
        cycles = "null" if direct.last["cycles"] is None else direct.last["cycles"]
    assert said == f'[{cycles}, "AcceleratorIP"]\n'


@pytest.mark.parametrize("served", ["emulator"], indirect=True)
def test_an_overlay_and_its_device_are_one_board(served: str, files: tuple[Path, Path, Path]) -> None:
    """Two objects in one thread would wait for each other's turn; on variant `pl` each would restore its models after the other."""
    code = (
        CLIENT
        + """
from cnna.host.board.overlay import register_base
from cnna.host.board.pynq_driver import bind, open_board
with cnna.InferenceSession(sys.argv[3], overlay) as first, cnna.InferenceSession(sys.argv[3], overlay.device) as second:
    print(first.device is second.device)
    stream = first.stream(None, ({"x": x[i : i + 1]} for i in range(3)))
    next(stream)
    try:
        second.run(None, {"x": x})[0]
    except cnna.spec.errors.RunError as error:
        print("has the accelerator already" in str(error))
before = open_board(overlay)
again = Overlay(sys.argv[1])
print(open_board(again) is before, open_board(again) is open_board(again.device))
"""
    )
    assert stock.run(served, code, *files).split() == ["True", "True", "False", "True"]


@pytest.mark.parametrize("served", ["emulator"], indirect=True)
def test_the_command_runs_on_a_board(served: str, tmp_path: Path) -> None:
    """`cnna run --device pynq` must give the reference's answers and the board's figures."""
    bit, compiled, x = stock.images(tmp_path), stock.digits(tmp_path), tmp_path / "x.npy"
    with np.load(tmp_path / "calib.npz") as images:
        np.save(x, images["x"][:3])
    line = [sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "run", str(compiled), "--input", str(x), "--device", "pynq"]
    outputs = ["-o", str(tmp_path / "y.npz"), "--json", str(tmp_path / "r.json")]
    said = stock.execute(served, [*line, "--overlay", str(bit), "--check", *outputs])
    assert "board == reference: 1 output, 30 elements" in said
    figures = json.loads((tmp_path / "r.json").read_text())
    assert (figures["device"], figures["matches_reference"], figures["config"]) == ("pynq", True, "tiny")
    assert figures["fps_end_to_end"] is None  # the board does not run in real time
    with model.Model(compiled) as direct, np.load(tmp_path / "y.npz") as answers:
        assert np.array_equal(answers["logits"], direct.run(np.load(x)))
    for change, reason in (
        (["--overlay", str(tmp_path / "none.bit")], "none.bit: no such file"),
        ([], "--overlay names what --device pynq loads"),
    ):
        assert reason in stock.execute(served, [*line, *change], fails=True)
    said = stock.execute("127.0.0.254", [*line, "--overlay", str(bit)], fails=True)
    assert "Failed to connect to remote device; PYNQ_REMOTE_DEVICES=ADDRESS says where a board is" in said


def test_an_overlay_without_the_accelerator_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The .bit of another project or version, or a file that is no overlay at all, must be refused with a reason."""
    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(DefaultIP=object))
    older = VLNV.rpartition(":")[0] + ":0.9"
    for board, said in (
        (SimpleNamespace(ip_dict={"dma": {"type": "xilinx.com:ip:axi_dma:7.1"}}), "it has dma"),
        (SimpleNamespace(ip_dict={"cnna_0": {"type": older}}), f"another version, {older}"),
        (SimpleNamespace(ip_dict={}), "it has nothing"),
        (3, "int is neither a pynq.Overlay nor"),
    ):
        with pytest.raises(DataError, match=said):
            open_board(board)


def test_an_image_of_an_older_register_map_is_bound(files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A board whose image was built before the queue would have to be built anew: the driver does not need it."""
    monkeypatch.setitem(sys.modules, "pynq", SimpleNamespace(DefaultIP=object))
    assert {VLNV, VLNV.rpartition(":")[0] + ":1.4"} <= set(bind.__wrapped__().bindto)
    hwh = files[0].with_suffix(".hwh")
    base, text = register_base(hwh), hwh.read_text()
    assert base is not None
    assert text.count(VLNV) == 1
    hwh.write_text(text.replace(VLNV, DRIVEN_VLNVS[-1]))
    assert register_base(hwh) == base


@pytest.mark.parametrize("served", ["emulator"], indirect=True)
def test_an_overlay_that_stock_pynq_has_opened_is_checked_too(served: str, files: tuple[Path, Path, Path]) -> None:
    """A notebook may call `pynq.Overlay` itself: a .hwh of another build would give registers wrong addresses."""
    code = (
        CLIENT
        + """
for board in (overlay, overlay.device):
    try:
        with cnna.InferenceSession(sys.argv[3], board) as session:
            print("runs", len(session.run(None, {"x": x})[0]))
    except cnna.spec.errors.DataError as error:
        print(error)
"""
    )
    assert stock.run(served, code, *files) == "runs 5\nruns 5\n"
    with files[0].with_suffix(".hwh").open("ab") as handoff:
        handoff.write(b"\n")
    said = stock.run(served, code, *files).splitlines()
    assert len(said) == 2
    assert all("cnna.hwh: not the file that manifest.json names: it is of another build" in line for line in said)
    files[0].with_name("manifest.json").unlink()
    assert stock.run(served, code, *files) == "runs 5\nruns 5\n", "of other makers, who write none"


@pytest.mark.parametrize("served", ["emulator"], indirect=True)
def test_info_and_selftest_of_a_board(served: str, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """A user with a board runs these first; scripts use the exit code."""
    bit, x, compiled = files
    line = [sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "board"]
    said = stock.execute(served, [*line, "info", "--overlay", str(bit)])
    for part in ("board        ZCU102", "register_map {}.{}".format(*VERSION), "pix 2", "watts        not measured"):
        assert part in said
    with model.Model(compiled) as direct:
        np.savez(tmp_path / "y.npz", y=direct.run(np.load(x)))
        np.savez(tmp_path / "wrong.npz", y=direct.run(np.load(x)) + 1)
    network = ["--model", str(compiled), "--input", str(x)]
    command = [*line, "selftest", "--overlay", str(bit), *network, "--json", str(tmp_path / "s.json"), "--expect"]
    said = stock.execute(served, [*command, str(tmp_path / "y.npz")])
    for part in (
        "ok     registers",
        "ok     copy",
        "ok     network          board == y.npz",
        "images a second from picture to answer, by the clock on the wall",
    ):
        assert part in said
    assert json.loads((tmp_path / "s.json").read_text())["images_per_second"] > 0
    stock.execute(served, [*command, str(tmp_path / "wrong.npz")], fails=True)
    assert not all(finding["good"] for finding in json.loads((tmp_path / "s.json").read_text())["findings"])
