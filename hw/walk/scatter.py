"""Writes word groups to feature memory along a walk, and tells when a unit is written.

A `Walker` says where. The words come from an engine's requantiser or residual add.
"""

from amaranth import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import FeatureWrite
from cnna.hw.walk.decks import Decks, decks_of
from cnna.hw.walk.walk import walk_layout
from cnna.hw.walk.walker import Walker
from cnna.spec.config import Config


class Scatter(wiring.Component):
    """Writes a group of pix/2 words a clock, in the walk's order: half groups of pixels outside, the unit's blocks inside.

    `words` brings one item for every step of the walk, which is ceil(pixels / half) * blocks items a unit. Words whose pixel or
    block does not exist are dropped; with `cut`, also those beyond the walk's `columns`. `unit_done` pulses once a unit, when every
    reader's next request sees all of its words.
    """

    def __init__(self, config: Config, cut: bool = False, decks: Decks = Decks.NONE) -> None:
        self._config, self._cut, self._decks = config, cut, decks_of(config, decks)
        super().__init__(
            {
                "command": In(stream.Signature(walk_layout(cut=cut))),
                "words": In(stream.Signature(data.ArrayLayout(8 * config.ci, config.half))),
                "memory": Out(FeatureWrite(config, config.half)),
                "unit_done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = Walker(self._config.half, cut=self._cut, decks=self._decks)
        wiring.connect(m, walker.command, wiring.flipped(self.command))
        step, words, request = walker.step, self.words, self.memory.request
        m.d.comb += [
            walker.permit.valid.eq(1),
            request.valid.eq(step.valid & words.valid),
            step.ready.eq(words.valid & request.ready),
            words.ready.eq(step.valid & request.ready),
            request.p.active.eq(step.p.exists),
            request.p.address.eq(step.p.address),
            request.p.words.eq(words.p),
            request.p.last.eq(step.p.last & step.p.group_last),
            self.unit_done.eq(self.memory.done),
        ]
        return m
