"""The division of DDR between flows: no port, reader or DDR itself moves more than it can, and nothing that is wanted is left."""

import numpy as np
import pytest

from cnna.compiler.predict.ddr_division import DdrDivision
from cnna.spec.config import BEAT_BYTES, preset
from cnna.spec.ddr import DdrSpeed

ZCU102 = preset("zcu102")
PORTS = {"program": 1, "weight0": 1, "weight1": 3, "load": 4, "store": 4}


@pytest.mark.parametrize("seed", range(20))
def test_nobody_gets_more_than_there_is(seed):
    """A port moves a beat a clock, and DDR 48 bytes. A flow that got more would end before its bytes can have come."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(list(PORTS))[: rng.integers(1, 6)].tolist()
    asked = [(name, float(rng.uniform(0.1, PORTS[name] * BEAT_BYTES)), 0.0) for name in names]
    found, most = DdrDivision(ZCU102, DdrSpeed(), PORTS).divide(asked), {name: own for name, own, _ in asked}
    assert found.keys() == most.keys()
    assert all(0 < found[name] <= most[name] + 1e-9 for name in names)
    first = sum(found[name] / PORTS[name] for name in names if name not in ("weight1", "store"))
    assert first <= BEAT_BYTES + 1e-9
    assert sum(found.values()) <= DdrSpeed().bytes_per_cycle + 1e-9
    assert DdrDivision(ZCU102, DdrSpeed(), PORTS).divide(asked[::-1]) == pytest.approx(found)


def test_flows_that_want_little_get_it_and_leave_the_rest():
    """A load that feature memory slows down must not slow down the weights beside it."""
    found = DdrDivision(ZCU102, DdrSpeed(), PORTS).divide([("load", 4.0, 0.5), ("weight0", 16.0, 0.0), ("weight1", 48.0, 0.0)])
    assert found == pytest.approx({"load": 4.5, "weight0": 11, "weight1": 33})
