"""Predicts clocks: of each command by itself, and, with the waits between engines, of a whole program."""

from collections.abc import Mapping

from cnna.hw.config import BEAT_BYTES, Config

DDR_BYTES_PER_CLOCK = 48  # what is planned on, all ports together
DDR_LATENCY_CLOCKS = 120
ENGINE_CLOCKS = {"load": 20, "weight": 0, "conv": 40, "vector": 30, "store": 20}  # fill and drain of a command


def array_steps(fields: Mapping[str, int], config: Config) -> int:
    """Steps of the array that a conv command takes, one a clock."""
    return pixel_groups(fields, config) * fields["chunks"] * fields["blocks"] * fields["kernel_height"] * fields["kernel_width"]


def pixel_groups(fields: Mapping[str, int], config: Config) -> int:
    """Groups of `pix` output pixels of a conv or vector command."""
    return -(-fields["images"] * fields["out_height"] * fields["out_width"] // config.pix)


def ddr_bytes(engine: str, fields: Mapping[str, int], config: Config) -> int:
    """Bytes that a command moves over AXI, whole beats."""
    if engine in ("load", "store"):
        run = -(-fields["run"] * config.ci // BEAT_BYTES) * BEAT_BYTES
        return run * fields["runs"] * fields["blocks"]
    if engine == "weight":
        return fields["beats"] * BEAT_BYTES * fields["repeat"] * (1 if fields["ring"] else config.ports)
    return 0


def predicted_cycles(engine: str, fields: Mapping[str, int], config: Config) -> int:
    """Clocks that a command keeps its engine busy if nothing else disturbs it."""
    if engine == "conv":
        return array_steps(fields, config) + ENGINE_CLOCKS[engine]
    if engine == "vector":
        taps = fields["kernel_height"] * fields["kernel_width"]
        return pixel_groups(fields, config) * taps * fields["blocks"] + ENGINE_CLOCKS[engine]
    ports = 1 if engine == "weight" and fields["ring"] else config.ports
    rate = min(DDR_BYTES_PER_CLOCK, BEAT_BYTES * ports)
    latency = 0 if engine == "weight" else DDR_LATENCY_CLOCKS
    return -(-ddr_bytes(engine, fields, config) // rate) + latency + ENGINE_CLOCKS[engine]
