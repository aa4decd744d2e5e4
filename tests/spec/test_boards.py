"""The DDR and the clock of a configuration are those of its board, however its name came to be."""

from dataclasses import replace

import pytest

from cnna.cli.options import configuration
from cnna.spec.boards import BOARDS, board_of, ddr_of, described
from cnna.spec.config import PRESETS, preset
from cnna.spec.ddr import PL, PLANNED


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.key)
def test_a_presets_ddr_is_its_boards(board):
    """A figure would be of a DDR that the board has not."""
    assert ddr_of(preset(board.key)) == ddr_of(configuration(f"{board.key},ring_words=512")) == board.ddr


@pytest.mark.parametrize("key", [key for key in PRESETS if key not in BOARDS])
def test_other_presets_have_the_planned_ddr(key):
    """Figures of the small configurations would change with a board that they are not for."""
    assert ddr_of(preset(key)) == PLANNED


def test_streams_mean_the_pls_own_ddr():
    """Variant `pl` would be predicted for the PS's DDR, which is three times as quick."""
    assert ddr_of(configuration("zcu102,streams=1")) == PL


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.key)
@pytest.mark.parametrize("times", [0.5, 0.8, 1.2, 40])
def test_a_ddr_moves_as_many_bytes_a_second_at_any_clock(board, times):
    """A faster accelerator would be predicted with a faster DDR than the board has."""
    own = preset(board.key)
    config = replace(own, name=f"{own.name}-other", clock_mhz=round(own.clock_mhz * times))
    assert board_of(config) is board
    found = ddr_of(config)
    assert 1 <= found.bytes_per_cycle <= 64
    assert found.bytes_per_cycle * config.clock_mhz <= max(board.ddr.bytes_per_cycle * own.clock_mhz, config.clock_mhz)
    seconds = (found.latency_cycles / config.clock_mhz, board.ddr.latency_cycles / own.clock_mhz)
    assert seconds[0] == pytest.approx(seconds[1], rel=0.02)


def test_a_configuration_says_its_clock_and_ddr():
    """Figures of a changed clock could not be told from the preset's."""
    own, other = preset("ultra96"), configuration("ultra96,clock_mhz=300")
    assert described(own) == f"ultra96 ({own.clock_mhz} MHz, {ddr_of(own).bytes_per_cycle} bytes of DDR a clock)"
    assert described(other) == f"{other.name} (300 MHz, {ddr_of(other).bytes_per_cycle} bytes of DDR a clock)"
    assert ddr_of(other).bytes_per_cycle < ddr_of(own).bytes_per_cycle
