"""Every block that can be made alone, by a short name, built as an accelerator of a configuration builds it."""

from collections.abc import Callable

from amaranth.lib import wiring

from cnna.hw.array import Array
from cnna.hw.axilite import AxiLiteSlave
from cnna.hw.bankram import BankRam
from cnna.hw.control import Control
from cnna.hw.conv import Conv
from cnna.hw.counters import Counters
from cnna.hw.depthwise import PixelProducts
from cnna.hw.drain import Drain
from cnna.hw.faults import Faults
from cnna.hw.featmem import FeatureMemory
from cnna.hw.fetch import Fetch
from cnna.hw.issue import Issue
from cnna.hw.load import Load, LoadPort
from cnna.hw.readmaster import ReadMaster
from cnna.hw.regfile import RegFile
from cnna.hw.requant import Lanes, Modes
from cnna.hw.residual import ResidualAdd
from cnna.hw.ring import vector_ring, weight_ring
from cnna.hw.runs import Bursts, Runs
from cnna.hw.scatter import Scatter
from cnna.hw.sequencer import Sequencer
from cnna.hw.store import Store, StorePort
from cnna.hw.streams import StreamIn, StreamOut
from cnna.hw.tokens import Counts, Waiter
from cnna.hw.vector import Vector
from cnna.hw.vector_drain import VectorDrain
from cnna.hw.vector_issue import VectorIssue
from cnna.hw.vector_sums import VectorSums
from cnna.hw.walker import Walker
from cnna.hw.weights import Weights
from cnna.hw.writemaster import WriteMaster
from cnna.hw.writes import ProgramWrites
from cnna.hw.writeshare import WriteShare
from cnna.spec.config import Config

BLOCKS: dict[str, Callable[[Config], wiring.Component]] = {
    "array": Array,
    "axilite": lambda config: AxiLiteSlave(),
    "bank": lambda config: BankRam(8 * config.ci, config.bank_words),
    "bursts": lambda config: Bursts(),
    "control": lambda config: Control(),
    "conv": Conv,
    "counters": lambda config: Counters(config.ports),
    "counts": lambda config: Counts(),
    "depthwise": PixelProducts,
    "dma": Load,  # the name by which a reader looks for it
    "drain": Drain,
    "faults": lambda config: Faults(config.ports),
    "featmem": FeatureMemory,
    "fetch": lambda config: Fetch(config, config.pix),
    "issue": Issue,
    "load": Load,
    "loadport": LoadPort,
    "readmaster": lambda config: ReadMaster(3),
    "regfile": RegFile,
    "requant": lambda config: Lanes(config.half * config.ci, Modes.REQUANTISE, tag_bits=1, sets=config.ci),
    "residual": ResidualAdd,
    "ring": weight_ring,
    "runs": lambda config: Runs(config, "load", 64),
    "scatter": Scatter,
    "sequencer": lambda config: Sequencer(),
    "store": Store,
    "storeport": StorePort,
    "stream_in": lambda config: StreamIn(),
    "stream_out": lambda config: StreamOut(),
    "vector": Vector,
    "vector_drain": VectorDrain,
    "vector_issue": VectorIssue,
    "vector_ring": vector_ring,
    "vector_sums": VectorSums,
    "waiter": lambda config: Waiter(),
    "walker": lambda config: Walker(config.pix),
    "weights": Weights,
    "writemaster": lambda config: WriteMaster(),
    "write_share": lambda config: WriteShare(),
    "writes": lambda config: ProgramWrites(),
}
