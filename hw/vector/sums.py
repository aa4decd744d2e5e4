"""The vector engine's accumulators, one a pixel and channel: sums, products, extremes, or the operands of an elementwise operation.

They stand between `VectorIssue` and `VectorDrain` and cannot be stopped. `VectorSums` consists of `PairProducts`, which multiply,
and `VectorTile`s, which accumulate. Each is a module by itself; attributes keep their copies of the step's bits apart.
"""

from enum import Enum

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed
from cnna.hw.vector.issue import DEPTHWISE, ELEMENTWISE, MAX, MINIMUM, PRODUCT, vector_feed_layout
from cnna.hw.vector.products import PRODUCT_BITS, Factor, PairProducts, multiply_layout
from cnna.hw.walk.walk import words_of
from cnna.spec.config import TAPS, Config

TILE_CHANNELS = 8  # channels in a tile, at most: a bit of the step drives 256 accumulator bits


class Accumulate(Enum):
    """What an accumulator does with a step: it adds the product, picks the greater or lesser one, or keeps two operands."""

    SUM = 0
    PICK = 1
    PAIR = 2


def tile_step_layout() -> data.StructLayout:
    """A step as a tile sees it. `end`: the group's result is complete after this clock. `least`: PICK takes the lesser one."""
    return data.StructLayout({"valid": 1, "first": 1, "end": 1, "way": Accumulate, "least": 1})


class VectorTile(wiring.Component):
    """The sums of a few channels of one pixel, as in `VectorSums`. `step` comes a clock before its `words` and `products`."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        super().__init__(
            {
                "step": In(tile_step_layout()),
                "words": In(data.ArrayLayout(unsigned(8), channels)),
                "products": In(data.ArrayLayout(signed(PRODUCT_BITS), channels)),
                "sums": Out(data.ArrayLayout(signed(32), channels)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step, ended = Signal(tile_step_layout(), name="step_copy", attrs=COPY), Signal(name="ended", attrs=COPY)
        sums = Signal(self.sums.shape(), reset_less=True)
        m.d.sync += [step.eq(self.step), ended.eq(step.end)]
        held = [
            self._accumulated(m, step, self.words[channel].as_signed(), self.products[channel]) for channel in range(self.channels)
        ]
        with m.If(ended):
            m.d.sync += sums.eq(Cat(held))
        m.d.comb += self.sums.eq(sums)
        return m

    def _accumulated(self, m: Module, step: data.View, x: Value, product: Value) -> Signal:
        """One channel's accumulator."""
        held = Signal(signed(32), reset_less=True)
        greater = Signal()
        a = held[:8].as_signed()
        m.d.comb += greater.eq(x > a)
        with m.If(step.valid), m.Switch(step.way):
            with m.Case(Accumulate.PICK):  # of two equal ones it does not matter which
                m.d.sync += held.eq(Cat(Mux(step.first | (greater ^ step.least), x, a)[:8], Const(0, 24)))
            with m.Case(Accumulate.PAIR):
                m.d.sync += held.eq(Cat(Mux(step.first, x, a)[:8], Mux(step.first, 0, x)[:8], Const(0, 16)))
            with m.Default():
                m.d.sync += held.eq(Mux(step.first, 0, held) + product)
        return held


def vector_sums_layout(config: Config) -> data.ArrayLayout:
    """By pixel, then channel: the int32 sum, or operand a in bits 0..7 and operand b in bits 8..15."""
    return data.ArrayLayout(data.ArrayLayout(signed(32), config.ci), config.pix)


class VectorSums(wiring.Component):
    """Each clock with `feed.valid` is a step of all pixels and channels. Its `words` and `weights` come a clock later.

    `latency` clocks after the words of a group's last step, `o_valid` is 1 for one clock, or a clock later for a product. `sums`
    holds until the next `o_valid`. Between the groups of two commands, and between products, there are at least two clocks.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.latency = PairProducts.latency + 2
        super().__init__(
            {
                "feed": In(vector_feed_layout(config)),
                "words": In(data.ArrayLayout(8 * config.ci, words_of(config.pix, True))),
                "weights": In(data.ArrayLayout(8 * config.ci, TAPS)),
                "o_valid": Out(1),
                "sums": Out(vector_sums_layout(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        late = PairProducts.latency  # from `feed` to the clock before its products, because each tile registers a copy
        multiply, steps = self._steps(m)
        steps = [delayed(m, step, late, cleared=True) for step in steps]
        m.d.comb += self.o_valid.eq(delayed(m, steps[0].end, 3, cleared=True))
        for start in range(0, self.config.ci, TILE_CHANNELS):
            for pixel in range(0, self.config.pix, 2):
                self._pair(m, pixel, range(start, min(start + TILE_CHANNELS, self.config.ci)), multiply, steps)
        return m

    def _steps(self, m: Module) -> tuple[data.View, list[data.View]]:
        """What the multipliers do for a step of `feed`, and what the tiles of even and of odd pixels do."""
        feed, multiply = self.feed, Signal(multiply_layout())
        product = Signal()
        again = Signal()  # the clock in which a product multiplies its odd pixels
        keeps = Signal()
        ends = Signal()
        m.d.comb += [
            product.eq(feed.op == PRODUCT),
            keeps.eq(feed.valid & product & feed.first),
            ends.eq(feed.valid & ~product & feed.last),
            *(multiply.keep.eq(keeps), multiply.load.eq(feed.valid & ~keeps), multiply.zeros.eq(feed.zeros)),
            *(multiply.least.eq(feed.op == MINIMUM), multiply.pads.eq(feed.pads)),
        ]
        m.d.sync += again.eq(feed.valid & product & ~feed.first)
        with m.If(again):
            m.d.comb += multiply.factor.eq(Factor.ODD)
        with m.Elif(product):
            m.d.comb += multiply.factor.eq(Factor.EVEN)
        with m.Elif(feed.op == DEPTHWISE):
            m.d.comb += multiply.factor.eq(Factor.WEIGHT)
        steps = []
        for odd in (False, True):
            step = Signal(tile_step_layout(), name="odd_step" if odd else "even_step")
            m.d.comb += [
                step.valid.eq((feed.valid & ~product) | again if odd else feed.valid & ~keeps),
                *(step.first.eq(feed.first | product | again), step.end.eq(ends | again)),
                step.least.eq(feed.op == MINIMUM),
            ]
            with m.If(~again), m.Switch(feed.op):
                with m.Case(MAX, MINIMUM):
                    m.d.comb += step.way.eq(Accumulate.PICK)
                with m.Case(ELEMENTWISE):
                    m.d.comb += step.way.eq(Accumulate.PAIR)
            steps.append(step)
        return multiply, steps

    def _pair(self, m: Module, pixel: int, channels: range, multiply: data.View, steps: list[data.View]) -> None:
        """The multipliers and accumulators of a few channels of the pixels `pixel` and `pixel + 1`."""
        m.submodules[f"products_{pixel}_{channels[0]}"] = products = PairProducts(len(channels))
        part = slice(8 * channels[0], 8 * (channels[-1] + 1))
        m.d.comb += [
            products.multiply.eq(multiply),
            Cat(products.weights).eq(Cat(weight[part] for weight in self.weights)),
            Cat(products.words).eq(Cat(self.words[pixel + place][part] for place in range(TAPS + 1))),
            *(products.counts[odd].eq(self.feed.inside[pixel + odd]) for odd in (0, 1)),
        ]
        picked = delayed(m, products.picked, products.latency - products.pick_latency)
        for odd in (0, 1):
            m.submodules[f"tile_{pixel + odd}_{channels[0]}"] = tile = VectorTile(len(channels))
            m.d.comb += [
                *(tile.step.eq(steps[odd]), tile.words.eq(picked[odd]), tile.products.eq(products.products[odd])),
                Cat(self.sums[pixel + odd][channel] for channel in channels).eq(tile.sums),
            ]
