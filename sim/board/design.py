"""The block designs around the accelerator, as data: cells, addresses, connections, clocks.

The `.hwh` (`hwh`), the virtual image (`image`), the virtual board's address map (`fabric`) and the checks of the Vivado script in
`bitstreams/` all read this, so they cannot disagree. Variant `ps`: the accelerator's masters reach the processing system's DDR
through HP ports and work on memory that the host has allocated. Variant `pl`: they reach only the PL's own DDR4. An AXI DMA moves
streams between the PS's DDR and the accelerator, which copies them to and from that DDR4. Only a ZCU102 has one.
"""

from dataclasses import replace

from cnna.sim.board import cells
from cnna.sim.board.blocks import PS, AddressRange, Design, DesignPart, External, Wire
from cnna.sim.board.cells import (
    ACCELERATOR,
    CLOCKS,
    CONTROL_MASTER,
    DDR4,
    DDR4_BOARD,
    DDR4_CLOCK,
    DIVISOR_MAX,
    DMA,
    IOPLL_MHZ,
    LEDS,
    PL_CLOCK_MHZ,
)
from cnna.spec.boards import board_of
from cnna.spec.config import Config
from cnna.spec.ddr import PL_DDR_BASE, PL_DDR_BYTES
from cnna.spec.errors import UserError
from cnna.spec.regmap import SPACE_BYTES

VARIANTS = ("ps", "pl")
PS_CLOCK, PS_RESET, PS_IRQ = "pl_clk0", "pl_resetn0", "pl_ps_irq0"
SLOW, FAST = ("aclk_buffer", 2), ("aclk2x_buffer", 1)  # the buffers of both clocks: cell, division
UI_CLOCK = "c0_ddr4_ui_clk"  # the memory controller's own clock

REGISTER_WINDOWS = (  # cell, interface, address block, base, size
    (ACCELERATOR, "s_axi_control", "reg0", 0xA000_0000, SPACE_BYTES),
    (LEDS, "S_AXI", "Reg", 0xA001_0000, 0x1_0000),
    (DMA, "S_AXI_LITE", "Reg", 0xA002_0000, 0x1_0000),
)


def design(config: Config, variant: str = "ps") -> Design:
    """The block design of a configuration; its `config` has the streams that the variant needs.

    ValueError: no such variant. UserError: the configuration's board has no memory for it, or cannot make its clock, or the
    configuration has streams and the variant none.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant {variant!r} is unknown; there are {', '.join(VARIANTS)}")
    if variant not in variants_of(config):
        raise UserError(f"--variant pl: a {board_of(config).name} has no DDR4 at its PL; its accelerator needs variant ps")
    if config.clock_mhz not in PL_CLOCK_MHZ:
        legal = f"this design divides {IOPLL_MHZ:.0f} MHz by 1 to {DIVISOR_MAX}: {PL_CLOCK_MHZ[0]} to {PL_CLOCK_MHZ[-1]} MHz"
        raise UserError(f"--config: config {config.name}: clock_mhz = {config.clock_mhz}, but {legal}")
    if config.streams and variant == "ps":
        why = "but variant ps has no DMA for them, and leaves them out; write no streams, or take variant pl"
        raise UserError(f"--config: config {config.name}: streams = 1, {why}")
    config = replace(config, streams=variant == "pl")
    made = _clocks(config) + _control(config) + (_pl_memory(config) if config.streams else _ps_memory(config))
    return Design(made.cells, made.buses, made.windows, made.wires, made.externals, f"cnna_{variant}", variant, config=config)


def variants_of(config: Config) -> tuple[str, ...]:
    """The variants that can be built for a configuration's board."""
    return VARIANTS if board_of(config).pl_memory else VARIANTS[:1]


def variant_of(config: Config) -> str:
    """The variant for which an accelerator of this configuration is made."""
    return "pl" if config.streams else "ps"


def _clocks(config: Config) -> DesignPart:
    """Makes both clocks of one output of an MMCM at twice the PS's clock, by buffers of one kind, of which one divides by two.

    So the clocks differ neither by the MMCM's phase error nor by the kind of their buffers (UG949, "Synchronous CDC").
    """
    parts = DesignPart(
        (cells.clock_wizard(config), *(cells.clock_buffer(*buffer) for buffer in (SLOW, FAST)), cells.constant("one", 1)),
        wires=((PS, PS_CLOCK, CLOCKS, "clk_in1"), (CLOCKS, "locked", "reset_300", "dcm_locked")),
    )
    for name, _ in (SLOW, FAST):
        wires = ((CLOCKS, "clk_out1", name, "BUFGCE_I"), ("one", "dout", name, "BUFGCE_CE"), ("zero", "dout", name, "BUFGCE_CLR"))
        parts += DesignPart(wires=wires)
    fast = DesignPart((cells.constant("zero", 0),), wires=((FAST[0], "BUFGCE_O", ACCELERATOR, "aclk2x"),))
    return parts + fast


def _control(config: Config) -> DesignPart:
    """The cells that the processor reaches, and the clock and reset of everything except a memory controller."""
    reached = REGISTER_WINDOWS if config.streams else REGISTER_WINDOWS[:-1]
    hp_ports = 1 if config.streams else config.ports
    clocked = [(ACCELERATOR, "aclk"), (LEDS, "s_axi_aclk"), ("reset_300", "slowest_sync_clk"), (PS, "maxihpm0_fpd_aclk")]
    return DesignPart(
        (
            cells.processing_system(config, hp_ports),
            cells.accelerator(config),
            cells.leds(board_of(config)),
            cells.interconnect("axi_control", 1, len(reached), 32),
            cells.reset("reset_300"),
        ),
        (
            (PS, CONTROL_MASTER, "axi_control", "S00_AXI"),
            *(("axi_control", f"M{index:02}_AXI", cell, slave) for index, (cell, slave, *_) in enumerate(reached)),
        ),
        tuple(AddressRange(PS, CONTROL_MASTER, *window) for window in reached),
        (
            *_clocked(*clocked, ("axi_control", "aclk"), *((PS, f"saxihp{port}_fpd_aclk") for port in range(hp_ports))),
            (PS, PS_RESET, "reset_300", "ext_reset_in"),
            *_held((ACCELERATOR, "aresetn"), (LEDS, "s_axi_aresetn"), ("axi_control", "aresetn")),
            (ACCELERATOR, "interrupt", PS, PS_IRQ),
        ),
    )


def _ps_memory(config: Config) -> DesignPart:
    """Connects each of the accelerator's masters to an HP port of its own."""
    made = DesignPart()
    for port in range(config.ports):
        cross, gmem, hp = f"axi_hp{port}", f"m_axi_gmem{port}", f"S_AXI_HP{port}_FPD"
        made += DesignPart(
            (cells.interconnect(cross, 1, 1, 128),),
            ((ACCELERATOR, gmem, cross, "S00_AXI"), (cross, "M00_AXI", PS, hp)),
            _ps_windows(config, ACCELERATOR, gmem, port),
            (*_clocked((cross, "aclk")), *_held((cross, "aresetn"))),
        )
    return made


def _pl_memory(config: Config) -> DesignPart:
    """Connects the accelerator's masters to the memory controller, its streams to the DMA, and the DMA's masters to HP port 0."""
    masters = [f"m_axi_gmem{port}" for port in range(config.ports)]
    channels = ("M_AXI_MM2S", "M_AXI_S2MM")
    return DesignPart(
        (
            cells.axi_dma(),
            cells.interconnect("axi_hp0", len(channels), 1, 128),
            cells.ddr4(),
            cells.interconnect("axi_memory", config.ports, 1, 128, clocks=2),
            cells.reset("reset_ddr4"),
        ),
        (
            *((ACCELERATOR, master, "axi_memory", f"S{port:02}_AXI") for port, master in enumerate(masters)),
            ("axi_memory", "M00_AXI", DDR4, "C0_DDR4_S_AXI"),
            *((DMA, channel, "axi_hp0", f"S{index:02}_AXI") for index, channel in enumerate(channels)),
            ("axi_hp0", "M00_AXI", PS, "S_AXI_HP0_FPD"),
            (DMA, "M_AXIS_MM2S", ACCELERATOR, "s_axis"),
            (ACCELERATOR, "m_axis", DMA, "S_AXIS_S2MM"),
        ),
        (
            *(window for channel in channels for window in _ps_windows(config, DMA, channel, 0)),
            *(
                AddressRange(
                    ACCELERATOR, master, DDR4, "C0_DDR4_S_AXI", "C0_DDR4_ADDRESS_BLOCK", PL_DDR_BASE, PL_DDR_BYTES, memory=True
                )
                for master in masters
            ),
        ),
        (
            *_clocked((DMA, "s_axi_lite_aclk"), (DMA, "m_axi_mm2s_aclk"), (DMA, "m_axi_s2mm_aclk")),
            *_clocked(("axi_hp0", "aclk"), ("axi_memory", "aclk")),
            *_held((DMA, "axi_resetn"), ("axi_hp0", "aresetn"), ("axi_memory", "aresetn")),
            ("reset_300", "peripheral_reset", DDR4, "sys_rst"),
            (DDR4, UI_CLOCK, "axi_memory", "aclk1"),
            (DDR4, UI_CLOCK, "reset_ddr4", "slowest_sync_clk"),
            (DDR4, f"{UI_CLOCK}_sync_rst", "reset_ddr4", "ext_reset_in"),
            ("reset_ddr4", "peripheral_aresetn", DDR4, "c0_ddr4_aresetn"),
        ),
        (External(DDR4_BOARD, DDR4, "C0_DDR4"), External(DDR4_CLOCK, DDR4, "C0_SYS_CLK")),
    )


def _ps_windows(config: Config, cell: str, master: str, port: int) -> tuple[AddressRange, ...]:
    """The PS's DDR as a master sees it through an HP port."""
    return tuple(
        AddressRange(cell, master, PS, f"S_AXI_HP{port}_FPD", f"HP{port}_DDR_{half}", base, size, memory=True)
        for half, base, size in board_of(config).windows
    )


def _clocked(*places: tuple[str, str]) -> tuple[Wire, ...]:
    return tuple((SLOW[0], "BUFGCE_O", *place) for place in places)


def _held(*places: tuple[str, str]) -> tuple[Wire, ...]:
    return tuple(("reset_300", "peripheral_aresetn", *place) for place in places)
