"""What the array writes while a stretch is simulated: what is the same must be known again."""

import numpy as np

from cnna.compiler.predict.active_engines import Walk
from cnna.compiler.predict.array_writes import ArrayWrites, WalkWrites
from cnna.compiler.predict.known_stretches import KnownStretches, WalkGroups
from cnna.compiler.predict.shared_port import simulate
from cnna.spec.config import preset

ZCU102 = preset("zcu102")
PLANE = {"images": 1, "out_height": 30, "out_width": 30, "window_columns": 0}
STEPS = {"": 0, "_x": 1, "_row": 30, "_image": 900, "_block": 900}
FIELDS = {**PLANE, **{f"dst{name}": step for name, step in STEPS.items()}, "res_enable": 0}
CLOCKS, GROUPS = 64, 113


def writes_of(known, slow=None, **changed):
    """The writes of two blocks whose groups take nine clocks, but the one of number `slow` takes more."""
    clocks = np.full(GROUPS, 9)
    if slow is not None:
        clocks[slow] = 30
    return WalkWrites(Walk(FIELDS | changed, (0, 2), WalkGroups(clocks), 0.0), ZCU102, known)


def test_walks_that_agree_as_far_as_a_stretch_goes_have_one_key():
    """A stretch would be simulated again wherever a tile has other rows far behind it, or taken for one of other clocks."""
    known = KnownStretches()
    key = writes_of(known).key(2, CLOCKS)
    assert writes_of(known).key(2, CLOCKS) == key == writes_of(known, slow=50).key(2, CLOCKS)
    others = [writes_of(known, slow=number).key(2, CLOCKS) for number in (2, 5)]
    others += [writes_of(known).key(3, CLOCKS), writes_of(known, dst=1).key(2, CLOCKS), writes_of(known, dst_row=31).key(2, CLOCKS)]
    assert len({key, *others}) == 6


def test_the_parts_of_a_walk_go_on_from_piece_to_piece():
    """Pieces of a walk are looked up as they come; a stretch that begins within one must write what the whole walk writes there."""
    known = KnownStretches()
    whole, later = (writes_of(known).requesters(first)["dst"] for first in (0, 60))
    parts = []
    for requester in (whole, later):
        assert isinstance(requester, ArrayWrites)
        own = []
        while requester.wake < GROUPS * 9:
            own.append((requester.wake, requester.offer(int(requester.wake))))
        parts.append(own)
    behind = [(wake - 60 * 9, part) for wake, part in parts[0] if wake >= 60 * 9 + 9 - 4]
    assert parts[1] == behind
    assert len({part for _, part in behind}) > 1


def test_nothing_delays_the_array():
    """Its writes have the first place."""
    requester = writes_of(KnownStretches()).requesters(0)["dst"]
    simulate([requester], 10 * CLOCKS)
    assert requester.asks == 0
