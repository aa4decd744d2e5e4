"""Behind feature memory, in walks with a window: brings each word to the step and the lanes that it is for.

At two taps from lane to lane, the words of a step lie two apart, and those behind the lanes' own would be in the banks of the
first lanes. So a step and the one behind it, whose words lie between, request these words for each other. The first of the two
waits here for the second's answer.

Each `HeldWord` is a module by itself with its own copies of the control bits.
"""

from typing import Any

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed


class HeldWord(wiring.Component):
    """Holds one word of a step, and for a word that steps `swap` also those of the steps before and behind it.

    `valid`, and `flat` or `pair` with it, belong to `word`. Two clocks after it came, `o` is the held step's word, or that of the
    other step of its pair; for a flat step it is `first`, the word of lane 0.
    """

    def __init__(self, bits: int, swaps: bool) -> None:
        self._swaps = swaps
        inputs = {"valid": 1, "flat": 1, "pair": 2, "word": bits, "first": bits}
        super().__init__({**{name: In(unsigned(size)) for name, size in inputs.items()}, "held": Out(bits), "o": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid = Signal(name="valid_copy", attrs=COPY)
        early = Signal(self.word.shape(), reset_less=True)
        held = Signal(self.word.shape(), reset_less=True)
        flat, pair = (delayed(m, value, 1) for value in (self.flat, self.pair))
        held_flat, held_pair = (Signal(size, name=name, attrs=COPY) for name, size in (("held_flat", 1), ("held_pair", 2)))
        m.d.sync += [valid.eq(self.valid), early.eq(self.word)]
        with m.If(valid):
            m.d.sync += [held.eq(early), held_flat.eq(flat), held_pair.eq(pair)]
        m.d.comb += self.held.eq(held)
        if not self._swaps:
            m.d.comb += self.o.eq(Mux(held_flat, self.first, held))
            return m
        before = Signal(self.word.shape(), reset_less=True)
        with m.If(valid):
            m.d.sync += before.eq(held)
        m.d.comb += self.o.eq(Mux(held_pair[0], early, Mux(held_pair[1], before, held)))
        return m


class Exchange(wiring.Component):
    """Answers of feature memory come in order, and go on two clocks later, or once the answer that a step waits for has come.

    `words` and `tag` belong to `valid`. The tag's `pair` says whether the step is the first of two that exchange words, or the
    second; its `flat` whether the word of lane 0 is every lane's. `o_tag` has no `pair`.
    """

    def __init__(self, lanes: int, words: int, bits: int, tag: data.StructLayout) -> None:
        self._lanes, self._words, self._bits = lanes, words, bits
        row: Any = data.ArrayLayout(unsigned(bits), words)
        out = data.StructLayout({name: field.shape for name, field in tag if name != "pair"})
        super().__init__(
            {"valid": In(1), "words": In(row), "tag": In(tag), "o_valid": Out(1), "o_words": Out(row), "o_tag": Out(out)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        coming, there = delayed(m, self.valid, 1, cleared=True), Signal()
        early = delayed(m, self.tag, 1)
        held = Signal(self.tag.shape(), reset_less=True)
        m.d.comb += self.o_valid.eq(there & (~held.pair[0] | coming))
        m.d.comb += [self.o_tag[name].eq(held[name]) for name, _ in self.o_tag.shape()]
        m.d.sync += there.eq(coming | (there & ~self.o_valid))
        with m.If(coming):
            m.d.sync += held.eq(early)
        first = Signal(self._bits)
        for number in range(self._words):
            m.submodules[f"word{number}"] = one = HeldWord(self._bits, number >= self._lanes)
            m.d.comb += [
                *(one.valid.eq(self.valid), one.flat.eq(self.tag.flat), one.pair.eq(self.tag.pair)),
                *(one.word.eq(self.words[number]), one.first.eq(first), self.o_words[number].eq(one.o)),
            ]
            if number == 0:
                m.d.comb += first.eq(one.held)
        return m
