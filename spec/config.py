"""The accelerator's parameters: one frozen value that RTL, compiler and simulation take as an argument.

It needs nothing but Python, so that the driver on a board can import it.
"""

from dataclasses import dataclass, fields
from typing import Final

from cnna.spec.errors import UserError
from cnna.spec.names import in_short

BEAT_BYTES: Final = 16  # width of every AXI4 data port
PARAM_BITS = {"offset": 32, "factor": 26, "shift": 6}  # a channel's requantiser parameters in a ring word, from bit 0 up
PARAM_BYTES = sum(PARAM_BITS.values()) // 8
TABLE_BYTES = 256  # a result for each int8
TAPS = 3  # of a kernel row that the vector engine takes in a clock
REGIONS_MAX = 4
OPTIONS = ("uram", "codebook")  # parameters that manifests and Verilog name only where they are set


class ConfigError(UserError, ValueError):
    """A parameter outside its legal values; the message names it, its value and what is legal."""


def _check_kinds(config: "Config") -> None:
    """ConfigError: the name is no text, or a parameter no whole number."""
    for field in fields(config):
        kind, value = (str, "a text") if field.name == "name" else (int, "a whole number"), getattr(config, field.name)
        if not isinstance(value, kind[0]):
            raise ConfigError(f"config: {field.name} = {in_short(value)}, but it must be {kind[1]}")


@dataclass(frozen=True)
class Config:
    """Sizes of one accelerator. ConfigError: no accelerator can have this value; the message says why.

    A feature word is `ci` channels of one pixel. A chunk is `co` output channels, that is `co // ci` words of each pixel. A *set*
    is the `depth` channel blocks that the array takes in a clock.
    """

    name: str
    pix: int  # output pixels a clock
    ci: int  # channels in a feature word; input channels a clock
    co: int  # output channels a clock
    ports: int  # AXI4 masters
    regions: int  # parts of feature memory, with 2 * pix banks each
    bank_words: int  # in one bank of one region
    ring_words: int  # of depth * ci * co bytes, in the weight ring
    vector_ring_words: int  # of 4 * ci bytes, in the vector engine's parameter ring
    clock_mhz: int = 300  # for figures in seconds, such as images a second
    streams: bool = False  # whether it has a stream port each way, and copies between these and DDR beside the engines
    depth: int = 1  # channel blocks of `ci` that the array takes in a clock, one in each half of it if there are two
    uram: bool = False  # whether feature memory lies in UltraRAM; only the Verilog of its banks differs
    codebook: bool = False  # whether weights may come to the weight ring as 4 bits into books of 16 (`spec.codebook`)

    def __post_init__(self) -> None:
        def need(true: bool, parameter: str, legal: str) -> None:
            if not true:
                raise ConfigError(f"config {self.name}: {parameter} = {getattr(self, parameter)}, but {legal}")

        _check_kinds(self)
        need(self.pix in (2, 4, 8, 16), "pix", "legal values are 2, 4, 8 and 16 (there are 2 x pix banks)")
        need(self.ci in (4, 8, 16), "ci", "legal values are 4, 8 and 16 (a feature word is at most an AXI beat)")
        need(2 * self.pix >= BEAT_BYTES // self.ci, "ci", "the words of one AXI beat must lie in different banks")
        need(self.ci <= self.co <= 64, "co", f"it must be within {self.ci}..64")
        need(self.co % self.ci == 0, "co", f"it must be a multiple of ci = {self.ci}")
        need(1 <= self.ports <= 4, "ports", "legal values are 1 to 4")
        need(self.depth in (1, 2), "depth", "legal values are 1 and 2 (the array's second clock has twice the frequency)")
        need(self.co // self.ci % self.depth == 0, "co", "a chunk must be whole sets of depth blocks")
        need(self.depth == 1 or self.regions in (1, 2, 4), "regions", "with depth 2, legal values are 1, 2 and 4")
        need(
            self.ring_word_bytes % (BEAT_BYTES * self.ports) == 0,
            "ports",
            f"a ring word of depth * ci * co = {self.ring_word_bytes} bytes must split into whole 16-byte beats on every port",
        )
        need(1 <= self.regions <= REGIONS_MAX, "regions", "legal values are 1 to 4")
        need(
            128 <= self.bank_words <= 8192 and self.bank_words & (self.bank_words - 1) == 0,
            "bank_words",
            "legal values are the powers of two from 128 to 8192",
        )
        need(
            64 <= self.ring_words <= 4096 and self.ring_words % 8 == 0,
            "ring_words",
            "it must be a multiple of 8 within 64..4096",
        )
        need(
            256 <= self.vector_ring_words <= 4096 and self.vector_ring_words % 8 == 0,
            "vector_ring_words",
            "it must be a multiple of 8 within 256..4096",
        )
        need(1 <= self.clock_mhz < 1 << 16, "clock_mhz", "it must be within 1..65535, which its register holds")
        need(self.streams in (0, 1), "streams", "legal values are 0 and 1")
        need(self.uram in (0, 1), "uram", "legal values are 0 and 1")
        need(not self.uram or self.depth == 1, "uram", "with depth 2 it must be 0 (both ports of an UltraRAM are equally wide)")
        need(self.codebook in (0, 1), "codebook", "legal values are 0 and 1")
        need(
            not self.codebook or self.stripe_bytes % (2 * BEAT_BYTES) == 0,
            "codebook",
            f"a port's {self.stripe_bytes} bytes of a ring word are no pairs of beats, so it must be 0",
        )
        for name in ("streams", "uram", "codebook"):
            object.__setattr__(self, name, bool(getattr(self, name)))  # 0 and 1 come from manifests and command lines

    @property
    def banks(self) -> int:
        """Banks in a region; a word's bank is its address modulo this."""
        return 2 * self.pix

    @property
    def half(self) -> int:
        """Pixels that requantiser, residual add and writers handle in a clock."""
        return self.pix // 2

    @property
    def chunk_blocks(self) -> int:
        """Feature words (channel blocks) in a chunk."""
        return self.co // self.ci

    @property
    def feature_words(self) -> int:
        """Words of feature memory, in all regions. Addresses run from 0 to one less."""
        return self.regions * self.banks * self.bank_words

    @property
    def ring_word_bytes(self) -> int:
        """Bytes of a weight ring word: one weight for each (block of a set, co, ci)."""
        return self.depth * self.ci * self.co

    @property
    def stripe_bytes(self) -> int:
        """Bytes of a ring word that one AXI port brings."""
        return self.ring_word_bytes // self.ports

    @property
    def param_words(self) -> int:
        """Words of the weight ring that hold the requantiser parameters of a chunk's channels."""
        return -(-PARAM_BYTES // (self.depth * self.ci))

    @property
    def vector_word_bytes(self) -> int:
        """Bytes of a vector ring word: TAPS weights for each of ci channels, and as many more as make a power of two."""
        return (TAPS + 1) * self.ci

    @property
    def vector_word_beats(self) -> int:
        """AXI beats of a vector ring word."""
        return self.vector_word_bytes // BEAT_BYTES

    @property
    def vector_param_words(self) -> int:
        """Words of the vector ring that hold the requantiser parameters of a channel block."""
        return PARAM_BYTES * self.ci // self.vector_word_bytes

    @property
    def table_words(self) -> int:
        """Words of the weight ring that hold a table."""
        return -(-TABLE_BYTES // self.ring_word_bytes)

    @property
    def vector_table_words(self) -> int:
        """Words of the vector ring that hold a table."""
        return TABLE_BYTES // self.vector_word_bytes

    @property
    def beat_words(self) -> int:
        """Feature words in an AXI beat."""
        return BEAT_BYTES // self.ci

    @property
    def cascade(self) -> int:
        """DSP48E2 slices in a cascade."""
        return min(8, self.ci)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the array in one clock."""
        return self.depth * self.pix * self.ci * self.co

    @property
    def deck_words(self) -> int:
        """Words of a deck of feature memory, which has `depth` decks. Addresses in a deck run from 0 to one less."""
        return self.feature_words // self.depth

    def sets(self, blocks: int) -> int:
        """The fewest sets that hold so many channel blocks."""
        return -(-blocks // self.depth)


PRESETS = {
    config.name: config
    for config in (
        Config("tiny", pix=2, ci=4, co=8, ports=1, regions=4, bank_words=1024, ring_words=512, vector_ring_words=256),
        Config("zcu102", pix=8, ci=16, co=32, ports=4, regions=4, bank_words=2048, ring_words=1024, vector_ring_words=512),
        Config("tinyx2", pix=2, ci=4, co=8, ports=1, regions=4, bank_words=1024, ring_words=256, vector_ring_words=256, depth=2),
        Config(
            "zcu102x2", pix=8, ci=16, co=32, ports=4, regions=4, bank_words=2048, ring_words=512, vector_ring_words=512, depth=2
        ),
        Config(
            "zcu104", pix=8, ci=16, co=16, ports=4, regions=3, bank_words=4096, ring_words=1024, vector_ring_words=512, uram=True
        ),
        Config("kv260", pix=4, ci=8, co=56, ports=2, regions=4, bank_words=8192, ring_words=1024, vector_ring_words=512, uram=True),
        Config(
            "ultra96",
            pix=2,
            ci=8,
            co=32,
            ports=2,
            regions=4,
            bank_words=4096,
            ring_words=1024,
            vector_ring_words=512,
            clock_mhz=250,
        ),
    )
}


def preset(name: str) -> Config:
    """The preset of that name. ConfigError: there is none; the message lists the names."""
    if name not in PRESETS:
        raise ConfigError(f"config {name!r} is unknown; there are {', '.join(PRESETS)}")
    return PRESETS[name]


def as_dict(config: Config) -> dict[str, int | str]:
    """Every parameter by name, for manifests and capability checks. `Config(**d)` is the inverse.

    Those of OPTIONS are there only where they are set: earlier versions, which do not know them, read the manifests of all other
    configurations.
    """
    found = {f.name: getattr(config, f.name) for f in fields(config)} | {"streams": int(config.streams)}
    options = {name: int(found.pop(name)) for name in OPTIONS}
    return found | {name: value for name, value in options.items() if value}
