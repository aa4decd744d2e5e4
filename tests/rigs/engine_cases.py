"""Random commands for the compute engines, and the ring words that they take: `engine_bench` plays them, the emulator answers.

Commands read what is in feature memory at the start, or what an earlier command wrote (then they wait for it). Each writes where
no other does.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from cnna.sim.emulator import engines, walk
from cnna.sim.emulator.state import EmulatorState
from cnna.spec.config import PARAM_BYTES, Config
from cnna.spec.program.commands import Command
from cnna.spec.program.window import APART_MOST, steps_in_row
from cnna.spec.regmap import VECTOR_OPS, command_fields

from .engine_bench import Trace, play

Words = NDArray[np.uint8]
STREAM_WORDS = 150  # of a command at most: the bench brings only a few thousand beats


def params(offset: NDArray[np.int64], factor: NDArray[np.int64], shift: NDArray[np.int64]) -> Words:
    """The parameters of channels as they lie in a ring: uint8 [channels * 8]."""
    packed = (offset & 0xFFFFFFFF) | (factor & 0x3FFFFFF) << 32 | shift << 58
    return packed.astype("<i8").view(np.uint8)


@dataclass
class Cases:
    """Makes commands of one engine, one after another, for one feature memory whose lower half is only read."""

    config: Config
    engine: str
    rng: np.random.Generator
    commands: list[SimpleNamespace] = field(default_factory=list)
    ring: list[Words] = field(default_factory=list)  # uint8 [words, bytes] each
    units: int = 0  # of all commands so far
    tables: bool = False  # whether commands load and use tables at random
    loaded: bool = False  # whether a command has loaded a table
    wrote: tuple[int, int, int] = (0, 0, 0)  # first word and size of what the last command wrote, and the units before it

    def __post_init__(self) -> None:
        self.top = self.config.feature_words // 2  # of what has been written so far

    @property
    def steps(self) -> int:
        """Clocks that the engine needs at least for all commands so far; ten times as many are a generous bound."""
        blocks = self.config.chunk_blocks if self.engine == "conv" else 1
        total = 0
        for f in self.commands:
            passes, inner = (f.chunks, f.blocks) if self.engine == "conv" else (f.blocks, 1)
            groups, terms = -(-walk.pixels(f) // self.config.pix), inner * f.kernel_height * f.kernel_width
            total += passes * (groups * max(terms, 2 * blocks) + self.config.vector_param_words + 2)
        return total

    def pick(self, low: int, high: int) -> int:
        """A random number within low..high, both included."""
        return int(self.rng.integers(low, high + 1))

    def base(self) -> SimpleNamespace:
        """A command of reset values with random geometry, but without addresses and planes."""
        fields = command_fields(self.engine).items()
        f = SimpleNamespace(**{name: spec.reset for name, spec in fields if not name.startswith("table_")})
        f.out_width, f.out_height, f.images = self.pick(1, 9), self.pick(1, 5), self.pick(1, 3)
        f.kernel_width, f.kernel_height = self.pick(1, 4), self.pick(1, 3)
        f.stride_x, f.stride_y = self.pick(1, 3), self.pick(1, 3)
        f.stride_dilation_x, f.stride_dilation_y = self.pick(1, 2), self.pick(1, 2)
        f.in_width, f.in_height = self.pick(1, 14), self.pick(1, 9)
        f.first_x, f.first_y = self.pick(-2, 1), self.pick(-2, 1)
        f.pad = self.pick(-128, 127)
        f.out_zero, f.mid_zero = self.pick(-128, 127), self.pick(-128, 127)
        for name in ("mid", "out"):
            low, high = sorted((self.pick(-128, 127), self.pick(-128, 127)))
            ends = ((-128, 127), (low, high))[self.pick(0, 1)]
            f.__dict__[f"{name}_clamp_low"], f.__dict__[f"{name}_clamp_high"] = ends
        return f

    def reserve(self, f: SimpleNamespace, blocks: int) -> None:
        """Starts again at the upper half's first word, behind all units so far, if a destination may not fit above."""
        if self.top + blocks * f.images * (f.out_height * (2 * f.out_width + 2) + 3) > self.config.feature_words:
            self.top, self.wrote = self.config.feature_words // 2, (0, 0, 0)
            self.wait(f, self.units)

    def window(self, f: SimpleNamespace) -> int | None:
        """Lets a command take several taps a step. Its groups begin with each row, or run on in a source of the pitch returned."""
        f.window_apart = apart = self.pick(1, APART_MOST)
        f.kernel_width, f.stride_x = self.pick(1, 9), apart * f.stride_dilation_x
        if self.pick(0, 1):
            f.window_columns = f.out_width
            f.out_width += -f.out_width % self.config.pix
            return None
        f.stride_y = 1
        pitch = f.out_width * f.stride_x
        f.in_width, f.in_height = min(f.in_width, pitch), f.out_height
        return pitch

    def place_source(self, f: SimpleNamespace, blocks: int, beyond: int = 0, pitch: int | None = None) -> None:
        """Sets the addresses of a source: of old words or, with a wait for them, of the last command's."""
        pitch = pitch or f.in_width + self.pick(0, 2)
        image = f.in_height * pitch
        size = blocks * f.images * image + beyond
        start, room, units = self.wrote
        if room > size and self.pick(0, 1):
            self.wait(f, units)
            start += self.pick(0, room - size)
        else:
            start = self.pick(0, self.config.feature_words // 2 - size)
        f.src = (start + f.first_y * pitch + f.first_x) % (1 << 20)
        f.src_x, f.src_row = f.stride_x, f.stride_y * pitch - f.out_width * f.stride_x
        f.src_image = image - f.out_height * f.stride_y * pitch
        f.src_kx, f.src_ky, f.src_block = f.stride_dilation_x, f.stride_dilation_y * pitch, f.images * image

    def place_flat(self, f: SimpleNamespace) -> None:
        """Lets tap column 0 read words of the lower half, in either order. Column 1 stays where it is; there are no others."""
        first, step = f.src + f.src_kx, self.pick(-7, 7)
        f.b_block, room = step, abs(step) * (f.blocks - 1)
        f.src = self.pick(0, self.config.feature_words // 2 - 1 - room) + (room if step < 0 else 0)
        f.src_kx = (first - f.src + (1 << 19)) % (1 << 20) - (1 << 19)
        f.kernel_width = min(f.kernel_width, 2)

    def wait(self, f: SimpleNamespace, units: int) -> None:
        """Lets a command wait for so many of this engine's own units."""
        f.__dict__[f"wait_{self.engine}_enable"], f.__dict__[f"wait_{self.engine}_count"] = 1, units

    def place_plane(self, f: SimpleNamespace, name: str, start: int, blocks: int) -> int:
        """Sets the addresses of a plane of so many blocks, from `start` on; returns the words that it spans."""
        step, gap = self.pick(1, 2), self.pick(0, 2)
        row = f.out_width * step + gap
        image = f.out_height * row + self.pick(0, 3)
        values = {"": start, "_x": step, "_row": gap, "_image": image - f.out_height * row, "_block": f.images * image}
        f.__dict__.update({name + part: value for part, value in values.items()})
        return blocks * f.images * image

    def table(self, f: SimpleNamespace, words: int, word_bytes: int) -> None:
        """Lets a command load a table of so many ring words, or use one, or both, at random unless it says so itself."""
        if self.tables:
            f.__dict__.setdefault("table_load", self.pick(0, 1))
            f.__dict__.setdefault("table_use", self.pick(0, 1) if self.loaded or f.table_load else 0)
        if f.__dict__.setdefault("table_load", 0):
            self.loaded = True
            self.ring.append(self.rng.integers(0, 256, (words, word_bytes), np.uint8))
        f.__dict__.setdefault("table_use", 0)

    def finish(self, f: SimpleNamespace, blocks: int, units: int) -> None:
        """Gives a command its destination and counts it."""
        size = self.place_plane(f, "dst", self.top, blocks)
        self.units += units
        self.wrote = (self.top, size, self.units)
        self.top += size
        assert self.top <= self.config.feature_words, "a command writes more than half of feature memory"
        self.commands.append(f)

    def conv(self, **given: int) -> SimpleNamespace:
        """Adds a conv command; `given` members stay as they are."""
        config, f = self.config, self.base()
        f.blocks, f.chunks, f.stream = self.pick(1, 3), self.pick(1, 3), self.pick(0, 1)
        f.__dict__.update(given)
        terms = f.blocks * f.kernel_width * f.kernel_height
        groups = -(-walk.pixels(f) // config.pix)
        if f.stream and terms * groups * f.chunks > STREAM_WORDS:
            f.stream = 0
        f.dst_blocks = f.chunks * config.chunk_blocks - self.pick(0, config.chunk_blocks - 1)
        f.res_enable = given.get("res_enable", self.pick(0, 1))
        if f.res_enable:
            f.add_a, f.add_b = self.pick(-(1 << 20), 1 << 20), self.pick(-(1 << 20), 1 << 20)
            f.add_offset, f.add_shift = self.pick(-(1 << 26), 1 << 26), self.pick(15, 24)
        else:
            f.add_a, f.add_shift, f.out_zero = 2, 1, 0
        self.reserve(f, f.dst_blocks)
        self.place_source(f, f.blocks)
        start, room, units = self.wrote
        size = self.place_plane(f, "res", start, f.dst_blocks)
        if f.res_enable and size <= room and self.pick(0, 2):
            self.wait(f, units)
        else:
            f.res = self.pick(0, config.feature_words // 2 - size)
        self.table(f, config.table_words, config.ring_word_bytes)
        for _ in range(f.chunks):
            raw = np.zeros((config.param_words, config.ring_word_bytes), np.uint8)
            raw.reshape(-1)[: PARAM_BYTES * config.co] = self.channel_params(config.co, 30, 40)
            words = self.rng.integers(0, 256, (terms * (groups if f.stream else 1), config.ring_word_bytes), np.uint8)
            words[words == 128] = 127  # -128 in both operands of a whole cascade does not fit, see docs/numerics.md
            self.ring += [raw, words]
        self.finish(f, f.dst_blocks, f.chunks)
        return f

    def vector(self, **given: int) -> SimpleNamespace:
        """Adds a vector command; `given` members stay as they are."""
        config, f = self.config, self.base()
        f.op, f.blocks, f.uniform = self.pick(0, len(VECTOR_OPS) - 1), self.pick(1, 5), self.pick(0, 1)
        f.b_flat, f.b_zero = self.pick(0, 3) == 0, (-128, 127, self.pick(-128, 127))[self.pick(0, 2)]
        f.pad = (-128, 127, f.pad, f.pad)[self.pick(0, 3)]
        f.__dict__.update(given)
        op = VECTOR_OPS[f.op]
        f.add_b = self.pick(-(1 << 20), 1 << 20)
        pair = op in ("elementwise", "product")
        if pair:
            f.kernel_height, f.kernel_width = 1, 2 if op == "product" else min(f.kernel_width, 2)
        operand = self.pick(0, 20) if pair else 0  # words from tap 0 to tap 1
        windows = not pair and not f.b_flat and "kernel_width" not in given and self.pick(0, 1)
        pitch = self.window(f) if windows else None
        self.reserve(f, f.blocks)
        self.place_source(f, f.blocks, operand, pitch)
        if pair:
            f.src_kx, f.stride_dilation_x = operand, 0
        if f.b_flat:
            self.place_flat(f)
        self.table(f, config.vector_table_words, config.vector_word_bytes)
        rows = steps_in_row(f.kernel_width, f.window_apart)
        for block in range(f.blocks):
            if block == 0 or not f.uniform:
                sums = op in ("depthwise", "average", "product")
                ends = (30, 40) if sums else (15, 24)
                self.ring.append(self.channel_params(config.ci, *ends, not sums).reshape(-1, config.vector_word_bytes))
            if op == "depthwise":
                self.ring.append(self.rng.integers(0, 256, (rows * f.kernel_height, config.vector_word_bytes), np.uint8))
        self.finish(f, f.blocks, -(-f.blocks // config.chunk_blocks))
        return f

    def channel_params(self, channels: int, low: int, high: int, signed: bool = False) -> Words:
        """Random parameters whose results are mostly within int8; sometimes a factor is 0 or a shift is at its ends."""
        factor = self.rng.integers(1 << 23, 1 << 24, channels)
        offset = self.rng.integers(-(1 << 14), 1 << 14, channels)
        if signed:
            factor, offset = self.rng.integers(-(1 << 20), 1 << 20, channels), self.rng.integers(-(1 << 26), 1 << 26, channels)
        shift = self.rng.integers(low, high + 1, channels)
        odd = self.rng.random(channels)
        return params(offset, np.where(odd < 0.05, 0, factor), np.where(odd > 0.97, 55, np.where(odd > 0.94, 1, shift)))

    @property
    def ring_words(self) -> Words:
        """All ring words that the commands take, in order."""
        return np.concatenate(self.ring)


def compared(cases: Cases, rng: np.random.Generator, clocks: int, **others: Words | None) -> Trace:
    """Plays the cases on random features, and compares every word of feature memory and the units with the emulator's."""
    config, engine = cases.config, cases.engine
    features = rng.integers(0, 256, (config.feature_words, config.ci), np.uint8)
    trace = play(config, engine, cases.commands, cases.ring_words, features, clocks, **others)
    expected = EmulatorState(config, np.zeros(16, np.uint8), 0)
    expected.features[:-1] = features
    (expected.weights if engine == "conv" else expected.vector_ring).append(cases.ring_words)
    for number, f in enumerate(cases.commands):
        getattr(engines, engine)(expected, Command(number, number, engine, f))
    np.testing.assert_array_equal(trace.features, expected.features[:-1])
    assert trace.unit.sum() == cases.units
    return trace
