"""What a command of each engine does to an `EmulatorState`: load, weight, conv, vector and store, each to completion.

They are written from `docs/engines.md` alone; all rounding is `spec.arith`'s.
"""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from cnna.sim.emulator import walk
from cnna.sim.emulator.state import BusError, EmulatorState, ProgramError, Words
from cnna.spec import arith
from cnna.spec.codebook import BOOKS, CODES, decoded, stripe_rows, unpacked_books
from cnna.spec.config import BEAT_BYTES, PARAM_BYTES, TABLE_BYTES
from cnna.spec.program.commands import Command
from cnna.spec.program.decks import located, sets_on
from cnna.spec.program.window import row_steps
from cnna.spec.regmap import BOUNDED, DECK_BIT, VECTOR_OPS

GATHER_BYTES = 1 << 23  # float32 operands that conv multiplies at a time: about the size of a cache
RESULTS = 1 << 16  # int64 numbers that are rounded at a time: in a cache this is several times quicker
FEWEST_PIXELS = 64  # the fewest at a time: fewer would cost more in calls than they save
EXACT_TERMS = 1 << 10  # products of int8 whose sum float32 holds exactly: 2^10 * 2^14 = 2^24
IDENTITY = {"add_a": 2, "add_b": 0, "add_offset": 0, "add_shift": 1, "out_zero": 0}  # `combine` parameters that change nothing


def check_segment(state: EmulatorState, command: Command) -> None:
    """OutsideError: a command of load, store or weight would leave its segment; nothing of it is carried out."""
    f, config = command.f, state.config
    if command.engine == "weight":
        ports = 1 if f.ring else config.ports
        state.check_segment(f.seg, (f.ddr + (ports - 1) * f.port) // BEAT_BYTES + f.beats - 1)
    elif command.engine in BOUNDED:
        first, to_block, to_run = (offset // BEAT_BYTES for offset in (f.ddr, f.ddr_block, f.ddr_run))
        more = (f.run - 1) // config.beat_words
        state.check_segment(f.seg, first + (f.blocks - 1) * to_block + (f.runs - 1) * to_run + more)


def _runs(state: EmulatorState, f: SimpleNamespace) -> tuple[Words, Words]:
    """(bus byte addresses, feature addresses) of every word of a load or store, each int64 [blocks, runs, words].

    Places in DDR are whole beats; lower address bits are ignored.
    """
    first, to_block, to_run = (offset // BEAT_BYTES for offset in (f.ddr, f.ddr_block, f.ddr_run))
    block, run, word = np.ogrid[: f.blocks, : f.runs, : f.run]
    ddr = state.segments[f.seg] + (first + block * to_block + run * to_run) * BEAT_BYTES + word * state.config.ci
    sets, deck = walk.blocks(f, "fm", block, state.config.depth)
    return ddr, located(f.fm + sets + run * f.fm_run + word, deck, state.config.depth)


def _ddr_index(state: EmulatorState, f: SimpleNamespace, addresses: Words, cause: str) -> Words:
    """Index in `state.ddr` of the first byte of each word.

    BusError: outside the memory; it names the port of the first such run.
    """
    size = state.config.ci
    try:
        return state.bus(addresses, size)
    except IndexError:
        index = addresses - state.ddr_base
        bad = ((index < 0) | (index + size > len(state.ddr))).any(axis=2).reshape(-1)
        raise BusError(cause, int(bad.argmax()) % state.config.ports) from None


def load(state: EmulatorState, command: Command) -> None:
    """Copies from DDR to feature memory."""
    ddr, words = _runs(state, command.f)
    index = _ddr_index(state, command.f, ddr, "read_response")
    state.write(command, words, state.ddr[index[..., None] + np.arange(state.config.ci)])


def store(state: EmulatorState, command: Command) -> None:
    """Copies from feature memory to DDR."""
    ddr, words = _runs(state, command.f)
    index = _ddr_index(state, command.f, ddr, "write_response")
    data = state.read(words).view(np.uint8)
    state.ddr[index[..., None] + np.arange(state.config.ci)] = data
    state.record(command, ddr, data)


def weight(state: EmulatorState, command: Command) -> None:
    """Copies from DDR to one of the rings. Books are kept, and codes become what the books have for them."""
    f, config = command.f, state.config
    ports, stripe = (1, config.vector_word_bytes) if f.ring else (config.ports, config.stripe_bytes)
    stripes = []
    for port in range(ports):
        start = state.segments[f.seg] + (f.ddr + port * f.port) // BEAT_BYTES * BEAT_BYTES - state.ddr_base
        if not 0 <= start <= len(state.ddr) - f.beats * BEAT_BYTES:
            raise BusError("read_response", port)
        stripes.append(state.ddr[start : start + f.beats * BEAT_BYTES].copy())
    if f.code == BOOKS:
        state.books = [unpacked_books(part, stripe_rows(config)) for part in stripes]
        return
    if f.code == CODES:
        if not state.books:
            raise ProgramError("brings codes for books that nothing before it brings")
        stripes = [decoded(part, books, config).reshape(-1) for part, books in zip(stripes, state.books, strict=True)]
    if len(stripes[0]) % stripe:
        raise ProgramError(f"brings {f.beats} beats a port, which is not a whole number of ring words of {stripe} bytes a port")
    words = np.stack([part.reshape(-1, stripe) for part in stripes], axis=1).reshape(-1, ports * stripe)
    (state.vector_ring if f.ring else state.weights).append(words, f.repeat)


def _params(words: Words, channels: int) -> tuple[Words, Words, Words]:
    """The fields (offset, factor, shift) of ring words, each int64 [channels]."""
    return arith.unpack_params(np.ascontiguousarray(words).reshape(-1)[: PARAM_BYTES * channels].view("<u8"))


def take_table(state: EmulatorState, command: Command) -> None:
    """Takes the table that the command loads, if it loads one. ProgramError: it uses one, and none has been loaded."""
    config, engine = state.config, command.engine
    if command.f.table_load:
        ring, words = {"conv": (state.weights, config.table_words), "vector": (state.vector_ring, config.vector_table_words)}[
            engine
        ]
        state.tables[engine] = ring.take(words).reshape(-1)[:TABLE_BYTES].view(np.int8)
    if command.f.table_use and engine not in state.tables:
        raise ProgramError("uses a table that nothing before it loads")


def _looked_up(state: EmulatorState, command: Command, x: NDArray[np.int8]) -> NDArray[np.int8]:
    """The entries of the engine's table for x, or x itself if the command uses no table."""
    return arith.look_up(state.tables[command.engine], x) if command.f.table_use else x


def _exact_parts(weights: Words) -> list[NDArray[np.float32]]:
    """int8 [terms, channels] in float32, cut into parts whose sums of products are exact."""
    return [weights[start : start + EXACT_TERMS].astype(np.float32) for start in range(0, len(weights), EXACT_TERMS)]


def _multiply(x: Words, parts: list[NDArray[np.float32]]) -> NDArray[np.int32]:
    """x int8 [pixels, terms] times weights from `_exact_parts`, exactly: int32 [pixels, channels]."""
    total, start = None, 0
    for part in parts:
        product = (x[:, start : start + len(part)].astype(np.float32) @ part).astype(np.int32)
        total = product if total is None else total + product
        start += len(part)
    assert total is not None
    return total


def conv(state: EmulatorState, command: Command) -> None:
    """Carries out all chunks of a conv command: array, requantiser and residual addition."""
    f, config = command.f, state.config
    terms, pixels = f.blocks * f.kernel_height * f.kernel_width, walk.pixels(f)
    groups = -(-pixels // config.pix)
    if not f.stream and groups > 1 and terms > config.ring_words:
        raise ProgramError(f"holds {terms} ring words for its pixel groups, but the ring has {config.ring_words}")
    take_table(state, command)
    params, weights = [], []
    for _ in range(f.chunks):
        params.append(_params(state.weights.take(config.param_words), config.co))
        words = state.weights.take(terms * (groups if f.stream else 1)).reshape(-1, terms, config.depth, config.co, config.ci)
        weights.append(words.view(np.int8))
    inputs = terms * config.depth * config.ci
    if all((words == words[0]).all() for words in weights):
        matrix = np.stack([words[0] for words in weights]).transpose(1, 2, 4, 0, 3)  # term, block of a set, ci, chunk, co
        parts = _exact_parts(matrix.reshape(inputs, f.chunks * config.co))
        step = min(GATHER_BYTES // (4 * inputs), RESULTS // (f.chunks * config.co))
        for n in _portions(pixels, step):
            _conv_pixels(state, command, n, parts, params)
    else:
        for group in range(groups):
            chosen = np.stack([words[min(group, len(words) - 1)] for words in weights]).transpose(1, 2, 4, 0, 3)
            n = np.arange(group * config.pix, min((group + 1) * config.pix, pixels))
            _conv_pixels(state, command, n, _exact_parts(chosen.reshape(inputs, -1)), params)


def _portions(pixels: int, most: int) -> list[Words]:
    """Pixel numbers in order, in portions of about `most`."""
    step = max(most, FEWEST_PIXELS)
    return [np.arange(start, min(start + step, pixels)) for start in range(0, pixels, step)]


def _conv_pixels(
    state: EmulatorState,
    command: Command,
    n: Words,
    parts: list[NDArray[np.float32]],
    params: list[tuple[Words, Words, Words]],
) -> None:
    """Computes pixels n of a conv command. Weights come from `_exact_parts`, [terms * depth * ci, chunks * co].

    The source is read set by set, in all decks.
    """
    f, config = command.f, state.config
    taps = walk.tap_steps(f)
    steps = (np.arange(f.blocks)[:, None] * f.src_block + taps).reshape(-1)
    outside = walk.taps_outside(f, n)
    if outside is not None:
        outside = np.tile(outside, (1, f.blocks))
    places = (walk.source(f, n)[:, None] + steps)[..., None]
    if outside is not None:
        outside = np.broadcast_to(outside[..., None], (*outside.shape, config.depth))
    x = state.read(located(places, np.arange(config.depth), config.depth), outside, f.pad)
    offset, factor, shift = (np.concatenate(part) for part in zip(*params, strict=True))
    acc = _multiply(x.reshape(len(n), -1), parts) + offset.astype(np.int32)
    used = min(f.dst_blocks, f.chunks * config.chunk_blocks)  # further blocks are dropped
    channels = used * config.ci
    mid = arith.requantise(
        acc[:, :channels], factor[:channels], shift[:channels], f.mid_zero, f.mid_clamp_low, f.mid_clamp_high
    ).reshape(len(n), used, config.ci)
    mid = _looked_up(state, command, mid)
    block = np.arange(used)
    if not f.res_enable and all(getattr(f, name) == value for name, value in IDENTITY.items()):
        y = mid.clip(f.out_clamp_low, f.out_clamp_high)
    else:
        residual = state.read(_plane(state, f, "res", n, block)) if f.res_enable else np.int8(0)
        y = arith.combine(mid, f.add_a, residual, f.add_b, f.add_offset, f.add_shift, f.out_zero, f.out_clamp_low, f.out_clamp_high)
    state.write(command, _plane(state, f, "dst", n, block), y, n)


def _plane(state: EmulatorState, f: SimpleNamespace, name: str, n: Words, block: Words) -> Words:
    """Addresses of pixels n in blocks of a plane: [pixels, blocks]."""
    sets, deck = walk.blocks(f, name, block, state.config.depth)
    return located(walk.plane(f, name, n)[:, None] + sets, deck, state.config.depth)


def vector(state: EmulatorState, command: Command) -> None:
    """Carries out a vector command: pooling, depthwise, elementwise, product.

    It computes all blocks at once, since none reads another's result.
    """
    f, config = command.f, state.config
    take_table(state, command)
    depthwise, own = VECTOR_OPS[f.op] == "depthwise", config.vector_param_words
    steps = row_steps(f.kernel_width, f.window_apart) if depthwise else []
    weights = f.kernel_height * len(steps)
    if f.uniform:
        params = state.vector_ring.take(own)[None]
        words = state.vector_ring.take(f.blocks * weights).reshape(f.blocks, weights, config.vector_word_bytes)
    else:  # each block has its parameters before its weights
        both = state.vector_ring.take(f.blocks * (own + weights)).reshape(f.blocks, own + weights, config.vector_word_bytes)
        params, words = both[:, :own], both[:, own:]
    fields = [_params(block, config.ci) for block in params]
    stacked = [np.stack(part) for part in zip(*fields, strict=True)]  # offset, factor, shift, each [blocks or 1, ci]
    by_tap = _by_tap(f, words, steps, config.ci) if depthwise else None
    for n in _portions(walk.pixels(f), RESULTS // (f.blocks * config.ci)):
        _vector_pixels(state, command, n, stacked, by_tap)


def _vector_pixels(state: EmulatorState, command: Command, n: Words, params: list[Words], weights: Words | None) -> None:
    """Computes pixels n of a vector command."""
    f, config = command.f, state.config
    op, taps, block = VECTOR_OPS[f.op], walk.tap_steps(f), np.arange(f.blocks)
    sets, deck = walk.blocks(f, "src", block, config.depth)
    start, outside = walk.source(f, n)[:, None] + sets, walk.taps_outside(f, n)
    offset, factor, shift = params
    across = f.src_kx >> DECK_BIT & 1  # with two decks, whether tap column 1 lies in the other one

    def tap(t: int) -> Words:
        if f.b_flat and t % f.kernel_width == 0:
            flat = located(f.src + sets_on(f.src, block, config.depth) * f.b_block, deck, config.depth)
            return np.broadcast_to(state.read(flat), (*start.shape, config.ci))
        bad = None if outside is None else np.broadcast_to(outside[:, t, None], start.shape)
        return state.read(located(start + taps[t], deck ^ (across & t % f.kernel_width), config.depth), bad, f.pad)

    limits = (f.out_zero, f.out_clamp_low, f.out_clamp_high)
    if op in ("depthwise", "average"):
        acc: Words = np.zeros((*start.shape, config.ci), np.int32)
        for t in range(len(taps)):
            acc += tap(t) if weights is None else tap(t).astype(np.int16) * weights[t]
        y = arith.requantise(acc + offset.astype(np.int32), factor, shift, *limits)
    elif op == "product":
        acc = (tap(1).astype(np.int32) - f.pad) * (tap(0).astype(np.int32) - f.b_zero)
        y = arith.requantise(acc + offset.astype(np.int32), factor, shift, *limits)
    else:
        a = tap(0)
        for t in range(1, len(taps) if op != "elementwise" else 1):
            a = np.maximum(a, tap(t)) if op == "max" else np.minimum(a, tap(t))
        b: Words | np.int8 = tap(1) if op == "elementwise" and f.kernel_width == 2 else np.int8(0)
        y = arith.combine(a, factor, b, f.add_b, offset, shift, *limits)
    y = _looked_up(state, command, y)
    there = np.flatnonzero(n % f.out_width < (f.window_columns or f.out_width))
    n, y = n[there], y[there]
    if n.size:
        state.write(command, _plane(state, f, "dst", n, block), y, n)


def _by_tap(f: SimpleNamespace, words: Words, steps: Sequence[Sequence[int]], ci: int) -> Words:
    """The weights of ring words uint8 [blocks, kernel rows * steps, bytes]: int8 [taps, blocks, ci], tap columns fastest."""
    places = {tap: (step, place) for step, taps in enumerate(steps) for place, tap in enumerate(taps)}
    step, place = zip(*(places[tap] for tap in range(f.kernel_width)), strict=True)
    found = words.reshape(f.blocks, f.kernel_height, len(steps), -1, ci)[:, :, step, place].view(np.int8)
    return found.reshape(f.blocks, -1, ci).swapaxes(0, 1)


ENGINE_RUNS = {"load": load, "weight": weight, "conv": conv, "vector": vector, "store": store}
