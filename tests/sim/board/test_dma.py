"""The axi_dma model under pynq's own DMA driver: round trips, packets that wait, error bits."""

from collections.abc import Iterator

import pytest

from cnna.sim.board.board import VirtualBoard
from cnna.sim.board.dma import PARAMETERS, Dma, Loop
from cnna.sim.board.fabric import SlaveWindow

from . import stock

BASE = 0xA002_0000
CLIENT = f"""
from pynq.lib.dma import DMA
device = Device.active_device
dma = DMA({{"phys_addr": {BASE}, "addr_range": 0x10000, "device": device, "interrupts": {{}}, "parameters": {PARAMETERS}}})
send, receive = dma.sendchannel, dma.recvchannel
out, back = allocate((3000,), np.uint8), allocate((4000,), np.uint8)
"""


@pytest.fixture
def dma(board: object) -> Iterator[Dma]:
    """A DMA whose streams are tied together, on the served board."""
    assert isinstance(board, VirtualBoard)
    loop = Loop()
    made = Dma(board.dram, loop, loop)
    board.fabric.windows.append(SlaveWindow("axi_dma_0", BASE, 0x1_0000, made, False))
    yield made
    board.fabric.windows.pop()


def test_round_trips_in_either_order(dma: Dma, address: str) -> None:
    """What is sent must come back, whether the receiver waits or the packet, and its length must be reported."""
    code = (
        CLIENT
        + """
for number in range(6):
    out[:] = np.random.default_rng(number).integers(0, 256, 3000, np.uint8)
    size = (0, 16, 2992)[number % 3]
    first, second = ((send, out), (receive, back)) if number % 2 else ((receive, back), (send, out))
    for channel, buffer in (first, second):
        channel.transfer(buffer, nbytes=size if buffer is out else 0)
    send.wait()
    receive.wait()
    size = size or 3000
    assert receive.transferred == size, (receive.transferred, size)
    assert (back[:size] == out[:size]).all()
print("ok")
"""
    )
    assert stock.run(address, code) == "ok\n"


def test_errors_are_those_of_the_ip(dma: Dma, address: str) -> None:
    """An unmapped address, or a packet too long for its buffer, must set an error bit that stays until a reset, without a hang."""
    code = (
        CLIENT
        + """
class Elsewhere:
    physical_address, nbytes = 0x1000, 64
    def flush(self):
        pass

send.transfer(Elsewhere())
print(send.error, send.running, hex(dma.read(0x04)))
dma.write(0x00, 4)
send.start()
receive.start()
send.transfer(out)
send.wait()
with allocate((16,), np.uint8) as small:
    receive.transfer(small)
    print(receive.error, receive.running, hex(dma.read(0x34)))
dma.write(0x30, 4)
send.start()
receive.start()
send.transfer(out)
receive.transfer(back)
receive.wait()
assert (back[:3000] == out).all()
"""
    )
    assert stock.run(address, code).splitlines() == ["True False 0x4041", "True False 0x4011"]


def test_a_full_stream_makes_the_sender_wait(dma: Dma, address: str) -> None:
    """With back-pressure the sender must not be idle until somebody takes a packet."""
    code = (
        CLIENT
        + """
for number in range(4):
    send.transfer(out, nbytes=16)
    send.wait()
send.transfer(out, nbytes=16)
assert not send.idle
receive.transfer(back)
receive.wait()
send.wait()
print("ok")
"""
    )
    assert stock.run(address, code) == "ok\n"
