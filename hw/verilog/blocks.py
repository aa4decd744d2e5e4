"""Every component that can be generated alone, by a short name, with the parameters that it has in an accelerator."""

from collections.abc import Callable

from amaranth.lib import wiring

from cnna.hw.array.conv import Conv
from cnna.hw.array.drain import Drain
from cnna.hw.array.fast_array import array_of
from cnna.hw.array.issue import Issue
from cnna.hw.array.residual import ResidualAdd
from cnna.hw.axi.lite import AxiLiteSlave
from cnna.hw.axi.read_master import ReadMaster
from cnna.hw.axi.write_master import WriteArbiter, WriteMaster
from cnna.hw.control.control import Control
from cnna.hw.control.counters import Counters
from cnna.hw.control.faults import Faults
from cnna.hw.control.regfile import RegFile
from cnna.hw.control.sequencer import Sequencer
from cnna.hw.control.writes import ProgramWrites
from cnna.hw.dma.bursts import BurstCutter
from cnna.hw.dma.load import Load, LoadPort
from cnna.hw.dma.runs import Runs
from cnna.hw.dma.store import Store, StorePort
from cnna.hw.dma.streams import StreamIn, StreamOut
from cnna.hw.lanes.look_up import LookUp
from cnna.hw.lanes.requant import Lanes, Modes
from cnna.hw.memory.feature_memory import BankRam, FeatureMemory
from cnna.hw.units.waits import UnitCounts, UnitWaiter
from cnna.hw.vector.drain import VectorDrain
from cnna.hw.vector.issue import VectorIssue
from cnna.hw.vector.products import PairProducts
from cnna.hw.vector.sums import TILE_CHANNELS, VectorSums
from cnna.hw.vector.vector import Vector
from cnna.hw.walk.fetch import Fetch
from cnna.hw.walk.scatter import Scatter
from cnna.hw.walk.walker import Walker
from cnna.hw.weights.codebook import CodeDecoder
from cnna.hw.weights.ring import vector_ring, weight_ring
from cnna.hw.weights.weights import Weights
from cnna.spec.config import BEAT_BYTES, Config

BLOCKS: dict[str, Callable[[Config], wiring.Component]] = {
    "array": array_of,
    "axilite": lambda config: AxiLiteSlave(),
    "bank": lambda config: BankRam(8 * config.ci, config.bank_words, config.depth),
    "bursts": lambda config: BurstCutter(),
    "codebook": CodeDecoder,
    "control": lambda config: Control(),
    "conv": Conv,
    "counters": lambda config: Counters(config.ports),
    "counts": lambda config: UnitCounts(),
    "depthwise": lambda config: PairProducts(min(config.ci, TILE_CHANNELS)),
    "dma": Load,  # another name for `load`, under which a reader may look for it
    "drain": Drain,
    "faults": lambda config: Faults(config.ports),
    "featmem": FeatureMemory,
    "fetch": lambda config: Fetch(config, config.pix, window=True),
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
    "tables": lambda config: LookUp(config.half * config.ci, config.ring_word_bytes),
    "vector": Vector,
    "vector_drain": VectorDrain,
    "vector_issue": VectorIssue,
    "vector_ring": vector_ring,
    "vector_sums": VectorSums,
    "vector_tables": lambda config: LookUp(config.half * config.ci, BEAT_BYTES),
    "waiter": lambda config: UnitWaiter(),
    "walker": lambda config: Walker(config.pix, window=True),
    "weights": Weights,
    "writemaster": lambda config: WriteMaster(),
    "write_share": lambda config: WriteArbiter(),
    "writes": lambda config: ProgramWrites(config.codebook),
}
