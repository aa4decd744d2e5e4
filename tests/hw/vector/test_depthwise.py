"""Depthwise products against numpy."""

import numpy as np
import pytest

from cnna.hw.vector.depthwise import PixelProducts
from cnna.spec.config import Config, preset

from ...rigs import bench

pytestmark = pytest.mark.cosim

WIDE = Config("wide", pix=4, ci=8, co=8, ports=1, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)


@pytest.mark.parametrize("config", [preset("tiny"), WIDE], ids=lambda config: config.name)
def test_products_equal_numpy(config: Config) -> None:
    """A pixel or channel takes another one's product, or two pixels that share a DSP disturb each other, -128 included."""
    rng, products, clocks = np.random.default_rng(3), PixelProducts(config), 3000
    words, weight = (
        np.where(rng.random(shape) < 0.3, rng.choice([-128, 127], shape), rng.integers(-128, 128, shape)).astype(np.int8)
        for shape in ((clocks, config.pix, config.ci), (clocks, 1, config.ci))
    )
    valid = rng.integers(0, 2, clocks)
    found = bench.run(products, {"words": words.view(np.uint8), "weight": weight.view(np.uint8), "valid": valid})
    late, asked = slice(products.latency, None), slice(None, -products.latency)
    np.testing.assert_array_equal(found["o_valid"][late, 0], valid[asked])
    got = bench.integers(found["products"], 16, signed=True).reshape(words.shape)[late]
    np.testing.assert_array_equal(got, (words.astype(np.int64) * weight)[asked])
