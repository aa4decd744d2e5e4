"""The worker of a board of the kind `cpu`: it has no accelerator, and runs versions by other runtimes than `cnna`."""

import socket
from dataclasses import dataclass

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.messages import CallCommand, OpenCommand, Reply
from cnna.serve.boards.runner import FaultyRunner
from cnna.serve.boards.slot import Slot, aligned
from cnna.serve.boards.worker import Worker
from cnna.serve.runtimes.installed import opened
from cnna.serve.runtimes.interface import Arrays, Call, Description, Place, Runtime, misfit
from cnna.spec.errors import BusyError, CnnaError, RunError, reason_of


@dataclass(frozen=True, eq=False)
class Opened:
    """A version that was opened, by the runtime of that name."""

    name: str
    runtime: Runtime
    described: Description | None  # None until its first batch: a remote model may not answer yet


class CpuRunner:
    """Runs versions, by key."""

    def __init__(self, spec: BoardSpec) -> None:
        self.spec = spec
        self._opened: dict[str, Opened] = {}

    def load(self, key: str, runtime: str, place: Place) -> None:
        """Opens a version. UserError: it cannot be opened."""
        self.unload(key)
        self._opened[key] = Opened(runtime, opened(runtime, place), None)

    def unload(self, key: str) -> None:
        """Closes a version, if it is open."""
        if (one := self._opened.pop(key, None)) is not None:
            one.runtime.close()

    def run(self, key: str, inputs: Arrays, call: Call) -> Arrays:
        """The answers to a batch. An error that the runtime does not explain is no reason to end the worker: BusyError."""
        if key not in self._opened:
            raise RunError(f"{key} is not loaded")
        one = self._opened[key]
        try:
            if one.described is None:
                one = self._opened[key] = Opened(one.name, one.runtime, one.runtime.describe())
            assert one.described is not None
            outputs = one.runtime.run(inputs, call)
            if (wrong := misfit(one.described.outputs, outputs, len(next(iter(inputs.values()))))) is not None:
                raise BusyError(wrong)
            return {tensor.name: outputs[tensor.name] for tensor in one.described.outputs}
        except CnnaError:
            raise
        except Exception as error:
            raise BusyError(f"runtime {one.name}: {type(error).__name__}: {reason_of(error)}") from None


class CpuWorker(Worker):
    """Reads the same commands as any worker, but `open` for `load` and `call` for `run`."""

    def __init__(self, control: socket.socket, spec: BoardSpec, slots: list[Slot]) -> None:
        super().__init__(control, FaultyRunner(CpuRunner(spec)), slots)

    def _open(self, command: OpenCommand, received: float) -> Reply:
        self._runner.load(command["key"], command["runtime"], Place.from_json(command["place"]))
        return {}

    def _call(self, command: CallCommand, received: float) -> Reply:
        call = Call(command["until"], command["request_id"])
        outputs = self._runner.run(command["key"], self._inputs(command), call)
        slot = self._slots[command["slot"]]
        size = command["outputs_at"] + sum(aligned(y.nbytes) for y in outputs.values())
        slot.fit(size)  # an output may be larger than the front could know
        return {**self._outputs(command, outputs), "bytes": size}
