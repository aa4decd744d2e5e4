"""The speed that the predictor takes a road for is that of the DDR model on this road."""

import pytest

from cnna.spec.ddr import ROADS

from ...rigs.ddr_bus import BASE, Bus, Reader, compiled, run

CLOCKS, WARM = 2400, 400
APART = (512 << 10) + (8 << 10) + (32 << 10)  # from a port's stream to the next port's: another bank group, bank and row


@pytest.fixture(scope="module")
def library(tmp_path_factory, root):
    """The model as a shared library."""
    return compiled(root, tmp_path_factory.mktemp("ddr"))


def streamed(bus, ports):
    """Bytes a clock that so many ports read in long streams, in bursts of 256 bytes."""
    readers = [Reader(bus, p, [(BASE + p * APART + 256 * i, 16) for i in range(CLOCKS // 16 + 99)]) for p in range(ports)]
    moved = []
    for clocks in (WARM, CLOCKS):
        run(bus, readers, iter([False] * clocks + [True]).__next__)
        moved.append(sum(len(reader.got) for reader in readers))
    return 16 * (moved[1] - moved[0]) / CLOCKS


@pytest.mark.parametrize(
    ("road", "mts", "ports"), [("zcu102-ps", 2400, 1), ("zcu102-ps", 2133, 4), ("zcu102-ps", 2400, 4), ("zcu102-pl", 2666, 4)]
)
@pytest.mark.parametrize("latency", [120, 180])
def test_streams_are_as_quick_as_predicted(library, tmp_path, road, mts, ports, latency):
    """Predictions for a board's road would be wrong wherever the array waits for weights.

    What four streams get depends on the groups and banks that they meet in: by 10 % at 120 clocks of latency.
    """
    settings = {"road": ROADS[road].number, "mts": mts, "latency": latency, "write_latency": latency}
    found = streamed(Bus(library, tmp_path / "memory", size=4 << 20, **settings), ports)
    assert ROADS[road].speed(mts, latency, ports).bytes_per_cycle == pytest.approx(found, rel=0.12)
