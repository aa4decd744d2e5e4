"""The ports that bring weights, as processes of `predict`'s event loop: their requests to DDR for the rings, and the answers.

Port 0 also brings the words of the vector ring. It gets each command before the other ports, which work in step with each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from cnna.compiler.predict.event_loop import EventLoop, Process, Queue
from cnna.compiler.predict.flow_rates import Flow
from cnna.compiler.predict.ready import Lasting, Ready, Steps
from cnna.compiler.predict.rings import Column, Ring
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
                self.request(
                    part, BeatRequest(column, column.asked, command.f.beats, machine.now, machine.reads.asked(machine.now), command)
                )
                yield machine.after(ASK_CLOCKS * command.f.beats / BURST_BEATS)
            yield Asking(self, part, command, beats, left)
        self.dealt[part] += 1
        self.queue.released = min(self.dealt)

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

    def request(self, part: int, request: BeatRequest) -> None:
        """Notes a request that is made now."""
        self.requests[part].open += request.beats
        self.machine.wait_for_beats(part, request.beats)
        self.requests[part].made.append(request)

    def answers(self, part: int) -> Process:
        """DDR's answers to these ports, in the order of the requests."""
        yield Answering(self, part)

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


class Asking(Steps):
    """Requests the `left` words of a command for a column of its ring, as the ring and the ports have room."""

    def __init__(self, ports: WeightPorts, part: int, command: Command, beats: int, left: int) -> None:
        super().__init__()
        self._ports, self._machine, self._requests = ports, ports.machine, ports.requests[part]
        self._part, self._command, self._beats, self._left = part, command, beats, left
        self._ring: Ring = ports.machine.rings[command.f.ring]
        self._column = self._ring.columns[part]
        self._piece = self._least = 0  # words to be requested next, and the beats that must be open for that; 0: none

    def go_on(self, now: float) -> bool:
        """Requests the next words, unless it must wait."""
        if not self._least:
            if not self._left:
                return False
            if self._column.asked >= self._ring.freed + self._ring.size:
                self.at = inf
                return True
            self._choose(now)
            if self._ports.when_open(self._part, self._least) > now:
                self.at = inf
                return True
        piece = min(self._piece, max(1, (OPEN_BEATS - self._requests.open) // self._beats))
        self._column.asked += piece
        self._left -= piece
        self._least = 0
        ends = None if self._left else self._command
        loads = self._machine.reads.asked(now)
        self._ports.request(self._part, BeatRequest(self._column, self._column.asked, piece * self._beats, now, loads, ends))
        self.at = now + ASK_CLOCKS * piece * self._beats / BURST_BEATS
        return True

    def _choose(self, now: float) -> None:
        """Chooses how many words to request together."""
        reads, ring, column, beats = self._machine.reads, self._ring, self._column, self._beats
        most = BURST_BEATS if reads.asked(now) > reads.moved else ASKED_BEATS  # bursts alternate with those of a load
        words = AWAITED if column.asked - ring.taken < 2 * ASKED else ASKED
        self._piece = min(self._left, max(1, most // beats), words, ring.freed + ring.size - column.asked)
        self._least = min(self._piece * beats, max(LEAST_BEATS, beats))

    def clock(self, now: float) -> float:
        """When the ring has room for a word, or the ports may request as much; as far as it is known."""
        if self._least:
            return self._ports.when_open(self._part, self._least)
        return now if self._column.asked < self._ring.freed + self._ring.size else inf


class Answering(Steps):
    """DDR's answers to the requests of one part of the ports. Each waits for DDR's latency, for the loads before it, and passes."""

    def __init__(self, ports: WeightPorts, part: int) -> None:
        super().__init__()
        self._ports, self._machine, self._requests, self._part = ports, ports.machine, ports.requests[part], part
        self._name, self._most = f"weight{part}", BEAT_BYTES * ports.machine.weight_ports[part]
        self._latency = ports.machine.memory.latency_cycles
        self._begin = inf  # of the present command
        self._request: BeatRequest | None = None  # that is answered next, once DDR's latency has passed
        self._flow: Flow | None = None  # its beats, when they pass

    def go_on(self, now: float) -> bool:
        """There is no end."""
        if self._flow is not None:
            self._end(now)
        self.at = inf
        if self._request is None:
            clock = self._clock_of_next()
            if clock > now:
                self.at = clock
                return True
            self._request = self._requests.made[self._requests.answered]
            if self._machine.reads.when_moved(self._request.loads, now) > now:
                return True
        self._begin = min(self._begin, now)
        self._flow = self._machine.begin_flow(self._name, self._request.beats * self._most, self._most)
        return True

    def _end(self, now: float) -> None:
        """Notes that the answer has come."""
        requests, made = self._requests, self._requests.made[self._requests.answered]
        self._machine.end_flow(self._name)
        self._flow = self._request = None
        requests.open -= made.beats
        requests.answered += 1
        self._machine.wait_for_beats(self._part, -made.beats)
        made.column.counts.append(made.words)
        made.column.clocks.append(now + RING_CLOCKS)
        if made.ends and not self._part:
            self._ports.ended(made.ends, self._begin, now, (self._begin, now))
            self._begin = inf

    def _clock_of_next(self) -> float:
        return self._requests.when_answered(self._requests.answered, self._latency)

    def clock(self, now: float) -> float:
        """As far as it is known."""
        if self._flow is not None:
            return self._flow.clock(now)
        if self._request is not None:
            return self._machine.reads.when_moved(self._request.loads, now)
        return self._clock_of_next()


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
