"""What every test of the native library needs: the library."""

import pytest

from cnna.host.native import library


@pytest.fixture(autouse=True)
def _native() -> None:
    """Without the library, a test would compare numpy with itself."""
    assert library.native().calls is not None, f"{library.native().why}; make .venv/installed builds it"
