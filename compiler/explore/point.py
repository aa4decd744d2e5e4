"""A configuration with what is predicted for it, and which of several configurations no other beats."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cnna.spec.boards import board_of, ddr_of
from cnna.spec.config import OPTIONS, Config, as_dict, preset
from cnna.spec.ddr import DdrSpeed
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.metrics import REPORT_MHZ


@dataclass(frozen=True)
class Part:
    """What one network takes on a configuration, a batch of it. `bytes`: DDR traffic, reads and writes. whole: with the host.
    accesses: to block RAM, of 8 bytes.
    """

    cycles: int
    bytes: int
    macs: int
    whole: EndToEnd
    accesses: int = 0

    @property
    def answered(self) -> Range:
        """Images a second from picture to answer, at both ends of what is modelled of the host."""
        found = self.whole.fps()
        assert found is not None, "the compiler says what pieces on the CPU take"
        return found


@dataclass(frozen=True)
class Point:
    """A configuration, a batch, and what each of the networks takes. shares: of the images, by network; their sum is 1.

    memory: the DDR that was predicted for; None: the board's. asked: million bytes a second of it, where these were asked for.
    What each comparison with another point needs is computed once.
    """

    config: Config
    batch: int
    dsp: int
    bram36: float
    uram288: int
    luts: int
    parts: tuple[Part, ...]
    shares: tuple[float, ...] = (1.0,)
    memory: DdrSpeed | None = None
    asked: int | None = None

    @property
    def ddr(self) -> DdrSpeed:
        """The DDR that was predicted for."""
        return self.memory or ddr_of(self.config)

    @property
    def bandwidth(self) -> int:
        """Million bytes a second of DDR: those that were asked for, of which a clock moves whole ones; or the DDR's."""
        return self.asked or self.ddr.bytes_per_cycle * self.config.clock_mhz

    @property
    def whole(self) -> EndToEnd:
        """The model of the first network from picture to answer."""
        return self.parts[0].whole

    @property
    def cycles(self) -> int:
        """Clocks of a batch; of several networks, the mean by their shares, as of all figures here."""
        return round(self._mean(part.cycles for part in self.parts))

    @cached_property
    def bytes(self) -> int:
        """DDR traffic of a batch."""
        return round(self._mean(part.bytes for part in self.parts))

    @property
    def accesses(self) -> int:
        """Accesses to block RAM of a batch."""
        return round(self._mean(part.accesses for part in self.parts))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of an image."""
        return round(self._mean(part.macs for part in self.parts))

    @cached_property
    def alone(self) -> float:
        """Images a second of the accelerator alone, at the configuration's clock."""
        return self.batch * self.config.clock_mhz * 1e6 / self._mean(part.cycles for part in self.parts)

    @cached_property
    def answered(self) -> Range:
        """Images a second from picture to answer, at both ends of what is modelled of the host."""
        if len(self.parts) == 1:
            return self.parts[0].answered
        quick, slow = (self._mean(1 / getattr(part.answered, end) for part in self.parts) for end in ("quick", "slow"))
        return Range(1 / quick, 1 / slow)

    @cached_property
    def latency(self) -> Range:
        """Seconds from a batch alone to its answer; quick and slow as of `answered`."""
        ends = [part.whole.latency() for part in self.parts]
        quick, slow = (self._mean(getattr(end, name) for end in ends) for name in ("quick", "slow"))
        return Range(quick, slow)

    @property
    def order(self) -> tuple[float | str, ...]:
        """What settles the order of points that are equally good: the smaller one, then the quicker accelerator."""
        return self.dsp, self.bram36, -self.alone, self.batch, self.luts, self.bandwidth, option(self.config)

    @property
    def fps(self) -> float:
        """Images a second by which configurations are compared: from picture to answer, at the slow end."""
        return self.answered.slow

    @property
    def utilization(self) -> float:
        """Share of the array's multiply-accumulates that the networks use."""
        return self.macs * self.batch / (self._mean(part.cycles for part in self.parts) * self.config.macs)

    def _mean(self, values: Iterable[float]) -> float:
        """The mean of a figure of each network, by the shares of their images."""
        return sum(share * value for share, value in zip(self.shares, values, strict=True))

    def figures(self) -> dict[str, int | float | str]:
        """For JSON."""
        sizes = ("pix", "ci", "co", "ports", "regions", "bank_words", "ring_words")
        return {
            "config": option(self.config),
            **{name: getattr(self.config, name) for name in sizes},
            "batch": self.batch,
            "dsp48e2": self.dsp,
            "bram36": self.bram36,
            "uram288": self.uram288,
            "luts": self.luts,
            "predicted_cycles": self.cycles,
            "clock_mhz": self.config.clock_mhz,
            "predicted_fps": self.alone,
            "predicted_fps_at_300mhz": self.alone * REPORT_MHZ / self.config.clock_mhz,
            "fps_end_to_end": self.fps,
            "fps_end_to_end_quick": self.answered.quick,
            "latency_seconds": self.latency.slow,
            "predicted_mac_utilization": self.utilization,
            "predicted_ddr_bytes": self.bytes,
            "ddr_megabytes_an_image": self.bytes / self.batch / 1e6,
            "ddr_megabytes_a_second": self.bandwidth,
            "ddr_bytes_per_cycle": self.ddr.bytes_per_cycle,
            "ddr_latency_cycles": self.ddr.latency_cycles,
        }


def option(config: Config) -> str:
    """The text by which `--config` names a configuration: the preset of its board, and what differs from it."""
    key = board_of(config).key
    base, own = ({**as_dict(each), **{name: int(getattr(each, name)) for name in OPTIONS}} for each in (preset(key), config))
    return ",".join([key, *(f"{key}={value}" for key, value in own.items() if key != "name" and value != base.get(key))])
