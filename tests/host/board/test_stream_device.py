"""The driver on a board of variant `pl`, emulated without pynq: equal answers by streams, other processes, and faults."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from cnna.host.board import mover
from cnna.host.model.board_model import BoardModel
from cnna.host.selftest import selftest
from cnna.sim.board.board import open_board
from cnna.spec.config import preset
from cnna.spec.ddr import PL_DDR_BASE, PL_DDR_BYTES
from cnna.spec.errors import ArtifactError, RunError
from cnna.spec.regmap import REGISTERS, offset

from ..emulated_board import ServedBoard, StreamedBoard
from ..hand_made import expected, requantised_copy, samples


@pytest.mark.parametrize("count", [1, 2, 7])
def test_answers_are_those_of_the_emulator(board, count):
    """The way of the bytes would change some; the masters reach only the PL's DDR4."""
    x = samples(count)
    with BoardModel(requantised_copy(batch=2), board) as session:
        assert np.array_equal(session.run(x), expected(x))
        assert all(PL_DDR_BASE <= address < PL_DDR_BASE + PL_DDR_BYTES for address in session.memory)
        answers = list(session.stream(samples(2, seed=n) for n in range(4)))
        assert all(np.array_equal(answer, expected(samples(2, seed=n))) for n, answer in enumerate(answers))


@pytest.mark.parametrize("place", [(0, 4096), (0, 24), (8, 16), (5, 1), (3, 300_000), (4095, 2)])
def test_any_bytes_go_there_and_back(board, place, monkeypatch):
    """Streams move whole beats: the bytes beside ours in these beats must stay, whatever the number of pieces."""
    monkeypatch.setattr(mover, "PIECE_BYTES", 64 << 10)
    start, size = place
    address = board.allocate(400_000)
    around = np.random.default_rng(1).integers(0, 256, 400_000, np.uint8)
    board.store(address, around)
    inside = np.random.default_rng(2).integers(0, 256, size, np.uint8)
    board.store(address + start, inside)
    around[start : start + size] = inside
    assert board.load(address, 400_000) == around.tobytes()
    assert board.load(address + start, size) == inside.tobytes()
    with pytest.raises(RunError, match="in no allocation of this process"):
        board.load(address, 400_001)
    board.free(address)


def test_the_accelerators_bytes_beside_ours_stay(board):
    """A store into part of a beat would bring back what was there before the accelerator wrote."""
    address = board.allocate(32)
    board.store(address, bytes(32))
    start = address - board.board.backend.base
    board.board.backend.data[start : start + 32] = 7
    board.store(address + 4, b"\1")
    board.store(address + 16, b"\2")
    assert board.load(address, 32) == bytes([7] * 4 + [1] + [7] * 11 + [2] + [7] * 15)
    board.free(address)


def test_buffers_of_any_size_do_not_pile_up(board):
    """The ends of weights all have different sizes, and the host's memory does not belong to models."""
    address = board.allocate(1 << 16)
    for beats in range(1, 3 * mover.KEPT_BUFFERS):
        board.store(address, bytes(16 * beats))
    assert len(board.mover.buffers) == mover.KEPT_BUFFERS
    board.free(address)


@pytest.mark.parametrize("late", ["copy", "dma"])
def test_both_ends_are_waited_for(board, monkeypatch, late):
    """The last burst's response comes after the DMA's last beat; on the way back it is the other way round."""
    looks = iter([1, 1, 1])
    address = board.allocate(64)
    board.store(address, bytes(range(64)))
    if late == "copy":
        streams, busy = board.board.backend.streams, REGISTERS["STREAM_IN_STATUS"].pack(busy=1)
        read = streams.read
        monkeypatch.setattr(streams, "read", lambda at: busy if next(looks, 0) else read(at))
    else:
        dma = board.board.dma
        real = dma.read
        monkeypatch.setattr(dma, "read", lambda at: real(at) & ~(2 if at == 0x34 and next(looks, 0) else 0))
    assert board.load(address, 64) == bytes(range(64))
    assert not next(looks, 0), "it has looked that often"
    board.free(address)


def test_the_plan_fills_gaps_and_says_when_it_is_full(board):
    """The kernel does not manage these 512 MiB: a gap would be wasted, or given out twice."""
    one, two, three = (board.allocate(size) for size in (200 << 20, 100 << 20, 100 << 20))
    board.free(two)
    assert board.allocate(50 << 20) == two
    with pytest.raises(RunError, match=r"DDR4 has no 209,715,200 contiguous bytes left: 367,001,600 of its 536,870,912 are taken"):
        board.allocate(200 << 20)
    board.close()
    big = {**requantised_copy().program.manifest["segments"], "workspace": 600 << 20}
    with pytest.raises(RunError, match="the PL's DDR4 has no 629,145,600 contiguous bytes"):
        BoardModel(requantised_copy(segments=big), board)
    assert one
    assert three


def test_which_memory_is_full_is_said(board):
    """Closing a model gives back bytes of the PL's DDR4, but none of those that copies go through."""
    with BoardModel(requantised_copy(), board) as session:
        board.mover.release()
        other = board.served.buffer(len(board.board.dram.data))
        with pytest.raises(RunError, match=r"the PS's DDR has no [\d,]+ bytes of contiguous memory left") as caught:
            session.run(samples(1))
        assert "end other programs" in str(caught.value)
        assert "close one" not in str(caught.value)
        other.freebuffer()
        assert np.array_equal(session.run(samples(1)), expected(samples(1)))


def test_two_processes_share_the_ddr4_turn_by_turn(board):
    """Each process plans the whole DDR4: what the other one has overwritten must be restored before it is used."""
    other, x = StreamedBoard(board.board, board.base), samples(3)
    with BoardModel(requantised_copy(batch=1), board) as mine, BoardModel(requantised_copy(batch=2), other) as theirs:
        assert set(mine.memory) & set(theirs.memory), "the plans do overlap"
        for _ in range(2):
            assert np.array_equal(mine.run(x), expected(x))
            assert np.array_equal(theirs.run(x), expected(x))
        sent = []
        board.mover.send, send = lambda *call: (sent.append(call), send(*call)), board.mover.send
        mine.run(x)
        first = len(sent)
        mine.run(x)
        assert len(sent) - first < first, "and nothing is sent again when nobody was in between"


def test_an_image_that_was_loaded_again_is_noticed(board):
    """The DDR4's content is unknown then, and the accelerator's registers are as after power-up."""
    x = samples(2)
    with BoardModel(requantised_copy(), board) as session:
        assert np.array_equal(session.run(x), expected(x))
        board.board.backend.data[: 1 << 20] = 0x55
        board.write(offset("STREAM_IN_BYTES"), 0)
        assert np.array_equal(session.run(x), expected(x))


def test_what_was_not_put_back_is_put_back_in_the_next_turn(board, monkeypatch):
    """After Ctrl-C in the middle of a restore, the turn's file says that nobody came between, and no register differs."""
    other = StreamedBoard(board.board, board.base)
    mine, theirs = board.allocate(64), other.allocate(64)
    assert mine == theirs
    with board.turns.mine("a test"):
        board.store(mine, b"m" * 64)
    for interrupted in (False, True):
        with other.turns.mine("another"):
            other.store(theirs, b"t" * 64)
        if interrupted:
            with monkeypatch.context() as patch:
                patch.setattr(board.mover, "send", lambda address, data: (_ for _ in ()).throw(KeyboardInterrupt))
                with pytest.raises(KeyboardInterrupt), board.turns.mine("a test"):
                    pass
        with board.turns.mine("a test"):
            assert board.load(mine, 64) == b"m" * 64
    board.close()
    other.close()


def test_a_killed_process_leaves_nothing_that_hinders(board):
    """The process has begun a copy and started the DMA before it was killed."""
    x = samples(2)

    def begins_and_dies():
        other = StreamedBoard(board.board, board.base)
        with other.turns.mine("a model"):
            other.write(offset("STREAM_IN_BYTES"), 64)
            other.write(offset("STREAM_IN_START"), 1)

    begins_and_dies()
    with BoardModel(requantised_copy(), board) as session:
        assert np.array_equal(session.run(x), expected(x))
        begins_and_dies()
        assert np.array_equal(session.run(x), expected(x))


def test_memory_is_given_back_by_a_model_that_nobody_closes(board):
    """A notebook just uses the name again."""
    session = BoardModel(requantised_copy(), board)
    session.run(samples(1))
    assert board.buffers
    assert board.board.dram.used_bytes
    del session
    gc.collect()
    assert not board.buffers


def test_files_of_two_variants_are_told_apart(board):
    """The .hwh decides which driver there is, and the accelerator which one it needs."""
    with pytest.raises(ArtifactError, match=r"is of variant pl .* but the overlay's .hwh has no AXI DMA"):
        ServedBoard(board.board)
    ps = open_board(preset("tiny"), "ps", "emulator", 16 << 20)
    with pytest.raises(ArtifactError, match=r"has an AXI DMA for variant pl, but the accelerator on the board has no stream ports"):
        StreamedBoard(SimpleNamespace(design=board.board.design, fabric=ps.fabric, dram=ps.dram))
    with pytest.raises(ArtifactError, match=r"\(C_STREAMS 1, not 0\)"):
        StreamedBoard(parameters={"C_STREAMS": "0"})


def test_the_selftest_passes(board):
    """A sound board must pass: registers, a copy through feature memory, and both directions of every port."""
    found = selftest.selftest(board, virtual=True)
    assert all(finding.good for finding in found), found
    assert found[-1].name == "streams"
    assert "300,000 bytes equal" in found[-1].text


def test_the_selftest_finds_a_stream_that_changes_a_byte(board):
    """One lane of the data bus is wrong on the way back."""
    streams = board.board.backend.streams
    board.board.dma.receive.source = SimpleNamespace(
        get=lambda: (data := streams.get()) and bytes([data[0] ^ 1]) + data[1:], drop_got=streams.drop_got
    )
    assert selftest.streams(board).text == "2 of 300,000 bytes differ", "in each packet"
    assert not selftest.streams(board).good


def test_a_thousand_runs_in_constant_memory(board):
    """A leak of one buffer a run would end a demonstration after an hour."""
    x = samples(1)
    with BoardModel(requantised_copy(batch=1), board) as session:
        want, held, used = session.run(x), dict(board.buffers), board.board.dram.used_bytes
        for _ in range(1000):
            assert np.array_equal(session.run(x), want)
        assert (board.buffers, board.board.dram.used_bytes) == (held, used)
    assert not REGISTERS["STATUS"].unpack(board.read(offset("STATUS")))["busy"]
