"""What Arm's Vela expects of a network on one of Arm's accelerators, with the memories of a configuration of ours."""

import csv
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.machine import BURST_BEATS, READS_OUTSTANDING, WRITES_OUTSTANDING

NAME = "ours"  # of system and memory in the file for Vela
SRAM_PORTS, SRAM_BYTES, SRAM_BURST, SRAM_LATENCY = 4, 16, 64, 8  # as in Arm's own systems; bytes of a port and clock at scale 1


class Found(NamedTuple):
    """Vela's clocks for one image. total: of all layers, each as slow as the slowest of the three others.

    array: of its array and of what follows it. sram, dram: of accesses. dram_bytes: both ways. macs: as Vela counts them.
    """

    total: int
    array: int
    sram: int
    dram: int
    dram_bytes: int
    macs: int


# Of Vela's CSV, in the order of the fields of `Found`.
COLUMNS = ("cycles_total", "cycles_npu", "cycles_sram_access", "cycles_dram_access", "dram_total_bytes", "nn_macs")


def system(config: Config, ddr: DdrSpeed = PLANNED) -> str:
    """Our DDR and feature memory as a file for Vela. Its on-chip memory reads as many bytes a clock as our array does."""
    sram = config.pix * config.ci / (SRAM_PORTS * SRAM_BYTES)
    memory = config.feature_words * config.ci
    lines = [
        f"[System_Config.{NAME}]",
        f"core_clock={config.clock_mhz}e6",
        "axi0_port=Sram",
        "axi1_port=Dram",
        *_area("Sram", sram, SRAM_PORTS, SRAM_BURST, (SRAM_LATENCY, SRAM_LATENCY), (8, 8)),
        *_area(
            "Dram",
            ddr.bytes_per_cycle / (config.ports * BEAT_BYTES),
            config.ports,
            BURST_BEATS * BEAT_BYTES,
            (ddr.latency_cycles, ddr.latency_cycles),
            (READS_OUTSTANDING, WRITES_OUTSTANDING),
        ),
        f"[Memory_Mode.{NAME}]",
        "const_mem_area=Axi1",
        "arena_mem_area=Axi1",
        "cache_mem_area=Axi0",
        f"arena_cache_size={memory}",
    ]
    return "\n".join(lines) + "\n"


def _area(name: str, scale: float, ports: int, burst: int, latency: Sequence[int], most: Sequence[int]) -> list[str]:
    """One memory. latency, most: of reads and of writes."""
    values = {
        "clock_scale": scale,
        "ports_used": ports,
        "burst_length": burst,
        "read_latency": latency[0],
        "write_latency": latency[1],
        "max_reads": most[0],
        "max_writes": most[1],
    }
    return [f"{name}_{key}={value}" for key, value in values.items()]


def vela(file: Path, accelerator: str, config: Config, folder: Path) -> Found:
    """Runs Vela. accelerator: by Vela's name. folder: for what it writes. RuntimeError: it failed, with its last line."""
    settings = folder / "system.ini"
    settings.write_text(system(config))
    words = [sys.executable, "-m", "ethosu.vela", str(file), "--accelerator-config", accelerator, "--output-dir", str(folder)]
    words += ["--config", str(settings), "--system-config", NAME, "--memory-mode", NAME]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    summary = folder / f"{file.stem}_summary_{NAME}.csv"
    if done.returncode or not summary.is_file():
        raise RuntimeError(f"Vela: {(done.stderr or done.stdout).strip()[-300:]}")
    with summary.open() as text:
        return found_in(next(csv.DictReader(text)))


def found_in(row: Mapping[str, str]) -> Found:
    """The figures in a row of Vela's summary."""
    return Found(*(int(float(row[column])) for column in COLUMNS))
