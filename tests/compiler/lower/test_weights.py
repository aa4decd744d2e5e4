"""Streams have each weight and parameter at the byte where docs/engines.md says that the engines look for it."""

import numpy as np
import pytest

from cnna.compiler.lower.layout import SEGMENT_ALIGN, STREAM_ALIGN
from cnna.compiler.lower.weights import constant_segment, conv_stream, packing_overflows, vector_stream
from cnna.spec.arith import pack_params, unpack_params
from cnna.spec.config import Config, preset

OTHER = Config("other", pix=4, ci=8, co=24, ports=3, regions=3, bank_words=512, ring_words=328, vector_ring_words=264)


def ring_words(stream, config):
    """The words as the ring sees them: the ports side by side, port 0 lowest."""
    stripes = stream.data.reshape(config.ports, -1, config.stripe_bytes)
    return stripes.transpose(1, 0, 2).reshape(-1, config.ring_word_bytes)


def test_parameters_keep_every_value():
    """offset from bit 0, factor from bit 32, shift from bit 58; signs survive."""
    rng = np.random.default_rng(1)
    offset = np.concatenate([rng.integers(-(2**31), 2**31, 50), [-(2**31), 2**31 - 1, 0]])
    factor = np.concatenate([rng.integers(-(2**25), 2**25, 50), [-(2**25), 2**25 - 1, 0]])
    shift = np.concatenate([rng.integers(1, 56, 50), [55, 1, 1]])
    for word, *wanted in zip(pack_params(offset, factor, shift).tolist(), offset, factor, shift, strict=True):
        found = [word & (2**32 - 1), word >> 32 & (2**26 - 1), word >> 58]
        assert [found[0] - (found[0] >> 31 << 32), found[1] - (found[1] >> 25 << 26), found[2]] == wanted
    np.testing.assert_array_equal(unpack_params(pack_params(offset, factor, shift)), [offset, factor, shift])


@pytest.mark.parametrize("config", [preset("tiny"), OTHER, preset("zcu102"), preset("tinyx2")], ids=lambda config: config.name)
def test_ring_words_hold_parameters_then_weights(config):
    """Parameter k at bytes 8k of a chunk's first words; the weight of (block, ky, kx, k, i) at byte k * ci + i of its own word.

    With depth 2, words are of sets, and those of a set's second block follow behind the first block's.
    """
    rng = np.random.default_rng(1)
    chunks, blocks, kh, kw = 2, 2 + config.depth % 2, 2, 3
    params = rng.integers(0, 2**63, (chunks, config.co), np.uint64)
    weights = rng.integers(-128, 128, (chunks, blocks, kh, kw, config.co, config.ci)).astype(np.int8)
    stream = conv_stream(params, weights[0].size, lambda: weights, config)
    words = ring_words(stream, config)
    assert stream.unit_words * chunks == len(words)
    assert stream.param_words == config.param_words
    for chunk in range(chunks):
        own = words[chunk * stream.unit_words :]
        head = own[: config.param_words].tobytes()
        assert [int.from_bytes(head[8 * k : 8 * k + 8], "little") for k in range(config.co)] == params[chunk].tolist()
        for _ in range(50):
            at = tuple(int(rng.integers(n)) for n in weights.shape[1:])
            block, ky, kx, k, i = at
            word = own[config.param_words + (block // config.depth * kh + ky) * kw + kx]
            assert word.view(np.int8)[(block % config.depth * config.co + k) * config.ci + i] == weights[(chunk, *at)]


@pytest.mark.parametrize(("apart", "steps"), [(0, [[0], [1], [2], [3], [4]]), (1, [[0, 1, 2], [3, 4]]), (2, [[0, 2, 4], [1, 3]])])
def test_vector_ring_words_hold_parameters_then_taps(apart, steps):
    """The engine would multiply by another tap: a word holds a step of a kernel row, tap by tap, and zeros behind them."""
    config, rng = preset("tiny"), np.random.default_rng(1)
    params = rng.integers(0, 2**63, (3, config.ci), np.uint64)
    weights = rng.integers(-128, 128, (3, 2, 5, config.ci)).astype(np.int8)
    stream = vector_stream(params, weights, config, apart)
    words, first = stream.data.reshape(3, stream.unit_words, 4 * config.ci), config.vector_param_words
    assert stream.unit_words == first + 2 * len(steps)
    np.testing.assert_array_equal(words[:, :first].reshape(3, -1).view("<u8"), params)
    for row in range(2):
        for number, taps in enumerate(steps):
            word = words[:, first + row * len(steps) + number].view(np.int8)
            np.testing.assert_array_equal(word[:, : config.ci * len(taps)], weights[:, row, taps].reshape(3, -1))
            assert not word[:, config.ci * len(taps) :].any()


def test_equal_streams_share_their_place():
    """Every stream must be found at its aligned offset; an equal one may take no room again."""
    config, rng = preset("tiny"), np.random.default_rng(1)
    made = [vector_stream(rng.integers(0, 9, (n, config.ci), np.uint64), None, config) for n in (1, 3, 2)]
    segment = constant_segment([*made, made[1]])
    data, offsets = segment.data, segment.offsets
    assert offsets[3] == offsets[1]
    assert len(data) % SEGMENT_ALIGN == 0
    assert len(data) == segment.size == constant_segment(made).size
    for stream, offset in zip([*made, made[1]], offsets, strict=True):
        assert offset % STREAM_ALIGN == 0
        assert data[offset : offset + stream.data.size] == stream.data.tobytes()


def test_only_streams_that_begin_alike_are_packed_to_place_them():
    """Plans that are only compared would pack all weights; but streams that differ behind their lead must not share a place."""
    config, rng = preset("tiny"), np.random.default_rng(1)
    params = rng.integers(0, 2**63, (2, 1, config.co), np.uint64)
    weights = rng.integers(-127, 128, (3, 1, 1, 1, 1, config.co, config.ci)).astype(np.int8)
    made = [
        conv_stream(params[own], weights[0].size, lambda taken=taken: weights[taken], config)
        for own, taken in ((0, 0), (0, 1), (0, 0), (1, 2))
    ]
    segment = constant_segment(made)
    assert ["data" in vars(stream) for stream in made] == [True, True, True, False], "the last one's parameters are its own"
    assert [segment.offsets.index(offset) for offset in segment.offsets] == [0, 1, 0, 3]
    for stream, offset in zip(made, segment.offsets, strict=True):
        assert stream.data.tobytes()[: len(stream.lead)] == stream.lead
        assert segment.data[offset : offset + stream.size] == stream.data.tobytes()
    assert len(segment.data) == segment.size


def test_packing_overflows_only_where_a_whole_cascade_is_minus_128():
    """Only even channels can overflow: the odd ones are in the lane above, which has room."""
    weights = np.full((1, 1, 1, 1, 4, 16), -127, np.int8)
    weights[..., 1, :8] = weights[..., 2, 8:] = -128
    assert packing_overflows(weights, 8).tolist() == [[False, True]]
    assert not packing_overflows(weights, 4).any()
    weights[..., 2, 11] = 0
    assert not packing_overflows(weights, 8).any()


def test_two_blocks_a_clock_leave_less_room_for_minus_128():
    """With depth 2: an odd channel's weight of -128 beside a negative one, and -128 in the cascades of both blocks."""
    weights = np.full((1, 2, 1, 1, 4, 16), -127, np.int8)
    weights[0, :, 0, 0, 0, :8] = -128
    assert packing_overflows(weights, 8, 2).tolist() == [[True, False]]
    weights[0, 1, 0, 0, 0, 3] = 5
    assert not packing_overflows(weights, 8, 2).any(), "15 products fit"
    weights[0, 1, 0, 0, 3, 9] = -128
    assert packing_overflows(weights, 4, 2).tolist() == [[False, True]]
    weights[0, 1, 0, 0, 2, 9] = 0
    assert not packing_overflows(weights, 8, 2).any()
