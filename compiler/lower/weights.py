"""Packs weights and requantiser parameters into the byte streams that the rings take (docs/engines.md defines the formats)."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.kernels import Stream
from cnna.compiler.lower.layout import SEGMENT_ALIGN, STREAM_ALIGN
from cnna.spec.codebook import book_beats, books_of, codes_of, packed_books, packed_codes, stripe_rows, word_beats
from cnna.spec.config import BEAT_BYTES, PARAM_BYTES, TABLE_BYTES, Config
from cnna.spec.program.window import row_steps


def conv_stream(params: NDArray[np.uint64], weights: NDArray[np.int8], config: Config) -> Stream:
    """The weight ring's words of consecutive chunks, cut into stripes for the ports.

    params [chunks, co]; weights int8 [chunks, blocks, kh, kw, co, ci], zero where there is no channel. The blocks are whole sets.
    """
    chunks = len(params)
    word = config.ring_word_bytes
    head = np.zeros((chunks, config.param_words * word), np.uint8)
    head[:, : config.co * PARAM_BYTES] = np.ascontiguousarray(params.astype("<u8")).view(np.uint8).reshape(chunks, -1)
    by_set = weights.reshape(chunks, -1, config.depth, *weights.shape[2:]).transpose(0, 1, 3, 4, 2, 5, 6)
    body = np.ascontiguousarray(by_set).view(np.uint8).reshape(chunks, -1, word)
    words = np.concatenate([head.reshape(chunks, -1, word), body], axis=1)
    stripes = words.reshape(-1, config.ports, config.stripe_bytes).transpose(1, 0, 2)
    return Stream(np.ascontiguousarray(stripes).reshape(config.ports, -1), words.shape[1], config.param_words)


def coded_stream(stream: Stream, config: Config) -> Stream | None:
    """The same words of the weight ring, with the weights as codes behind books.

    None: some row has too many values for its book, or the books take what the codes save.
    """
    chunks, rows = stream.data.shape[1] // (stream.unit_words * config.stripe_bytes), stripe_rows(config)
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
    return replace(stream, data=np.stack(found).reshape(config.ports, -1), book_beats=book_beats(config))


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
    return Stream(words.reshape(1, -1), words.shape[1], config.vector_param_words)


def uniform_stream(params: NDArray[np.uint64], taps: NDArray[np.int8], blocks: int, config: Config, apart: int) -> Stream:
    """The vector ring's words of a depthwise convolution of `blocks` blocks, all channels of which have the same `taps` [kh, kw].

    params [1, ci]: they come once, and then the taps for each block.
    """
    one = vector_stream(params, np.repeat(taps[None, :, :, None], config.ci, axis=3), config, apart)
    words = one.data.reshape(-1, config.vector_word_bytes)
    again = np.tile(words[one.param_words :], (blocks - 1, 1))
    return replace(one, data=np.concatenate([words, again]).reshape(1, -1))


def behind_table(stream: Stream, table: bytes, stripe: int) -> Stream:
    """A stream of either ring with the words of a table in front. stripe: bytes of a ring word that one port brings."""
    ports = len(stream.data)
    words = -(-TABLE_BYTES // (ports * stripe))
    whole = np.zeros(words * ports * stripe, np.uint8)
    whole[:TABLE_BYTES] = np.frombuffer(table, np.uint8)
    stripes = whole.reshape(words, ports, stripe).transpose(1, 0, 2).reshape(ports, -1)
    return replace(stream, data=np.concatenate([stripes, stream.data], axis=1), table_words=words)


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


def constant_segment(streams: Sequence[Stream]) -> tuple[bytes, tuple[int, ...]]:
    """The constant segment's bytes, and the offset of each stream's first stripe in it. Equal streams share one place.

    The stripes of a stream lie one after another, `data.shape[1]` bytes apart.
    """
    parts: list[bytes] = []
    size, offsets, known = 0, [], {}
    for stream in streams:
        data = stream.data.tobytes()
        key = hashlib.sha256(data).digest()
        if key not in known:
            known[key] = size
            parts.append(data + bytes(-len(data) % STREAM_ALIGN))
            size += len(parts[-1])
        offsets.append(known[key])
    return b"".join(parts) + bytes(-size % SEGMENT_ALIGN), tuple(offsets)
