"""The banks that requests of feature memory use, one set of banks after another. `walk_parts` makes them, `shared_port` plays them.

A set of banks is a mask with a bit for each bank of every region.
"""

from collections.abc import Iterable


class Parts:
    """The sets of banks that each group of requests uses, in one list. A walk may have thousands, so none has a list of its own.

    each: how many sets every group has; 0: they differ, and `starts` has the number of each group's first set, and the end.
    """

    def __init__(self, flat: list[int], each: int, starts: list[int]) -> None:
        self.flat, self.each, self.starts = flat, each, starts

    @staticmethod
    def of_lists(lists: Iterable[list[int]]) -> "Parts":
        """The same, of a list for each group."""
        flat, starts = list[int](), [0]
        for own in lists:
            flat += own
            starts.append(len(flat))
        each = starts[1] if len(starts) > 1 else 1
        alike = each > 0 and starts == list(range(0, each * len(starts), each))
        return Parts(flat, each if alike else 0, list[int]() if alike else starts)

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.flat) // self.each if self.each else len(self.starts) - 1

    def start(self, group: int) -> int:
        """The number of a group's first set; of the group behind the last one, how many sets there are."""
        return group * self.each if self.each else self.starts[group]

    def of(self, group: int) -> list[int]:
        """The sets of a group."""
        if self.each:
            return self.flat[group * self.each : (group + 1) * self.each]
        return self.flat[self.starts[group] : self.starts[group + 1]]

    def most(self) -> int:
        """How many sets the group has that has most."""
        return self.each or max([end - start for start, end in zip(self.starts[:-1], self.starts[1:], strict=True)])


class GroupParts:
    """By group of a block, the parts that are read, and those that are written. block: its number, of `blocks` of the command."""

    def __init__(self, reads: Parts, writes: Parts, block: int = 0, blocks: int = 1) -> None:
        self.reads, self.writes, self.block, self.blocks = reads, writes, block, blocks

    def begins_command(self, group: int) -> bool:
        """Whether this is the first group of a command. Groups behind those of the block belong to the next blocks."""
        block, inside = divmod(group, len(self.writes))
        return not inside and not (self.block + block) % self.blocks
