"""Reads feature memory along a walk, and gives a stream of word groups.

A `Walker` says where, a read port of feature memory brings the words, and a FIFO holds them until the engine takes them. Feature
memory cannot be stopped, so a read is asked for only when the FIFO has room for its answer. The flags of a step and the value of
its padding go through feature memory as the tag.
"""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import FeatureRead, Permit
from cnna.hw.base.queues import CreditFifo
from cnna.hw.base.timing import tally
from cnna.hw.walk.decks import Decks, decks_of
from cnna.hw.walk.exchange import Exchange
from cnna.hw.walk.walk import flags_of, masks_of, pairs_of, walk_layout, words_of
from cnna.hw.walk.walker import Walker
from cnna.spec.config import Config

DEPTH = 16  # groups under way: the latency of feature memory and of the FIFO, and a few more
FLAGS = flags_of(False)


def fetched_layout(config: Config, lanes: int, window: bool = False, blocks: int = 1) -> data.StructLayout:
    """A step's words of so many blocks, or the padding where a lane's tap lies outside the source; flags as in `walk.step_layout`.

    With `window` the padding is not yet put in, because a word may be a tap of up to three lanes: lane i's tap t is word i + t. It
    counts where `inside` (tap 0) or `more` (taps 1 and 2) is set; elsewhere the tap is `pad`, if it is there at all.
    """
    words = data.ArrayLayout(unsigned(8 * blocks * config.ci), words_of(lanes, window))
    return data.StructLayout(
        {"words": words, **dict.fromkeys(FLAGS, unsigned(1)), "exists": unsigned(lanes)} | _masks(lanes, window)
    )


def _masks(lanes: int, window: bool) -> dict[str, Any]:
    """The members that say what each lane's taps are, where the padding is not put in."""
    return {"inside": unsigned(lanes), **masks_of(lanes, window), "pad": signed(8)} if window else {}


def fetch_tag_layout(lanes: int, window: bool = False) -> data.StructLayout:
    """The tag of a request: what comes back with its words."""
    flags = dict.fromkeys(flags_of(window), unsigned(1))
    masks = {"inside": unsigned(lanes), **masks_of(lanes, window), **pairs_of(window)}
    return data.StructLayout({"exists": unsigned(lanes), **masks, **flags, "pad": signed(8)})


def fetch_read(config: Config, lanes: int, window: bool = False, blocks: int = 1) -> FeatureRead:
    """The read port that a fetch of `lanes` lanes needs."""
    return FeatureRead(config, words_of(lanes, window), fetch_tag_layout(lanes, window).size, blocks)


class Fetch(wiring.Component):
    """Fetches a step a clock. A unit starts only after `permit` has allowed it.

    The next command's walk is set up while the last unit of this one is read. With `window`, steps may have several taps, and walks
    may have a flat tap, whose word goes to every lane. `blocks`: how many each read brings, one from each deck if it is 2;
    otherwise `decks` says which steps lead from deck to deck.
    """

    def __init__(self, config: Config, lanes: int, window: bool = False, blocks: int = 1, decks: Decks = Decks.NONE) -> None:
        self._config, self._lanes, self._window, self._blocks = config, lanes, window, blocks
        self._decks = decks_of(config, decks)
        super().__init__(
            {
                "command": In(stream.Signature(walk_layout(window))),
                "permit": In(Permit()),
                "memory": Out(fetch_read(config, lanes, window, blocks)),
                "o": Out(stream.Signature(fetched_layout(config, lanes, window, blocks))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.walker = walker = Walker(self._lanes, self._window, decks=self._decks)
        m.submodules.fifo = fifo = CreditFifo(self.o.p.shape(), DEPTH)
        wiring.connect(m, wiring.flipped(self.permit), walker.permit)
        wiring.connect(m, wiring.flipped(self.o), fifo.o)
        step, request, response = walker.step, self.memory.request, self.memory.response
        layout = fetch_tag_layout(self._lanes, self._window)
        sent = Signal(layout)
        taken = Signal()
        given = Signal()
        room = tally(m, DEPTH, taken, given).room  # `given` comes late, through all that reads `o`
        wiring.connect(m, walker.command, wiring.flipped(self.command))
        m.d.comb += [
            taken.eq(request.valid & request.ready),
            given.eq(fifo.o.valid & fifo.o.ready),
            request.valid.eq(step.valid & room),
            step.ready.eq(request.ready & room),
            request.p.active.eq(self._reads(step.p)),
            request.p.address.eq(step.p.address),
            request.p.tag.eq(sent),
            *(sent[name].eq(step.p[name]) for name, _ in layout),
        ]

        tag = data.View(layout, response.p.tag)
        if self._window:
            self._exchange(m, tag, fifo)
            return m
        pad = tag.pad.replicate(self._blocks * self._config.ci)
        m.d.comb += [fifo.push.eq(response.valid), *(fifo.item[name].eq(tag[name]) for name in ("exists", *FLAGS))]
        m.d.comb += [fifo.item.words[i].eq(Mux(tag.inside[i], response.p.words[i], pad)) for i in range(self._lanes)]
        return m

    def _reads(self, step: data.View) -> Value:
        """Which words a step reads: those that a lane needs for one of its taps."""
        if not self._window:
            return step.inside
        needs: list[list[Value]] = [[] for _ in range(words_of(self._lanes, True))]
        for lane in range(self._lanes):
            for tap, inside in enumerate([step.inside[lane], *step.more[lane]]):
                needs[lane + tap].append(inside)
        pair = step.pair.any()  # then the other step's needs count for the words beyond
        return Cat(Cat(*inside, *([pair] if number >= self._lanes else [])).any() for number, inside in enumerate(needs))

    def _exchange(self, m: Module, tag: data.View, fifo: CreditFifo) -> None:
        """Fills the FIFO by way of the exchange. A flat word lies inside of the source for every lane."""
        response, count = self.memory.response, words_of(self._lanes, True)
        m.submodules.exchange = exchange = Exchange(self._lanes, count, 8 * self._config.ci, tag.shape())
        m.d.comb += [exchange.valid.eq(response.valid), exchange.words.eq(response.p.words), exchange.tag.eq(tag)]
        held, item = exchange.o_tag, fifo.item
        m.d.comb += [fifo.push.eq(exchange.o_valid), item.words.eq(exchange.o_words)]
        m.d.comb += [item[name].eq(held[name]) for name in ("exists", "more", "taps", "pad", *FLAGS)]
        m.d.comb += item.inside.eq(held.inside | held.flat.replicate(self._lanes))
