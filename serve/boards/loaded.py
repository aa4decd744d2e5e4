"""What the worker of one board has: artifacts that it has opened, and that have given their golden answers.

The engine makes one for each worker that it starts, so nothing here outlives its worker. Only the board's task loads and unloads.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cnna.serve.boards.process import WorkerProcess
from cnna.serve.boards.watch import Watch
from cnna.serve.models import golden
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.interface import Call
from cnna.spec.errors import BusyError, CheckError, CnnaError, LateError

MOST_TIMES = 64  # on a CPU, a part batch is quicker: a whole one may take so many times a sample's seconds


@dataclass(eq=False)
class Artifact:
    """One artifact. opened: the worker has said so. seconds: of a batch, once batches may come; None before."""

    version: Version
    opened: bool = False
    seconds: float | None = None


class LoadedVersions:
    """Of one worker. A version that was published anew under the same name is another one, and is loaded again.

    load_seconds: how long the worker may give no sign of life while it loads.
    """

    def __init__(self, process: WorkerProcess, watch: Watch, load_seconds: float) -> None:
        self._process, self._watch, self._load_seconds = process, watch, load_seconds
        self._artifacts: dict[str, Artifact] = {}

    @property
    def names(self) -> list[str]:
        """The artifacts that take batches."""
        return sorted(name for name, one in self._artifacts.items() if one.seconds is not None)

    def seconds(self, version: Version, compiled: Compiled) -> float | None:
        """Of a whole batch; None: this artifact takes none here."""
        found = self._artifacts.get(key_of(version, compiled))
        return found.seconds if found is not None and found.version is version else None

    async def load(self, version: Version, many: Sequence[Compiled]) -> float | None:
        """Opens artifacts of a version, and compares their golden answers. Those that take batches already are left as they are.

        Returns the ratio of measured to predicted seconds in the last test; None: there was none. CheckError: they differ.
        BusyError, LateError: one of them cannot answer now; the others are loaded. RunError: the worker's.
        """
        busy: CnnaError | None = None
        ratio: float | None = None
        for compiled in many:
            try:
                if self.seconds(version, compiled) is None:
                    seconds = await self._load(version, compiled)
                    ratio = seconds / compiled.seconds if compiled.seconds > 0 else ratio
            except (BusyError, LateError) as error:
                busy = busy or error
        if busy is not None:
            raise busy
        return ratio

    async def unload(self, version: Version, many: Sequence[Compiled]) -> None:
        """Frees what was opened of a version, tested or not."""
        for key in [key_of(version, compiled) for compiled in many]:
            if key in self._artifacts and self._artifacts[key].version is version:
                del self._artifacts[key]
                unloading = self._watch.timed(self._process.unload(key), self._load_seconds)
                await asyncio.wait([unloading])
                unloading.exception()  # a worker that has ended keeps nothing either

    def trust(self, version: Version, many: Sequence[Compiled], seconds: float) -> None:
        """Lets batches come to what was opened and could not be tested."""
        for key in [key_of(version, compiled) for compiled in many]:
            found = self._artifacts.get(key)
            if found is not None and found.version is version and found.opened and found.seconds is None:
                found.seconds = seconds

    async def _load(self, version: Version, compiled: Compiled) -> float:
        """Returns the seconds of a whole batch."""
        key = key_of(version, compiled)
        artifact = self._artifacts[key] = Artifact(version)
        if compiled.place is None:
            path = None if version.golden is None else str(compiled.path.parent / golden.FILE)
            loading = self._process.load(key, str(compiled.path), path)
        else:
            loading = self._process.open(key, compiled.runtime, compiled.place)
        await self._watch.timed(loading, self._load_seconds)
        artifact.opened = True
        artifact.seconds = seconds = await self._tested(version, compiled)
        return seconds

    async def _tested(self, version: Version, compiled: Compiled) -> float:
        """Runs the golden samples, or zeros where there are none; returns the seconds of a whole batch."""
        key, tested = key_of(version, compiled), version.golden
        inputs = version.signature.blank() if tested is None else tested.inputs
        samples, seconds = len(next(iter(inputs.values()))), 0.0
        sizes = [tensor.sample_bytes * compiled.batch for tensor in version.signature.outputs]
        for start in range(0, samples, compiled.batch):
            part = slice(start, min(samples, start + compiled.batch))
            parts = {name: [array[part]] for name, array in inputs.items()}
            call = None if compiled.place is None else Call(asyncio.get_running_loop().time() + self._load_seconds / 2)
            running = self._process.run(key, self._process.slots[-1], parts, sizes, call)
            answer = await self._watch.timed(running, self._load_seconds)
            whole = 1.0 if compiled.place is None else min(compiled.batch, MOST_TIMES) / (part.stop - part.start)
            seconds = max(seconds, answer.seconds * whole)
            if tested is not None and (wrong := _wrong(version, compiled, answer.outputs, part)):
                raise CheckError(f"{key} on board {self._process.spec.name}: golden answers differ: {wrong}")
        return seconds


def key_of(version: Version, compiled: Compiled) -> str:
    """What a worker calls an artifact."""
    return f"{version.model}/{version.name}/{compiled.config}-b{compiled.batch}"


def _wrong(version: Version, compiled: Compiled, outputs: Mapping[str, Any], part: slice) -> str | None:
    """How answers to a part of the golden samples differ."""
    assert version.golden is not None
    wanted = {
        tensor.name: version.golden.outputs[tensor.name][part.start * tensor.rows : part.stop * tensor.rows]
        for tensor in version.signature.outputs
    }
    return golden.difference(version.signature.outputs, outputs, wanted, compiled.tolerance)
