"""Virtual boards for the tests of this folder, which need pynq (it has no release for Python 3.13 yet)."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("pynq") else ["test_*.py"]


@pytest.fixture(scope="module")
def board(address: str) -> Iterator[object]:
    """An emulated `tiny` board of 64 MiB that serves at `address`; a `sim.board.board.VirtualBoard`."""
    from .served import serving

    with serving(address) as made:
        yield made


@pytest.fixture(scope="module")
def pl_board(address: str) -> Iterator[object]:
    """The same for variant `pl`."""
    from .served import serving

    with serving(address.rpartition(".")[0] + ".8", "pl") as made:
        yield made
