"""An artifact written by hand, for tests of the host that need no compiler: y = x requantised to other scales, on `tiny`."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna.host.model.model import Model
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.artifact import Artifact, artifact_of
from cnna.spec.config import as_dict, preset
from cnna.spec.ddr import PLANNED
from cnna.spec.manifest import CpuEntry, CpuOperator, ModelEntries, PieceEntry, ProgramEntry
from cnna.spec.program.commands import Command
from cnna.spec.regmap import REGISTERS, VERSION, command_writes

CONFIG = preset("tiny")
SHAPE = (6, 3, 4)  # channels, rows, columns: two blocks, the second half empty; a row is 16 bytes
SCALE_IN, ZERO_IN, SCALE_OUT, ZERO_OUT = 0.5, 3, 1.0, -4


def writes(engine: str, **members: int) -> list[tuple[int, int]]:
    """The register writes of one command; members not given are 0, or their least legal value."""
    return command_writes(engine, members)


def samples(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Inputs of the artifact, float32 [count, *SHAPE]."""
    return np.random.default_rng(seed).normal(0, 20, (count, *SHAPE)).astype(np.float32)


def expected(x: NDArray[np.float32], **changes: Any) -> NDArray[np.float32]:
    """What `requantised_copy(**changes)` answers to x, on a plain emulator."""
    with Model(requantised_copy(**changes)) as plain:
        answers: NDArray[np.float32] = plain.run(x)
        return answers


def failing(monkeypatch: pytest.MonkeyPatch, emulator: type[EmulatorDevice]) -> list[int]:
    """Lets an emulator's next commands stop at a bad answer of the bus: as many as the list says, 1 at first."""
    execute, failures = emulator.execute, [1]

    def stopped(self: EmulatorDevice, command: Command) -> None:
        if failures[0]:
            failures[0] -= 1
            self.stop("read_response", port=0, response=2)
        else:
            execute(self, command)

    monkeypatch.setattr(emulator, "execute", stopped)
    return failures


def requantised_copy(batch: int = 2, **changes: object) -> Artifact:
    """The artifact: (x - 3) * 0.5 -> y, by load, one elementwise pass and store, for a batch. `changes` go into the manifest."""
    _, height, width = SHAPE
    blocks, area = 2, height * width
    word = np.array([-ZERO_IN & 0xFFFFFFFF | 1 << 32 | 1 << 58], "<u8").tobytes() * CONFIG.ci  # (x * 1 - 3) / 2 ^ 1
    transfer = {"run": area, "blocks": blocks * batch, "ddr_block": area * 4, "fm_block": area}
    program = writes("weight", ring=1, beats=len(word) // 16, repeat=1)
    program += writes("load", seg=2, **transfer)
    program += writes(
        "vector", op=3, src_x=1, src_block=area, src_image=area, out_width=width, out_height=height, images=batch,
        in_width=width, in_height=height, stride_x=1, stride_y=1, blocks=blocks, uniform=1, out_zero=ZERO_OUT,
        out_clamp_low=-128, out_clamp_high=127, dst=512, dst_x=1, dst_image=area, dst_block=area,
        wait_load_count=1, wait_load_enable=1,
    )  # fmt: skip
    program += writes("store", seg=3, fm=512, **transfer, wait_vector_count=1, wait_vector_enable=1)
    program.append((REGISTERS["END"].offset, 1))

    def port(name: str, segment: str, scale: float, zero: int) -> dict[str, object]:
        image = blocks * area * 4
        layout = {"offset": 0, "image_bytes": image, "block_bytes": area * 4, "row_bytes": width * 4}
        return {"name": name, "tensor": name, "shape": list(SHAPE), "scale": scale, "zero": zero, "segment": segment, **layout}

    commands = [
        {"engine": engine, "layer": 0, "tensor": tensor, "origin": [0, 0, 0, 0], "predicted": [number, number + 1] * 2}
        for number, (engine, tensor) in enumerate((("weight", None), ("load", "x"), ("vector", "y"), ("store", "y")))
    ]
    size = batch * blocks * area * 4
    layer = {"name": "copy", "op": "Combine", "engine": "vector", "output": "y", "macs": 0, "node_names": ["copy"],
             "predicted_cycles": 4, "ddr_read_bytes": size, "ddr_write_bytes": size}  # fmt: skip
    entry = {
        "kind": "accelerator", "program_writes": len(program),
        "segments": {"constant": len(word), "workspace": 0, "input": size, "output": size},
        "inputs": [port("x", "input", SCALE_IN, ZERO_IN)], "outputs": [port("y", "output", SCALE_OUT, ZERO_OUT)],
        "macs": 0, "layers": [layer], "predicted": {"cycles": 4, "ddr": PLANNED.entry()},
        "tensors": {name: {"shape": list(SHAPE), "scale": scale, "zero": zero}
                    for name, scale, zero in (("x", SCALE_IN, ZERO_IN), ("y", SCALE_OUT, ZERO_OUT))},
        "commands": commands,
    }  # fmt: skip
    manifest = {
        "version": "0", "isa": list(VERSION), "config": as_dict(CONFIG), "name": "copy", "batch": batch, "macs": 0, "cpu_macs": 0,
        "model_inputs": [{"name": "x", "shape": list(SHAPE), "dtype": "float32"}],
        "model_outputs": [{"name": "y", "shape": [1, *SHAPE], "dtype": "float32", "batch_axis": 0}], "preprocess": None,
    }  # fmt: skip
    own = {key: value for key, value in changes.items() if key in entry}
    more = {key: value for key, value in changes.items() if key not in own}
    # The types are a promise that `changes` may break: readers must find out.
    piece, whole = cast(ProgramEntry, {**entry, **own}), cast(ModelEntries, {**manifest, **more})
    return artifact_of(whole, [(piece, (np.array(program, "<u4").tobytes(), word))], b"")


def cpu_entry(*operators: object) -> CpuEntry:
    """The manifest's entry of a piece on the CPU with these operators, which may be unsound."""
    return {"kind": "cpu", "operators": cast(list[CpuOperator], list(operators)), "numpy": True, "macs": 0, "seconds": 0.0}


def with_cpu(artifact: Artifact, model: bytes, *operators: object) -> Artifact:
    """The artifact with a piece on the CPU behind its own piece."""
    files = [(piece.program, piece.constants) for piece in artifact.programs]
    entries: list[tuple[PieceEntry, Sequence[bytes]]] = list(zip(artifact.manifest["pieces"], files, strict=True))
    return artifact_of(artifact.manifest, [*entries, (cpu_entry(*operators), (model,))], artifact.model)
