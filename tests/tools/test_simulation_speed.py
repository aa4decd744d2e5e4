"""The simulator's speed is measured for several ways to build it, which differ as their names say."""

from pathlib import Path

import pytest
import simulation_speed

from cnna.cli.main import main
from cnna.sim.rtl import build
from cnna.spec.artifact import load
from cnna.spec.files import default_cache


def test_ways_change_what_they_are_called_after() -> None:
    """If two ways were one, noise would be measured and written down as a finding."""
    assert len(set(simulation_speed.WAYS.values())) == len(simulation_speed.WAYS)
    assert simulation_speed.WAYS["as it is"] == (build.VERILATOR_FLAGS, build.MAKE_FLAGS)
    flags, make = simulation_speed.WAYS["for any processor"]
    assert set(build.VERILATOR_FLAGS) - set(flags) == {"-CFLAGS", "-march=native"}
    assert make == build.MAKE_FLAGS
    unknown = simulation_speed.WAYS["unknown values random"][0]
    assert set(build.VERILATOR_FLAGS) - set(unknown) == {"--x-assign", "--x-initial", "fast"}


@pytest.mark.cosim
def test_a_way_is_measured(tmp_path: Path) -> None:
    """Processor time of other processes, or clocks of other runs, would make any way look good."""
    paths = [str(tmp_path / name) for name in ("m.onnx", "c.npz", "t.npz", "q.onnx", "m.cnna")]
    assert main(["models", "digits", "-o", paths[0], "--calib", paths[1], "--test", paths[2]]) == 0
    assert main(["quantize", paths[0], "--calib", paths[1], "-o", paths[3]]) == 0
    assert main(["compile", paths[3], "--config", "tiny", "-o", paths[4]]) == 0
    way = simulation_speed.WAYS["as it is"]
    _, real, processor = simulation_speed.measure(way, load(paths[4]), Path(paths[2]), default_cache(), lambda line: None)
    assert 100 < real <= 1.5 * processor
