"""What a configuration is said to take is what its Verilog has."""

import pytest

from cnna.compiler.explore.area import bram36, dsp48e2
from cnna.hw.verilog import writer
from cnna.hw.verilog.dedup import count_instances
from cnna.spec.config import Config, preset

ODD = Config("odd", pix=4, ci=4, co=12, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)


@pytest.mark.cosim
@pytest.mark.parametrize("config", [preset("tiny"), ODD], ids=lambda config: config.name)
def test_dsps_are_those_of_the_verilog(config):
    """A configuration would be offered that the chip has no multipliers for, or one that it has left out."""
    assert dsp48e2(config) == count_instances(writer.generate(config), writer.TOP, "DSP48E2")


def test_the_preset_of_a_chip_fits_it():
    """A ZU9 has 2,520 DSP48E2 and 912 BRAM36."""
    config = preset("zcu102")
    assert config.macs // 2 < dsp48e2(config) <= 2520
    assert bram36(config) <= 912


def test_block_ram_holds_what_is_stored():
    """Fewer bits than words times width cannot be."""
    for config in (preset("zcu102"), preset("tiny"), ODD):
        stored = config.feature_words * config.ci + config.ring_words * config.ring_word_bytes + 16 * config.vector_ring_words
        assert bram36(config) * 36 * 1024 >= 8 * stored
