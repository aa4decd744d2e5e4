"""The simulator's build: what it refuses before it begins, and where it keeps its results."""

import pytest

from cnna.host.errors import ToolError
from cnna.sim.build import build, default_cache


def test_a_path_with_a_space_is_refused(tmp_path):
    """Verilator would fail minutes later, with a log that does not name the cause."""
    with pytest.raises(ToolError, match="no path with a space") as caught:
        build({}, tmp_path / "my cache", False, print)
    assert "my cache" in str(caught.value)
    assert not (tmp_path / "my cache").exists()


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    """Simulators would fill another folder than the one that the user set aside."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "cnna"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache().parts[-2:] == (".cache", "cnna")
