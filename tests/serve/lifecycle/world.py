"""A server that is all states and no time: the lives of one model and two boards, and requests that are numbers.

It mirrors what the engine carries out, in the order in which the test lets it happen. A worker may be sick: its answers are wrong
from its start. A version may be bad: its golden answers differ everywhere.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from cnna.serve.lifecycle import batches, boards, versions
from cnna.serve.lifecycle.arrow import Log
from cnna.serve.lifecycle.boards import DIFFERS, HELD, WITHOUT, BoardLife
from cnna.serve.lifecycle.versions import LOADING, READY, UNLOADING, ModelLife

FAILURES, PAUSES = 5, (1.0, 60.0)
RETRIES = 2
ROUNDS = 300  # in which everything ends that has begun


@dataclass
class Board:
    """A board, and its worker. sick: the worker. has: how it has each version. running: requests, and what asks for an answer."""

    life: BoardLife = field(default_factory=BoardLife)
    alive: bool = False
    sick: bool = False
    held: dict[str, str] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)  # by a trial, not yet wanted
    running: list[int] = field(default_factory=list)

    def runs(self, version: str) -> bool:
        return self.alive and (version in self.tried or self.held.get(version) == HELD)


@dataclass
class Request:
    """version: to which it is bound. tries: of its batch. ends: how it has ended, each time."""

    version: str
    tries: int = 0
    ends: list[str] = field(default_factory=list)
    by_sick: bool = False


@dataclass
class Load:
    """One on its way. asked: what the settings say when it begins. loading: a version whose files are being read and tested."""

    asked: tuple[str, ...] | None = None
    tried: set[str] = field(default_factory=set)
    loading: str | None = None


class World:
    """good: the repository: by version, whether its golden answers are those that it gives."""

    def __init__(self) -> None:
        self.model, self.boards = ModelLife(), {"a": Board(), "b": Board()}
        self.good: dict[str, bool] = {"1": True}
        self.asked: tuple[str, ...] = ("1",)
        self.loads: list[Load] = []
        self.requests: list[Request] = []
        self.said: Counter[str] = Counter()
        self.load()
        self.settle()

    # --- what operators, publishers and clients do ---

    def publish(self, good: bool) -> None:
        """A version that is the highest, and asked for."""
        name = str(len(self.good) + 1)
        self.good[name] = good
        self.asked = (name,)

    def ask_for(self, count: int) -> None:
        """model.yaml asks for so many of the highest versions."""
        self.asked = tuple(self.good)[-count:]

    def load(self) -> None:
        self.happened(self.model.asked())
        self.loads.append(Load())

    def unload(self) -> None:
        self.happened(self.model.unload())

    def admit(self) -> bool:
        """A request to the default; one that nobody may answer is refused."""
        version = self.model.default
        if version is None or self.model.of(version).state != READY:
            return False
        if not any(self._may_run(board, version) for board in self.boards.values()):
            return False
        self.requests.append(Request(version))
        return True

    # --- what the engine does next, in any order ---

    def advance(self) -> None:
        """Goes on with the load that is first: the others wait for it."""
        if not self.loads:
            return
        load = self.loads[0]
        if load.asked is None:
            load.asked = self.asked
        if load.loading is not None:
            self._tested(load, load.loading)
            return
        what, version = versions.next_load(self.model, load.asked, load.tried)
        if what == versions.LOAD:
            load.tried.add(version)
            load.loading = version
            self.happened(self.model.found(version))
        elif what == versions.CHOOSE:
            self.happened(self.model.chosen(load.asked))
            self.loads.pop(0)
            for board in self.boards.values():  # they catch up
                board.held = {name: how for name, how in board.held.items() if how != WITHOUT}
        elif what == versions.STOP:
            self.loads.pop(0)

    def break_off(self) -> None:
        """Whoever asked for the first load has gone."""
        if self.loads and (version := self.loads.pop(0).loading) is not None:
            self._try_no_more(version)
            self.happened(self.model.broken_off(version))

    def _tested(self, load: Load, version: str) -> None:
        load.loading = None
        ready = [board for board in self.boards.values() if board.life.state == boards.READY and board.alive]
        agree = [board for board in ready if self.good[version] and not board.sick]
        if agree:
            for board in ready:
                if board in agree:
                    board.tried.add(version)
                else:
                    self._kill(board)
            self.happened(self.model.tested(version))
        else:
            self.happened(self.model.refused(version, "golden answers differ" if ready else "no board"))
        self._try_no_more(version)

    def _try_no_more(self, version: str) -> None:
        """The end of a trial: what is served now is wanted, and has been loaded by it."""
        for board in self.boards.values():
            if version in board.tried and version in self.wanted():
                board.held[version] = HELD
            board.tried.discard(version)

    def drain(self) -> None:
        """Versions that unload, and have no request any more."""
        for name, one in self.model.versions.items():
            if one.state == UNLOADING and not any(request.version == name for request in self.open()):
                self.happened(self.model.drained(name))

    def reconcile(self, name: str) -> bool:
        """One step of a board's task. Whether there was one."""
        board = self.boards[name]
        if not board.alive or board.life.state not in (boards.STARTING, boards.READY):
            return False
        step = boards.next_step(self.wanted(), board.held, board.runs, lambda version: True)
        if step is None:
            starts = board.life.state == boards.STARTING
            self.board_happened(board, board.life.loaded())
            return starts
        if step.what == "free":
            del board.held[step.version]
        elif step.what == "load":
            board.held[step.version] = HELD if self.good[step.version] and not board.sick else DIFFERS
        elif step.what == "drop":
            board.held[step.version] = WITHOUT
            others = [other for other in self.boards.values() if other is not board]
            if not any(self._may_run(other, step.version) for other in others):
                self.happened(self.model.lost(step.version, "golden answers differ"))
        else:
            self._kill(board)
        return True

    def start(self, name: str, sick: bool) -> None:
        """A board's next worker, once it may start."""
        board = self.boards[name]
        if board.life.state == boards.STARTING and not board.alive:
            board.alive, board.sick, board.held, board.tried = True, sick, {}, set()

    def rest(self, name: str) -> None:
        """A pause is over."""
        self.board_happened(self.boards[name], self.boards[name].life.rested())

    def reset(self, name: str) -> None:
        self.board_happened(self.boards[name], self.boards[name].life.reset())

    def kill(self, name: str) -> None:
        self._kill(self.boards[name])

    def spoil(self, version: str) -> None:
        """Somebody copies another network over a version."""
        self.good[version] = False

    def spoil_one(self) -> None:
        """The default, where another good version is there: otherwise nobody could tell it from bad boards."""
        if self.model.default is not None and any(self.good[one] for one in self.wanted() if one != self.model.default):
            self.spoil(self.model.default)

    def send(self, name: str) -> bool:
        """The first request that waits goes to a board."""
        board = self.boards[name]
        if board.life.state != boards.READY or not board.alive or len(board.running) == 2:
            return False
        running = {number for one in self.boards.values() for number in one.running}
        for number, request in enumerate(self.requests):
            if not request.ends and number not in running and board.runs(request.version):
                board.running.append(number)
                return True
        return False

    def answer(self, name: str, outcome: str) -> None:
        """The batch that a board has had longest comes back."""
        board = self.boards[name]
        if board.running and board.alive:
            number = board.running.pop(0)
            if outcome == batches.ANSWERED:
                self.requests[number].by_sick |= board.sick
            self._back(board, number, outcome)

    def late(self, place: int) -> None:
        """The deadline of one of the open requests is over."""
        numbers = [number for number, request in enumerate(self.requests) if not request.ends]
        if place < len(numbers):
            self._end(numbers[place], "deadline")

    # --- what follows from it ---

    def wanted(self) -> list[str]:
        return [name for name, one in self.model.versions.items() if one.state in (READY, UNLOADING)]

    def open(self) -> Iterator[Request]:
        return (request for request in self.requests if not request.ends)

    def happened(self, step: versions.Next) -> None:
        self.model, effects = step
        for effect in effects:
            if isinstance(effect, versions.EndRequests):
                for number, request in enumerate(self.requests):
                    if request.version == effect.version:
                        self._end(number, "lost")
            elif isinstance(effect, Log):
                self.said[effect.event] += 1

    def board_happened(self, board: Board, step: boards.Next) -> None:
        board.life, effects = step
        for effect in effects:
            if isinstance(effect, boards.Kill):
                self._kill(board)

    def _kill(self, board: Board) -> None:
        if not board.alive or board.life.state not in (boards.STARTING, boards.READY):
            return
        lost, board.running, board.alive, board.held, board.tried = board.running, [], False, {}, set()
        self.board_happened(board, board.life.ended("its worker died", FAILURES, PAUSES))
        for place, number in enumerate(lost):
            self._back(board, number, batches.BEHIND if place else batches.LOST)

    def _back(self, board: Board, number: int, outcome: str) -> None:
        request = self.requests[number]
        tried = batches.Tried(request.tries, RETRIES, 1, spare=False, by_spare=False)
        found = batches.verdict(tried, outcome)
        request.tries = found.tries
        if found.board:
            self._kill(board)
        if found.counts:
            self.happened(self.model.fault(request.version, next(name for name, one in self.boards.items() if one is board)))
        elif found.what == batches.DONE:
            self.happened(self.model.answered(request.version))
        if found.what in (batches.DONE, batches.END):
            self._end(number, found.cause or "answered")

    def _end(self, number: int, how: str) -> None:
        """As the engine does: what has ended already ends no more."""
        if not self.requests[number].ends:
            self.requests[number].ends.append(how)

    def _may_run(self, board: Board, version: str) -> bool:
        return boards.may_run(board.life, board.held.get(version), board.runs(version))

    # --- what must hold ---

    def check(self) -> None:
        """At any time."""
        life = self.model
        assert life.default is None or life.of(life.default).state == READY
        assert life.wanted or not any(one.state == READY for one in life.versions.values()), "the operator's last word"
        loading = [name for name, one in life.versions.items() if one.state == LOADING]
        assert loading == [load.loading for load in self.loads if load.loading], "nothing stays LOADING"
        assert all(len(request.ends) <= 1 for request in self.requests)
        assert not any(request.by_sick for request in self.requests), "a board that answers wrongly serves nothing"

    def settle(self) -> None:
        """Nothing fails any more, operators reset each board once, and all that is begun ends. Then all is as it is wanted."""
        self._operator()
        for _ in range(ROUNDS):
            before = self._seen()
            for name in self.boards:
                self.rest(name)
                self.start(name, sick=False)
                while self.reconcile(name):
                    pass
                while self.send(name):
                    self.answer(name, batches.ANSWERED)
                self.answer(name, batches.ANSWERED)
            self.drain()
            self.advance()
            self.check()
            if self._seen() != before:
                continue
            if not any(self.open()):
                break
            self._deadlines()
        self._operator()
        for name in self.boards:
            self.start(name, sick=False)
            while self.reconcile(name):
                pass
        self._check_settled()

    def _operator(self) -> None:
        """Resets boards that are out, or answer wrongly."""
        for name, board in self.boards.items():
            if board.sick or board.life.state == boards.OUT:
                self.reset(name)

    def _seen(self) -> object:
        ends = sum(len(request.ends) for request in self.requests)
        lives = [(board.life, dict(board.held), tuple(board.running)) for board in self.boards.values()]
        return self.model, lives, ends, len(self.loads), [load.loading for load in self.loads]

    def _check_settled(self) -> None:
        life, wanted = self.model, self.wanted()
        assert not self.loads
        assert not any(one.state in (LOADING, UNLOADING) for one in life.versions.values())
        if any(map(self.good.get, wanted)) or not wanted:  # otherwise nobody can tell a bad version from a bad board
            for board in self.boards.values():
                assert board.life.state == boards.READY
                assert set(board.held) == set(wanted), "what is loaded is what is wanted"
        assert all(len(request.ends) == 1 for request in self.requests), "each request ends once"
        if not life.wanted:
            assert not self.wanted()
            assert life.default is None

    def _deadlines(self) -> None:
        """Requests that nobody can answer end with their deadlines."""
        for request in self.open():
            assert not any(board.runs(request.version) for board in self.boards.values()), "it waits though it could be answered"
        for _ in list(self.open()):
            self.late(0)
