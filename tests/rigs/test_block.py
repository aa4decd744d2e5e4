"""What is kept of a block's Verilog, and when it is generated anew."""

from pathlib import Path

import pytest
from amaranth.lib.wiring import Component

from cnna.hw.array.drain import Drain
from cnna.hw.units.waits import UnitCounts, UnitWaiter
from cnna.spec.config import preset

from . import block as blocks
from .block import make_block


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setattr(blocks, "default_cache", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "blocks"


def test_a_block_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run would take the seconds again, or a test get another block's Verilog."""
    first, other = make_block(UnitCounts), make_block(UnitWaiter)
    assert "module block(" in first.verilog
    assert first.verilog != other.verilog
    monkeypatch.setattr(blocks, "_generated", lambda component: pytest.fail("generated again"))
    assert make_block(UnitCounts).verilog == first.verilog
    assert make_block(UnitWaiter).verilog == other.verilog


def test_what_has_changed_is_generated_anew(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """A test would play the Verilog of an older source, or of another size."""
    texts = iter("abcd")

    def generated(component: Component) -> str:
        blocks.count_as_used(component)  # as elaborating it would
        return next(texts)

    monkeypatch.setattr(blocks, "_generated", generated)
    sizes = [preset("tiny"), preset("zcu102")]
    made = [make_block(Drain, size).verilog for size in (*sizes, sizes[0])]
    monkeypatch.setattr(blocks, "_sources", lambda: "changed since it was imported")
    assert [*made, make_block(Drain, sizes[0]).verilog] == ["a", "b", "a", "c"]
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(blocks, "IMPORTED", "changed since it was imported")
    assert make_block(Drain, sizes[0]).verilog == "d"


def test_an_argument_must_say_all_of_itself() -> None:
    """Two blocks whose arguments have the same `repr` would share their Verilog."""
    with pytest.raises(TypeError, match=r"Drain is not told from others by \[1\]"):
        make_block(Drain, [1])
