"""The presets for boards: within their chips, lint-clean, and right to the bit on a network that such boards run."""

from collections.abc import Callable

import pytest

from cnna.compiler.explore.sizes import bram36, dsp48e2, small_bram36, uram288
from cnna.hw.verilog import writer
from cnna.hw.verilog.instances import count_instances
from cnna.sim.rtl.build import to_stderr
from cnna.sim.rtl.cosim import CosimDevice
from cnna.sim.rtl.sources import generated
from cnna.spec.boards import BOARDS, Board
from cnna.spec.config import preset
from cnna.spec.files import default_cache

from .agreement import Case, agree, agree_emulated
from .hw.attributed import check_attributes
from .rigs.lint import lint

OTHERS = [pytest.param(board, id=key) for key, board in BOARDS.items() if key != "zcu102"]  # zcu102 has tests of its own


@pytest.mark.parametrize("board", OTHERS)
def test_it_fits_its_chip(board: Board) -> None:
    """Vivado would stop after hours. LUTs are those that Yosys counted (test_resources.py)."""
    config = preset(board.key)
    assert dsp48e2(config) <= board.dsp_budget
    assert bram36(config) + small_bram36(config) <= board.chip.bram36
    assert uram288(config) <= board.chip.uram288
    assert config.uram == bool(board.chip.uram288), "feature memory lies in UltraRAM where there is any"


@pytest.mark.parametrize("board", OTHERS)
def test_the_emulator_runs_a_resnet8(board: Board) -> None:
    """The compiler would not know how to cut a network for these sizes."""
    agree_emulated(Case(preset(board.key), "resnet8", 1))


@pytest.mark.slow
@pytest.mark.parametrize("board", OTHERS)
def test_it_is_lint_clean(board: Board) -> None:
    """There would be faults that the small configurations have not, or another number of DSPs than is said."""
    text = generated(preset(board.key), default_cache(), to_stderr)
    assert count_instances(text, writer.TOP, "DSP48E2") == dsp48e2(preset(board.key))
    assert lint(text) == ""
    check_attributes(text, preset(board.key))
    assert ('ram_style = "ultra"' in text) == bool(board.chip.uram288)


@pytest.mark.slow
@pytest.mark.parametrize("board", OTHERS)
def test_the_rtl_runs_a_resnet8(board: Board, rtl: Callable[..., CosimDevice]) -> None:
    """The owner of a board would build for hours what computes wrong answers."""
    case = Case(preset(board.key), "resnet8", 1)
    agree(case, rtl(case.config))
