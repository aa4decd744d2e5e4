"""A process that has lost its turn over the network, and one that it disturbs: neither may take wrong answers for right."""

from types import SimpleNamespace

import numpy as np
import pytest

from cnna.host.board import remote_turn
from cnna.host.board.remote_turn import RemoteTurn
from cnna.host.board.turn import Turns
from cnna.host.model.board_model import BoardModel
from cnna.spec.errors import TurnLostError
from cnna.spec.regmap import REGISTERS, offset

from ...waiting import until
from ..emulated_board import EmulatedBoard, StreamedBoard
from ..hand_made import expected, requantised_copy, samples

CONTROL = offset("CTRL")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Uses a tenth of the usual times."""
    for name in ("BEAT", "DEAD", "LEASE", "PASS"):
        monkeypatch.setattr(remote_turn, f"{name}_SECONDS", getattr(remote_turn, f"{name}_SECONDS") / 10)


@pytest.fixture
def files():
    """A board's files."""
    content = {}
    return SimpleNamespace(
        exists_file=lambda path: SimpleNamespace(exists=path in content),
        read_file=content.__getitem__,
        write_file=content.__setitem__,
    )


@pytest.fixture(params=[EmulatedBoard, StreamedBoard], ids=["ps", "pl"])
def board(request, files):
    """A board of each variant, reached over the network."""
    made = request.param()
    made.turns = Turns(RemoteTurn(files, "/tmp/turn"))
    made.turns.taken = made.turn_taken
    yield made
    assert not made.buffers


def overtaken(board, files):
    """Another process has taken the turn while this one stood still."""
    board.turns.turn.given.set()
    other = RemoteTurn(files, "/tmp/turn")
    until(lambda: other.take("another process"), "it never gets the turn")
    return other


def written(board, monkeypatch):
    """The writes to registers from now on."""
    found, mmio = [], board.mmio
    write = mmio.write
    monkeypatch.setattr(mmio, "write", lambda where, value: (found.append((where, value)), write(where, value)))
    return found


def test_answers_over_the_network_are_those_of_the_emulator(board):
    """The additional checks would find something although nobody disturbs."""
    x = samples(5)
    with BoardModel(requantised_copy(batch=2), board) as session, BoardModel(requantised_copy(batch=1), board) as other:
        for _ in range(2):
            assert np.array_equal(session.run(x), expected(x))
            assert np.array_equal(other.run(x), expected(x))


def test_who_has_lost_the_turn_is_told_and_keeps_its_hands_off(board, files, monkeypatch):
    """A process that stood in a debugger would return another's answer, or reset another's batch."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        stream = session.stream(samples(1, seed=n) for n in range(4))
        assert np.array_equal(next(stream), expected(samples(1)))
        other = overtaken(board, files)
        found = written(board, monkeypatch)
        with pytest.raises(TurnLostError, match="lost to another process: this process stood still"):
            next(stream)
        assert not found
        other.give()
        assert np.array_equal(session.run(samples(2)), expected(samples(2)))


def test_the_last_answer_is_not_given_either(board, files, monkeypatch):
    """Nothing is written after the last answer any more: only a look at who has the turn can tell."""
    with BoardModel(requantised_copy(batch=1), board) as session:
        load, others = session.accelerators[0].load_outputs, []

        def loads(slot):
            answer = load(slot)
            others.append(overtaken(board, files))
            board.turns.turn.until = float("inf")  # a virtual machine's clock may have stood still too
            return answer

        monkeypatch.setattr(session.accelerators[0], "load_outputs", loads)
        with pytest.raises(TurnLostError, match="lost to another process"):
            session.run(samples(1))
        monkeypatch.undo()
        others[0].give()


@pytest.mark.parametrize("register", ["SEG_OUTPUT_LO", "PROG_COUNT"])
def test_a_late_write_of_another_is_noticed(board, monkeypatch, register):
    """A write may have been under way for longer than anybody waits: the batch was then computed to or from another place."""
    x = samples(2)
    with BoardModel(requantised_copy(batch=1), board) as session:
        finish = session.accelerators[0].finish

        def disturbed():
            finish()
            board.mmio.write(offset(register), 0x40)

        with monkeypatch.context() as patch:
            patch.setattr(session.accelerators[0], "finish", disturbed)
            with pytest.raises(
                TurnLostError, match=rf"{register} of the accelerator holds 0x40, not 0x.*answers since then are void"
            ):
                session.run(x)
        memory = board.emulator if isinstance(board, EmulatedBoard) else board.board.backend.device
        start = session.accelerators[0].address("constant") - memory.base
        memory.data[start : start + 16] = 0x55  # which the late write may have changed
        assert np.array_equal(session.run(x), expected(x)), "all that was stored is stored again"


def test_a_late_start_of_another_is_noticed(board, monkeypatch):
    """Its done would be taken for that of the batch that has not run yet."""
    x = samples(3)
    with BoardModel(requantised_copy(batch=1), board) as session:
        set_registers = session.accelerators[0].set_registers

        def disturbed(slot=0):
            set_registers(slot)
            board.mmio.write(CONTROL, REGISTERS["CTRL"].pack(start=1))
            until(board.ended, "it does not end")

        with monkeypatch.context() as patch:
            patch.setattr(session.accelerators[0], "set_registers", disturbed)
            with pytest.raises(TurnLostError, match="has started the accelerator: answers since then are void"):
                session.run(x)
        assert np.array_equal(session.run(x), expected(x))


@pytest.mark.parametrize("place", ["STREAM_IN_LO", "dma"])
def test_a_packet_that_another_has_sent_elsewhere_is_noticed(files, monkeypatch, place):
    """Weights would lie where nobody looks, and the old ones be used."""
    board, x = StreamedBoard(), samples(1)
    board.turns = Turns(RemoteTurn(files, "/tmp/turn"))
    board.turns.taken = board.turn_taken
    with BoardModel(requantised_copy(batch=1), board) as session:
        session.run(x)
        wait = board.mover.wait

        def disturbed(way, address, size):
            wait(way, address, size)
            if place == "dma":
                board.mover.dma.write(0x18, 0x40)
            else:
                board.mmio.write(offset(place), 0x40)

        with monkeypatch.context() as patch:
            patch.setattr(board.mover, "wait", disturbed)
            with pytest.raises(TurnLostError, match=r"the address in STREAM_IN or the AXI DMA \(MM2S, .*\) has changed"):
                session.run(x)
        assert np.array_equal(session.run(x), expected(x))
    assert not board.board.dram.used_bytes
