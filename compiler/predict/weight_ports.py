"""The ports that bring weights, as processes of `predict`'s event loop: their requests to DDR for the rings, and the answers.

Port 0 also brings the words of the vector ring. It gets each command before the other ports, which work in step with each other.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from cnna.compiler.predict.active_engines import Flow, OpenReads
from cnna.compiler.predict.event_loop import EventLoop, Process, Queue
from cnna.compiler.predict.ready import Lasting, Ready, Steps
from cnna.compiler.predict.rings import Column, Ring
from cnna.spec.codebook import BOOKS, CODES, PLAIN
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.machine import BURST_BEATS, QUEUE_COMMANDS, READS_OUTSTANDING
from cnna.spec.program.commands import Command

OPEN_BEATS: Final = READS_OUTSTANDING * BURST_BEATS  # most beats of unanswered reads of a port
DEALT: Final = QUEUE_COMMANDS  # weight commands that can wait at a port
ASKED: Final = 16  # most words of a ring that a port requests together
AWAITED: Final = 4  # the same while the ring's reader may soon need them: words that are requested together come together here
ASKED_BEATS: Final = OPEN_BEATS // 2  # most beats that it requests together: with few ports, a word takes many
LEAST_BEATS: Final = ASKED_BEATS // 2  # that it requests together, unless a word takes more: else DDR would idle
BURST: Final = BURST_BEATS  # here, machine code looks up no name of another module
ASK_CLOCKS: Final = 3  # between two bursts that a port requests
RING_CLOCKS: Final = 16  # from the last beat of a weight to the step that uses it
Ended = Callable[[Command, float, float, tuple[float, float]], None]  # called with the command, its begin and end, and `held`


class BeatRequest:
    """A request of `beats` beats to each port. ends: the command that it completes, if any.

    words: the words that the column has when it is answered. loads: beats of loads that come first. following: the next one.
    """

    def __init__(self, column: Column, words: int, beats: int, clock: float, loads: float, ends: Command | None) -> None:
        self.column, self.words, self.beats = column, words, beats
        self.clock, self.loads, self.ends = clock, loads, ends
        self.following: BeatRequest | None = None


class Requests(OpenReads):
    """The requests of one part of the ports to DDR: how many were made and answered, and the first one that is not answered.

    flow: its beats, while they pass.
    """

    def __init__(self, ports: int) -> None:
        super().__init__()
        self.made = self.answered = 0
        self.first: BeatRequest | None = None
        self.flow: Flow | None = None
        self._last: BeatRequest | None = None
        self._beat_bytes = float(ports * BEAT_BYTES)  # of a beat on each of these ports

    def add(self, request: BeatRequest) -> None:
        """Notes a request that is made now."""
        if self.first is None or self._last is None:
            self.first = request
        else:
            self._last.following = request
        self._last = request
        self.made += 1
        self.open += request.beats
        self.asked += request.beats

    def answer(self) -> BeatRequest:
        """Notes that the first request has been answered, and returns it."""
        first = self.first
        assert first is not None
        self.first, self.flow = first.following, None
        self.answered += 1
        self.open -= first.beats
        return first

    def unanswered(self) -> list[tuple[float, int]]:
        """For the division of DDR: for each unanswered request, the beats of loads that precede it, and its own."""
        found, request = list[tuple[float, int]](), self.first
        while request is not None:
            found.append((request.loads, request.beats))
            request = request.following
        return found

    def when_open(self, beats: int, now: float) -> float:
        """The clock at which these ports may request `beats` more beats, 0 if they may at once; inf: not known yet.

        They ask burst by burst, so the beats that have come of the oldest request count.
        """
        over = self.open + beats - OPEN_BEATS
        if over <= 0:
            return 0.0
        flow, first = self.flow, self.first
        if flow is None or first is None or not flow.speed:
            return inf
        left = max(flow.left, 0.0) / self._beat_bytes
        after = max(over - (first.beats - left), 0.0)
        return now + after * self._beat_bytes / flow.speed if after <= left else inf


class WeightPorts:
    """The weight ports in parts: port 0 is part 0, the others are part 1. queue: that of the engine `weight`."""

    def __init__(self, machine: EventLoop, queue: Queue, ended: Ended) -> None:
        self.machine, self.queue, self.ended = machine, queue, ended
        self.dealt = [0 for _ in machine.weight_ports]  # by part: commands whose words have all been requested
        self.requests = [Requests(ports) for ports in machine.weight_ports]
        machine.work.reads = [self.requests[min(port, 1)] for port in range(machine.config.ports)]

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
                yield Open(self.requests[part], command.f.beats)
                now, asked = machine.now, machine.reads.asked(machine.now)
                self.requests[part].add(BeatRequest(column, column.asked, command.f.beats, now, asked, command))
                yield machine.after(ASK_CLOCKS * command.f.beats / BURST_BEATS)
            yield Asking(self, part, command, beats, left)
        self.dealt[part] += 1
        self.queue.released = min(self.dealt)

    def answers(self, part: int) -> Process:
        """DDR's answers to these ports, in the order of the requests."""
        yield Answering(self, part)

    def asked(self) -> list[int]:
        """The number of requests that each part has made."""
        return [requests.made for requests in self.requests]

    def when_answered(self, before: list[int], clock: float) -> float:
        """`clock` if as many requests of each part as `before` says have been answered; inf: not yet."""
        for part, number in enumerate(before):
            if self.requests[part].answered < number:
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
        self._reads, self._requests = ports.machine.reads, ports.requests[part]
        self._command, self._beats, self._left = command, beats, left
        self._ring: Ring = ports.machine.rings[command.f.ring]
        self._column = self._ring.columns[part]
        self._piece = self._least = 0  # words to be requested next, and the beats that must be open for that; 0: none
        self._alone = max(1, ASKED_BEATS // beats) if beats else 0  # most words that it requests together
        self._beside = max(1, BURST // beats) if beats else 0  # the same beside a load: bursts alternate with those of the load

    def go_on(self, now: float) -> bool:
        """Requests the next words, unless it must wait."""
        requests, column = self._requests, self._column
        if not self._least:
            if not self._left:
                return False
            room = self._ring.freed + self._ring.size - column.asked
            if room <= 0:
                self.at = inf
                return True
            self._choose(room, now)
            if requests.when_open(self._least, now) > now:
                self.at = inf
                return True
        piece = min(self._piece, max(1, (OPEN_BEATS - requests.open) // self._beats))
        beats = piece * self._beats
        column.asked += piece
        self._left -= piece
        self._least = 0
        ends = None if self._left else self._command
        requests.add(BeatRequest(column, column.asked, beats, now, self._reads.asked(now), ends))
        self.at = now + ASK_CLOCKS * beats / BURST
        return True

    def _choose(self, room: int, now: float) -> None:
        """Chooses how many words to request together. room: the words for which the ring has room."""
        piece = min(self._left, room)  # `min` of more than two is no machine code
        piece = min(piece, self._beside if self._reads.under_way(now) else self._alone)
        self._piece = piece = min(piece, AWAITED if self._column.asked - self._ring.taken < 2 * ASKED else ASKED)
        self._least = min(piece * self._beats, max(LEAST_BEATS, self._beats))

    def clock(self, now: float) -> float:
        """When the ring has room for a word, or the ports may request as much; as far as it is known."""
        if self._least:
            return self._requests.when_open(self._least, now)
        return now if self._column.asked < self._ring.freed + self._ring.size else inf


class Answering(Steps):
    """DDR's answers to the requests of one part of the ports. Each waits for DDR's latency, for the loads before it, and passes."""

    def __init__(self, ports: WeightPorts, part: int) -> None:
        super().__init__()
        machine = ports.machine
        self._work, self._reads, self._requests = machine.work, machine.reads, ports.requests[part]
        self._ended = None if part else ports.ended  # is told of the commands
        self._begin = inf  # of the present command
        self._latency = machine.memory.latency_cycles
        self._late = False  # whether DDR's latency has passed for the next answer
        self._name, self._most = f"weight{part}", float(BEAT_BYTES * machine.weight_ports[part])
        self._flow = Flow(0.0, self._most)  # of each answer in turn

    def go_on(self, now: float) -> bool:
        """There is no end."""
        requests = self._requests
        if requests.flow is not None:
            self._end(now)
        self.at, first = inf, requests.first
        if first is None:
            return True
        if not self._late:
            clock = first.clock + self._latency
            if clock > now:
                self.at = clock
                return True
            self._late = True
            if self._reads.when_moved(first.loads, now) > now:
                return True
        self._begin = min(self._begin, now)
        self._flow.left = first.beats * self._most
        requests.flow = self._flow
        self._work.begin(self._name, self._flow)
        return True

    def _end(self, now: float) -> None:
        """Notes that the answer has come."""
        self._work.end(self._name)
        self._late = False
        made = self._requests.answer()
        made.column.add(made.words, now + RING_CLOCKS)
        if made.ends and self._ended:
            self._ended(made.ends, self._begin, now, (self._begin, now))
            self._begin = inf

    def clock(self, now: float) -> float:
        """As far as it is known."""
        flow, first = self._requests.flow, self._requests.first
        if flow is not None:
            return flow.clock(now)
        if first is None:
            return inf
        return self._reads.when_moved(first.loads, now) if self._late else first.clock + self._latency


class Open(Ready):
    """As `Requests.when_open`."""

    def __init__(self, requests: Requests, beats: int) -> None:
        self._requests, self._beats = requests, beats

    def clock(self, now: float) -> float:
        """As far as it is known while the rate of the answers stays."""
        return self._requests.when_open(self._beats, now)


class Dealt(Lasting):
    """As `WeightPorts.when_dealt`."""

    def __init__(self, ports: WeightPorts, number: int) -> None:
        self._ports, self._number = ports, number

    def clock(self, now: float) -> float:
        """inf: not yet."""
        return self._ports.when_dealt(self._number)


class AllAnswered(Ready):
    """As `WeightPorts.when_answered`."""

    def __init__(self, ports: WeightPorts, before: list[int], clock: float) -> None:
        self._ports, self._before, self._clock = ports, before, clock

    def clock(self, now: float) -> float:
        """inf: not yet."""
        return self._ports.when_answered(self._before, self._clock)
