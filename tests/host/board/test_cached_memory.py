"""The proof that cached memory works: for which board it holds, and what happens where it cannot be kept."""

from contextlib import suppress
from pathlib import Path

import pytest

from cnna.host.board import cached_memory
from cnna.host.board.cached_memory import UNPROVED, CachedMemory, Proof, proof_of
from cnna.host.native.cache import Cache

LIBRARY = "0" * 64


def memory(proof: Proof) -> CachedMemory:
    return CachedMemory(bytes, Cache(64, lambda address, size: None, lambda address, size: None), proof)


def test_a_proof_holds_for_one_board_kernel_bitstream_and_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another kernel may map memory in another way: answers would be wrong, and nobody would have tried it."""
    bit = tmp_path / "cnna.bit"
    bit.write_bytes(b"one")
    proof_of(bit, LIBRARY, tmp_path).keep()
    assert proof_of(bit, LIBRARY, tmp_path).stands()
    assert not proof_of(bit, "1" * 64, tmp_path).stands()
    assert not proof_of(None, LIBRARY, tmp_path).stands()
    bit.write_bytes(b"two")
    assert not proof_of(bit, LIBRARY, tmp_path).stands()
    bit.write_bytes(b"one")
    with monkeypatch.context() as patch:
        patch.setattr("platform.release", lambda: "another")
        assert not proof_of(bit, LIBRARY, tmp_path).stands()
    (tmp_path / "model").write_bytes(b"ZynqMP ZCU102 Rev1.0\0")
    with monkeypatch.context() as patch:
        patch.setattr(cached_memory, "BOARD_NAMES", (tmp_path / "none", tmp_path / "model"))
        assert not proof_of(bit, LIBRARY, tmp_path).stands()
    assert proof_of(bit, LIBRARY, tmp_path).stands()


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff\xfe", None])
def test_a_file_that_says_something_else_proves_nothing(tmp_path: Path, damage: bytes | None) -> None:
    """Half a file, or a folder of that name, would turn cached memory on, or end in a traceback at the first model."""
    proof = Proof(tmp_path, {"board": "b"})
    proof.keep()
    if damage is None:
        proof.drop()
        proof.path.mkdir()
    else:
        proof.path.write_bytes(damage)
    assert not proof.stands()
    proof.drop()


def test_what_the_self_test_concludes_is_kept(tmp_path: Path) -> None:
    """The next process would not know it; a board that fails once must not keep the proof of a better day."""
    proof = Proof(tmp_path / "boards", {"board": "b"})
    one = memory(proof)
    assert not one.on
    assert str(one) == UNPROVED
    assert one.conclude(True) == ""
    assert one.on
    assert memory(proof).on
    assert memory(proof).conclude(False) == ""
    assert not memory(proof).on


def test_a_proof_that_cannot_be_written_holds_for_this_process(tmp_path: Path) -> None:
    """The self-test would end with an error although the board is sound."""
    (tmp_path / "boards").write_text("a file")
    one = memory(Proof(tmp_path / "boards", {"board": "b"}))
    assert "boards: is a file, not a folder" in one.conclude(True)
    assert one.on


def test_a_trial_changes_nothing_afterwards(tmp_path: Path) -> None:
    """A self-test that is broken off would leave memory cached that nobody has proved."""
    one = memory(Proof(tmp_path, {"board": "b"}))
    with suppress(KeyboardInterrupt), one.tried(True):
        assert one.allowed()
        raise KeyboardInterrupt
    assert not one.on
