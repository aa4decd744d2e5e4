"""The virtual board as the stock pynq package sees it: pynq's self-test, downloads, memory, ends of clients and server."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cnna.sim.board import board as board_module
from cnna.sim.board.design import REGISTER_WINDOWS
from cnna.sim.board.emulator_backend import EmulatorBackend
from cnna.spec.identity import VLNV

from ...waiting import until
from . import stock

CONTROL = REGISTER_WINDOWS[0][3]


def test_pynqs_own_selftest_passes_in_full(board: object, address: str, tmp_path: Path) -> None:
    """The board would lack something that pynq expects, in pynq's own tests."""
    line = [sys.executable, "-W", "ignore", "-m", "pynq.remote.selftest", "--ip", address]
    said = stock.execute(address, [*line, "--bitstream", str(stock.images(tmp_path))])
    assert "11 passed, 0 failed, 0 skipped" in said


def test_overlay_registers_and_buffers(board: object, address: str, tmp_path: Path) -> None:
    """Names, clocks and register access must work through stock objects, and a buffer must keep what was put into it."""
    code = """
overlay = Overlay(sys.argv[1])
ip = overlay.cnna_0
assert overlay.ip_dict["cnna_0"]["type"] == sys.argv[2], overlay.ip_dict["cnna_0"]
assert ip.register_map.ID.MAGIC == 0x414E4E43, hex(ip.read(0))
assert abs(pynq.Clocks.fclk0_mhz - 300) < 0.1, pynq.Clocks.fclk0_mhz
ip.register_map.WATCHDOG = 12345
assert ip.read(ip.register_map.WATCHDOG.address) == 12345
data = np.random.default_rng(1).integers(0, 256, 5_000_000, np.uint8)
with allocate(data.shape, np.uint8) as buffer:
    buffer[:] = data
    buffer.flush()
    buffer[:] = 0
    buffer.invalidate()
    assert (buffer == data).all() and buffer.physical_address % 4096 == 0
overlay.leds_gpio.write(0, 0x3A5)
assert overlay.leds_gpio.read(0) == 0xA5
try:
    allocate((100 << 20,), np.uint8)
except Exception as error:
    print(error.details())
"""
    said = stock.run(address, code, stock.images(tmp_path), VLNV)
    assert "out of contiguous memory: 104,857,600 bytes requested; 0 buffers take 0 of 67,108,864" in said
    assert isinstance(board, board_module.VirtualBoard)
    assert board.dram.used_bytes == 0


def test_another_image_is_refused_before_and_after_the_right_one(board: object, address: str, tmp_path: Path) -> None:
    """pynq does not upload a file that is there: one that stayed would be taken again, whatever the next image is."""
    code = """
for path in sys.argv[1:]:
    try:
        Overlay(path)
        print("taken")
    except Exception as error:
        print(error.details())
"""
    (tmp_path / "foreign").mkdir()
    other, right = stock.images(tmp_path / "other", "zcu102"), stock.images(tmp_path / "right")
    foreign = tmp_path / "foreign" / "cnna.bit"
    whole = right.read_bytes()
    foreign.write_bytes(whole[:-8] + bytes(8))  # its last bytes, so that it is no JSON any more
    foreign.with_suffix(".hwh").write_bytes(right.with_suffix(".hwh").read_bytes())
    assert isinstance(board, board_module.VirtualBoard)
    said = stock.run(address, code, other, foreign, right, other).splitlines()
    assert "cnna.bin is not this board's image" in said[0]
    assert "config.pix 8, not 2" in said[0]
    assert "cnna board image --config tiny --variant ps" in said[0]
    assert "cnna.bin is not a virtual image" in said[1]
    assert said[2] == "taken"
    assert said[3] == said[0]


def test_addresses_of_nothing_are_refused(board: object, address: str) -> None:
    """On a real board such an access hangs the processor; here the message must say where it went."""
    code = f"""
for base, length in ((0x1000, 4), ({CONTROL:#x}, 0x2000)):
    try:
        MMIO(base, length, device=Device.active_device)
    except Exception as error:
        print(error.details())
control = MMIO({CONTROL:#x}, 0x1000, device=Device.active_device)
for access in (lambda: control.read(0xff0), lambda: control.write(0x0, 1), lambda: control.read(0x1000)):
    try:
        access()
    except Exception as error:
        print(error.details())
"""
    assert isinstance(board, board_module.VirtualBoard)
    board.fabric.programmed = False
    assert "no image is loaded; download cnna.bit first" in stock.run(address, code)
    board.fabric.programmed = True
    said = stock.run(address, code).splitlines()
    assert len(said) == 4, said  # a write to a ro register of the emulator stops it, as the register map says
    assert "are not mapped" in said[0]
    assert "are not mapped" in said[1]
    assert "no register at offset 0xff0" in said[2]
    assert "offset 0x1000 is beyond" in said[3]


def test_a_killed_client_leaves_nothing_behind(board: object, address: str) -> None:
    """Notebooks may be killed at any moment; the next one must find all the memory."""
    code = """
buffers = [allocate((1 << 20,), np.uint8) for _ in range(4)]
print("allocated", flush=True)
while True:
    buffers[0].flush()
"""
    assert isinstance(board, board_module.VirtualBoard)
    client = subprocess.Popen(stock.command(code), env=stock.environment(address), stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    assert client.stdout.readline() == "allocated\n"
    assert board.dram.used_bytes == 4 << 20
    client.kill()
    client.communicate()
    until(lambda: not board.dram.used_bytes, "its memory was not freed", stock.PATIENCE_SECONDS)
    assert stock.run(address, "print(allocate((60 << 20,), np.uint8).nbytes)") == f"{60 << 20}\n"


class Asked(threading.Event):
    """An event that counts how often somebody has asked whether it is set."""

    asked = 0

    def is_set(self) -> bool:
        self.asked += 1
        return super().is_set()


def test_a_killed_clients_program_ends_before_its_memory_is_freed(board: object, address: str) -> None:
    """The server must be told what the accelerator does."""
    assert isinstance(board, board_module.VirtualBoard)
    client = subprocess.Popen(
        stock.command("kept = allocate((1 << 20,), np.uint8); print(flush=True); sys.stdin.read()"),
        env=stock.environment(address), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert client.stdout is not None
    assert isinstance(board.backend, EmulatorBackend)
    board.backend.running = running = Asked()
    try:
        client.stdout.readline()
        running.set()
        assert board.busy()
        client.kill()
        client.communicate()
        asked = running.asked
        until(lambda: running.asked > asked + 3, "nobody has noticed that the client is gone")
        assert board.dram.used_bytes == 1 << 20
    finally:
        running.clear()
    until(lambda: not board.dram.used_bytes, "its memory was not freed", stock.PATIENCE_SECONDS)


def test_two_clients_at_once(board: object, address: str) -> None:
    """Each client must get its own bytes and register values back, whatever the other does."""
    code = f"""
number = int(sys.argv[1])
leds = MMIO({CONTROL:#x}, 0x1000, device=Device.active_device)
buffer = allocate((1 << 18,), np.uint8)
for step in range(40):
    buffer[:] = number + step
    buffer.flush()
    leds.write(0x3C + 8 * number, step)
    buffer[:] = 0
    buffer.invalidate()
    assert (buffer == number + step).all()
    assert leds.read(0x3C + 8 * number) == step
print("ok")
"""
    assert isinstance(board, board_module.VirtualBoard)
    board.fabric.programmed = True
    clients = [
        subprocess.Popen(stock.command(code, n), env=stock.environment(address), stdout=subprocess.PIPE, text=True) for n in (0, 1)
    ]
    assert [client.communicate(timeout=stock.PATIENCE_SECONDS)[0] for client in clients] == ["ok\n", "ok\n"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_in_order(number: signal.Signals, address: str) -> None:
    """A server that needs a second Ctrl-C, or ends with an error, cannot be used in a script."""
    line = [sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "board", "serve", "--config", "tiny", "--backend", "emulator"]
    with subprocess.Popen([*line, "--address", address, "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(f"ready {address}:")
        server.send_signal(number)
        assert server.wait(timeout=stock.PATIENCE_SECONDS) == 0


def test_a_server_that_ends_takes_no_client_along(address: str) -> None:
    """In the middle of a transfer the server must end in order, and the client must get an error and not hang."""
    elsewhere = address.rpartition(".")[0] + ".9"
    line = [sys.executable, "-W", "ignore", "-m", "cnna.cli.main", "board", "serve", "--config", "tiny", "--backend", "emulator"]
    code = """
buffer = allocate((32 << 20,), np.uint8)
print("allocated", flush=True)
try:
    while True:
        buffer.flush()
        buffer.invalidate()
        print("moved", flush=True)
except Exception as error:
    print("ended", error.code().name)
"""
    with subprocess.Popen([*line, "--address", elsewhere], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("ready")
        environment = stock.environment(elsewhere)
        with subprocess.Popen(stock.command(code), env=environment, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "allocated\n"
            assert client.stdout.readline() == "moved\n"
            server.terminate()
            assert server.wait(timeout=stock.PATIENCE_SECONDS) == 0
            said = client.communicate(timeout=stock.PATIENCE_SECONDS)[0].splitlines()
            assert said[-1] in ("ended UNAVAILABLE", "ended CANCELLED")


def test_a_taken_port_is_one_line(board: object, address: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The most frequent mistake: a board is running already."""
    from cnna.cli.main import main

    serve = ["board", "serve", "--config", "tiny", "--backend", "emulator", "--address"]
    assert main([*serve, address]) == 2
    line = capfd.readouterr().err.splitlines()[-1]  # gRPC, which was imported before us here, prints its own message
    assert line.startswith(
        f"cnna: cannot listen on {address}:7967: another program uses it; end that one, or give another --address"
    )
    assert main([*serve, "192.0.2.1", "--insecure"]) == 2  # an address of a network that exists only in documents
    line = capfd.readouterr().err.splitlines()[-1]
    assert line == "cnna: cannot listen on 192.0.2.1:7967: this machine has no such address; `ip address` lists its addresses"
