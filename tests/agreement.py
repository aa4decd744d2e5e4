"""One agreement case: a random graph compiled, and run by reference, emulator and RTL, which must be equal to the bit.

`python -m tests.agreement CONFIG KIND SEED` (from the project's root) repeats a case that a test reports.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from cnna.compiler.choose.choose import Choose, fastest_plan
from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.host.device.accelerator import Accelerator
from cnna.sim import check
from cnna.sim.reference import reference
from cnna.sim.rtl.cosim import CosimDevice
from cnna.spec.artifact import Artifact, ProgramPiece
from cnna.spec.artifact import artifact_of as assembled
from cnna.spec.config import PRESETS, Config
from cnna.spec.manifest import ModelEntries

from . import networks
from .configurations import CODED, ODD

BOOKS = (  # configurations that take weights as codes
    replace(PRESETS["tiny"], name="tiny-codebook1", codebook=True),
    Config("books", pix=2, ci=16, co=32, ports=4, regions=1, bank_words=512, ring_words=64, vector_ring_words=256, codebook=True),
    CODED,
    replace(PRESETS["tinyx2"], name="tinyx2-codebook1", codebook=True),
)
CONFIGS = {config.name: config for config in (*PRESETS.values(), ODD, *BOOKS)}
KEPT = 700  # cases that `case_of` keeps: test_agreement.py runs 576 of them before those on the RTL begin
WATCHDOG_CLOCKS = 20_000  # these programs are short, so a deadlock shows soon


def artifact_of(piece: ProgramPiece) -> Artifact:
    """A program as an artifact, without a model around it."""
    own = piece.manifest
    manifest: ModelEntries = {
        "isa": own["isa"],
        "config": own["config"],
        "name": own["name"],
        "batch": own["batch"],
        "macs": own["macs"],
        "model_inputs": [],
        "model_outputs": [],
        "version": "0",
        "preprocess": None,
        "cpu_macs": 0,
    }
    return assembled(manifest, [(piece.manifest, (piece.program, piece.constants))], b"")


def narrow(graph: ir.Graph, config: Config) -> ir.Graph:
    """The graph; with depth 2, whose packed multipliers have no room for most of them, without weights of -128 on the array."""
    if config.depth == 1:
        return graph
    names = {node.op.weights for node in graph.nodes if isinstance(node.op, ir.Conv)}
    constants = {name: np.maximum(value, -127) if name in names else value for name, value in graph.constants.items()}
    return replace(graph, constants=constants)


@dataclass(frozen=True)
class Case:
    """A graph of `networks.layer` or `networks.network`, and a batch of images for it. choose: chooses the plan."""

    config: Config
    kind: str
    seed: int
    choose: Choose = fastest_plan

    @property
    def batch(self) -> int:
        """Images in the batch: 1 to 4."""
        return 1 + self.seed % 4

    @cached_property
    def graph(self):
        """The int8 graph."""
        return narrow(getattr(networks, self.kind)(self.seed), self.config)

    @cached_property
    def piece(self) -> ProgramPiece:
        """The program that the compiler makes of it; `model` is empty."""
        return compile_graph(self.graph, self.config, self.batch, choose=self.choose).piece()

    @cached_property
    def inputs(self) -> Mapping[str, np.ndarray]:
        """The inputs, int8 [batch, C, H, W] by port."""
        return networks.inputs(self.graph, self.batch, self.seed)

    @cached_property
    def golden(self) -> Mapping[str, np.ndarray]:
        """Every tensor, as the reference computes it."""
        return reference.run(self.graph, self.inputs)

    def failed(self, error: Exception) -> AssertionError:
        """The error with the seed, and with the command that repeats it."""
        return AssertionError(f"{error}\n  seed {self.seed} ({self.kind}, batch {self.batch}); repeat it with: {self}")

    def __str__(self) -> str:
        return f"python -m tests.agreement {self.config.name} {self.kind} {self.seed}"


@lru_cache(KEPT)
def case_of(config: Config, kind: str, seed: int, choose: Choose = fastest_plan) -> Case:
    """The case, compiled once for emulator and RTL, and for every speed of the memory."""
    return Case(config, kind, seed, choose)


def agree(case: Case, device: CosimDevice, by_register: bool = False) -> check.Agreement:
    """Runs the case on the RTL and compares all three. AssertionError: says what differs, and how to repeat it."""
    try:
        device.release_all()
        accelerator = Accelerator(device, case.piece, WATCHDOG_CLOCKS)
        device.start_log()
        answers = (accelerator.run_by_register if by_register else accelerator.run)(case.inputs)
        return check.compare(case.piece, case.golden, case.inputs, answers, device)
    except Exception as error:
        device.reset()
        raise case.failed(error) from error


def agree_emulated(case: Case) -> check.Agreement:
    """Compares emulator and reference. AssertionError: as of `agree`."""
    try:
        log, answers = check.emulate(case.piece, case.inputs)
        tensors, elements = check.compare_tensors(case.piece, log, case.golden)
        assert all(np.array_equal(answers[name], case.golden[name]) for name in case.graph.outputs)
        return check.Agreement(("emulator", "reference"), tensors, elements)
    except Exception as error:
        raise case.failed(error) from error


def compiles(case: Case) -> None:
    """Compiles the case. AssertionError: as of `agree`, if the compiler stops."""
    try:
        compile_graph(case.graph, case.config, case.batch, choose=case.choose)
    except Exception as error:
        raise case.failed(error) from error


def main(config: str, kind: str, seed: str) -> None:
    """Repeats one case."""
    case = Case(CONFIGS[config], kind, int(seed))
    print(agree_emulated(case))
    device = CosimDevice(case.config)
    try:
        print(agree(case, device))
    finally:
        device.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
