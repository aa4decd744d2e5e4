"""Addresses are linear and distinct; in DDR they are where the artifact's ports say."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cnna.compiler.lower.kernels import Map
from cnna.compiler.lower.layout import (
    Box,
    FeaturePlace,
    align,
    ddr_beats,
    ddr_place,
    feature_words,
    listed,
    map_words,
    whole_place,
)
from cnna.spec.config import preset
from cnna.spec.program.decks import located, word_number
from cnna.spec.regmap import DECK_BIT

MAP = Map("m", blocks=3, height=4, width=5, pitch=7, images=(0, 2))


def test_every_word_of_a_map_has_its_own_address():
    place = whole_place(MAP, 100)
    words = listed(feature_words(place, Box((0, 2), (0, 3), (0, 4), (0, 5)), 4096))
    assert len(set(words.tolist())) == 2 * 3 * 4 * 5
    assert words.min() == 100
    assert words.max() < 100 + map_words(MAP)


def test_indices_follow_the_address_of_each_word():
    place, box = whole_place(MAP, 9), Box((1, 2), (1, 3), (2, 4), (1, 4))
    one_by_one = [place.address(n, b, y, x) for n in (1,) for b in (1, 2) for y in (2, 3) for x in (1, 2, 3)]
    assert listed(feature_words(place, box, 4096)).tolist() == one_by_one


def test_blocks_lie_in_two_decks_by_turns():
    """With depth 2, words of a block would be looked for where another block, or another map, has its own."""
    place, box = whole_place(replace(MAP, depth=2), 100), Box((0, 2), (0, 3), (0, 4), (0, 5))
    words = listed(feature_words(place, box, 4096))
    one_by_one = [place.address(n, b, y, x) for n, b, y, x in np.ndindex(2, 3, 4, 5)]
    assert sorted(words.tolist()) == sorted(word_number(address, 4096, 2) for address in one_by_one)
    assert len(set(one_by_one)) == 2 * 3 * 4 * 5
    assert [place.address(0, block, 0, 0) >> DECK_BIT for block in range(3)] == [0, 1, 0]
    assert map_words(replace(MAP, depth=2)) == map_words(replace(MAP, blocks=2)), "three blocks are two sets"
    assert place.address(0, 2, -1, -1) == 100 + 28 - 8, "a place in the padding"
    assert whole_place(replace(MAP, depth=2), 0).address(0, 1, -1, -1) == located(-8, 1, 2), "one before the first word"


@pytest.mark.parametrize("depth", [1, 2])
def test_any_box_of_any_place_has_the_words_of_its_addresses(depth):
    """Waits would be kept for other words: of a box of one column, of rows apart, or of a place that begins amid a map."""
    rng = np.random.default_rng(depth)
    for _ in range(100):
        low = [int(n) for n in rng.integers(0, 4, 4)]
        images, blocks, rows, columns = ((n, n + int(rng.integers(1, 4))) for n in low)
        row_words = columns[1] + int(rng.integers(0, 2))
        block_words = row_words * (rows[1] - rows[0] + int(rng.integers(0, 2)))
        place = FeaturePlace(1000, row_words, block_words, 4 * block_words, images[0], blocks[0], rows[0], depth)
        box = Box(images, blocks, rows, columns, (int(rng.integers(1, 3)), int(rng.integers(1, 3))))
        steps = (range(*images), range(*blocks), range(*rows, box.step[0]), range(*columns, box.step[1]))
        wanted = [word_number(place.address(*at), 4096, depth) for at in product(*steps)]
        assert sorted(listed(feature_words(place, box, 4096)).tolist()) == sorted(wanted), (place, box)


@pytest.mark.parametrize("name", ["tiny", "zcu102"])
def test_rows_in_ddr_begin_at_whole_beats_and_are_not_shared(name):
    config = preset(name)
    place = ddr_place(MAP, "workspace", 4096, config)
    beats = listed(ddr_beats(place, Box((0, 2), (0, 3), (0, 4), (0, 5))))
    assert len(set(beats.tolist())) == len(beats)
    assert place.row_bytes % 16 == 0
    assert place.row_bytes >= MAP.width * config.ci
    assert beats.min() * 16 == place.address(0, 0, 0)
    assert (beats.max() + 1) * 16 == place.address(2, 0, 0)


@pytest.mark.parametrize(("value", "step"), [(0, 16), (1, 16), (16, 16), (17, 16), (4095, 4096)])
def test_align_goes_up_to_a_multiple(value, step):
    assert align(value, step) % step == 0
    assert 0 <= align(value, step) - value < step
