"""Cuts wide payloads: a queue's payload goes in slices, each a module with control registers of its own, all in lock step.

One enable for a thousand flip-flops would be a slow net. Synthesis merges copies of a register unless attributes forbid it
(`attributes.py`); modules of their own let it look at one of all that are alike. `fifo.py`, `skid_buffer.py` and `bank_front.py`
are cut so.
"""

SLICE_BITS = 256  # at most: half of the loads that a net may have


def slices(bits: int, most: int = SLICE_BITS) -> list[slice]:
    """Equal parts of `bits` bits, at most `most` each, the last one may be shorter; one part at least."""
    count = max(1, -(-bits // most))
    size = max(1, -(-bits // count))
    return [slice(start, min(start + size, bits)) for start in range(0, max(bits, 1), size)]
