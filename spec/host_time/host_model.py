"""What turns the host's work into seconds: every constant with its range and its source, for the Cortex-A53 of a ZCU102.

No board has confirmed any of it. The quick end of a range is what a careful optimist expects, the slow end what a careful pessimist
expects. A source says what was read or counted, and what was assumed. `spec.cortex_a53` computes with these.
"""

from dataclasses import dataclass

from cnna.spec.host_time.host_work import HostWork

ASSUMED = "assumed; no published figure was found"


@dataclass(frozen=True)
class Constant:
    """A number between `quick` and `slow`, in `unit`. source: who says so, and whether that was read."""

    quick: float
    slow: float
    unit: str
    source: str

    def __post_init__(self) -> None:
        assert 0 < self.quick <= self.slow or self.quick == 0 <= self.slow, f"{self.quick} to {self.slow} is no range"

    @property
    def middle(self) -> float:
        """Between the ends, where one number is needed: to choose between two placements."""
        return (self.quick + self.slow) / 2


@dataclass(frozen=True)
class Counted:
    """Work that `make host-cost` counted, by which the work for other models is estimated."""

    work: HostWork
    source: str


# --- the processor ---

CLOCK_SECONDS = Constant(1 / 1.2e9, 1 / 1.2e9, "s a clock", "AMD DS925: the APU of a ZCU102 runs at 1.2 GHz; not read here")
INTERPRETER_CLOCKS = Constant(
    *(1.5, 3.0, "clocks an instruction of CPython"),
    "assumed; no published figure for CPython on an A53 was found. The core issues two in order, and misses its 32 KiB of code",
)
LIBRARY_CLOCKS = Constant(1.0, 2.0, "clocks an instruction of compiled code", f"{ASSUMED}; the core issues two in order")
LOOP_FACTOR = Constant(
    *(1.0, 1.5, "clocks for a clock of llvm-mca"),
    "LLVM 14's model of the A53 (AArch64SchedA53.td), run here; it foretells every branch and has every access in the first"
    " cache, so the slow end is assumed",
)
L2_HIT_CLOCKS = Constant(
    *(4, 15, "clocks a line that the first cache lacks"),
    "Hennessy and Patterson, 6th edition, as excerpts have it: 13 clocks; chipsandcheese.com measured an A53, but its figures were"
    " not read; the quick end assumes that streams are fetched ahead",
)
DDR_SECONDS = Constant(
    *(32e-9, 150e-9, "s a line that both caches lack"),
    "TI SPRADO9, read: bw_mem 8M bcopy moves 1,000 MB/s on an A53 at 1.25 GHz, so a line read and a line written take 64 ns; the"
    " slow end is an assumed latency without fetching ahead",
)

STREAM_SECONDS = Constant(
    *(26e-9, 64e-9, "s a line that both caches lack, which was asked for early"),
    "LLNL lime, test/mem/src/test_results.txt, read: on an UltraScale+, memcpy reads and writes 3,761 MB/s together and memset"
    " writes 8,337, so a line read takes 26 ns; the slow end: TI SPRADO9, as above, if writing the copy takes no time at all",
)
WRITE_SECONDS = Constant(
    *(64 / 3.6e9, 64 / 2.14e9, "s a line that is written from end to end and goes past the caches"),
    "LLNL lime, test/mem (zup/results/mem_sidewinder.txt, src/test_results.txt), read: on an UltraScale+, one A53 writes 7,196 and"
    " 8,337 MB/s by memset, and 2,140 where the PL lies between it and DDR, which is the slow end. The quick end: four cores share"
    " the 14.4 GB/s of Manev and others (below)",
)

# --- the accelerator's memory and registers ---

BUFFER_READ_SECONDS = Constant(
    *(1 / 250e6, 1 / 130e6, "s a byte of uncached memory that is read"),
    "ikwzm/udmabuf on Zynq UltraScale+, read: issue 16 copies at 250 MB/s in assembler, issue 97 reads 130 MB/s on a ZCU102",
)
BUFFER_WRITE_SECONDS = Constant(
    *(1 / 800e6, 1 / 250e6, "s a byte of uncached memory that is written"),
    "ikwzm/udmabuf issue 16, read: a copy moves 800 MB/s cached and 250 MB/s uncached; that writes lie between them is assumed",
)
REGISTER_READ_SECONDS = Constant(
    *(150e-9, 310e-9, "s a register that is read"),
    "a Xilinx forum's thread 1096094, read: 304 ns from an R5 of an UltraScale+ over an AXI interconnect; the quick end is assumed",
)
REGISTER_WRITE_SECONDS = Constant(
    *(50e-9, 320e-9, "s a register that is written"),
    "the same thread, read: 314 ns from an R5; the quick end assumes that the A53 does not wait for the response",
)
LINE_SECONDS = Constant(
    *(64 / 14.4e9, 32e-9, "s a line that is cleaned or invalidated"),
    "the quick end: 64 bytes at the 14.4 GB/s of Manev and others (below); the slow end: half of what TI SPRADO9 measured for a"
    " line read and a line written. That cleaning takes no longer than a copy is assumed",
)
WHOLE_LINES = Constant(
    *(127, 127, "lines in a row that are written from end to end and still go into the second cache"),
    "Arm DDI 0500D, 6.2.4, read: a threshold, RADIS of 4.3.66, whose values are 16, 128 and 512; that it is 128 is assumed, as"
    " `tools/host_cost/counter.cpp` has it. Of a picture it is one line in a hundred",
)
ABSENT_SECONDS = Constant(
    *(4 / 1.2e9, 30 / 1.2e9, "s a line that is cleaned, and that no cache has"),
    f"{ASSUMED}. Nothing is written: the quick end is a look-up that others overlap, the slow end twice what a line from the second"
    " cache takes at its slow end (above)",
)
DDR_TAKEN_SECONDS = Constant(
    *(0, 1 / 14.4e9, "s of the accelerator for a byte that the host moves"),
    "Manev and others, FPT 2019, abstract read: a ZCU102 reaches 75 % of its DDR's peak; plans assume that the accelerator has"
    " these 48 bytes a clock of 300 MHz, so the slow end takes the host's bytes from them",
)

LAUNCH_SECONDS = Constant(
    *(32 / 300e6, 36 / 300e6, "s from the end of a run to the first clock of the next one in the queue"),
    "docs/queue.md: 32 to 36 clocks in simulation, at 300 MHz",
)

# --- the kernel ---

CALL_SECONDS = Constant(0.3e-6, 1.5e-6, "s a system call that does little", ASSUMED)
FILE_SECONDS = Constant(3e-6, 15e-6, "s a system call that looks for a path or changes a file", ASSUMED)
CLOCK_CALL_SECONDS = Constant(0.05e-6, 0.2e-6, "s a look at the clock", f"{ASSUMED}; Linux answers it without entering the kernel")
SYNC_SECONDS = Constant(1e-6, 5e-6, "s an ioctl of XRT", ASSUMED)
WAKE_SECONDS = Constant(
    *(25e-6, 120e-6, "s from the end of a run until Python knows"),
    f"`host.board.run_wait` looks every 50 us, to which Linux adds up to 50 us of timer slack; the switch is {ASSUMED}",
)
LATE_SHARE = Constant(0, 1 / 16, "of a run, by which its end is noticed late", "`host.board.run_wait.POLL_PART` at the slow end")
LOOP_LOOK_SECONDS = Constant(
    *(0.5e-6, 5e-6, "s from the end of a run until the run loop sees it, where it has cores to spare"),
    "`host/native/loop.cpp` reads STATUS without a pause while a run is about to end; a read takes up to 0.31 us (above), and what"
    " is around it is assumed",
)
LOOP_WAKE_SECONDS = Constant(
    *(5e-6, 50e-6, "s from the end of a run until the run loop sees it, on one core"),
    f"`host/native/loop.cpp` looks every 20 us, without timer slack; the switch to the thread is {ASSUMED}",
)
LOOP_LATE_SHARE = Constant(
    0, 1 / 64, "of a run, by which the run loop notices its end late, on one core", "`loop.cpp`'s LATE_PART at the slow end"
)
THREAD_SECONDS = Constant(5e-6, 50e-6, "s until a thread that sleeps goes on, once another wakes it", ASSUMED)
PACK_SHARE = Constant(
    *(1 / 4, 1 / 3, "of one core's time, for what four threads share"),
    "`host/native/loop_packing.cpp`: they share seven bands, and unpacking as an eighth part. So it is a quarter at best; that"
    " caches, DDR, parts of different size and Python's own work make it no more than a third is assumed",
)

# --- pieces on the CPU, by onnxruntime: four cores, for one image ---

NODE_SECONDS = Constant(10e-6, 30e-6, "s to call one operator", ASSUMED)
ELEMENT_SECONDS = Constant(
    1.25e-9, 3.75e-9, "s to read or write a float32 in an operator", f"{ASSUMED}; TI SPRADO9: 4 ns to copy one"
)
MAC_SECONDS = Constant(
    0.13e-9, 0.37e-9, "s a multiply-accumulate in float32", "4 cores x 1.2 GHz x 2 in NEON, at 80 to 28 % (assumed)"
)
PIECE_SECONDS = Constant(100e-6, 300e-6, "s to call onnxruntime for a piece", "make host-cost: 131,000 instructions with a softmax")
VIEW_SECONDS = Constant(1e-6, 3e-6, "s to give an array another shape in numpy", ASSUMED)
PIECE_FACTOR = Constant(
    *(0.7, 4.6, "times the sum of these constants' middles"),
    "make host-cost: yolov8n's piece takes 246 to 520 ms on one core where the sum is 57 ms for four; how it divides is assumed",
)
ONE_CORE = Constant(2, 3.8, "times as long on one core as on four", "onnxruntime's operators share their work unevenly (assumed)")

# --- the work of Python's path, by which that of any model is estimated ---

_STREAM = "make host-cost, session.stream of resnet50, vgg19, squeezenet and yolov8n"
BATCH = Counted(  # what Python does around the stages of a batch
    HostWork(278_000, 240_000, read=0.8e6, written=0.55e6, l1_misses=10_600, l2_misses=4_200, calls={"clock_gettime": 3}),
    f"{_STREAM}: stage python",
)
RUN = Counted(  # a start and the look at its end: registers, counters
    HostWork(
        *(328_000 + 550_000, 30_000),
        read=1.8e6,
        written=1.16e6,
        l1_misses=12_700,
        l2_misses=1_000,
        register_reads=20,
        register_writes=4,
        calls={"clock_gettime": 1},
    ),
    f"{_STREAM}: stages start and wait",
)
ALONE = Counted(  # what `session.run` of one batch does besides
    HostWork(
        *(1_000_000, 60_000),
        read=2.1e6,
        written=1.4e6,
        l1_misses=13_000,
        register_reads=1,
        register_writes=14,
        calls={"clock_gettime": 20, "openat": 1, "newfstatat": 2, "ftruncate": 1, "flock": 1, "lseek": 14, "read": 2, "write": 1}
        | {"close": 1, "getpid": 1, "ioctl": 1, "uname": 1},
    ),
    "make host-cost, session.run of the same",
)
INPUT = Counted(  # an input port of a run
    HostWork(219_000 + 12_000, 85_000, l1_misses=2_000, calls={"ioctl": 1}), f"{_STREAM}: stages quantise, pack and cache"
)
PLACE = Counted(HostWork(29_000, 20_000), f"{_STREAM}: stage pack, for each pixel of the image that a folded pixel holds")
TABLE_ELEMENT = Counted(HostWork(0, 0, 20, 37, l1_misses=0.33), f"{_STREAM}: stage quantise, for an element of uint8")
PACK_ELEMENT = Counted(HostWork(0, 0, 4.8, 6.9, l1_misses=0.34), f"{_STREAM}: stage pack, for an element of the folded picture")
OUTPUT = Counted(HostWork(116_000 + 12_000, 33_000, l1_misses=2_200, calls={"ioctl": 1}), f"{_STREAM}: stages unpack and cache")
UNPACK_ELEMENT = Counted(
    HostWork(0, 11, 8, 14.8, l1_misses=0.44), f"{_STREAM}: stages unpack and python, for an element of an output"
)

# --- the work of the native library's path: `spec.host_time.native_work` adds it up for any model ---

_NATIVELY = "make host-cost HOST=native and cached: 23 classifiers, unet, espcn, dbnet and yolov8n"
NATIVE_BATCH = Counted(  # a batch that the run loop completes: Python, the registers of one run, and the loop itself
    HostWork(
        *(48_334, 10_896 + 5_526),
        l1_misses=1_385,
        l2_misses=68,
        register_reads=20,
        register_writes=18,
        native=5_526,
        calls={"clock_gettime": 3.7, "futex": 5.6, "getpid": 2, "ppoll": 0.7, "read": 0.7, "write": 1},
    ),
    f"{_NATIVELY}: stage python",
)
NATIVE_ALONE = Counted(  # what `session.run` of one batch like one before does besides, or spares
    HostWork(
        *(-12_622, -1_761),
        l1_misses=-370,
        l2_misses=-13,
        register_reads=7,
        calls={"clock_gettime": 6, "flock": 2, "pread64": 1, "futex": -1, "getpid": -1, "ppoll": -0.7, "read": -0.7, "write": -1},
    ),
    f"{_NATIVELY}: session.run less session.stream; it is one call of the library",
)
NATIVE_ALONE_GENERAL = Counted(  # the same of a batch that has pieces on the CPU
    HostWork(
        *(75_300, 2_700),
        l1_misses=1_650,
        register_reads=7,
        calls={"clock_gettime": 9.3, "flock": 2, "getpid": 2, "pread64": 1},
    ),
    "make host-cost HOST=native and cached: session.run less session.stream of yolov8n",
)
NATIVE_GENERAL = Counted(  # what Python does more for a batch that has pieces on the CPU
    HostWork(414_500, 55_000, l1_misses=8_000, l2_misses=3_000), "make host-cost HOST=native and cached: stage python of yolov8n"
)
_BOXES = "make host-cost HOST=boxes: yolov5n and yolov8n at 640x640, in a stream of cnna.Detector"
DETECTOR_PYTHON = Counted(
    HostWork(64_800, 31_900, l1_misses=2_300, l2_misses=1_650), f"{_BOXES}: what Python does more than for a classifier"
)
INT8_UNIT = Counted(  # more than UNPACK_UNIT, instead of floats
    HostWork(0, 0, 5.87, 13.96, l1_misses=0.54, l2_misses=0.65, native=5.87),
    "yolov8n at 640x640 in a stream of cnna.Detector, counted before words were scanned in place: for 16 bytes that are unpacked to"
    " int8, and looked through",
)
SCAN_WORD = Counted(HostWork(0, 0, 3.66, 8.56, native=3.66), f"{_BOXES}: for a word that is scanned where it lies")
SCAN_GRID = Counted(HostWork(0, 9_500, native=9_500), f"{_BOXES}: for a grid of such words: its thresholds")
NATIVE_START = Counted(HostWork(register_reads=20, register_writes=18), f"{_NATIVELY}: of a run")
NATIVE_ELEMENT = Counted(  # of an input of uint8
    HostWork(0, 0, 0.9184, 0.9799, l1_misses=0.01744, streamed=0.01583, native=0.9184), f"{_NATIVELY}: stage pack, fitted"
)
NATIVE_UNIT = Counted(HostWork(0, 0, 2.883, 3.134, native=2.883), f"{_NATIVELY}: stage pack, fitted, for 16 bytes of the port")
NATIVE_ACROSS = Counted(
    HostWork(0, 0, 0.516, 0.6, native=0.516), f"{_NATIVELY}: stage pack, fitted, for 16 bytes that take one more row of the picture"
)
NATIVE_ROW = Counted(HostWork(0, 128.4, native=128.4), f"{_NATIVELY}: stage pack, fitted, for a row of the picture")
NATIVE_WORDS = Counted(HostWork(0, 144.2, native=144.2), f"{_NATIVELY}: stage pack, fitted, for 16 bytes of each pixel of a row")
NATIVE_CLEAN = Counted(HostWork(0, 0.0099, 2.125, 3.126, l1_misses=0.0322, native=2.135), f"{_NATIVELY}: stage pack, for a line")
NATIVE_INVALIDATE = Counted(
    HostWork(0, 0.0526, 2.02, 2.941, l1_misses=0.9986, l2_misses=1, lines=1, native=2.073),
    f"{_NATIVELY}: stage python, for a line of an output",
)
UNPACK_UNIT = Counted(HostWork(0, 0, 3.5, 6.2, native=3.5), f"{_NATIVELY}: stage python, for 16 bytes of an output")
NATIVE_FLOAT = Counted(
    HostWork(0, 0, 2.03, 3.55, l1_misses=0.01, l2_misses=0.01, past=1 / 16, native=2.03),
    f"{_NATIVELY}: stage python, for an element of an output",
)
NATIVE_SOFTMAX = Counted(HostWork(0, 6.13, 9.46, 36.85, native=15.6), f"{_NATIVELY}: stage python, for a value")
NATIVE_RUN_SECONDS = Constant(
    *(0.1e-3, 1.0e-3, "s of Python for a run of a batch beyond its first"),
    "no row with two programs was counted; assumed are 80,000 to 400,000 instructions of Python, as a batch with a piece on the CPU"
    " takes more than one without",
)
FLOAT_SECONDS = Constant(
    *(2e-9, 10e-9, "s a float32 that is divided and rounded before it is packed"),
    "no row with floats was counted; `host/native/runs.cpp` divides, which takes the core several clocks; assumed",
)
L2_BYTES = 1 << 20  # of the second cache: a picture of more elements comes from DDR each time
