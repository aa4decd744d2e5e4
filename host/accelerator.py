"""A compiled model on a device: places its segments, starts it, waits, and says what went wrong when it stops.

The same code drives the emulator, the simulated RTL and a board (`host.device.Device`).
"""

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host import pack, progress
from cnna.host.artifact import Artifact
from cnna.host.capability import read_config
from cnna.host.device import Device
from cnna.host.errors import ArtifactError, DataError, RunError
from cnna.hw.config import as_dict
from cnna.hw.regmap import REGISTERS, SEGMENTS, offset

Int8 = NDArray[np.int8]


class Accelerator:
    """One artifact on one device. Constants, program and segments are placed once; `run` moves only inputs and outputs."""

    def __init__(self, device: Device, artifact: Artifact, watchdog_clocks: int | None = None) -> None:
        self.device, self.artifact = device, artifact
        self._check_capability()
        self.counters: dict[str, int] = {}
        self._bases = {name: device.allocate(max(1, artifact.manifest["segments"][name])) for name in SEGMENTS}
        device.store(self._bases["constant"], artifact.constants)
        program = device.allocate(len(artifact.program))
        device.store(program, artifact.program)
        self._write("CTRL", soft_reset=1)
        self._wait_reset()
        for name, base in self._bases.items():
            device.write(offset(f"SEG_{name.upper()}_LO"), base & 0xFFFFFFFF)
            device.write(offset(f"SEG_{name.upper()}_HI"), base >> 32)
        device.write(offset("PROG_BASE_LO"), program & 0xFFFFFFFF)
        device.write(offset("PROG_BASE_HI"), program >> 32)
        device.write(offset("PROG_COUNT"), len(artifact.program) // 8)
        if watchdog_clocks is not None:
            device.write(offset("WATCHDOG"), watchdog_clocks)

    def run(self, inputs: Mapping[str, Int8]) -> dict[str, Int8]:
        """One batch: int8 [batch, C, H, W] by input port, to the same by output port.

        `counters` has the performance counters afterwards. RunError: the accelerator stopped; says why and where.
        """
        self.store_inputs(inputs)
        self._write("CTRL", start=1, irq_enable=1)
        self.finish()
        return self.load_outputs()

    def run_by_register(self, inputs: Mapping[str, Int8]) -> dict[str, Int8]:
        """As `run`, but the program's writes are sent one at a time: slow, and the same answer."""
        self.store_inputs(inputs)
        self._write("CTRL", begin=1, irq_enable=1)
        for register, value in struct.iter_unpack("<II", self.artifact.program):
            self.device.write(register, value)
        self.finish()
        return self.load_outputs()

    def store_inputs(self, inputs: Mapping[str, Int8]) -> None:
        """Puts a batch into the input segment. DataError: a port is missing or of another shape."""
        batch = self.artifact.manifest["batch"]
        for port in self.artifact.manifest["inputs"]:
            x = inputs.get(port["name"])
            wanted = (batch, *port["shape"])
            if x is None or x.shape != wanted or x.dtype != np.int8:
                found = "nothing" if x is None else f"{x.dtype} {list(x.shape)}"
                raise DataError(f"{self.artifact.manifest['name']}: port {port['name']} wants int8 {list(wanted)}, not {found}")
            self.device.store(self._address(port), pack.pack(port, x, self.artifact.config.ci))

    def finish(self) -> None:
        """Waits for the end and reads the counters. RunError: it stopped; says why and where."""
        self.device.wait()
        if self._read("STATUS")["error"]:
            artifact = self.artifact
            raise RunError(progress.stopped(self._read, artifact.manifest, artifact.program, artifact.config.chunk_blocks))
        self.counters = progress.counters(self._read, self.device.config.ports)
        self._write("STATUS", done=1)

    def load_outputs(self) -> dict[str, Int8]:
        """The output segment's ports: int8 [batch, C, H, W] by name."""
        manifest, answers = self.artifact.manifest, {}
        for port in manifest["outputs"]:
            raw = self.device.load(self._address(port), manifest["batch"] * port["image_bytes"])
            answers[port["name"]] = pack.unpack(port, raw, self.artifact.config.ci)
        return answers

    def address(self, segment: str) -> int:
        """Bus address of a segment."""
        return self._bases[segment]

    def _address(self, port: Mapping[str, Any]) -> int:
        return self._bases[port["segment"]] + int(port["offset"])

    def _read(self, name: str) -> dict[str, int]:
        return REGISTERS[name].unpack(self.device.read(offset(name)))

    def _write(self, name: str, **fields: int) -> None:
        self.device.write(offset(name), REGISTERS[name].pack(**fields))

    def _wait_reset(self) -> None:
        while self._read("STATUS")["resetting"]:
            pass

    def _check_capability(self) -> None:
        """ArtifactError: the device is not what the artifact was compiled for."""
        wanted, have = self.artifact.config, read_config(self.device.read)
        sizes = as_dict(replace(wanted, name=have.name, clock_mhz=have.clock_mhz))
        found = as_dict(have)
        differ = [f"{key} {found[key]}, not {value}" for key, value in sizes.items() if found[key] != value]
        if differ:
            name = self.artifact.manifest["name"]
            raise ArtifactError(f"{name} was compiled for {wanted.name}; the device has {', '.join(differ)}: compile it again")
