"""Boards that presets are made for: what their chips hold, and what Vivado and Linux call them.

A preset belongs to the board of its name, and so does a preset with changed parameters; all others belong to the ZCU102. The block
designs, the virtual boards, `bitstreams/build.tcl` and the budgets of `cnna explore` read this. So do all predictions and
simulations: the DDR of a configuration is its board's.
"""

from dataclasses import dataclass

from cnna.spec.config import BEAT_BYTES, PRESETS, Config
from cnna.spec.ddr import PL, PLANNED, DdrSpeed

DSP_SHARE, LUT_SHARE = 0.95, 0.70  # of a chip that a preset may take; the rest is for placing and routing
MOST_BYTES = 4 * BEAT_BYTES  # that ports can move in a clock
LOW = ("LOW", 0x0, 0x8000_0000)  # PS DDR (name, base, size), below and above 4 GiB
HIGH = ("HIGH", 0x8_0000_0000, 0x8000_0000)
PL_PS_IRQ0 = 121  # number of the line pl_ps_irq0[0] at the interrupt controller of a Zynq UltraScale+ (PG201)
FIRST_SPI = 32  # the interrupt controller's number of a device tree's interrupt 0


@dataclass(frozen=True)
class Chip:
    """What a chip's programmable logic holds. Source: DS891, and DS987 for the K26."""

    name: str
    luts: int
    flipflops: int
    bram36: int
    uram288: int
    dsps: int


@dataclass(frozen=True)
class Board:
    """A board with a Zynq UltraScale+. `key` is the name of its preset and of its constraints file.

    leds: outputs of the LED port, which the constraints file places. connections: Vivado's connectors of a carrier. ddr: the PS's
    memory as the accelerator sees it at its preset's clock. pl_memory: whether the PL has DDR4 of its own, for variant `pl`.
    """

    key: str
    name: str  # as pynq calls it
    chip: Chip
    part: str
    board_part: str
    compatible: tuple[str, ...]  # of the device tree
    leds: int
    windows: tuple[tuple[str, int, int], ...] = (LOW, HIGH)
    ddr: DdrSpeed = PLANNED
    pl_memory: bool = False
    connections: str = ""

    @property
    def device(self) -> str:
        """The part without package, speed and temperature."""
        return self.part.split("-")[0]

    @property
    def package(self) -> str:
        """The part's package."""
        return self.part.split("-")[1]

    @property
    def speed(self) -> str:
        """The part's speed grade, as a `.hwh` has it."""
        return f"-{self.part.split('-')[2]}"

    @property
    def dsp_budget(self) -> int:
        """DSP48E2 that its preset may take."""
        return int(DSP_SHARE * self.chip.dsps)

    @property
    def lut_budget(self) -> int:
        """LUTs that its preset may take."""
        return int(LUT_SHARE * self.chip.luts)


ZCU102 = Board(
    "zcu102",
    "ZCU102",
    Chip("ZU9", 274_080, 548_160, 912, 0, 2_520),
    "xczu9eg-ffvb1156-2-e",
    "xilinx.com:zcu102:part0:3.4",
    ("xlnx,zynqmp-zcu102-rev1.0", "xlnx,zynqmp-zcu102", "xlnx,zynqmp"),
    leds=8,
    pl_memory=True,
)
BOARDS = {
    board.key: board
    for board in (
        ZCU102,
        Board(
            "zcu104",
            "ZCU104",
            Chip("ZU7", 230_400, 460_800, 312, 96, 1_728),
            "xczu7ev-ffvc1156-2-e",
            "xilinx.com:zcu104:part0:1.1",
            ("xlnx,zynqmp-zcu104-revC", "xlnx,zynqmp-zcu104", "xlnx,zynqmp"),
            leds=4,
            windows=(LOW,),
        ),
        Board(
            "kv260",
            "KV260",
            Chip("K26", 117_120, 234_240, 144, 64, 1_248),
            "xck26-sfvc784-2LV-c",
            "xilinx.com:kv260_som:part0:1.3",
            ("xlnx,zynqmp-sk-kv260-rev1", "xlnx,zynqmp-sk-kv260", "xlnx,zynqmp"),
            leds=8,
            connections="som240_1_connector xilinx.com:kv260_carrier:som240_1_connector:1.3",
        ),
        Board(
            "ultra96",
            "Ultra96",
            Chip("ZU3", 70_560, 141_120, 216, 0, 360),
            "xczu3eg-sbva484-1-i",
            "avnet.com:ultra96v2:part0:1.2",
            ("avnet,ultra96-rev1", "avnet,ultra96", "xlnx,zynqmp-zcu100", "xlnx,zynqmp"),
            leds=2,
            windows=(LOW,),
            ddr=DdrSpeed(bytes_per_cycle=12),
        ),
    )
}


def board_of(config: Config) -> Board:
    """The board that a configuration is made for."""
    return BOARDS.get(config.name.split("-")[0], ZCU102)


def ddr_of(config: Config) -> DdrSpeed:
    """The DDR that an accelerator of this configuration works on: its board's, or the PL's own where it has streams.

    A DDR moves as many bytes in a second, and answers after the same time, whatever the accelerator's clock. So clocks and bytes a
    clock are scaled where the clock is not the preset's.
    """
    board = board_of(config)
    ddr, own = PL if config.streams else board.ddr, PRESETS[board.key].clock_mhz
    rate = ddr.bytes_per_cycle * own // config.clock_mhz
    return DdrSpeed(min(max(rate, 1), MOST_BYTES), max(round(ddr.latency_cycles * config.clock_mhz / own), 1))


def clock_and_ddr(config: Config) -> str:
    """The clock and the DDR for which a configuration's figures are stated."""
    return f"{config.clock_mhz} MHz, {ddr_of(config).bytes_per_cycle} bytes of DDR a clock"


def described(config: Config) -> str:
    """A configuration's name, with the clock and the DDR for which its figures are stated."""
    return f"{config.name} ({clock_and_ddr(config)})"
