"""The queue of runs, with register file, control and faults as top connects them: what begins when, and with which registers."""

import numpy as np
import pytest

from cnna.hw.control.run_queue import HELD
from cnna.spec.regmap import PLACES, REGISTERS, offset

from ...rigs.queue_bench import CTRL, play, run_words
from ...rigs.regfile_host import OKAY, SLVERR, Host

MOST_CLOCKS = 50  # from the end of a program to the `clear` of the next


def test_each_program_has_the_registers_of_its_own_start():
    """A program would use the segments, limits or program of another one, or those that the host is about to set."""

    async def test(ctx, host):
        rng = np.random.default_rng(3)
        sets = [run_words(rng) for _ in range(PLACES + 2)]
        await host.prepare(sets[0])
        assert host.active() == sets[0]
        assert await host.ctrl(start=1) == OKAY
        for words in sets[1:-1]:
            await host.prepare(words)
            assert await host.ctrl(queue=1) == OKAY
        assert (await host.fields("QUEUE"))["pending"] == PLACES
        assert await host.write(offset("PROG_COUNT"), 5) == SLVERR
        assert await host.write(offset("WATCHDOG"), 77) == OKAY
        assert ctx.get(host.bench.regfile.watchdog) == 77
        assert await host.ctrl(queue=1) == SLVERR
        for number, words in enumerate(sets[:-1]):
            assert host.active() == words
            assert await host.fields("FINISHED") == {"runs": number}
            await host.end()
            if number < PLACES:
                await host.runs()
                assert (await host.fields("QUEUE"))["queued"]
        await host.prepare(sets[-1])  # waits until the active ones are the host's again
        assert host.active() == sets[-1]
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert host.active() == sets[-1]

    play(test)


@pytest.mark.parametrize("clocks", range(1, 41, 3))
def test_the_next_program_begins_within_50_clocks_whatever_the_host_does(clocks):
    """A host that reads all the time, or queues a start at a bad moment, would delay the next program."""
    gaps = []

    async def watch(ctx, bench):
        left = None
        ran = 0
        while True:
            await ctx.tick()
            running = ctx.get(bench.control.running)
            if ran and not running:
                left = 0
            if left is not None:
                left += 1
                if ctx.get(bench.control.clear):
                    gaps.append(left)
                    left = None
            ran = running

    async def read(ctx, bench):
        reader = Host(ctx, bench.regfile, None)
        while True:
            await reader.send("ar", araddr=offset("CYCLES"))
            await reader.answer("r", "rdata")

    async def test(ctx, host):
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1) == OKAY
        await host.send("aw", awaddr=CTRL.offset)
        await host.send("w", wdata=CTRL.pack(queue=1), wstrb=15)
        await ctx.tick().repeat(clocks)
        await host.end()
        await host.runs()
        assert await host.answer("b", "bresp") == [OKAY]
        assert ctx.get(host.bench.regfile.pending)
        await host.end()
        await host.runs()

    play(test, watch, read)
    assert len(gaps) == 2
    assert max(gaps) <= MOST_CLOCKS


def test_counters_and_pc_stay_until_the_queued_program_ends():
    """A host that comes late would read counters of a program that still runs, or of none."""

    async def test(ctx, host):
        words = {name: 1000 + number for number, name in enumerate(HELD)}
        ctx.set(host.bench.regfile.reports, words)
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1) == OKAY
        await host.end()
        await host.runs()
        ctx.set(host.bench.regfile.reports, dict.fromkeys(HELD, 7))
        for live, expected in ((0, words), (1, dict.fromkeys(HELD, 7)), (0, words)):
            assert await host.ctrl(live=live) == OKAY
            assert {name: (await host.read(offset(name)))[0] for name in HELD} == expected
        assert await host.read(offset("DONE_STORE") + 4) == (0, SLVERR)
        await host.end()
        assert {name: (await host.read(offset(name)))[0] for name in HELD} == dict.fromkeys(HELD, 7)

    play(test)


def test_a_queued_start_leaves_done_and_a_plain_one_clears_it():
    """The interrupt of a program would be lost when the next one begins, or a start would look done at once."""

    async def test(ctx, host):
        assert await host.ctrl(queue=1, irq_enable=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1, irq_enable=1) == OKAY
        await host.end()
        await host.runs()
        await ctx.tick().repeat(5)
        assert ctx.get(host.bench.control.done)
        assert ctx.get(host.bench.control.interrupt)
        assert await host.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1)) == OKAY
        await ctx.tick().repeat(3)
        assert not ctx.get(host.bench.control.interrupt)
        await host.end()
        assert ctx.get(host.bench.control.done)
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert not ctx.get(host.bench.control.done)
        assert (await host.fields("FINISHED"))["runs"] == 2

    play(test)


@pytest.mark.parametrize("by", ["error", "soft_reset"])
def test_an_error_or_a_reset_drops_what_is_pending(by):
    """Programs would begin behind one that has failed, or a host would not learn that they never will."""

    async def test(ctx, host):
        assert await host.ctrl(start=1) == OKAY
        for _ in range(PLACES):
            assert await host.ctrl(queue=1) == OKAY
        if by == "error":
            ctx.set(host.bench.faults.reads[0].valid, 1)
            await ctx.tick()
            ctx.set(host.bench.faults.reads[0].valid, 0)
            await ctx.tick().repeat(3)
            assert (await host.fields("QUEUE")) == {"pending": 0, "dropped": PLACES, "places": PLACES, "queued": 0}
            for dropped in range(PLACES + 1, PLACES + 4):
                assert await host.ctrl(queue=1) == OKAY
                assert (await host.fields("QUEUE")) == {"pending": 0, "dropped": dropped, "places": PLACES, "queued": 0}
            assert ctx.get(host.bench.faults.error)
        assert await host.ctrl(soft_reset=1) == OKAY
        assert (await host.fields("QUEUE")) == {"pending": 0, "dropped": 0, "places": PLACES, "queued": 0}
        assert await host.ctrl(queue=1) == OKAY  # in the reset, or behind it
        await host.runs()
        await host.end()
        assert (await host.fields("FINISHED"))["runs"] == 1

    play(test)


def test_dropped_starts_are_counted_as_far_as_the_field_goes():
    """After 256 starts a host would read that none was dropped."""

    async def test(ctx, host):
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        ctx.set(host.bench.faults.reads[0].valid, 1)
        await ctx.tick()
        ctx.set(host.bench.faults.reads[0].valid, 0)
        most = (1 << REGISTERS["QUEUE"].fields[1].bits) - 1
        for number in range(1, most + 3):
            assert await host.ctrl(queue=1) == OKAY
            assert (await host.fields("QUEUE"))["dropped"] == min(number, most)
        assert await host.ctrl(start=1) == OKAY
        await host.runs()
        assert (await host.fields("QUEUE"))["dropped"] == 0

    play(test)


def test_a_queued_start_behind_a_program_of_the_host_plays_from_memory():
    """The host's next write would become part of the queued program."""

    async def test(ctx, host):
        assert await host.ctrl(begin=1) == OKAY
        await host.runs()
        assert await host.ctrl(queue=1) == OKAY
        await host.end()
        assert await host.write(offset("SEG_INPUT_LO"), 0x1000) == OKAY
        await host.runs()
        assert not ctx.get(host.bench.control.by_host)
        assert ctx.get(host.bench.regfile.segments[2]) == 0
        assert not ctx.get(host.bench.faults.error)

    play(test)
