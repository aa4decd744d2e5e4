"""The heads of both compute engines: which words meet which weights, and how many groups may be under way."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from cnna.hw.array.issue import ROOM, SLOTS, Issue
from cnna.hw.lanes.tables import IDENTITY
from cnna.hw.vector.issue import DEPTHWISE, MAX, VectorIssue
from cnna.hw.weights.ring import WordRing
from cnna.spec.config import preset
from cnna.spec.machine import BEAT_BITS

CONFIG = preset("tiny")
REST_CLOCKS = 100  # after the last step and twice `hold` a run ends: then nothing may come that did not come before


def steps(units, groups, terms):
    """(unit, group, term, first, last, group_last, unit_last) of every step, in order."""
    return [
        (u, g, t, t == 0, t == terms - 1, g == groups - 1, u == units - 1)
        for u in range(units)
        for g in range(groups)
        for t in range(terms)
    ]


class Play:
    """Sends one command through a head and its ring, clock by clock. The drain and what follows it take `hold` clocks."""

    def __init__(self, dut, width, command, walk, ring_words, seed):
        self.dut, self.command, self.walk, self.words = dut, command, walk, ring_words
        self.ring = WordRing(width, 64, 1)
        self.rng = np.random.default_rng(seed)
        self.fed, self.loaded, self.groups = [], [], 0  # (source number, ring word), ring words, pushed
        self.early = 0  # clocks from `feed` to its words
        self.table, self.table_words = [], 0  # its ring words, and how many there are
        self.written = 0  # the clock in which the last of them is written
        self.beats = [word >> BEAT_BITS * i & ((1 << BEAT_BITS) - 1) for word in ring_words for i in range(self.ring.beats)]

    def run(self, clocks, hold):
        """Ends after `clocks` at the latest. `hold`: clocks after which a group's items and slot are given back."""
        top = Module()
        top.submodules.dut, top.submodules.ring = self.dut, self.ring
        wiring.connect(top, self.dut.ring, self.ring.read)
        simulator = Simulator(top)
        simulator.add_clock(1e-6)

        async def drive(ctx):
            await self._drive(ctx, clocks, hold)

        simulator.add_testbench(drive)
        simulator.run()

    async def _drive(self, ctx, clocks, hold):
        dut, at, due, slots, commanded, beat, rest, table = self.dut, 0, [], [], False, 0, 2 * hold + REST_CLOCKS, 0
        valid = [0]  # of `feed`, the newest first
        for name, value in self.command.items():
            ctx.set(dut.command.p[name], value)
        for clock in range(clocks):
            ctx.set(dut.command.valid, int(not commanded))
            commanded |= bool(ctx.get(dut.command.ready))
            push = beat < len(self.beats) and ctx.get(self.ring.free[0]) > 0 and self.rng.random() < 0.8
            ctx.set(self.ring.write[0].valid, int(push))
            if push:
                ctx.set(self.ring.write[0].payload, self.beats[beat])
                beat += 1
            offer = at < len(self.walk) and self.rng.random() < 0.9
            ctx.set(dut.source.valid, int(offer))
            if offer:
                *_, first, last, group_last, unit_last = self.walk[at]
                for name, value in (("first", first), ("last", last), ("group_last", group_last), ("unit_last", unit_last)):
                    ctx.set(dut.source.p[name], int(value))
                ctx.set(dut.source.p.words[0], at)
                ctx.set(dut.source.p.exists, 3)
            ctx.set(dut.room_free, int(bool(due) and due[0] <= clock))
            due = due[1:] if due and due[0] <= clock else due
            ctx.set(dut.slot_free, int(bool(slots) and slots[0] <= clock))
            slots = slots[1:] if slots and slots[0] <= clock else slots
            if table:
                self.table.append(ctx.get(self.ring.read.data))
                self.written = clock + hold if len(self.table) == self.table_words else 0
            table = ctx.get(dut.table_load)
            ctx.set(dut.table_written, int(0 < self.written == clock))
            if ctx.get(dut.group_push):
                assert not self.table_words or 0 < self.written < clock, "a group uses a table that is not written yet"
                assert ctx.get(dut.group.bank) == (ctx.get(dut.table_newest) if self.table_words else IDENTITY)
                due += [clock + hold] * self.items
                if ctx.get(dut.group[self.slot_flag]):
                    slots.append(clock + hold)
                self.groups += 1
                assert len(due) <= ROOM
            assert len(slots) <= SLOTS
            valid = [ctx.get(dut.feed.valid), *valid]
            if valid[self.early]:
                self.fed.append((ctx.get(dut.words[0]), ctx.get(self.ring.read.data)))
            if ctx.get(dut.param_valid):
                self.loaded.append(ctx.get(self.ring.read.data))
            at += offer and ctx.get(dut.source.ready)
            rest -= len(self.fed) >= len(self.walk)
            if not rest:
                break
            await ctx.tick()


@pytest.mark.parametrize("hold", [20, 400])
@pytest.mark.parametrize(("stream", "groups"), [(0, 4), (1, 4), (0, 1)])  # one group a chunk: slots run out before room does
def test_conv_steps_meet_their_weights(stream, groups, hold):
    """Weights are held for all groups or taken fresh, behind each chunk's parameters. Groups may never exceed the room for them.

    A table lies before all of them, and no group may end before it is written.
    """
    units, terms, head = 24 // groups, 5, CONFIG.param_words
    walk = steps(units, groups, terms)
    chunk = head + terms * (groups if stream else 1)
    rng = np.random.default_rng(stream)
    words = [int.from_bytes(rng.bytes(CONFIG.ring_word_bytes), "little") for _ in range(units * chunk)]
    table = [int.from_bytes(rng.bytes(CONFIG.ring_word_bytes), "little") for _ in range(stream * CONFIG.table_words)]
    command = {"stream": stream, "mid_zero": 3, "mid_clamp_low": -4, "mid_clamp_high": 5, "table_load": stream, "table_use": stream}
    play = Play(Issue(CONFIG), 8 * CONFIG.ring_word_bytes, command, walk, table + words, seed=hold)
    play.items, play.slot_flag, play.table_words = 2 * CONFIG.chunk_blocks, "chunk_last", len(table)
    play.run(12000 if hold > 100 else 1500, hold)
    offset = [u * chunk + head + (g * terms if stream else 0) + t for u, g, t, *_ in walk]
    assert play.fed == [(number, words[i]) for number, i in enumerate(offset)]
    assert play.loaded == [words[u * chunk + i] for u in range(units) for i in range(head)]
    assert play.table == table
    assert play.groups == units * groups


@pytest.mark.parametrize("hold", [20, 400])
@pytest.mark.parametrize(("op", "uniform"), [(DEPTHWISE, 0), (DEPTHWISE, 1), (MAX, 0), (MAX, 1)])
def test_vector_steps_meet_their_weights(op, uniform, hold):
    """Depthwise weights lie behind their block's parameters, if it has its own; other operations take only parameters."""
    units, groups, terms, head = 7, 3, 4, CONFIG.ci // 2
    walk = steps(units, groups, terms)
    rng = np.random.default_rng(uniform)
    words, params, weights = [], [], []
    for unit in range(units):
        for kind, count in ((params, 0 if uniform and unit else head), (weights, terms if op == DEPTHWISE else 0)):
            kind.append(range(len(words), len(words) + count))
            words += [int.from_bytes(rng.bytes(BEAT_BITS // 8), "little") for _ in range(count)]
    table = [int.from_bytes(rng.bytes(BEAT_BITS // 8), "little") for _ in range(uniform * CONFIG.vector_table_words)]
    command = {"op": op, "blocks": units, "uniform": uniform, "add_b": 1, "out_zero": 2, "out_clamp_low": -3, "out_clamp_high": 4}
    command |= {"table_load": uniform, "table_use": uniform}
    play = Play(VectorIssue(CONFIG), BEAT_BITS, command, walk, table + words, seed=hold)
    play.items, play.slot_flag, play.table_words, play.early = 2, "slot_last", len(table), 1
    play.run(8000 if hold > 100 else 1000, hold)
    assert [number for number, _ in play.fed] == list(range(len(walk)))
    if op == DEPTHWISE:
        assert [word for _, word in play.fed] == [words[weights[u][t]] for u, _, t, *_ in walk]
    assert play.loaded == [words[i] for block in params for i in block]
    assert play.table == table
    assert play.groups == units * groups
