"""How a device identifies itself.

This is the conversion between a `Config` and the capability registers, the names of IPs for pynq and block designs, and the mark of
a virtual board.
"""

from collections.abc import Callable

from cnna.spec.config import PRESETS, Config, ConfigError, as_dict
from cnna.spec.errors import ArtifactError
from cnna.spec.regmap import PROGRAM_MINOR, QUEUE_MINOR, REGISTERS, VERSION, offset

VENDOR, LIBRARY, NAME = "cnna", "ip", "cnna"
VLNV = f"{VENDOR}:{LIBRARY}:{NAME}:{VERSION[0]}.{VERSION[1]}"  # a new register map is a new version of the IP
DRIVEN_VLNVS = tuple(f"{VENDOR}:{LIBRARY}:{NAME}:{VERSION[0]}.{minor}" for minor in range(PROGRAM_MINOR, VERSION[1] + 1))[::-1]
DMA_VLNV = "xilinx.com:ip:axi_dma:7.1"  # the only one that pynq has a driver for
VIRTUAL = "Version=virtual"  # in the header of a virtual board's .bit, where Vivado has its own version

MAGIC = REGISTERS["ID"].fields[0].reset
SIZES = ("ARRAY", "MEMORY", "RINGS")
CAPABILITIES = ("ID", "VERSION", *SIZES, "CLOCK")  # the registers from which a driver learns what it has before it


def capability_words(config: Config) -> dict[str, int]:
    """The words of the capability registers, by register name."""
    sizes = as_dict(config) | {"deep": config.depth - 1, "codebook": int(config.codebook)}
    words = {name: REGISTERS[name].pack(**{f.name: int(sizes[f.name]) for f in REGISTERS[name].fields}) for name in SIZES}
    version = REGISTERS["VERSION"].pack(major=VERSION[0], minor=VERSION[1])
    return {"ID": MAGIC, "VERSION": version, **words, "CLOCK": REGISTERS["CLOCK"].pack(mhz=config.clock_mhz)}


def read_config(read: Callable[[int], int]) -> Config:
    """The parameters of a device. read: reads a register. A preset with the same sizes gives the name; without one it is "device".

    ArtifactError: the device is no such accelerator, or has another register map.
    """
    magic = read(offset("ID"))
    if magic != MAGIC:
        raise ArtifactError(f"the device is no cnna accelerator (its ID register is {magic:#010x})")
    version = REGISTERS["VERSION"].unpack(read(offset("VERSION")))
    # A device with an older map lacks registers that drivers set.
    if version["major"] != VERSION[0] or version["minor"] < PROGRAM_MINOR:
        raise ArtifactError(
            f"the device has register map {version['major']}.{version['minor']}, this cnna drives {VERSION[0]}.{PROGRAM_MINOR} "
            f"to {VERSION[0]}.{VERSION[1]}: load an image of this version"
        )
    sizes: dict[str, int] = {}
    for name in SIZES:
        sizes |= REGISTERS[name].unpack(read(offset(name)))
    clock_mhz = read(offset("CLOCK"))
    streams, codebook = bool(sizes.pop("streams")), bool(sizes.pop("codebook"))
    sizes["depth"] = sizes.pop("deep") + 1
    same = [n for n, preset in PRESETS.items() if {k: v for k, v in as_dict(preset).items() if k in sizes} == sizes]
    try:
        # programs do not see whether feature memory is UltraRAM, so no register says it
        return Config(next(iter(same), "device"), **sizes, clock_mhz=clock_mhz, streams=streams, uram=False, codebook=codebook)
    except ConfigError as error:
        raise ArtifactError(f"the device's capability registers make no sense: {error}") from None


def has_queue(read: Callable[[int], int]) -> bool:
    """Whether a device has a queue of runs. read: reads a register."""
    return REGISTERS["VERSION"].unpack(read(offset("VERSION")))["minor"] >= QUEUE_MINOR
