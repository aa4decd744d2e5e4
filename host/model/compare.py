"""Answers of one execution against those of another: equal to the bit, or the first difference by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import CheckError

Arrays = Mapping[str, NDArray[Any]]


def compare(name: str, found: Arrays, other: str, wanted: Arrays) -> str:
    """`NAME == OTHER: N outputs, M elements`. CheckError: where they differ first, with both values."""
    for output, want in wanted.items():
        have = found[output]
        if have.shape != want.shape:
            raise CheckError(f"{name} != {other}: output {output} has shape {list(have.shape)}, not {list(want.shape)}")
        differ = np.argwhere(~((have == want) | (np.isnan(have) & np.isnan(want))))
        if len(differ):
            place = tuple(int(index) for index in differ[0])
            raise CheckError(
                f"{name} != {other}: output {output}, element {list(place)}: {have[place]} and {want[place]}; "
                f"{len(differ):,} of {want.size:,} elements differ"
            )
    outputs = f"{len(wanted)} output{'s' * (len(wanted) != 1)}"
    return f"{name} == {other}: {outputs}, {sum(want.size for want in wanted.values())} elements"
