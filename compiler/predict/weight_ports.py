"""The ports that bring weights, as processes of `predict`'s event loop: their requests to DDR for the rings, and the answers.

Port 0 also brings the words of the vector ring. It gets each command before the other ports, which work in step with each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Final

from cnna.compiler.predict.event_loop import Column, EventLoop, Process, Queue, Ring
from cnna.compiler.predict.ready import Lasting, Ready
from cnna.spec.codebook import BOOKS, CODES, PLAIN
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.machine import BURST_BEATS, QUEUE_COMMANDS, READS_OUTSTANDING
from cnna.spec.program.commands import Command

OPEN_BEATS = READS_OUTSTANDING * BURST_BEATS  # most beats of unanswered reads of a port
DEALT: Final = QUEUE_COMMANDS  # weight commands that can wait at a port
ASKED: Final = 16  # most words of a ring that a port requests together
AWAITED: Final = 4  # the same while the ring's reader may soon need them: words that are requested together come together here
ASKED_BEATS: Final = OPEN_BEATS // 2  # most beats that it requests together: with few ports, a word takes many
LEAST_BEATS: Final = ASKED_BEATS // 2  # that it requests together, unless a word takes more: else DDR would idle
ASK_CLOCKS: Final = 3  # between two bursts that a port requests
RING_CLOCKS: Final = 16  # from the last beat of a weight to the step that uses it
Ended = Callable[[Command, float, float, tuple[float, float]], None]  # called with the command, its begin and end, and `held`


class BeatRequest:
    """A request of `beats` beats to each port. ends: the command that it completes, if any.

    words: the words that the column has when it is answered. loads: beats of loads that come first.
    """

    def __init__(self, column: Column, words: int, beats: int, clock: float, loads: float, ends: Command | None) -> None:
        self.column, self.words, self.beats = column, words, beats
        self.clock, self.loads, self.ends = clock, loads, ends


@dataclass
class Requests:
    """The requests of one part of the ports to DDR. open: beats that have not come."""

    made: list[BeatRequest] = field(default_factory=list)
    open: int = 0
    answered: int = 0

    def unanswered(self) -> list[tuple[float, int]]:
        """For the division of DDR: for each unanswered request, the beats of loads that precede it, and its own."""
        return [(made.loads, made.beats) for made in self.made[self.answered :]]

    def when_answered(self, number: int, latency: int) -> float:
        """The clock at which DDR can begin to answer the request of that number; inf: not known yet."""
        return self.made[number].clock + latency if number < len(self.made) else inf


class Answered(Ready):
    """As `Requests.when_answered`."""

    def __init__(self, requests: Requests, number: int, latency: int) -> None:
        self._requests, self._number, self._latency = requests, number, latency

    def clock(self, now: float) -> float:
        """inf: not known yet."""
        return self._requests.when_answered(self._number, self._latency)


class RingRoom(Ready):
    """Comes when a column of a ring has room for a word."""

    def __init__(self, ring: Ring, column: Column) -> None:
        self._ring, self._column = ring, column

    def clock(self, now: float) -> float:
        """The present one, or inf."""
        return now if self._column.asked < self._ring.freed + self._ring.size else inf


class WeightPorts:
    """The weight ports in parts: port 0 is part 0, the others are part 1. queue: that of the engine `weight`."""

    def __init__(self, machine: EventLoop, queue: Queue, ended: Ended) -> None:
        self.machine, self.queue, self.ended = machine, queue, ended
        self.dealt = [0 for _ in machine.weight_ports]  # by part: commands whose words have all been requested
        self.requests = [Requests() for _ in machine.weight_ports]
        for part, requests in enumerate(self.requests):
            unanswered = requests.unanswered
            for port in machine.ports_of(part):
                machine.work.behind[port] = unanswered

    def ask(self, part: int, command: Command) -> Process:
        """Requests the words of a command that these ports bring, as the ring has room."""
        machine = self.machine
        ring, vector = machine.rings[command.f.ring], bool(command.f.ring)
        if part:
            yield Dealt(self, self.dealt[part])
        if not (vector and part):
            beats, column = word_beats(command, machine.config), ring.columns[part]
            left = command.f.beats * command.f.repeat // beats if beats else 0
            if not beats:  # books, which are no words of the ring
                yield Open(self, part, command.f.beats)
                self._request(
                    part, BeatRequest(column, column.asked, command.f.beats, machine.now, machine.reads.asked(machine.now), command)
                )
                yield machine.after(ASK_CLOCKS * command.f.beats / BURST_BEATS)
            yield from self._ask_words(part, command, beats, left)
        self.dealt[part] += 1
        self.queue.released = min(self.dealt)

    def _ask_words(self, part: int, command: Command, beats: int, left: int) -> Process:
        """Requests the `left` words of a command for a column of the ring. It yields only where it has to wait."""
        machine, requests = self.machine, self.requests[part]
        ring = machine.rings[command.f.ring]
        column = ring.columns[part]
        again = False  # whether it has yielded: the caller may have changed more before that
        while left:
            if column.asked >= ring.freed + ring.size:
                machine.quiet, again = again, True
                yield RingRoom(ring, column)
            loads = machine.reads.asked(machine.now)
            most = BURST_BEATS if loads > machine.reads.moved else ASKED_BEATS  # bursts alternate with those of a load
            words = AWAITED if column.asked - ring.taken < 2 * ASKED else ASKED
            piece = min(left, max(1, most // beats), words, ring.freed + ring.size - column.asked)
            least = min(piece * beats, max(LEAST_BEATS, beats))
            if self.when_open(part, least) > machine.now:
                machine.quiet, again = again, True
                yield Open(self, part, least)
                loads = machine.reads.asked(machine.now)
            piece = min(piece, max(1, (OPEN_BEATS - requests.open) // beats))
            column.asked += piece
            left -= piece
            self._request(part, BeatRequest(column, column.asked, piece * beats, machine.now, loads, None if left else command))
            machine.quiet, again = again, True
            yield machine.after(ASK_CLOCKS * piece * beats / BURST_BEATS)

    def when_open(self, part: int, beats: int) -> float:
        """The clock at which these ports may request `beats` more beats, 0 if they may at once; inf: not known yet.

        They ask burst by burst, so the beats that have come of the oldest request count.
        """
        machine, requests = self.machine, self.requests[part]
        over = requests.open + beats - OPEN_BEATS
        if over <= 0:
            return 0.0
        flow = machine.work.flows.get(f"weight{part}")
        if not flow or not flow.speed:
            return inf
        beat_bytes = machine.weight_ports[part] * BEAT_BYTES
        left = max(flow.left, 0.0) / beat_bytes
        after = max(over - (requests.made[requests.answered].beats - left), 0.0)
        return machine.now + after * beat_bytes / flow.speed if after <= left else inf

    def _request(self, part: int, request: BeatRequest) -> None:
        """Notes a request that is made now."""
        self.requests[part].open += request.beats
        self.machine.wait_for_beats(part, request.beats)
        self.requests[part].made.append(request)

    def answers(self, part: int) -> Process:
        """DDR's answers to these ports, in the order of the requests."""
        machine = self.machine
        ports = self.machine.weight_ports[part]
        requests, name = self.requests[part], f"weight{part}"
        begin = inf
        for number in count():
            clock = requests.when_answered(number, machine.memory.latency_cycles)
            if clock > machine.now:
                machine.quiet = True
                yield clock if clock < inf else Answered(requests, number, machine.memory.latency_cycles)
            made = requests.made[number]
            if machine.reads.when_moved(made.loads, machine.now) > machine.now:
                machine.quiet = True
                yield machine.loaded(made.loads)
            begin = min(begin, machine.now)
            machine.quiet = True
            yield machine.begin_flow(name, made.beats * ports * BEAT_BYTES, BEAT_BYTES * ports)
            machine.end_flow(name)
            requests.open -= made.beats
            requests.answered += 1
            machine.wait_for_beats(part, -made.beats)
            made.column.counts.append(made.words)
            made.column.clocks.append(machine.now + RING_CLOCKS)
            if made.ends and not part:
                self.ended(made.ends, begin, machine.now, (begin, machine.now))
                begin = inf

    def asked(self) -> list[int]:
        """The number of requests that each part has made."""
        return [len(requests.made) for requests in self.requests]

    def when_answered(self, before: Sequence[int], clock: float) -> float:
        """`clock` if as many requests of each part as `before` says have been answered; inf: not yet."""
        for requests, number in zip(self.requests, before, strict=True):
            if requests.answered < number:
                return inf
        return clock

    def when_dealt(self, number: int) -> float:
        """0 if port 0 has had room for the command of that number; inf: not yet."""
        return 0.0 if self.dealt[0] >= number - DEALT else inf


def word_beats(command: Command, config: Config) -> int:
    """Beats on a port of each word of the ring that a command brings; 0: it brings none."""
    if command.f.ring:
        return config.vector_word_beats
    return {PLAIN: config.stripe_bytes // BEAT_BYTES, BOOKS: 0, CODES: config.stripe_bytes // BEAT_BYTES // 2}[command.f.code]


class Open(Ready):
    """As `WeightPorts.when_open`."""

    def __init__(self, ports: WeightPorts, part: int, beats: int) -> None:
        self._ports, self._part, self._beats = ports, part, beats

    def clock(self, now: float) -> float:
        """As far as it is known while the rate of the answers stays."""
        return self._ports.when_open(self._part, self._beats)


class Dealt(Lasting):
    """As `WeightPorts.when_dealt`."""

    def __init__(self, ports: WeightPorts, number: int) -> None:
        self._ports, self._number = ports, number

    def clock(self, now: float) -> float:
        """inf: not yet."""
        return self._ports.when_dealt(self._number)


class AllAnswered(Ready):
    """As `WeightPorts.when_answered`."""

    def __init__(self, ports: WeightPorts, before: Sequence[int], clock: float) -> None:
        self._ports, self._before, self._clock = ports, before, clock

    def clock(self, now: float) -> float:
        """inf: not yet."""
        return self._ports.when_answered(self._before, self._clock)
