"""A board's memory while other threads open and close models: a thread keeps its own, whatever comes at the same address."""

from types import SimpleNamespace

import pytest

from cnna.sim.board.board import open_board
from cnna.spec.config import preset
from cnna.spec.errors import RunError
from cnna.spec.identity import capability_words
from cnna.spec.regmap import offset

from ..emulated_board import EmulatedBoard, ServedBoard, StreamedBoard


@pytest.fixture(params=["ps", "pl"])
def board(request):
    """An allocator that takes the first fit: freed memory goes to the next one who asks."""
    served = open_board(preset("tiny"), request.param, "emulator", 16 << 20)
    made = ServedBoard(served) if request.param == "ps" else StreamedBoard(served)
    yield made
    made.close()
    served.close()


def test_an_address_that_another_thread_gave_back_is_ones_own(board):
    """A model that is opened while another one is closed would not know all of its memory, and never free it."""
    others = board.allocate(4096)
    with board.kept() as made:
        board.free(others)
        assert board.allocate(4096) == others
    assert made == [others]


def test_an_exception_frees_that_too(board):
    """Memory would stay if opening fails."""
    others = board.allocate(4096)

    def fails():
        with board.kept():
            board.free(others)
            board.allocate(4096)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert not board.buffers


def test_a_buffer_that_comes_while_one_goes_is_not_forgotten():
    """Another thread may get the address between the server's freeing and ours: its allocation would be forgotten."""
    served = open_board(preset("tiny"), "ps", "emulator", 16 << 20)
    board, again = ServedBoard(served), []
    first = board.allocate(4096)
    allocation = board.buffers[first]

    def freed():
        allocation.buffer.freebuffer()
        again.append(board.allocate(4096))

    board.buffers[first] = allocation._replace(buffer=SimpleNamespace(freebuffer=freed))
    board.free(first)
    assert again == [first]
    assert set(board.buffers) == {first}
    board.close()
    served.close()


def test_memory_may_change_while_it_is_put_back(board, monkeypatch):
    """A turn after another process's stores everything again: a model that is closed meanwhile would break all the others."""
    kept, others = board.allocate(4096), board.allocate(4096)
    for address in (kept, others):
        board.store(address, bytes(range(256)) * 16)
    board.doubt()
    check = board.turns.check

    def closes(sure=False):
        if others in board.buffers:
            board.free(others)
        check(sure)

    monkeypatch.setattr(board.turns, "check", closes)
    with board.turns.mine("test"):
        pass
    assert set(board.buffers) == {kept}
    assert board.load(kept, 256) == bytes(range(256))


def test_a_hang_under_another_image_says_so(monkeypatch):
    """Registers of another design show no progress: who only reads that the accelerator hangs looks for the cause in vain."""
    board = EmulatedBoard()
    board.timeout_seconds = 0.01
    words = {offset(name): word for name, word in capability_words(preset("zcu104")).items()}
    monkeypatch.setattr(board.mmio, "read", lambda at: words.get(at, 0))
    with pytest.raises(RunError, match=r"another image has been loaded since tiny was opened \(it is zcu104 now\)"):
        board.wait()
