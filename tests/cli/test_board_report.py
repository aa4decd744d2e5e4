"""`cnna board selftest` as a command: what it refuses before it touches a board, what it runs, and its exit code."""

import json
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.cli import board_report
from cnna.cli.board_report import UNCACHED, selftest
from cnna.cli.main import main
from cnna.host.board.cached_memory import UNPROVED, CachedMemory, Proof
from cnna.host.board.interrupt import Interrupt
from cnna.host.native.cache import Cache
from cnna.host.selftest import sustained
from cnna.spec.errors import CnnaError

from ..host.emulated_board import EmulatedBoard


@pytest.mark.parametrize(("text", "words"), [(None, "no such file"), (b"no arrays", "not a .npy or .npz file")])
def test_answers_to_expect_are_read_before_anything_runs(tmp_path: Path, text: bytes | None, words: str) -> None:
    """There would be an internal error after minutes of tests, and their findings would be lost."""
    np.savez(tmp_path / "x.npz", x=np.zeros(1))
    if text:
        (tmp_path / "y.npz").write_bytes(text)
    args = Namespace(model=tmp_path / "m.cnna", input=tmp_path / "x.npz", expect=tmp_path / "y.npz", overlay=tmp_path / "none.bit")
    with pytest.raises(CnnaError, match=words):
        selftest(args)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> EmulatedBoard:
    """The board that the commands open, whatever overlay they get; it is virtual."""
    made = EmulatedBoard()
    overlay = SimpleNamespace(device=SimpleNamespace(has_capability=lambda name: False))
    monkeypatch.setattr(board_report, "open_overlay", lambda path: overlay)
    monkeypatch.setattr(board_report, "open_board", lambda overlay: made)
    monkeypatch.setattr(board_report, "is_virtual", lambda path: True)
    monkeypatch.setattr(board_report.power, "local", lambda path: None)
    monkeypatch.setattr(sustained, "SECONDS", 0.0)
    return made


def test_without_arguments_it_tries_everything(
    board: EmulatedBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with a new board has no network yet; figures that were not measured must be null."""
    monkeypatch.chdir(tmp_path)
    assert main(["board", "selftest", "--json", "s.json"]) == 0
    figures = json.loads(Path("s.json").read_text())
    names = ["registers", "copy", "read bandwidth", "write bandwidth", "clock", "interrupt", "cached memory", "network"]
    names += ["throughput", "energy"]
    assert [finding["name"] for finding in figures["findings"]] == names
    assert figures["images_per_second"] > 0
    assert figures["joules_per_image"] is figures["cycles"] is None
    assert len(capsys.readouterr().out.splitlines()) == len(names)


def test_a_sick_board_is_exit_code_1(
    board: EmulatedBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts need the code; all other findings must be printed all the same. A real board must count clocks."""
    monkeypatch.setattr(board_report, "is_virtual", lambda path: False)
    assert main(["board", "selftest"]) == 1
    said = capsys.readouterr().out
    assert "FAILED clock " in said
    assert "FAILED throughput " in said
    assert "ok     network " in said


def test_other_sizes_are_told_that_no_network_fits(
    board: EmulatedBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The missing test would be passed over in silence."""
    monkeypatch.setattr(board, "config", replace(board.config, bank_words=512))
    assert main(["board", "selftest"]) == 0
    assert "not tried: none comes with cnna for Config(name='tiny'" in capsys.readouterr().out


@pytest.mark.parametrize(("proved", "memory"), [(True, "cached, as the self-test has tried"), (False, UNPROVED), (None, UNCACHED)])
def test_info_says_which_memory_and_which_waiting(
    board: EmulatedBoard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    proved: bool | None,
    memory: str,
) -> None:
    """A user would not learn why a board is slower than it could be, nor what to do."""
    pynq = SimpleNamespace(__version__="4.0.0", Clocks=SimpleNamespace(fclk0_mhz=300.0))
    monkeypatch.setitem(sys.modules, "pynq", pynq)
    if proved is not None:
        proof = Proof(tmp_path, {"board": "b"})
        if proved:
            proof.keep()
        board.caching = CachedMemory(bytes, Cache(64, lambda address, size: None, lambda address, size: None), proof)
    board.interrupt = Interrupt(Path("/dev/uio4"))
    assert main(["board", "info", "--json", str(tmp_path / "i.json")]) == 0
    figures = json.loads((tmp_path / "i.json").read_text())
    assert (figures["memory"], figures["waiting"]) == (memory, "by interrupt, through /dev/uio4")
    said = capsys.readouterr().out
    assert f"memory       {memory}\n" in said
    assert "waiting      by interrupt, through /dev/uio4\n" in said


def test_the_overlay_is_the_one_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command must take the overlay in this folder unless another is named."""
    monkeypatch.chdir(tmp_path)
    assert main(["board", "info"]) == 2
    assert "cnna.bit: no such file" in capsys.readouterr().err
