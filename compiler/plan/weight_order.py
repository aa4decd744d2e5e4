"""Puts the weight streams of a program in another order, so that the words of one ring do not wait for room in the other.

The weight engine takes its commands in order. If the vector ring is full, a stream for it goes on only as the vector engine frees
words, and the array's weights behind it do not come, although their ring has room. Here streams are cut into fragments, and those
of both rings are merged by the clocks at which they have room and are needed. None comes much sooner than it is needed, because
loads of inputs share the ports, and a full queue of the weight engine stops the program in front of other engines' commands.

The program still ends. A fragment stands behind the commands that free its room, so whatever it waits for has been handed to an
engine. Only a stream that is longer than that stands directly in front of its reader, as it did before.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cnna.compiler.plan.array_commands import WEIGHT_RING
from cnna.compiler.plan.command import PlannedCommand
from cnna.compiler.plan.tile import ddr_rate
from cnna.compiler.plan.vector_commands import VECTOR_RING
from cnna.spec.config import BEAT_BYTES, Config

FRAGMENTS = 8  # of a ring: no fragment is longer
WHOLE = 0.75  # of a ring: a reader of more words keeps its stream whole
LEAD = 1.5  # times that DDR could fill the weight ring before a fragment is needed: none comes sooner
READERS = {"conv": WEIGHT_RING, "vector": VECTOR_RING}


class Span(Protocol):
    """When an engine works on a command."""

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...


@dataclass(frozen=True)
class _Reader:
    """A command that reads a ring. place: its number among the commands that are not streams. first, end: words since the start."""

    place: int
    first: int
    end: int
    span: Span


@dataclass(frozen=True)
class _Fragment:
    """A part of a stream. first, end: its words, counted since the program's start. reader: the place of its reader."""

    command: PlannedCommand
    ring: int
    first: int
    end: int
    reader: int


@dataclass
class _Ring:
    """A ring's readers and fragments. word_bytes: of a word. port_bytes: what port 0 brings of it. lead: in clocks."""

    size: int
    word_bytes: int
    port_bytes: int
    lead: float
    readers: list[_Reader] = field(default_factory=list)
    fragments: list[_Fragment] = field(default_factory=list)

    def _reader(self, word: int) -> _Reader:
        return self.readers[bisect_right(self.readers, word, key=lambda reader: reader.first) - 1]

    def clock(self, word: int) -> float:
        """When a word is read, as far as the spans say; 0 before the first one."""
        if word < 0:
            return 0.0
        reader = self._reader(word)
        part = (word - reader.first) / (reader.end - reader.first)
        return reader.span.begin + (reader.span.end - reader.span.begin) * part

    def ready(self, fragment: _Fragment) -> float:
        """When there is room for a fragment, and it may soon be needed."""
        return max(self.clock(fragment.end - self.size), self.clock(fragment.first) - self.lead)

    def place(self, fragment: _Fragment) -> int:
        """The first place behind all commands that must end before there is room for a fragment."""
        word = fragment.end - self.size - 1
        return self._reader(word).place + 1 if word >= 0 else 0


def merged_weights(commands: Sequence[PlannedCommand], spans: Sequence[Span], config: Config) -> list[PlannedCommand] | None:
    """The commands with their weight streams cut and in another order. spans: of the commands. None: no order was found."""
    rings = _rings(commands, spans, config)
    others = [number for number, command in enumerate(commands) if command.engine != "weight"]
    placed = _placed(rings, [spans[number].begin for number in others], config)
    if placed is None:
        return None
    made: list[PlannedCommand] = []
    at = 0
    for place, number in enumerate(others):
        while at < len(placed) and placed[at][0] <= place:
            made.append(placed[at][1].command)
            at += 1
        made.append(commands[number])
    return made


def _rings(commands: Sequence[PlannedCommand], spans: Sequence[Span], config: Config) -> Mapping[int, _Ring]:
    """The rings with their readers and fragments. A stream belongs to the next command of the engine that reads its ring."""
    lead = LEAD * config.ring_words * config.ring_word_bytes / ddr_rate(config)
    rings = {
        WEIGHT_RING: _Ring(config.ring_words, config.ring_word_bytes, config.stripe_bytes, lead),
        VECTOR_RING: _Ring(config.vector_ring_words, config.vector_word_bytes, config.vector_word_bytes, lead),
    }
    streams: dict[int, list[PlannedCommand]] = {number: [] for number in rings}
    come = dict.fromkeys(rings, 0)
    place = 0
    for command, span in zip(commands, spans, strict=True):
        if command.engine == "weight":
            streams[command.fields["ring"]].append(command)
            continue
        number = READERS.get(command.engine)
        if number is not None and streams[number]:
            ring, own, first = rings[number], streams[number], come[number]
            whole = sum(_words(stream, ring) for stream in own) > WHOLE * ring.size
            for part in (part for stream in own for part in ([stream] if whole else _cut(stream, ring))):
                words = _words(part, ring)
                ring.fragments.append(_Fragment(part, number, come[number], come[number] + words, place))
                come[number] += words
            ring.readers.append(_Reader(place, first, come[number], span))
            streams[number] = []
        place += 1
    return rings


def _words(stream: PlannedCommand, ring: _Ring) -> int:
    """The words that a stream brings."""
    return stream.fields["beats"] * BEAT_BYTES // ring.port_bytes * stream.fields["repeat"]


def _cut(stream: PlannedCommand, ring: _Ring) -> Iterator[PlannedCommand]:
    """A stream in fragments. One that repeats stays whole."""
    words, beats = _words(stream, ring), ring.port_bytes // BEAT_BYTES
    count = -(-words // (ring.size // FRAGMENTS)) if stream.fields["repeat"] == 1 else 1
    for number in range(count):
        low, high = words * number // count, words * (number + 1) // count
        changed = {"ddr": stream.fields["ddr"] + low * ring.port_bytes, "beats": (high - low) * beats} if count > 1 else {}
        yield stream._replace(fields={**stream.fields, **changed})


def _placed(rings: Mapping[int, _Ring], begins: Sequence[int], config: Config) -> list[tuple[int, _Fragment]] | None:
    """The fragments in order, each with the place of the command that it precedes. begins: of the commands that are not streams.

    The next fragment is the one that is ready first, and of two that are ready the one that is needed first. It precedes the first
    command that begins later than it. None: a fragment would come behind its reader.
    """
    found: list[tuple[int, _Fragment]] = []
    left = {number: list(reversed(ring.fragments)) for number, ring in rings.items()}
    ddr = port = 0.0  # when the DDR, and port 0, have brought the fragments so far
    place = late = 0
    closed = -1  # the last reader that nothing else may stand before, because its stream is longer than its room
    while heads := [own[-1] for own in left.values() if own]:
        now = max(ddr, port)
        heads.sort(key=lambda head: (max(rings[head.ring].ready(head), now), rings[head.ring].clock(head.first)))
        fragment, last = heads[0], heads[-1].reader
        if _least(rings, fragment, place, closed) > last:  # the other one could no longer stand before its reader
            fragment, last = heads[-1], heads[0].reader
        ring, least = rings[fragment.ring], _least(rings, fragment, place, closed)
        begin = max(now, ring.ready(fragment))
        while late < len(begins) and begins[late] <= begin:
            late += 1
        tight = ring.place(fragment) > fragment.reader
        place = fragment.reader if tight else max(least, min(late, fragment.reader, last))
        if place < least or place > fragment.reader:
            return None
        found.append((place, fragment))
        closed = fragment.reader if tight else closed
        words = fragment.end - fragment.first
        ddr = max(ddr, ring.ready(fragment)) + words * ring.word_bytes / ddr_rate(config)
        port = max(port, ring.ready(fragment)) + words * ring.port_bytes / BEAT_BYTES
        left[fragment.ring].pop()
    return found


def _least(rings: Mapping[int, _Ring], fragment: _Fragment, place: int, closed: int) -> int:
    """The first place at which a fragment may stand behind one at `place`: its room is sure there, or its reader follows."""
    return max(place, closed + (fragment.reader != closed), min(rings[fragment.ring].place(fragment), fragment.reader))
