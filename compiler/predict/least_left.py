"""The least clocks that a program still takes when a command begins, whatever holds its engines up from then on.

`predict` gives a program up that is certain to take more clocks than another one. Certain is what its own model never does faster:

- The array works chunk by chunk, and the vector engine block by block. Each takes its steps at least.
- A unit that waits for another one begins only after that has ended, and some clocks later.
- A load or store moves a beat at each port in a clock at most, and one of them moves after the other.
- DDR brings no more bytes of weights in a clock than it can. Words that the ring has no room for are not even requested.

So the commands are added up backwards, from the last one to the first, along the longest way to the program's end. On ResNet-50 at
`zcu102` this is 0.2 % below what is predicted; where loads or the vector engine hold up the array it is some percent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from cnna.compiler.cost.engine_steps import Fields, command_steps
from cnna.compiler.predict.command_walks import READ_CLOCKS, START_CLOCKS, seen_clocks, walk_groups
from cnna.compiler.predict.ddr_beats import Transfer
from cnna.compiler.predict.ddr_division import LEAST
from cnna.compiler.predict.known_stretches import KnownStretches
from cnna.compiler.predict.transfers import ASK_CLOCKS, deal_clocks, end_clocks, least_move_clocks
from cnna.compiler.predict.weight_ports import RING_CLOCKS, word_beats
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.program.commands import Command
from cnna.spec.regmap import COUNTED, VECTOR_OPS

Place = tuple[Command, int, int]  # a command, the number of its first unit, and that of its first word in the weight ring
ROUNDED: Final = 2.0  # clocks by which sums of floats and whole clocks may differ


class WeightWords:
    """The words that come into the weight ring, and what has to follow them. It is told of them backwards.

    Clocks of DDR are those that it needs for the weights of both rings, if it brings nothing else.
    """

    def __init__(self, program: Sequence[Command], config: Config, memory: DdrSpeed) -> None:
        rate = min(memory.bytes_per_cycle, BEAT_BYTES * config.ports) + 2 * LEAST
        self._late = memory.latency_cycles + RING_CLOCKS
        self._first, self._before, self._each = list[int](), list[float](), list[float]()  # of each command: words, clocks of DDR
        words, clocks = 0, 0.0
        for command in program:
            if command.engine != "weight":
                continue
            beats, ports = word_beats(command, config), 1 if command.f.ring else config.ports
            count = command.f.beats * command.f.repeat // beats if beats else 0
            each = beats * ports * BEAT_BYTES / rate
            if count and not command.f.ring:
                self._first.append(words)
                self._before.append(clocks)
                self._each.append(each)
                words += count
            clocks += count * each if beats else command.f.beats * ports * BEAT_BYTES / rate
        self._known = list[int]()  # words, negative and so ascending
        self._most = list[float]()  # DDR's clocks until so many have come, and what follows; or of more words, if that is more

    def follows(self, words: int, clocks: float) -> None:
        """Notes that at least so many clocks follow when `words` words have come; no more of them than at the call before."""
        own = bisect_left(self._first, words) - 1
        if own < 0:
            return
        whole = clocks + self._before[own] + (words - self._first[own]) * self._each[own]
        self._known.append(-words)
        self._most.append(max(whole, self._most[-1]) if self._most else whole)

    def left(self, word: int) -> float:
        """The clocks that follow when word number `word` and those behind it can be requested; 0: not known."""
        later = bisect_left(self._known, -word)
        if not later:
            return 0.0
        own = bisect_right(self._first, word) - 1
        before = self._before[own] + (word - self._first[own]) * self._each[own]
        return self._most[later - 1] - before + self._late

    def whole(self) -> float:
        """The clocks that follow the program's first request."""
        return self._most[-1] + self._late if self._most else 0.0


class LeastLeft:
    """units: by the number of each command of the array or the vector engine, the least clocks from the begin of each of its chunks
    or blocks to the program's end. whole: from the program's start.
    """

    def __init__(self, program: Sequence[Command], config: Config, memory: DdrSpeed, known: KnownStretches) -> None:
        self._config, self._memory, self._known = config, memory, known
        self._weights = WeightWords(program, config, memory)
        places, counts = _places(program, config)
        self._seen = {engine: [0.0] * count for engine, count in counts.items()}  # what follows when a unit is seen to have ended
        self._free = dict.fromkeys(counts, 0.0)  # what follows when an engine is done with the commands before
        self._dealt = dict.fromkeys(counts, 0.0)  # what follows when the ports get the next load or store
        self.units: dict[int, list[float]] = {}
        self.whole = 0.0
        for command, unit, word in reversed(places):
            if command.engine == "conv":
                self._conv(command, unit, word)
            elif command.engine == "vector":
                self._vector(command, unit)
            else:
                self._move(command, unit)
        self.whole = START_CLOCKS + max(self.whole, self._weights.whole())

    def exceeds(self, most: float, command: Command, unit: int, now: float) -> bool:
        """Whether the program certainly takes more clocks, since this chunk or block of a command begins only now."""
        return now + self.units[command.number][unit] > most + ROUNDED

    def _waits(self, fields: Fields, unit: int, clocks: float) -> None:
        """Notes that so many clocks follow when all units have ended for which this one waits."""
        for engine in COUNTED:
            if fields[f"wait_{engine}_enable"]:
                number, seen = fields[f"wait_{engine}_count"] + unit * fields[f"wait_{engine}_step"], self._seen[engine]
                if 0 < number <= len(seen):
                    seen[number - 1] = max(seen[number - 1], clocks)
        self.whole = max(self.whole, clocks)

    def _conv(self, command: Command, unit: int, word: int) -> None:
        fields, config, weights = vars(command.f), self._config, self._weights
        work = command_steps("conv", fields, config)
        groups = walk_groups(fields, work.blocks, work.made, config, self._known)
        first, last, every = groups.clocks[0], groups.clocks[-1], groups.ends[-1]
        several = bool(fields["stream"]) and len(groups.clocks) > 1  # whether weights come anew for each group
        early = 0 if several or len(groups.clocks) == 1 else every - last  # from the begin until the first word is freed
        words = work.each * (len(groups.clocks) if several else 1)
        seen, table = seen_clocks("conv", fields, work.made, config), config.table_words if fields["table_load"] else 0
        left = self.units[command.number] = [0.0] * fields["chunks"]
        for chunk in reversed(range(fields["chunks"])):
            head = config.param_words + (0 if chunk else table)
            begin = word + chunk * (config.param_words + words) + (table if chunk else 0) + head
            after = max(seen + self._seen["conv"][unit + chunk], self._free["conv"])
            left[chunk] = own = max(every + after, early + weights.left(begin + config.ring_words))
            if several:
                weights.follows(begin + words, after)
            weights.follows(begin + work.each, every - first + after)
            weights.follows(begin, own)
            self._waits(fields, chunk, READ_CLOCKS["conv"] + own)
            self._free["conv"] = head + own

    def _vector(self, command: Command, unit: int) -> None:
        fields, config = vars(command.f), self._config
        clocks, seen = walk_groups(fields, 1, 1, config, self._known).ends[-1], seen_clocks("vector", fields, 1, config)
        depthwise = VECTOR_OPS[fields["op"]] == "depthwise"
        left = self.units[command.number] = [0.0] * fields["blocks"]
        for block in reversed(range(fields["blocks"])):
            number, inner = divmod(block, config.chunk_blocks)
            after = self._free["vector"]
            if inner == config.chunk_blocks - 1 or block == fields["blocks"] - 1:
                after = max(after, seen + self._seen["vector"][unit + number])
            left[block] = own = clocks + after
            self._waits(fields, number, READ_CLOCKS["vector"] + own)
            head = config.vector_param_words if block == 0 or not fields["uniform"] else 0
            self._free["vector"] = own + (head if depthwise else 0)

    def _move(self, command: Command, unit: int) -> None:
        engine, fields, ports, memory = command.engine, vars(command.f), self._config.ports, self._memory
        transfer = Transfer(engine, fields, self._config)
        clocks = least_move_clocks(engine, transfer, ports, memory)
        end, seen, following = end_clocks(engine, memory), self._seen[engine][unit], self._free[engine]
        if engine == "store":  # its first burst waits for the last write response of the one before
            clocks = max(clocks, transfer.size * BEAT_BYTES / memory.bytes_per_cycle)  # a load may have beats in its FIFOs before
            left, begin = clocks + end + max(seen, following), float(ASK_CLOCKS)
        else:
            left, begin = clocks + max(end + seen, following), float(memory.latency_cycles)
        self._free[engine] = left
        dealt = deal_clocks(transfer, fields["runs"] * fields["blocks"], ports, memory)
        self._dealt[engine] = max(begin + left, dealt + self._dealt[engine])
        self._waits(fields, 0, self._dealt[engine])


def _places(program: Sequence[Command], config: Config) -> tuple[list[Place], dict[str, int]]:
    """All commands but those that bring weights, and how many units each engine has."""
    places, units, word = list[Place](), dict.fromkeys(COUNTED, 0), 0
    for command in program:
        engine, fields = command.engine, vars(command.f)
        if engine == "weight":
            continue
        places.append((command, units[engine], word))
        units[engine] += command.units(config.chunk_blocks)
        if engine == "conv":
            work = command_steps(engine, fields, config)
            steps = work.each * (work.groups if fields["stream"] else 1)
            word += fields["chunks"] * (config.param_words + steps) + (config.table_words if fields["table_load"] else 0)
    return places, units
