"""What becomes of a batch that has left its board: answered, tried again, cut, or given up, so that each request ends once."""

from dataclasses import dataclass

ANSWERED, DATA, LATE, BUSY, LOST, BEHIND, FAULT = "answered", "data", "late", "busy", "lost", "behind", "fault"
# data: a request's values are at fault. late: it has a deadline, and that is over. busy: the runtime cannot answer now.
# lost: the worker ended in this batch. behind: the worker ended while this batch waited. fault: the board says that it failed.
DONE, CUT, END, AGAIN, LATER, SPARE = "done", "cut", "end", "again", "later", "spare"


@dataclass(frozen=True)
class Tried:
    """A batch. tries: how often it failed by a board or a runtime. retries: how often it may. requests: of how many it has samples.

    spare: its version has a fallback. by_spare: the fallback is all that it asks for. closed: the server ends.
    """

    tries: int
    retries: int
    requests: int
    spare: bool
    by_spare: bool
    closed: bool = False


@dataclass(frozen=True)
class Verdict:
    """What to do with the batch, and why its requests end, for the statistics. tries: as they are now.

    board: the board is at fault, and must be tested again. counts: the version may be at fault.
    """

    what: str
    tries: int
    cause: str = ""
    board: bool = False
    counts: bool = False


def verdict(batch: Tried, outcome: str) -> Verdict:
    """One request's data fail that request alone; all else is the board's, the version's or the runtime's."""
    if outcome == ANSWERED:
        return Verdict(DONE, batch.tries)
    if outcome == DATA:
        return Verdict(CUT if batch.requests > 1 else END, batch.tries, "data")
    if outcome == LATE:
        return Verdict(END, batch.tries, "deadline")
    tries = batch.tries + (outcome != BEHIND)
    board, counts = outcome == FAULT, outcome in (LOST, FAULT) and not batch.closed
    if batch.closed:
        return Verdict(DONE, tries, board=board)
    if tries <= batch.retries:
        return Verdict(LATER if outcome == BUSY else AGAIN, tries, "", board, counts)
    if batch.spare and not batch.by_spare:
        return Verdict(SPARE, 0, "", board, counts)
    return Verdict(END, tries, "board", board, counts)
