"""The queue of runs at moments that no test names: resets at each clock of a launch, and random hosts beside random programs."""

from functools import partial

import numpy as np
import pytest

from cnna.spec.regmap import PLACES, REGISTERS, RUN_REGISTERS, offset

from ...rigs.queue_bench import CTRL, QueueHost, play, run_words, simulation
from ...rigs.queue_machine import Machine
from ...rigs.regfile_host import OKAY, SLVERR

ACTS = {"queue": 0.55, "start": 0.15, "reset": 0.08, "clear_done": 0.1, "prepare": 0.12}
GAPS = (1, 1, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55)  # clocks between two acts
COUNTERS = ("CYCLES", "DONE_STORE", "PC")
HOSTS = 12
SETTLE_CLOCKS = 2000
RESET_CLOCKS = 45  # from the end of a program until the next one has begun
SNAPSHOT_CLOCKS = 32  # of a write that queues a start


def whole_beats(words):
    """Run registers as the engines see them: sizes of segments count in beats."""
    return {name: word & ~15 if name.endswith("_BYTES") else word for name, word in words.items()}


class RandomHost(QueueHost):
    """Writes at random moments. `accepted` has, for each epoch, the run registers of the starts that were answered by OKAY."""

    def __init__(self, ctx, bench, machine, rng):
        super().__init__(ctx, bench)
        self.machine, self.rng = machine, rng
        self.words = {name: self.word(name) for name in RUN_REGISTERS}
        self.accepted = [[]]

    @staticmethod
    def word(name):
        """What a register reads before the first write."""
        return REGISTERS[name].pack(**{field.name: field.reset for field in REGISTERS[name].fields})

    def open_runs(self):
        """Accepted starts whose programs have not ended; none after an error."""
        return 0 if self.machine.failed else len(self.accepted[-1]) - self.machine.done

    async def prepare_some(self):
        for name, word in run_words(self.rng).items():
            if self.rng.random() < 0.1:
                before = self.open_runs()
                if await self.write(offset(name), word) == OKAY:
                    self.words[name] = word
                else:
                    assert before > PLACES, f"{name} was refused"

    async def submit(self, how):
        await self.prepare_some()
        runs, resets = self.open_runs(), len(self.machine.epochs)
        answer = await self.ctrl(**{how: 1})
        if answer == SLVERR:
            assert runs > (PLACES if how == "queue" else 0), f"{how} was refused with {runs} runs open"
            return
        await self.ctx.tick().repeat(4)
        if how == "start" and len(self.machine.epochs) > resets:  # it resets first
            self.accepted.append([])
        elif how == "start":
            assert self.machine.done == len(self.accepted[-1]), "a start was taken while programs were to come"
        self.accepted[-1].append(whole_beats(self.words))

    async def act(self, name):
        if name in ("queue", "start"):
            await self.submit(name)
        elif name == "reset":
            self.accepted.append([])
            assert await self.ctrl(soft_reset=1) == OKAY
        elif name == "clear_done":
            assert await self.write(offset("STATUS"), REGISTERS["STATUS"].pack(done=1)) == OKAY
        else:
            await self.prepare_some()


async def look(host, machine):
    """Reads the counters, which must be those of the program that FINISHED and QUEUE name."""
    epoch, before = len(machine.epochs), ((await host.fields("FINISHED"))["runs"], (await host.fields("QUEUE"))["queued"])
    found = {(await host.read(offset(name)))[0] for name in COUNTERS}
    after = (await host.fields("QUEUE"))["queued"], (await host.fields("FINISHED"))["runs"]
    if before == after[::-1] and before[1] and epoch == len(machine.epochs):
        last = machine.ended[before[0] - 1] if before[0] else (0, 0)
        assert found == {last[1] if last[0] == epoch else 0}, "the counters are those of another program"


async def settle(host, machine, writer):
    """Waits until all has ended, and checks all that was accepted."""
    control, dut = host.bench.control, host.bench.regfile
    for _ in range(SETTLE_CLOCKS):
        await host.ctx.tick()
        if not (host.ctx.get(control.busy) or host.ctx.get(dut.pending) or host.ctx.get(control.resetting)):
            break
    else:
        raise AssertionError("it hangs")
    queue = await host.fields("QUEUE")
    accepted, begun = writer.accepted, machine.epochs
    assert len(accepted) == len(begun)
    assert [runs[: len(programs)] for runs, programs in zip(accepted, begun, strict=True)] == begun, "programs are mixed"
    missing = len(accepted[-1]) - len(begun[-1])
    assert queue == {"pending": 0, "dropped": missing, "places": PLACES, "queued": 0}
    assert machine.failed or not missing, "a start was lost"
    assert (await host.fields("FINISHED"))["runs"] == len(machine.ended)
    assert {name: (await host.read(offset(name)))[0] for name in RUN_REGISTERS} == writer.words
    assert host.active() == whole_beats(writer.words)


async def send(host, **fields):
    """Sends a write of CTRL, without waiting for its answer."""
    await host.send("w", wdata=CTRL.pack(**fields), wstrb=15)
    await host.send("aw", awaddr=CTRL.offset)


@pytest.mark.parametrize("number", range(HOSTS))
def test_no_start_is_lost_or_mixed_with_another(number, seed):
    """At some moment a program would have registers of another, or counters would, or a start or an end would be lost."""
    rng = np.random.default_rng([seed, number])
    machine, bench, over = Machine(rng), simulation().design, []
    writers = []

    async def write(ctx):
        writers.append(host := RandomHost(ctx, bench, machine, rng))
        paces = rng.choice(GAPS, 3)
        for name in rng.choice(list(ACTS), 14, p=list(ACTS.values())):
            await host.act(name)
            await ctx.tick().repeat(int(rng.choice(paces)))
        over.append(True)

    async def read(ctx):
        host = QueueHost(ctx, bench)
        while not over:
            await look(host, machine)
            await ctx.tick().repeat(int(rng.choice(GAPS)))
        await settle(host, machine, writers[0])

    simulation().run(write, read, after=[partial(machine, bench=bench)])


def test_a_reset_at_each_clock_of_a_launch_leaves_nothing():
    """The program would begin behind the reset, or the queue would count on from a start that is no more."""

    async def test(ctx, host):
        rng = np.random.default_rng(2)
        for clocks in range(RESET_CLOCKS):
            new = {name: int(rng.integers(1 << 32)) for name in ("PROG_COUNT", "SEG_OUTPUT_LO")}
            assert await host.ctrl(start=1) == OKAY
            await host.runs()
            assert await host.ctrl(queue=1) == OKAY
            finished = (await host.fields("FINISHED"))["runs"] + 1
            await host.end()
            for _ in range(clocks):
                await ctx.tick()
            await send(host, soft_reset=1)
            assert await host.answer("b", "bresp") == [OKAY]
            while ctx.get(host.bench.control.resetting):
                await ctx.tick()
            assert await host.fields("QUEUE") == {"pending": 0, "dropped": 0, "places": PLACES, "queued": 0}
            assert not ctx.get(host.bench.control.busy)
            await host.prepare(new)
            assert await host.ctrl(queue=1) == OKAY
            await host.runs()
            assert new.items() <= host.active().items()
            await host.end()
            assert await host.fields("FINISHED") == {"runs": finished + 1}

    play(test)


def test_an_error_at_each_clock_of_a_snapshot_drops_the_start():
    """A host that could not know of the error would get SLVERR, or its start would not be counted, or wait behind the reset."""

    async def test(ctx, host):
        valid, control = host.bench.faults.reads[0].valid, host.bench.control
        for clocks in range(SNAPSHOT_CLOCKS):
            assert await host.ctrl(start=1) == OKAY
            await host.runs()
            await send(host, queue=1)
            for _ in range(clocks):
                await ctx.tick()
            ctx.set(valid, 1)
            await ctx.tick()
            ctx.set(valid, 0)
            assert await host.answer("b", "bresp") == [OKAY]
            assert await host.fields("QUEUE") == {"pending": 0, "dropped": 1, "places": PLACES, "queued": 0}
            ctx.set(control.masters_idle, 0)  # the reset takes time
            for fields in ({"soft_reset": 1}, {"queue": 1}):
                await send(host, **fields)
                assert await host.answer("b", "bresp") == [OKAY]
            assert ctx.get(control.resetting)
            assert ctx.get(host.bench.faults.error)
            assert (await host.fields("QUEUE"))["pending"] == 1
            ctx.set(control.masters_idle, 1)
            await host.runs()
            await host.end()
            assert await host.fields("FINISHED") == {"runs": clocks + 1}

    play(test)


def test_an_error_at_each_clock_of_a_start_that_has_no_place_counts_it_or_refuses_it():
    """A start that got SLVERR would count as dropped too, or one that got OKAY would not."""

    async def test(ctx, host):
        valid, answers = host.bench.faults.reads[0].valid, set()
        for clocks in range(10):
            assert await host.ctrl(start=1) == OKAY
            await host.runs()
            for _ in range(PLACES):
                assert await host.ctrl(queue=1) == OKAY
            await send(host, queue=1)
            for _ in range(clocks):
                await ctx.tick()
            ctx.set(valid, 1)
            await ctx.tick()
            ctx.set(valid, 0)
            [answer] = await host.answer("b", "bresp")
            answers.add(answer)
            dropped = PLACES + (answer == OKAY)
            assert await host.fields("QUEUE") == {"pending": 0, "dropped": dropped, "places": PLACES, "queued": 0}
        assert answers == {OKAY, SLVERR}

    play(test)


@pytest.mark.parametrize("writes", ["run register", "CTRL.queue"])
def test_a_host_that_was_told_of_an_end_may_write_at_once(writes):
    """It would get SLVERR: FINISHED shows the end some 30 clocks before the next program begins and frees a place."""

    async def test(ctx, host):
        word = 0
        for clocks in range(RESET_CLOCKS):
            assert await host.ctrl(start=1) == OKAY
            await host.runs()
            for _ in range(PLACES):
                assert await host.ctrl(queue=1) == OKAY
            assert await host.write(offset("SEG_INPUT_LO"), 1) == SLVERR
            finished = (await host.fields("FINISHED"))["runs"] + 1
            await host.end()
            for _ in range(clocks):
                await ctx.tick()
            if writes == "CTRL.queue":
                assert await host.ctrl(queue=1) == OKAY
            else:
                assert await host.write(offset("PROG_COUNT"), word := clocks + 5) == OKAY
            for _ in range(PLACES + (writes == "CTRL.queue")):
                await host.runs()
                assert await host.fields("FINISHED") == {"runs": finished}
                assert host.active()["PROG_COUNT"] != word or not word
                finished += 1
                await host.end()
            assert await host.fields("FINISHED") == {"runs": finished}
            assert await host.fields("QUEUE") == {"pending": 0, "dropped": 0, "places": PLACES, "queued": 0}

    play(test)


@pytest.mark.parametrize("fields", [{"start": 1}, {"begin": 1}, {"soft_reset": 1}])
def test_what_goes_before_a_queued_start_in_one_write_leaves_nothing_queued(fields):
    """A program would run twice, or behind a reset that was to end all of them."""

    async def test(ctx, host):
        assert await host.ctrl(queue=1, **fields) == OKAY
        await ctx.tick().repeat(RESET_CLOCKS)
        assert not ctx.get(host.bench.regfile.pending)
        assert ctx.get(host.bench.control.running) == ("soft_reset" not in fields)
        assert await host.write(offset("SEG_INPUT_LO"), 1, strobe=7) == SLVERR
        assert (await host.read(offset("SEG_INPUT_LO")))[0] == 0
        assert await host.write(CTRL.offset, CTRL.pack(queue=1), strobe=7) == SLVERR
        assert not ctx.get(host.bench.regfile.pending)

    play(test)
