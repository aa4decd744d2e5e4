"""Packs weights and requantiser parameters into the byte streams that the rings take (docs/engines.md defines the formats)."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Stream
from cnna.compiler.lower.layout import SEGMENT_ALIGN, STREAM_ALIGN
from cnna.spec.codebook import book_beats, books_of, codes_of, packed_books, packed_codes, stripe_rows, word_beats
from cnna.spec.config import BEAT_BYTES, PARAM_BYTES, TABLE_BYTES, Config
from cnna.spec.program.window import row_steps

Weights = Callable[[], NDArray[np.int8]]


def conv_stream(params: NDArray[np.uint64], size: int, weights: Weights, config: Config) -> Stream:
    """The weight ring's words of consecutive chunks, cut into stripes for the ports.

    params [chunks, co]; size: weights of a chunk; weights: makes int8 [chunks, blocks, kh, kw, co, ci], zero where there is no
    channel. The blocks are whole sets.
    """
    unit_words = config.param_words + size // config.ring_word_bytes
    lead = _bytes_of(params[:1])[:, : config.stripe_bytes].tobytes()
    packed = partial(_conv_words, params, weights, config)
    return Stream(config.ports, len(params) * unit_words * config.stripe_bytes, lead, packed, unit_words, config.param_words)


def _bytes_of(params: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Parameters [chunks, channels] as uint8 [chunks, bytes]."""
    return np.ascontiguousarray(params.astype("<u8")).view(np.uint8).reshape(len(params), -1)


def _conv_words(params: NDArray[np.uint64], made: Weights, config: Config) -> NDArray[np.uint8]:
    """The bytes of `conv_stream`."""
    chunks, weights, word = len(params), made(), config.ring_word_bytes
    head = np.zeros((chunks, config.param_words * word), np.uint8)
    head[:, : config.co * PARAM_BYTES] = _bytes_of(params)
    by_set = weights.reshape(chunks, -1, config.depth, *weights.shape[2:]).transpose(0, 1, 3, 4, 2, 5, 6)
    body = np.ascontiguousarray(by_set).view(np.uint8).reshape(chunks, -1, word)
    words = np.concatenate([head.reshape(chunks, -1, word), body], axis=1)
    stripes = words.reshape(-1, config.ports, config.stripe_bytes).transpose(1, 0, 2)
    return np.ascontiguousarray(stripes).reshape(config.ports, -1)


def coded_stream(stream: Stream, config: Config) -> Stream | None:
    """The same words of the weight ring, with the weights as codes behind books.

    None: some row has too many values for its book, or the books take what the codes save.
    """
    chunks, rows = stream.length // (stream.unit_words * config.stripe_bytes), stripe_rows(config)
    saved = (stream.unit_words - stream.param_words) * (config.stripe_bytes // BEAT_BYTES - word_beats(config))
    if saved <= book_beats(config):
        return None
    words = stream.data.reshape(config.ports, chunks, stream.unit_words, rows, config.ci)
    found = []
    for port, chunk in product(range(config.ports), range(chunks)):
        own = words[port, chunk, stream.param_words :].view(np.int8)
        books = books_of(own)
        if books is None:
            return None
        codes = packed_codes(codes_of(own, books).reshape(len(own), -1))
        parts = (words[port, chunk, : stream.param_words], packed_books(books), codes)
        found.append(np.concatenate([part.reshape(-1) for part in parts]))
    return Stream.of(np.stack(found).reshape(config.ports, -1), stream.unit_words, stream.param_words, book_beats(config))


def vector_stream(params: NDArray[np.uint64], weights: NDArray[np.int8] | None, config: Config, apart: int = 0) -> Stream:
    """The vector ring's words, block after block. A step of a kernel row is a word.

    params [blocks, ci] (one block if uniform); weights int8 [blocks, kh, kw, ci] of a depthwise convolution, else None.
    """
    blocks = len(params)
    words = np.ascontiguousarray(params.astype("<u8")).view(np.uint8).reshape(blocks, -1, config.vector_word_bytes)
    if weights is not None:
        steps, ci = row_steps(weights.shape[2], apart), config.ci
        lanes = np.zeros((blocks, weights.shape[1], len(steps), config.vector_word_bytes), np.uint8)
        for step, taps in enumerate(steps):
            for place, tap in enumerate(taps):
                lanes[:, :, step, place * ci : (place + 1) * ci] = np.ascontiguousarray(weights[:, :, tap]).view(np.uint8)
        words = np.concatenate([words, lanes.reshape(blocks, -1, config.vector_word_bytes)], axis=1)
    return Stream.of(words.reshape(1, -1), words.shape[1], config.vector_param_words)


def uniform_stream(params: NDArray[np.uint64], taps: NDArray[np.int8], blocks: int, config: Config, apart: int) -> Stream:
    """The vector ring's words of a depthwise convolution of `blocks` blocks, all channels of which have the same `taps` [kh, kw].

    params [1, ci]: they come once, and then the taps for each block.
    """
    one = vector_stream(params, np.repeat(taps[None, :, :, None], config.ci, axis=3), config, apart)
    words = one.data.reshape(-1, config.vector_word_bytes)
    again = np.tile(words[one.param_words :], (blocks - 1, 1))
    return Stream.of(np.concatenate([words, again]).reshape(1, -1), one.unit_words, one.param_words)


def behind_table(stream: Stream, table: bytes, stripe: int) -> Stream:
    """A stream of either ring with the words of a table in front. stripe: bytes of a ring word that one port brings."""
    ports = stream.ports
    words = -(-TABLE_BYTES // (ports * stripe))
    whole = np.zeros(words * ports * stripe, np.uint8)
    whole[:TABLE_BYTES] = np.frombuffer(table, np.uint8)
    stripes = whole.reshape(words, ports, stripe).transpose(1, 0, 2).reshape(ports, -1)
    return replace(
        stream,
        length=stripes.shape[1] + stream.length,
        lead=stripes[0].tobytes() + stream.lead,
        packed=lambda: np.concatenate([stripes, stream.data], axis=1),
        table_words=words,
    )


def packing_overflows(weights: NDArray[np.int8], cascade: int, depth: int = 1) -> NDArray[np.bool_]:
    """Which pairs of output channels overflow the packed multiplier: bool [chunks, co / 2]. weights as in `conv_stream`.

    With a whole cascade of -128 at some tap and inputs of -128, the even channel's sum is 2^17 (2^18 in both blocks of a set): one
    more than fits beside the odd channel's. Only cascades of 8 reach it. With depth 2 the lanes are a bit wider, so the pre-adder
    has no room for -128 of an odd channel beside a negative weight of the even one.
    """
    weights = weights.reshape(len(weights), -1, depth, *weights.shape[2:])  # chunks, sets, blocks of a set, kh, kw, co, ci
    even, odd = weights[..., ::2, :], weights[..., 1::2, :]
    bad = np.zeros((len(weights), even.shape[5]), np.bool_)
    if cascade == 8:
        chains = (even == -128).reshape(*even.shape[:6], -1, cascade).all(axis=(2, 7))
        bad |= chains.any(axis=(1, 2, 3, 5))
    if depth == 2:
        bad |= ((odd == -128) & (even < 0)).any(axis=(1, 2, 3, 4, 6))
    return bad


@dataclass(frozen=True, eq=False)
class ConstantSegment:
    """Streams one after another. Equal ones share one place.

    streams: without those that equal others. offsets: of the first stripe of each stream that was given; the stripes of a stream
    lie one after another, `length` bytes apart. size: of all, in bytes.
    """

    streams: Sequence[Stream]
    offsets: Sequence[int]
    size: int

    @cached_property
    def data(self) -> bytes:
        """The bytes, which are packed only now."""
        placed = b"".join(stream.data.tobytes() + bytes(-stream.size % STREAM_ALIGN) for stream in self.streams)
        return placed + bytes(self.size - len(placed))


def constant_segment(streams: Sequence[Stream]) -> ConstantSegment:
    """The constant segment of streams."""
    size, offsets = 0, list[int]()
    known: dict[bytes, int] = {}
    kept: list[Stream] = []
    for stream, mark in zip(streams, _marks(streams), strict=True):
        if mark not in known:
            known[mark] = size
            kept.append(stream)
            size += stream.size + -stream.size % STREAM_ALIGN
        offsets.append(known[mark])
    return ConstantSegment(kept, offsets, size + -size % SEGMENT_ALIGN)


def _marks(streams: Sequence[Stream]) -> list[bytes]:
    """What is equal for equal streams alone. Those whose size or lead no other has need not be packed for it."""
    alike: dict[int, list[int]] = defaultdict(list)
    for number, stream in enumerate(streams):
        alike[stream.size].append(number)
    marks = [b""] * len(streams)
    for size, numbers in alike.items():
        common = min(len(streams[number].lead) for number in numbers)
        leads = [streams[number].lead[:common] for number in numbers]
        times = Counter(leads)
        for number, lead in zip(numbers, leads, strict=True):
            own = b"" if times[lead] == 1 else hashlib.sha256(streams[number].data.tobytes()).digest()
            marks[number] = size.to_bytes(8, "little") + lead + own
    return marks
