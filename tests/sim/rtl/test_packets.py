"""The simulated RTL with streams: everything goes in and out by packets, beside running programs, and with faults."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.host.device.accelerator import Accelerator
from cnna.sim.rtl.linked_models import SETTINGS
from cnna.spec.errors import RunError
from cnna.spec.identity import read_config
from cnna.spec.regmap import REGISTERS, STREAM_ERRORS, offset

from ...agreement import CONFIGS, WATCHDOG_CLOCKS, Case

STREAMS = replace(CONFIGS["tiny"], streams=True)
CASE = Case(CONFIGS["tiny"], "network", 7)  # a program neither needs streams nor minds them
POLL_CLOCKS, POLLS = 100, 2000
DONE = {"busy": 0, "done": 1, "cause": 0, "response": 0}


@pytest.fixture
def device(rtl):
    """The RTL with an undemanding memory and streams, before and after each test."""
    opened = rtl(STREAMS)
    opened.release_all()
    opened.reset()
    yield opened
    opened.clear_faults()
    opened.set_ddr(**{name: default for name, (default, _) in SETTINGS.items()})
    opened.set_streams(stall=0)


def start(device, way, address, size):
    """Begins a copy."""
    for name, word in (("LO", address & 0xFFFFFFFF), ("HI", address >> 32), ("BYTES", size), ("START", 1)):
        device.write(offset(f"STREAM_{way}_{name}"), word)


def status(device, way):
    """The fields of its status."""
    return REGISTERS[f"STREAM_{way}_STATUS"].unpack(device.read(offset(f"STREAM_{way}_STATUS")))


def end(device, way):
    """How a copy ended."""
    for _ in range(POLLS):
        if not status(device, way)["busy"]:
            return status(device, way)
        device.run_clocks(POLL_CLOCKS)
    raise AssertionError(f"STREAM_{way} has not ended: {status(device, way)}, {device.unsent} bytes unsent")


class Streamed:
    """A device whose bytes go in and out by streams only."""

    def __init__(self, device):
        self.device, self.config, self.name, self.ddr = device, device.config, device.name, device.ddr
        self.read, self.write, self.wait, self.allocate = device.read, device.write, device.wait, device.allocate

    def store(self, address, data):
        """Sends a packet in; the DMA's end may be ready first."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        if raw.size:
            self.device.send(raw)
            start(self.device, "IN", address, raw.size)
            assert end(self.device, "IN") == DONE
            assert self.device.unsent == 0

    def load(self, address, size):
        """Takes a packet out."""
        start(self.device, "OUT", address, size)
        assert end(self.device, "OUT") == DONE
        packet = self.device.receive()
        assert len(packet) == size
        return packet


def golden(answers):
    """Compares answers with the reference."""
    assert answers
    for name, found in answers.items():
        np.testing.assert_array_equal(found, CASE.golden[name])


@pytest.mark.cosim
def test_it_says_that_it_has_streams(device):
    """A driver of variant `pl` would accept an image without them."""
    assert read_config(device.read).streams


@pytest.mark.cosim
@pytest.mark.parametrize("stall", [0, 100])
def test_a_network_by_streams(device, stall):
    """Constants, program and image come by `s_axis`, the answer goes by `m_axis`: no byte may be lost at any pace."""
    device.set_streams(stall=stall)
    device.set_ddr(stall=stall)
    golden(Accelerator(Streamed(device), CASE.piece, WATCHDOG_CLOCKS).run(CASE.inputs))


@pytest.mark.cosim
@pytest.mark.parametrize("stall", [0, 100])
def test_copies_beside_a_running_program(device, stall):
    """The next image comes in and the last answer goes out while layers run; neither may disturb the other."""
    accelerator = Accelerator(device, CASE.piece, WATCHDOG_CLOCKS)
    accelerator.run(CASE.inputs)
    alone = dict(accelerator.counters)
    rng, size = np.random.default_rng(1), 5001
    coming, going = rng.bytes(size), rng.bytes(size)
    places = [device.allocate(size + 16) for _ in range(2)]
    device.store(places[0], bytes(size + 16))
    device.store(places[1], going)
    device.set_streams(stall=stall)
    accelerator.store_inputs(CASE.inputs)
    accelerator.start()
    start(device, "OUT", places[1], size)
    start(device, "IN", places[0], size)
    device.send(coming)
    assert REGISTERS["STATUS"].unpack(device.read(offset("STATUS")))["busy"]
    assert status(device, "IN")["busy"]
    assert status(device, "OUT")["busy"]
    accelerator.finish()
    golden(accelerator.load_outputs())
    assert end(device, "IN") == end(device, "OUT") == DONE
    assert device.receive() == going
    assert device.load(places[0], size + 16) == coming + bytes(16)
    beats = -(-size // 16)
    assert alone["read_beats0"] < accelerator.counters["read_beats0"] <= alone["read_beats0"] + beats
    assert alone["write_beats0"] < accelerator.counters["write_beats0"] <= alone["write_beats0"] + beats


@pytest.mark.cosim
@pytest.mark.parametrize("way", ["IN", "OUT"])
def test_an_error_of_a_copy_is_its_own(device, way):
    """A host's wrong address would stop the running layers; or its cause would be lost, and the packet block the stream."""
    accelerator = Accelerator(device, CASE.piece, WATCHDOG_CLOCKS)
    accelerator.store_inputs(CASE.inputs)
    beyond = device.base + len(device.data) - 0x100
    accelerator.start()
    start(device, way, beyond, 0x400)
    if way == "IN":
        device.send(bytes(0x400))
    accelerator.finish()
    golden(accelerator.load_outputs())
    assert end(device, way) == {"busy": 0, "done": 0, "cause": STREAM_ERRORS.index("response"), "response": 3}
    if way == "IN":
        assert device.unsent == 0
    else:
        assert device.receive()[:0x100] == device.load(beyond, 0x100)
    golden(Accelerator(Streamed(device), CASE.piece, WATCHDOG_CLOCKS).run(CASE.inputs))


@pytest.mark.cosim
@pytest.mark.parametrize(("sent", "cause"), [(100, "early_end"), (132, "late_end"), (1000, "late_end")])
def test_a_packet_of_another_length(device, sent, cause):
    """The cause must be kept, and superfluous data be taken."""
    address = device.allocate(200)
    start(device, "IN", address, 128)
    device.send(bytes(sent))
    assert end(device, "IN")["cause"] == STREAM_ERRORS.index(cause)
    assert device.unsent == 0
    Streamed(device).store(address, b"next" * 32)
    assert Streamed(device).load(address, 128) == b"next" * 32


@pytest.mark.cosim
def test_a_soft_reset_ends_copies(device):
    """A copy whose packet never comes would keep the port for ever; it must look neither done nor failed."""
    address = device.allocate(4096)
    start(device, "IN", address, 4096)
    device.send(bytes(160))
    device.set_streams(stall=255)
    start(device, "OUT", address, 4096)
    device.run_clocks(20)
    with pytest.raises(RunError):
        start(device, "IN", address, 4096)
    device.write(offset("CTRL"), REGISTERS["CTRL"].pack(soft_reset=1))
    device.drop_sent()
    device.run_clocks(1000)
    device.drop_received()
    device.set_streams(stall=0)
    for way in ("IN", "OUT"):
        assert status(device, way) == dict.fromkeys(DONE, 0)
    Streamed(device).store(address, b"next" * 32)
    assert Streamed(device).load(address, 128) == b"next" * 32
