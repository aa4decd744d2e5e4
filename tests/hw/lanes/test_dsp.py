"""The packing of two products into one DSP48E2, proven for every triple of int8."""

import numpy as np
import pytest
from amaranth import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.timing import delayed
from cnna.hw.lanes import dsp

from ...rigs import bench
from ...rigs.block import make_block

pytestmark = pytest.mark.cosim

INPUTS = range(-128, 128)


class EveryInput(wiring.Component):
    """256 packed DSPs, one for each input x, multiply a pair of weights: bit x + 128 of `wrong` is 1 where a product differs
    from Amaranth's own. `disturb` falsifies what they are held to, to see `wrong` at work."""

    high: In(signed(8))
    low: In(signed(8))
    disturb: In(1)
    wrong: Out(len(INPUTS))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, d = dsp.packed(self.high, self.low)
        high, low, disturb = (delayed(m, value, dsp.LATENCY) for value in (self.high, self.low, self.disturb))
        wrong = []
        for x in INPUTS:
            b, p = Signal(signed(8)), Signal(dsp.P_BITS)
            m.d.comb += b.eq(x)
            m.submodules += dsp.dsp48e2(
                a=a, b=dsp.sign_extended(b, dsp.B_BITS), d=d, rnd=dsp.LANE_PRESET, opmode=dsp.opmode(dsp.ADD_RND), p=p
            )
            found_high, found_low = p[dsp.LANE_BITS :].as_signed(), dsp.low_lane(p)
            wrong.append((found_high != high * x) | (found_low != low * x + disturb))
        m.d.comb += self.wrong.eq(Cat(wrong))
        return m


def test_packing_of_every_triple() -> None:
    """Two int8 weights that share a DSP would disturb each other's product for some input."""
    high, low = (values.ravel() for values in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128), indexing="ij"))
    flush = np.zeros(dsp.LATENCY + 1, np.int64)
    disturb = np.concatenate([np.zeros(len(high), np.int64), flush + 1])  # after the proof
    found = bench.run(
        make_block(EveryInput), {"high": np.concatenate([high, flush]), "low": np.concatenate([low, flush]), "disturb": disturb}
    )["wrong"][dsp.LATENCY :]
    assert len(high) * len(INPUTS) == 1 << 24
    assert not found[: len(high)].any()
    assert (found[len(high) :] == 0xFF).all()
