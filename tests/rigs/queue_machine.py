"""What stands behind the register file in a test of the queue of runs: programs that end or fail at random moments.

`Machine` also keeps book: which programs began with which run registers, which of them ended, and what must be true in each clock.
An *epoch* is what lies between two soft resets, as in `queueing_host.py`.
"""

from cnna.hw.control.run_queue import HELD

from .queue_bench import QueueHost

UNFINISHED = 1 << 31  # in all counters while their program runs
ENDS = (1, 2, 3, 5, 9, 17, 33, 60, 120)  # clocks of a program
LATE = (0, 0, 0, 1, 4, 9)  # clocks for which sequencer, engines or masters are at work behind a program's END
FAILING = 0.15  # of all programs
MOST_CLOCKS = 50  # from the end of a program to the `clear` of the next
NEVER = -1 << 20
SEEN = ("running", "done", "resetting", "clear", "reset", "error", "soft_reset", "clear_done", "queued")


class Machine:
    """A background process. `epochs`: the run registers of programs that began; `ended`: epoch and number of those that ended."""

    def __init__(self, rng):
        self.rng = rng
        self.epochs = [[]]
        self.ended = []
        self.failed = False  # in this epoch
        self.number = 0  # of the program that began last, from 1 on
        self._left = 0  # clocks until its END; it goes on below 0
        self._fails = NEVER  # the value of `_left` at which it fails
        self._late = {"sequencer_idle": 0, "masters_idle": 0, "engines": 0}
        self._gap = None

    @property
    def done(self):
        """How many programs of this epoch have ended."""
        return sum(epoch == len(self.epochs) for epoch, _ in self.ended)

    async def __call__(self, ctx, bench):
        was = dict.fromkeys(SEEN, 0)
        while True:
            await ctx.tick()
            now = {name: ctx.get(getattr(bench.control, name)) for name in SEEN}
            self._look(ctx, bench, was, now)
            self._work(ctx, bench, now["running"])
            was = now

    def _look(self, ctx, bench, was, now):
        """Keeps book of what has happened in a clock."""
        good = was["running"] and not (now["running"] or now["resetting"] or now["error"])
        if was["soft_reset"] or now["resetting"] > was["resetting"]:
            self.epochs.append([])
            self.failed = False
        self.failed |= now["error"] > was["error"]
        if now["running"] > was["running"]:
            self.number += 1
            self.epochs[-1].append(QueueHost(ctx, bench).active())
            self._left = int(self.rng.choice(ENDS))
            self._fails = self._left - int(self.rng.choice(ENDS)) if self.rng.random() < FAILING else NEVER
            self._late = {name: int(self.rng.choice(LATE)) for name in self._late}
            ctx.set(bench.regfile.reports, dict.fromkeys(HELD, UNFINISHED + self.number))
        if good:
            self.ended.append((len(self.epochs), self.number))
            ctx.set(bench.regfile.reports, dict.fromkeys(HELD, self.number))
            self._gap = 0 if ctx.get(bench.regfile.pending) else None
        if now["reset"]:
            ctx.set(bench.regfile.reports, dict.fromkeys(HELD, 0))
        self._gap = None if self._gap is None or now["clear"] or now["resetting"] else self._gap + 1
        assert self._gap is None or self._gap <= MOST_CLOCKS, "the next program begins too late"
        self._check_done(was, now, good)

    def _check_done(self, was, now, good):
        """`done` is set by ends, cleared by what the host writes, by a plain start, an error or a reset, and by nothing else."""
        plain = now["running"] > was["running"] and not was["queued"]
        gone = plain or was["clear_done"] or now["resetting"] or now["error"]
        assert now["done"] == (good or (was["done"] and not gone)), "done was lost, or comes from nowhere"

    def _work(self, ctx, bench, running):
        """Drives what control and faults see of sequencer, engines and bus."""
        ctx.set(bench.control.end, int(bool(running) and self._left == 0))
        ctx.set(bench.faults.reads[0].valid, int(bool(running) and self._left == self._fails))
        for name, clocks in self._late.items():
            busy = self._left > -clocks
            ctx.set(getattr(bench.control, name), int(busy if name == "engines" else not busy))
        self._left -= 1
