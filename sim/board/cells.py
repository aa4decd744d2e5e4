"""The cells of the block designs: Vivado's IPs and our own, with the interfaces and parameters that matter here.

Names and versions are those of Vivado 2022.1. The cells include parameters of the PS that pynq itself sets at download.
"""

from math import ceil

from cnna.sim.board import dma
from cnna.sim.board.blocks import PS, STREAM, Cell, Interface
from cnna.spec.boards import Board
from cnna.spec.config import Config, as_dict
from cnna.spec.identity import DMA_VLNV, VLNV
from cnna.spec.machine import BEAT_BITS

ACCELERATOR, LEDS, DMA, DDR4, CLOCKS = "cnna_0", "leds_gpio", "axi_dma_0", "ddr4_0", "clocks"
CONTROL_MASTER = "M_AXI_HPM0_FPD"

REFERENCE_MHZ = 33.333  # reference clock of the PS, with the value that pynq uses
IOPLL_FEEDBACK = 90
IOPLL_MHZ = REFERENCE_MHZ * IOPLL_FEEDBACK / 2
DIVISOR_MAX = 63  # of PL0_REF_CTRL.DIVISOR0, which has 6 bits (UG1087)
PL_CLOCK_MHZ = range(ceil(IOPLL_MHZ / DIVISOR_MAX), round(IOPLL_MHZ) + 1)

DDR4_BOARD, DDR4_CLOCK = "ddr4_sdram_062", "user_si570_sysclk"  # interfaces of the ZCU102 in Vivado's board files


def accelerator(config: Config) -> Cell:
    """Our own IP."""
    masters = (Interface(f"m_axi_gmem{port}", True, BEAT_BITS) for port in range(config.ports))
    buses = (Interface("s_axi_control", False, 32, "AXI4LITE"), *masters)
    streams = (Interface("s_axis", False, BEAT_BITS, "AXIS", STREAM), Interface("m_axis", True, BEAT_BITS, "AXIS", STREAM))
    return Cell(
        ACCELERATOR,
        VLNV,
        buses + (streams if config.streams else ()),
        {"Component_Name": f"cnna_{config.name}", **{f"C_{k.upper()}": str(v) for k, v in as_dict(config).items()}},
    )


def leds(board: Board) -> Cell:
    """The user LEDs."""
    return Cell(
        LEDS,
        "xilinx.com:ip:axi_gpio:2.0",
        (Interface("S_AXI", False, 32, "AXI4LITE"),),
        {"C_GPIO_WIDTH": str(board.leds), "C_ALL_OUTPUTS": "1", "C_IS_DUAL": "0", "C_INTERRUPT_PRESENT": "0"},
    )


def axi_dma() -> Cell:
    """An AXI DMA without scatter-gather, with one channel of 128 bits each way."""
    return Cell(
        DMA,
        DMA_VLNV,
        (
            Interface("S_AXI_LITE", False, 32, "AXI4LITE"),
            Interface("M_AXI_MM2S", True, BEAT_BITS),
            Interface("M_AXI_S2MM", True, BEAT_BITS),
            Interface("M_AXIS_MM2S", True, BEAT_BITS, "AXIS", STREAM),
            Interface("S_AXIS_S2MM", False, BEAT_BITS, "AXIS", STREAM),
        ),
        {**dma.PARAMETERS, "c_m_axis_mm2s_tdata_width": str(BEAT_BITS)},
    )


def ddr4() -> Cell:
    """The memory controller of the PL's own DDR4. Part, timing and pins come with the board's interfaces."""
    return Cell(
        DDR4,
        "xilinx.com:ip:ddr4:2.2",
        (
            Interface("C0_DDR4_S_AXI", False, BEAT_BITS),
            Interface("C0_DDR4", True, 16, "", "xilinx.com:interface:ddr4:1.0"),
            Interface("C0_SYS_CLK", False, 1, "", "xilinx.com:interface:diff_clock:1.0"),
        ),
        {
            "C0_DDR4_BOARD_INTERFACE": DDR4_BOARD,
            "C0_CLOCK_BOARD_INTERFACE": DDR4_CLOCK,
            "C0.DDR4_AxiSelection": "true",
            "C0.DDR4_AxiDataWidth": str(BEAT_BITS),
        },
    )


def clock_wizard(config: Config) -> Cell:
    """An MMCM whose only output has twice the frequency of the PS's clock, and no buffer."""
    return Cell(
        CLOCKS,
        "xilinx.com:ip:clk_wiz:6.0",
        parameters={
            "PRIMITIVE": "MMCM",
            "PRIM_SOURCE": "Global_buffer",
            "PRIM_IN_FREQ": str(config.clock_mhz),
            "CLKOUT1_REQUESTED_OUT_FREQ": str(2 * config.clock_mhz),
            "CLKOUT1_DRIVES": "No_buffer",
            "USE_RESET": "false",
            "USE_LOCKED": "true",
        },
    )


def clock_buffer(name: str, division: int) -> Cell:
    """A BUFGCE_DIV: it drives a clock and divides it."""
    return Cell(
        name, "xilinx.com:ip:util_ds_buf:2.2", parameters={"C_BUF_TYPE": "BUFGCE_DIV", "C_BUFGCE_DIV": str(division), "C_SIZE": "1"}
    )


def constant(name: str, value: int) -> Cell:
    """A constant bit."""
    return Cell(name, "xilinx.com:ip:xlconstant:1.1", parameters={"CONST_WIDTH": "1", "CONST_VAL": str(value)})


def reset(name: str) -> Cell:
    """A reset block: resets that are synchronous to a clock."""
    return Cell(name, "xilinx.com:ip:proc_sys_reset:5.0")


def interconnect(name: str, slaves: int, masters: int, bits: int, clocks: int = 1) -> Cell:
    """A SmartConnect. It converts widths and protocols and, if it has two clocks, crosses between them."""
    return Cell(
        name,
        "xilinx.com:ip:smartconnect:1.0",
        tuple(Interface(f"S{index:02}_AXI", False, bits) for index in range(slaves))
        + tuple(Interface(f"M{index:02}_AXI", True, bits) for index in range(masters)),
        {"NUM_SI": str(slaves), "NUM_MI": str(masters), "NUM_CLKS": str(clocks)},
    )


def processing_system(config: Config, hp_ports: int) -> Cell:
    """The PS, with the parameters that pynq sets at download: PL clock 0, and the widths of the ports in use."""
    parameters = {
        "PSU__USE__M_AXI_GP0": "1",
        "PSU__USE__M_AXI_GP1": "0",
        "PSU__USE__M_AXI_GP2": "0",
        "PSU__USE__IRQ0": "1",
        "C_MAXIGP0_DATA_WIDTH": "128",
        "PSU__MAXIGP0__DATA_WIDTH": "128",
    }
    for port in range(hp_ports):  # HP0..HP3 are the PS's S_AXI_GP2..GP5
        parameters |= {
            f"PSU__USE__S_AXI_GP{port + 2}": "1",
            f"C_SAXIGP{port + 2}_DATA_WIDTH": str(BEAT_BITS),
            f"PSU__SAXIGP{port + 2}__DATA_WIDTH": str(BEAT_BITS),
        }
    divisor = round(IOPLL_MHZ / config.clock_mhz)
    for clock in range(4):
        used, prefix = clock == 0, f"PSU__CRL_APB__PL{clock}_REF_CTRL__"
        parameters |= {
            f"PSU__FPGA_PL{clock}_ENABLE": str(int(used)),
            f"{prefix}SRCSEL": "IOPLL",
            f"{prefix}DIVISOR0": str(divisor if used else 1),
            f"{prefix}DIVISOR1": "1",
            f"{prefix}FREQMHZ": str(config.clock_mhz if used else 100),
            f"{prefix}ACT_FREQMHZ": f"{IOPLL_MHZ / divisor if used else 100:.6f}",
        }
    ports = tuple(Interface(f"S_AXI_HP{port}_FPD", False, BEAT_BITS) for port in range(hp_ports))
    return Cell(PS, "xilinx.com:ip:zynq_ultra_ps_e:3.4", (Interface(CONTROL_MASTER, True, 128), *ports), parameters)
