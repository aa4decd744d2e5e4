"""The predicted images a second from end to end, as `cnna explain`, `compile` and `report` show them.

Two batches are in flight. While the accelerator runs a piece of one, the host does the CPU pieces of the other and packs its
tensors (docs/pieces.md). So a batch takes the time of the busier side. Both sides wait while the host starts the accelerator.

The constants of the host's CPU are for the four Cortex-A53 of a ZCU102 at 1.2 GHz, with Python and onnxruntime. They are estimates
from the data sheet's peak and common efficiencies; no board has confirmed them. The compiler uses them to choose the quicker of two
placements, and to predict the seconds of a piece on the CPU. It measures nothing while it compiles, so equal input gives equal
artifacts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from cnna.spec.manifest import ACCELERATOR, CPU, PieceEntry

MACS_A_SECOND = 4e9  # in float32: 4 cores x 1.2 GHz x 2 multiply-accumulates a clock of their 64-bit NEON, at 40 %
ELEMENT_SECONDS = 2.5e-9  # to read or write a float32 in an operator: 1.6 GB/s
NODE_SECONDS = 20e-6  # to call one operator
PIECE_SECONDS = 200e-6  # to call onnxruntime for one piece
VIEW_SECONDS = 2e-6  # to give an array another shape in numpy, where a piece does nothing else: no element moves
PACK_SECONDS = 5e-9  # to round or unpack one element that goes to or comes from the accelerator
START_SECONDS = 150e-6  # to set the accelerator's registers, start it and take its interrupt


@dataclass(frozen=True)
class EndToEnd:
    """What a batch is predicted to take.

    accelerator_seconds: of the programs' clocks. cpu_seconds: of the pieces on the CPU, None where an older file does not say.
    crossings: tensors that go to or come from the accelerator. crossing_bytes: of all crossings. starts: of the accelerator.
    """

    batch: int
    accelerator_seconds: float
    cpu_seconds: float | None
    crossings: int
    crossing_bytes: int
    starts: int

    @property
    def crossing_seconds(self) -> float:
        """The host's time for the crossings: packing, unpacking, and starting the accelerator."""
        return crossing_seconds(self.starts, self.crossing_bytes)

    @property
    def accelerator_share(self) -> float | None:
        """The accelerator's share of the time that all the work would take without overlap."""
        if self.cpu_seconds is None:
            return None
        whole = self.accelerator_seconds + self.cpu_seconds + self.crossing_seconds
        return self.accelerator_seconds / whole if whole else None

    @property
    def fps(self) -> float | None:
        """Images a second; the busier side decides."""
        if self.cpu_seconds is None:
            return None
        seconds = max(self.accelerator_seconds + self.starts * START_SECONDS, self.cpu_seconds + self.crossing_seconds)
        return self.batch / seconds if seconds else None

    def figures(self) -> dict[str, Any]:
        """The figures for `--json`."""
        return {
            "accelerator_seconds": self.accelerator_seconds,
            "accelerator_share": self.accelerator_share,
            "cpu_seconds": self.cpu_seconds,
            "crossings": self.crossings,
            "crossing_bytes": self.crossing_bytes,
            "crossing_seconds": self.crossing_seconds,
            "fps_end_to_end": self.fps,
        }

    def __str__(self) -> str:
        """One line."""
        if self.fps is None:
            return "images a second from end to end are not predicted: the file does not say what the CPU takes; compile it again"
        count = f"{self.crossings} crossing{'s' * (self.crossings != 1)} of {self.crossing_bytes:,} bytes"
        parts = [f"accelerator {_duration(self.accelerator_seconds)}", f"CPU {_duration(self.cpu_seconds or 0)}"]
        parts.append(f"{count} {_duration(self.crossing_seconds)}")
        return f"predicted from end to end: {self.fps:,.1f} images a second; a batch of {self.batch} takes {', '.join(parts)}"


def end_to_end(pieces: Sequence[PieceEntry], cycles: float, clock_mhz: int, batch: int) -> EndToEnd:
    """The prediction for the pieces of an artifact. cycles: of all programs, for a batch."""
    cpu = [piece["seconds"] for piece in pieces if piece["kind"] == CPU]
    programs = [piece for piece in pieces if piece["kind"] == ACCELERATOR]
    ports = [port for program in programs for port in (*program["inputs"], *program["outputs"])]
    return EndToEnd(
        batch,
        cycles / (clock_mhz * 1e6),
        batch * sum(cpu) if all(cpu) else None,
        len(ports),
        batch * sum(prod(port["shape"]) for port in ports),
        len(programs),
    )


def crossing_seconds(starts: int, elements: int) -> float:
    """The host's time for so many runs of the accelerator that read and write so many elements."""
    return starts * START_SECONDS + elements * PACK_SECONDS


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
