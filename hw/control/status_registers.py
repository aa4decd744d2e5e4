"""General registers and counters by who keeps them: `regfile`, another module, or nobody (constants)."""

from amaranth.lib import data

from cnna.spec.config import Config
from cnna.spec.regmap import REGISTERS, Register

STREAMED = tuple(r for r in REGISTERS.values() if r.name.startswith("STREAM_"))  # present where there are stream ports
ALWAYS = ("CTRL", "STATUS", "WATCHDOG")  # the host may write these at any time, and also:
COPYING = tuple(r for r in STREAMED if any(field.access != "ro" for field in r.fields))
OUTSTANDING = ("OUTSTANDING_READS", "OUTSTANDING_WRITES")
REPORTED = (*(r.name for r in REGISTERS.values() if r.block == "counters"), "STATUS", "ERROR", "ERROR_INFO", "PC", *OUTSTANDING)
STATUSES = ("STREAM_IN_STATUS", "STREAM_OUT_STATUS")


def reports_layout(config: Config) -> data.StructLayout:
    """The words that other modules keep."""
    return data.StructLayout(dict.fromkeys(REPORTED + (STATUSES if config.streams else ()), 32))


def general_registers(config: Config) -> tuple[Register, ...]:
    """The registers of the general block that `regfile` answers for."""
    there = (r for r in REGISTERS.values() if r.block == "general" and r.name != "END")
    return tuple(r for r in there if config.streams or r not in STREAMED)


def kept_mask(register: Register) -> int:
    """A mask of the bits that are "rw"."""
    mask, bit = 0, 0
    for field in register.fields:
        mask |= ((1 << field.bits) - 1) << bit if field.access == "rw" else 0
        bit += field.bits
    return mask


def is_writable(register: Register) -> bool:
    """Whether the host may write the register while not busy. The registers of copies follow other rules and do not count."""
    return register not in STREAMED and any(field.access != "ro" for field in register.fields)
