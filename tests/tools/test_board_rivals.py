"""Arrays that stand beside a board's preset are all that fit, and the preset is the best of them."""

import json
from pathlib import Path

import board_rivals
import pytest
from board_rivals import RIVALS, budget, fitting, tried

from cnna.spec.boards import BOARDS
from cnna.spec.config import preset

COMPARED = [key for key in BOARDS if key != "zcu102"]  # zcu102 is older than the rule


@pytest.mark.parametrize("key", COMPARED)
def test_kept_arrays_are_those_that_fit_now(root: Path, key: str) -> None:
    """A preset would be called the best of its board although another array fits since the formulas or the chip changed."""
    own, found = preset(key), fitting(BOARDS[key])
    kept = json.loads((root / "docs" / board_rivals.KEPT).read_text())[key][RIVALS]
    arrays = {(entry["pix"], entry["ci"], entry["co"]) for entry in kept}
    assert (own.pix, own.ci, own.co) in arrays <= set(found)
    assert all(pix * ci * co >= own.macs for pix, ci, co in found)
    assert all(budget(BOARDS[key]).holds(config) for sizes in found.values() for config in sizes)
    assert max(entry["product"] for entry in kept) == 1


def test_an_array_is_tried_with_the_memories_that_it_has_to_choose_between() -> None:
    """An array whose ring takes the block RAM of its feature memory would be judged by one of them alone."""
    for sizes in fitting(BOARDS["ultra96"]).values():
        chosen = tried(sizes)
        assert max(c.feature_words for c in sizes) in {c.feature_words for c in chosen}
        assert max(c.ring_words for c in sizes) in {c.ring_words for c in chosen}
        best = max(c.regions for c in sizes if (c.feature_words, c.ring_words) == (chosen[0].feature_words, chosen[0].ring_words))
        assert chosen[0].regions == best
