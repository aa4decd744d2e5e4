"""What a configuration takes of a chip, against what Yosys has counted (docs/resources.json)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cnna.compiler.explore.grid import configurations
from cnna.compiler.explore.point import option
from cnna.compiler.explore.sizes import DECODER_LUTS, Budget, bram36, budget_of, dsp48e2, luts, small_bram36, uram288
from cnna.spec.boards import BOARDS, ZCU102
from cnna.spec.config import Config, preset

FITTED, HELD_OUT = ("zcu102", "zcu104", "ultra96"), "kv260"
FIT, ERROR = 0.005, 0.15  # shares of the counted LUTs
PRODUCTS = 2  # DSP48E2 that Yosys makes of products of addresses, where a chunk is no power of two


@pytest.fixture(scope="module")
def counted(root: Path) -> dict[str, dict[str, float]]:
    """Resources by preset."""
    found: dict[str, dict[str, float]] = json.loads((root / "docs" / "resources.json").read_text())
    return found


@pytest.mark.parametrize("name", [*FITTED, HELD_OUT])
def test_luts_are_near_those_that_were_counted(name: str, counted: dict[str, dict[str, float]]) -> None:
    """A configuration would be offered that cannot be built. The fourth preset shows how far the fit to the others holds."""
    most = ERROR if name == HELD_OUT else FIT
    assert luts(preset(name)) == pytest.approx(counted[name]["LUTs"], rel=most)


@pytest.mark.parametrize(("name", "counted"), [("zcu102", 3_632), ("kv260", 2 * 8 * (64 + 16))])
def test_the_decoder_takes_the_luts_that_were_counted(name: str, counted: int, root: Path) -> None:
    """A configuration with it would be taken for one without. Of `kv260` the memories of a row were synthesised alone."""
    config = replace(preset(name), codebook=True)
    memories = 0 if name == "zcu102" else config.ports * DECODER_LUTS
    assert luts(config) - luts(preset(name)) == counted + memories
    assert name != "zcu102" or f"{counted:,}" in (root / "docs" / "codebook.md").read_text()


@pytest.mark.parametrize("name", [*FITTED, HELD_OUT])
def test_dsps_and_memories_are_those_that_were_counted(name: str, counted: dict[str, dict[str, float]]) -> None:
    """Yosys, which sees the Verilog alone, would take other blocks than the formulas say."""
    config = preset(name)
    assert 0 <= counted[name]["DSP48E2"] - dsp48e2(config) <= PRODUCTS
    assert uram288(config) == counted[name]["URAM288"]
    packed = config.regions * config.banks / 2 if name == "zcu102" else 0  # Yosys saves half a block in each bank of this shape
    assert bram36(config) + small_bram36(config) - packed == counted[name]["BRAM36"]


@pytest.mark.parametrize("name", [name for name in (*FITTED, HELD_OUT) if name != "zcu102"])
def test_presets_keep_to_their_boards_shares(name: str, counted: dict[str, dict[str, float]]) -> None:
    """A preset without room for routing would not meet its clock, and one beyond the chip could not be placed."""
    board = BOARDS[name]
    assert counted[name]["LUTs"] <= board.lut_budget
    assert counted[name]["DSP48E2"] <= board.dsp_budget
    assert counted[name]["BRAM36"] <= board.chip.bram36
    assert counted[name]["URAM288"] <= board.chip.uram288


def test_sixteen_pixels_of_sixteen_channels_are_too_many_for_a_zu9() -> None:
    """With 16 output channels its DSPs would fit nearly, but its lanes leave no LUTs; with 32 it needs more than the chip has."""
    config = Config("large", pix=16, ci=16, co=16, ports=4, regions=4, bank_words=512, ring_words=512, vector_ring_words=512)
    assert Budget(10_000, 10_000).holds(config)
    assert not Budget(10_000, 10_000, ZCU102.lut_budget).holds(config)
    assert luts(replace(config, co=32)) > ZCU102.chip.luts


@pytest.mark.parametrize("board", BOARDS.values(), ids=lambda board: board.key)
def test_what_is_offered_fits_the_board(board) -> None:
    """`--config` of a row would name an accelerator for another board, or one that its chip has no room for."""
    offered = configurations(budget_of(board), board)
    for config in offered:
        assert dsp48e2(config) <= board.chip.dsps
        assert bram36(config) + small_bram36(config) <= board.chip.bram36
        assert uram288(config) <= board.chip.uram288
        assert luts(config) <= board.lut_budget
        assert option(config).startswith(board.key)
        assert config.uram == bool(board.chip.uram288)
