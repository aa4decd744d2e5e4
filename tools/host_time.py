"""Measures the CPU time that the host spends on a 224x224 picture in addition to copies: `python tools/host_time.py`.

A uint8 picture, channels last, goes through the whole of `Model.run`: tables, packing, registers, unpacking, softmax. A stand-in
for the accelerator finishes at once. Copies into and out of its memory are timed separately.
"""

import argparse
import statistics
import sys
import time

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.host.samples import pictures
from cnna.sim.emulator.emulator import EmulatorDevice
from cnna.spec.config import Config, preset
from cnna.spec.ddr import PLANNED
from cnna.spec.progress import Played
from cnna.spec.regmap import REGISTERS, offset

SIDE, CLASSES = 224, 1000
DONE = REGISTERS["STATUS"].pack(done=1)


class Finished:
    """A `spec.device.Device` whose programs take no time and write nothing; `copying_ns` is spent in `store` and `load`."""

    name = "finished"

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ddr = PLANNED
        self._next = 0
        self.copying_ns = 0
        self.playing: Played | None = None
        self._capability = EmulatorDevice(config, 1 << 12).read
        self._memory = np.zeros(1 << 24, np.uint8)

    def read(self, at: int) -> int:
        """STATUS has `done`; other registers have their reset values."""
        return DONE if at == offset("STATUS") else self._capability(at)

    def write(self, at: int, value: int) -> None:
        """Does nothing."""

    def allocate(self, size_bytes: int) -> int:
        """Gives out one place after another."""
        address, self._next = self._next, self._next + (size_bytes + 4095) // 4096 * 4096
        return address

    def store(self, address: int, data: bytes | NDArray[np.uint8]) -> None:
        """Copies bytes, and takes the time."""
        began = time.process_time_ns()
        raw = np.frombuffer(data, np.uint8)
        self._memory[address : address + raw.size] = raw
        self.copying_ns += time.process_time_ns() - began

    def load(self, address: int, size_bytes: int) -> bytes:
        """Copies bytes, and takes the time."""
        began = time.process_time_ns()
        data = self._memory[address : address + size_bytes].tobytes()
        self.copying_ns += time.process_time_ns() - began
        return data

    def wait(self) -> None:
        """Returns at once: the program has ended."""

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


def network() -> onnx.ModelProto:
    """The first layer of ResNet-50, which the compiler folds, and its last ones: [N, 3, 224, 224] to 1,000 probabilities."""
    rng = np.random.default_rng(1)
    weights = {"a": (64, 3, 7, 7), "b": (CLASSES, 64), "c": (CLASSES,)}
    arrays = [numpy_helper.from_array(rng.normal(0, 0.1, shape).astype(np.float32), name) for name, shape in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], kernel_shape=[7, 7], strides=[2, 2], pads=[3, 3, 3, 3]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("GlobalAveragePool", ["q"], ["r"]),
        helper.make_node("Flatten", ["r"], ["s"]),
        helper.make_node("Gemm", ["s", "b", "c"], ["t"], transB=1),
        helper.make_node("Softmax", ["t"], ["y"]),
    ]
    shapes = {"x": ("n", 3, SIDE, SIDE), "y": ("n", CLASSES)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "first_and_last", ends[:1], ends[1:], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def measure(times: int) -> list[float]:
    """CPU milliseconds of each of so many runs of one picture, without its copies."""
    picture = np.random.default_rng(1).integers(0, 256, (1, SIDE, SIDE, 3), np.uint8)
    preprocess = Preprocess(1 / 255, pictures.MEAN, pictures.STD)
    quantised, _ = quantise(network(), {"x": picture.transpose(0, 3, 1, 2)}, preprocess=preprocess)
    config = preset("zcu102")
    device, found = Finished(config), []
    with Model(compile_model(quantised, config), device) as model:
        for _ in range(times):
            device.copying_ns, began = 0, time.process_time_ns()
            model.run(picture)
            found.append((time.process_time_ns() - began - device.copying_ns) / 1e6)
    return found


def main() -> int:
    """Prints the best time and the median."""
    parser = argparse.ArgumentParser(description="CPU time that the host spends on a 224x224 picture beyond copies")
    parser.add_argument("--times", type=int, default=300, help="how often (default: 300)")
    found = measure(parser.parse_args().times)
    print(f"CPU time for a {SIDE}x{SIDE} picture beyond copies: {statistics.median(found):.2f} ms, {min(found):.2f} ms at best")
    return 0


if __name__ == "__main__":
    sys.exit(main())
