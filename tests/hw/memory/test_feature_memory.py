"""Feature memory under all its ports at once, against a history of every address and the ordering rule of `ports.FeatureWrite`."""

from collections import defaultdict, deque
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Value

from cnna.hw.memory.feature_memory import LATENCY, FeatureMemory, port_signatures
from cnna.spec.config import Config
from cnna.spec.program.decks import located
from cnna.spec.regmap import DECK_BIT

from ... import configurations
from ...rigs.fields import Fields

TINY = Config("tiny", pix=2, ci=4, co=8, ports=1, regions=4, bank_words=128, ring_words=64, vector_ring_words=256)
ODD = replace(configurations.ODD, bank_words=128)
WIDE = Config("wide", pix=8, ci=16, co=32, ports=4, regions=1, bank_words=128, ring_words=64, vector_ring_words=256)
ULTRA = replace(TINY, name="ultra", uram=True)
DEEP = Config("deep", pix=4, ci=4, co=8, ports=1, regions=4, bank_words=128, ring_words=64, vector_ring_words=256, depth=2)
WRITERS = ("conv_write", "vector_write", "load")
Request = dict  # members of the port's request layout


class FeatureMemoryBench:
    """Feeds every port from its own generator, at its own pace, and checks each answer.

    Only one port writes an address, so that the words there have an order. A read may return the last word whose write was known to
    be seen when the read was taken, or a later word.
    """

    def __init__(self, replay, config: Config, requests: dict[str, deque[Request]], paces: dict[str, float], seed: int) -> None:
        self.config, self.requests, self.paces = config, requests, paces
        self.rng = np.random.default_rng(seed)
        self.simulation = replay(FeatureMemory, config)
        self.dut = self.simulation.design
        self.history: dict[int, list[int]] = defaultdict(lambda: [0])
        self.seen: dict[int, int] = defaultdict(int)  # index into the history
        self.unseen: dict[str, deque] = {name: deque() for name in WRITERS}
        self.asked: dict[str, deque] = {name: deque() for name in requests if name not in WRITERS}
        self.taken: dict[str, list[int]] = {name: [] for name in requests}  # clocks
        self.answered: dict[str, list[int]] = {name: [] for name in requests}
        self.clock = 0

    def run(self) -> None:
        """Plays all requests and waits for their answers."""
        self.simulation.run(self._play)
        assert not any(self.asked.values()), "answers are missing"

    async def _play(self, ctx) -> None:
        names = list(self.requests)
        offered: dict[str, Request] = {}
        watched = []
        ports = {name: getattr(self.dut, name) for name in names}
        self.answers = {name: Fields(ports[name].response.p.shape()) for name in names if name not in WRITERS}
        for name, port in ports.items():
            watched += [
                port.request.ready,
                *([port.done] if name in WRITERS else [port.response.valid, Value.cast(port.response.p)]),
            ]
        requested = {name: (Value.cast(port.request.p), Fields(port.request.p.shape())) for name, port in ports.items()}
        while offered or any(self.requests.values()) or any(self.asked.values()) or any(self.unseen.values()):
            assert self.clock < 20000, "a port has stopped"
            for name in names:
                if name not in offered and self.requests[name] and self.rng.random() < self.paces[name]:
                    offered[name] = self.requests[name].popleft()
                    payload, fields = requested[name]
                    ctx.set(payload, fields.pack(offered[name]))
                ctx.set(ports[name].request.valid, name in offered)
            _, _, *values = await ctx.tick().sample(*watched)
            self._step(offered, iter(values))
            self.clock += 1

    def _step(self, offered: dict[str, Request], values) -> None:
        """One clock: writes that are seen, then requests, then answers."""
        answers = []
        takes = []
        for name in self.requests:
            if next(values) and name in offered:
                takes.append((name, offered.pop(name)))
            if name in WRITERS:
                if next(values):
                    self._see(name)
            else:
                answers.append((name, next(values), next(values)))
        for name, request in takes:
            self.taken[name].append(self.clock)
            self._take(name, request)
        for name, valid, payload in answers:
            if valid:
                self.answered[name].append(self.clock)
                self._check(name, self.answers[name].read(payload))

    def _take(self, name: str, request: Request) -> None:
        lanes = [i for i in range(len(request["address"])) if request["active"] >> i & 1]
        if name not in WRITERS:
            places = [(i, deck, place) for i in lanes for deck, place in self._places(name, request["address"][i])]
            self.asked[name].append((request["tag"], [(i, deck, place, self.seen[place]) for i, deck, place in places]))
            return
        for i in lanes:
            self.history[request["address"][i]].append(request["words"][i])
        self.unseen[name].append(
            ({request["address"][i]: len(self.history[request["address"][i]]) - 1 for i in lanes}, request["last"])
        )

    def _places(self, name: str, address: int) -> list[tuple[int, int]]:
        """(number of a word in an answer, its address). The array's reads bring the words of both decks."""
        if self.config.depth == 1 or name != "conv_read":
            return [(0, address)]
        return [(deck, located(address, deck, 2)) for deck in (0, 1)]

    def _see(self, name: str) -> None:
        """Notes that `done` has pulsed."""
        last = False
        while not last:
            assert self.unseen[name], f"{name}: done without a request"
            indices, last = self.unseen[name].popleft()
            self.seen.update(indices)

    def _check(self, name: str, payload) -> None:
        assert self.asked[name], f"{name}: an answer too many"
        tag, lanes = self.asked[name].popleft()
        assert payload.tag == tag, f"{name}: tag {payload.tag}, not {tag}"
        bits = 8 * self.config.ci
        for lane, number, address, since in lanes:
            assert payload.words[lane] >> bits * number & (1 << bits) - 1 in self.history[address][since:], (
                f"{name}: lane {lane}, address {address}, clock {self.clock}"
            )


def lanes_of(config: Config) -> dict[str, tuple[int, int]]:
    """Lanes and tag bits of each port."""
    shapes = {
        name: signature.members["request"].signature.members["payload"].shape for name, signature in port_signatures(config).items()
    }
    return {name: (s["active"].width, s["tag"].width if "tag" in s.members else 0) for name, s in shapes.items()}


def random_requests(config: Config, rng: np.random.Generator, name: str, count: int, rows: int) -> deque[Request]:
    """Requests to the first `rows` rows of every bank. Rows are dealt to the writers; all ports meet in all banks."""
    lanes, tag_bits = lanes_of(config)[name]
    row_words = config.banks * config.bank_words // config.depth
    requests: deque[Request] = deque()
    for _ in range(count):
        row = rng.integers(rows, size=lanes)
        if name in WRITERS:
            row = row // len(WRITERS) * len(WRITERS) + WRITERS.index(name)
        run = np.arange(lanes) + rng.integers(config.banks)  # neighbours, mostly: those meet in no bank
        bank = (run if rng.random() < 0.6 else rng.integers(config.banks, size=lanes)) % config.banks
        region = rng.integers(config.regions, size=lanes if rng.random() < 0.3 else 1)
        deck = rng.integers(config.depth, size=lanes) << DECK_BIT
        request = {"address": (region * row_words + row * config.banks + bank + deck).tolist()}
        request["active"] = int(rng.integers(1 << lanes))
        request["active"] |= (1 << lanes) - 1 if rng.random() < 0.6 else 0
        if name in WRITERS:
            request["words"] = [int.from_bytes(rng.bytes(config.ci), "little") for _ in range(lanes)]
            request["last"] = int(rng.random() < 0.3)
        else:
            request["tag"] = int(rng.integers(1 << tag_bits))
        requests.append(request)
    if name in WRITERS:
        requests[-1]["last"] = 1
    return requests


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("config", [TINY, ODD, WIDE, DEEP, ULTRA], ids=lambda config: config.name)
def test_reads_see_writes_in_order(replay, config, share, seed):
    """A word would be lost, late, or in the wrong lane, bank, row or region; or an answer be out of order; or `done` come too
    soon.
    """
    rng = np.random.default_rng([seed, config.pix])
    names = list(port_signatures(config))
    requests = {name: random_requests(config, rng, name, int(20 + 60 * share), rows=6) for name in names}
    paces = {name: min(1.0, share * rng.uniform(0.5, 2)) for name in names}
    FeatureMemoryBench(replay, config, requests, paces, seed).run()


def streaming(config: Config, name: str, region: int, step: int = 1, advance: int = 1) -> deque[Request]:
    """Requests for lanes `step` words apart, each request `advance` words further than the one before."""
    lanes, tag_bits = lanes_of(config)[name]
    start = region * config.banks * config.bank_words
    requests: deque[Request] = deque()
    for number in range(40):
        request = {"address": [start + number * advance + step * lane for lane in range(lanes)], "active": (1 << lanes) - 1}
        request |= {"words": [number] * lanes, "last": 1} if name in WRITERS else {"tag": number % (1 << tag_bits)}
        requests.append(request)
    return requests


def play(replay, config: Config, requests: dict[str, deque[Request]]) -> FeatureMemoryBench:
    """Lets all ports offer their next request at once."""
    bench = FeatureMemoryBench(replay, config, requests, dict.fromkeys(requests, 1.0), 0)
    bench.run()
    return bench


@pytest.mark.parametrize("name", port_signatures(TINY))
def test_a_request_a_clock(replay, name):
    """A port by itself would not keep up, or an answer would be later than promised."""
    bench = play(replay, TINY, {name: streaming(TINY, name, region=2)})
    assert set(np.diff(bench.taken[name])) == {1}
    if name not in WRITERS:
        assert {answer - taken for taken, answer in zip(bench.taken[name], bench.answered[name], strict=True)} == {LATENCY}


def test_regions_do_not_meet(replay):
    """Ports would hinder each other though they work in different regions, or something would hinder the array's reads."""
    regions = {"conv_read": 0, "conv_write": 0, "residual_read": 1, "vector_read": 2, "store": 3}
    bench = play(replay, TINY, {name: streaming(TINY, name, region) for name, region in regions.items()})
    for name in regions:
        assert set(np.diff(bench.taken[name])) == {1}, name


def test_lanes_of_one_bank_take_a_clock_each(replay):
    """Conflicts within a request would cost more than they must."""
    lanes, _ = lanes_of(ODD)["conv_read"]
    bench = play(replay, ODD, {"conv_read": streaming(ODD, "conv_read", region=0, step=ODD.banks)})
    assert set(np.diff(bench.taken["conv_read"])[2:]) == {lanes}  # two wait in the front


def test_priority(replay):
    """The lower of two ports that want the same banks would hinder the higher one, or never be served after it."""
    names = ["residual_read", "vector_read"]
    bench = play(replay, WIDE, {name: streaming(WIDE, name, region=0, advance=0) for name in names})
    assert set(np.diff(bench.taken["residual_read"])) == {1}
    assert bench.answered["vector_read"][0] > bench.answered["residual_read"][-2]


def test_done_waits_for_the_banks(replay):
    """`done` would come when a write is accepted but does not have its banks yet, which higher ports may keep for long."""
    lanes, _ = lanes_of(TINY)["load"]
    row = [TINY.banks + lane for lane in range(lanes)]
    load = deque([{"address": row, "active": (1 << lanes) - 1, "words": [1 + lane for lane in range(lanes)], "last": 1}])
    reads = deque({"address": row[:2], "active": 3, "tag": number} for number in range(80))
    bench = play(
        replay, TINY, {"residual_read": streaming(TINY, "residual_read", region=0, advance=0), "load": load, "conv_read": reads}
    )
    assert bench.seen[row[0]] == 1
    assert bench.answered["conv_read"][-1] > bench.answered["residual_read"][-1] + 20
