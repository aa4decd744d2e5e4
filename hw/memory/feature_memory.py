"""Feature memory: regions of 2 * pix banks, and the seven ports that share them.

Port A of every bank serves the array's reads alone. Port B serves the others, by falling priority: conv writes, residual
reads, vector writes, vector reads, load, store. A conflict costs clocks, never correctness.
"""

from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import ULTRA
from cnna.hw.base.ports import FeatureRead, FeatureWrite
from cnna.hw.base.timing import delayed
from cnna.hw.memory.bank_slots import BankSlots, ReadAnswers
from cnna.hw.memory.request_splitter import RequestSplitter, one_hot, row_bits
from cnna.hw.walk.fetch import fetch_read
from cnna.spec.config import Config


class BankRam(wiring.Component):
    """One bank: `depth` words of block RAM, or of UltraRAM, in true dual port, with output registers.

    With two `decks`, the top bit of port B's row is the deck. Port A reads the words of both decks at `a_row`, that of deck 0 in
    the lower bits; block RAM has ports of unlike widths for that.

    Where `a_enable` or `b_enable` is set, the word is on `a_word` or `b_word` two clocks later. `b_write` needs `b_enable` too
    (see verilog/memories.py); `b_word` is then the word from before the write, or with UltraRAM the last one that was read. Port B
    has one address for a read or a write, so that tools see two ports, not three.

    If one port writes a word while the other reads it in the same clock, the read gives anything: users wait for
    `ports.FeatureWrite.done`.
    """

    def __init__(self, width: int, depth: int, decks: int = 1, uram: bool = False) -> None:
        self._width, self._depth, self._decks, self._attrs = width, depth, decks, ULTRA if uram else None
        super().__init__(
            {
                "a_enable": In(1),
                "a_row": In(range(depth // decks)),
                "a_word": Out(decks * width),
                "b_enable": In(1),
                "b_write": In(1),
                "b_row": In(range(depth)),
                "b_data": In(width),
                "b_word": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[], attrs=self._attrs)
        wide, b, write = [memory.read_port() for _ in range(self._decks)], memory.read_port(), memory.write_port()
        row = self.b_row if self._decks == 1 else Cat(self.b_row[-1], self.b_row[:-1])  # the words of a set side by side
        for deck, a in enumerate(wide):
            m.d.comb += [a.en.eq(self.a_enable), a.addr.eq(self.a_row if self._decks == 1 else Cat(Const(deck, 1), self.a_row))]
        m.d.comb += [b.en.eq(self.b_enable), b.addr.eq(row)]
        m.d.comb += [write.en.eq(self.b_write), write.addr.eq(row), write.data.eq(self.b_data)]
        m.d.comb += [self.a_word.eq(delayed(m, Cat(a.data for a in wide), 1)), self.b_word.eq(delayed(m, b.data, 1))]
        return m


LATENCY = 9  # clocks from a read's request to its answer, where nothing conflicts


def port_signatures(config: Config) -> dict[str, wiring.Signature]:
    """The ports by name, seen from their users. All but the first share port B of the banks; priority falls in this order."""
    beats = config.ports * config.beat_words
    return {
        "conv_read": fetch_read(config, config.pix, blocks=config.depth),
        "conv_write": FeatureWrite(config, config.half),
        "residual_read": fetch_read(config, config.half),
        "vector_write": FeatureWrite(config, config.half),
        "vector_read": fetch_read(config, config.pix, window=True),
        "load": FeatureWrite(config, beats),
        "store": FeatureRead(config, beats, beats),
    }


class BankInputs(NamedTuple):
    """Registered inputs of one port (A or B) of every bank, region 0's banks first. `enable` is set for a write too."""

    enable: Signal
    write: Signal
    row: data.View
    word: data.View


class FeatureMemory(wiring.Component):
    """The ports of `port_signatures`. Each takes a request a clock as long as nothing conflicts.

    A read is answered LATENCY clocks after it is taken, or later where it conflicts. `probe_write` (a bit a bank, region 0's
    banks first), `probe_row` and `probe_word` (flat, in the same order) let a testbench watch what is written. They keep their
    names in the Verilog and drive nothing.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._ports = config, port_signatures(config)
        super().__init__({name: In(signature) for name, signature in self._ports.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots: dict[str, BankSlots] = {}
        for name in self._ports:
            slots[name] = self._front(m, name, [slot for user, slot in slots.items() if "conv_read" not in (name, user)])
        config, bits = self._config, 8 * self._config.ci
        rams = [BankRam(bits, config.bank_words, config.depth, config.uram) for _ in range(config.regions * config.banks)]
        a = self._arbitrate(m, "a", {"conv_read": slots["conv_read"]})
        b = self._arbitrate(m, "b", {name: slot for name, slot in slots.items() if name != "conv_read"})
        a_words = Signal(data.ArrayLayout(config.depth * bits, len(rams)), name="a_words")
        b_words = Signal(data.ArrayLayout(bits, len(rams)), name="b_words")
        for index, ram in enumerate(rams):
            m.submodules[f"bank{index}"] = ram
            m.d.comb += [ram.a_enable.eq(a.enable[index]), ram.a_row.eq(a.row[index]), a_words[index].eq(ram.a_word)]
            m.d.comb += [ram.b_enable.eq(b.enable[index]), ram.b_row.eq(b.row[index]), b_words[index].eq(ram.b_word)]
            m.d.comb += [ram.b_write.eq(b.write[index]), ram.b_data.eq(b.word[index])]
        for name, slot in slots.items():
            self._answer(m, name, slot, a_words if name == "conv_read" else b_words)
        for what, inputs in (("write", b.write), ("row", b.row.as_value()), ("word", b.word.as_value())):
            m.d.comb += Signal(len(inputs), name=f"probe_{what}").eq(inputs)
        return m

    def _front(self, m: Module, name: str, higher: list[BankSlots]) -> BankSlots:
        """A port's splitter and slots. A bank goes to these slots where none of `higher` priority asks for it."""
        request = self._ports[name].members["request"].signature.members["payload"].shape
        whole = name == "conv_read"
        m.submodules[f"{name}_front"] = front = RequestSplitter(self._config, request, bool(higher), whole)
        m.submodules[f"{name}_slots"] = slots = BankSlots(self._config, request, len(higher), whole)
        wiring.connect(m, wiring.flipped(getattr(self, name).request), front.i)
        wiring.connect(m, front.o, slots.i)
        m.d.comb += [slots.higher[index].eq(user.asks) for index, user in enumerate(higher)]
        return slots

    def _arbitrate(self, m: Module, port: str, users: dict[str, BankSlots]) -> BankInputs:
        """What each bank gets, from the user that it is granted to."""
        config, banks = self._config, self._config.regions * self._config.banks
        inputs = BankInputs(
            Signal(banks, name=f"{port}_enable"),
            Signal(banks, name=f"{port}_write"),
            Signal(data.ArrayLayout(row_bits(config, whole=port == "a"), banks), name=f"{port}_row", reset_less=True),
            Signal(data.ArrayLayout(8 * config.ci, banks), name=f"{port}_word", reset_less=True),
        )
        granted = {name: slots.granted for name, slots in users.items()}
        writers = [name for name in users if isinstance(self._ports[name], FeatureWrite)]
        m.d.sync += inputs.enable.eq(reduce(or_, (slots.asks for slots in users.values())))  # someone is granted what is asked for
        for index in range(banks):
            bank = index % config.banks
            flags, rows = [granted[name][index] for name in users], [slots.row[bank] for slots in users.values()]
            m.d.sync += inputs.row[index].eq(one_hot(flags, rows) if len(users) > 1 else rows[0])
            if writers:
                flags = [granted[name][index] for name in writers]
                m.d.sync += inputs.write[index].eq(Cat(flags).any())
                m.d.sync += inputs.word[index].eq(one_hot(flags, [users[name].words[bank] for name in writers]))
        return inputs

    def _answer(self, m: Module, name: str, slots: BankSlots, words: data.View) -> None:
        """Connects what goes back to the port's user: a reader's words, or a writer's `done`."""
        port = getattr(self, name)
        if isinstance(self._ports[name], FeatureWrite):
            m.d.sync += port.done.eq(slots.complete & slots.part.last)
            return
        request, response = (self._ports[name].members[way].signature.members["payload"].shape for way in ("request", "response"))
        m.submodules[f"{name}_answers"] = answers = ReadAnswers(self._config, request, response)
        m.d.comb += [
            answers.granted.eq(slots.granted),
            answers.complete.eq(slots.complete),
            answers.part.eq(slots.part),
            answers.words.eq(words),
        ]
        wiring.connect(m, answers.o, wiring.flipped(port.response))
