"""What a virtual board lets others do: who may reach it, and how much memory a request can take."""

from collections.abc import Callable, Iterator

import grpc
import pytest

from cnna.sim.board.files import PATH_BYTES, ROOM_BYTES
from cnna.sim.board.server import MESSAGE_BYTES
from cnna.sim.board.services import buffer_pb2, buffer_pb2_grpc, device_pb2, device_pb2_grpc


@pytest.mark.parametrize("elsewhere", ["0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_others_reach_must_be_meant(elsewhere: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The protocol has no passwords: a board would be open to a whole network by mistake."""
    from cnna.cli.main import main

    assert main(["board", "serve", "--config", "tiny", "--backend", "emulator", "--address", elsewhere]) == 2
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith(f"cnna: --address {elsewhere}: PYNQ.remote has neither passwords nor encryption")
    assert "--insecure" in line


def test_an_address_that_is_meant_is_warned_of(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A reader of the log must see that the board is open."""
    from cnna.cli.board import _check_address

    _check_address("0.0.0.0", True)
    assert "warning: --address 0.0.0.0" in capfd.readouterr().err
    for own in (address, "127.0.0.1", "::1", "localhost"):
        _check_address(own, False)
    assert not capfd.readouterr().err


def test_no_request_takes_more_memory_than_there_is(board: object, address: str) -> None:
    """A message is held whole before anybody looks at it, and files pile up while they come: one could fill the machine."""
    with grpc.insecure_channel(f"{address}:7967", options=[("grpc.max_send_message_length", -1)]) as channel:
        device, buffers = device_pb2_grpc.RemoteDeviceStub(channel), buffer_pb2_grpc.RemoteBufferStub(channel)

        def refusal(call: Callable[[], object]) -> tuple[object, str]:
            with pytest.raises(grpc.RpcError) as caught:
                call()
            return caught.value.code(), caught.value.details()

        whole = [device_pb2.WriteFileRequest(file_path="/tmp/a", data=bytes(MESSAGE_BYTES + 1))]
        code, said = refusal(lambda: device.writefile(iter(whole)))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than max" in said
        piece = device_pb2.WriteFileRequest(file_path="/tmp/a", data=bytes(2 << 20))
        sent: list[int] = []

        def pieces() -> Iterator[object]:
            for _ in range(2 * (ROOM_BYTES >> 21)):
                sent.append(1)
                yield piece

        code, said = refusal(lambda: device.writefile(pieces()))
        assert (code, "no space left" in said) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert len(sent) < 2 * (ROOM_BYTES >> 21)
        name = device_pb2.WriteFileRequest(file_path="/tmp/" + "a" * PATH_BYTES)
        assert refusal(lambda: device.writefile(iter([name])))[0] == grpc.StatusCode.INVALID_ARGUMENT
        allocate = buffer_pb2.AllocateRequest(size=1 << 30)
        assert refusal(lambda: buffers.allocate(allocate))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not device.existsfile(device_pb2.ExistsFileRequest(file_path="/tmp/a")).exists
