"""Which row makes room, slowly: each policy keeps rows in plain lists."""

# ruff: noqa: ARG002, D102 - all have the methods of one interface
from __future__ import annotations

from typing import Any

Held = set[int]
NEVER = float("inf")


class _Policy:
    """What a policy is told, and asked for: a row was found, one makes room, one came in, one is gone."""

    def __init__(self, capacity: int, num_rows: int, levels: list[int] | None) -> None:
        self.capacity = capacity


class Lru(_Policy):
    """The least recently used one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.used: list[int] = []  # the least recently used first

    def touch(self, row: int) -> None:
        self.used.remove(row)
        self.used.append(row)

    def victim(self, row: int, held: Held) -> int | None:
        if set(self.used) <= held:
            return None
        while self.used[0] in held:  # it is being used
            self.touch(self.used[0])
        return self.used.pop(0)

    def insert(self, row: int, slot: int) -> None:
        self.used.append(row)

    def remove(self, row: int) -> None:
        self.used.remove(row)


class Clock(_Policy):
    """A hand goes round the slots; a row that was used since it came by gets another round."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rows: dict[int, int] = {}  # by slot
        self.used: set[int] = set()
        self.hand = 0

    def touch(self, row: int) -> None:
        self.used.add(row)

    def victim(self, row: int, held: Held) -> int | None:
        if set(self.rows.values()) <= held:
            return None
        while True:
            other = self.rows[self.hand]
            self.hand = (self.hand + 1) % self.capacity
            if other in held:
                continue
            if other not in self.used:
                return other
            self.used.remove(other)

    def insert(self, row: int, slot: int) -> None:
        self.rows[slot] = row
        self.used.discard(row)

    def remove(self, row: int) -> None:
        self.rows = {slot: other for slot, other in self.rows.items() if other != row}


class Sieve(_Policy):
    """A hand goes from the oldest row to the newest; the first that was not used since it came by makes room."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rows: list[int] = []  # the oldest first
        self.used: set[int] = set()
        self.hand: int | None = None  # a row; None stands for the oldest

    def _behind(self, row: int) -> int | None:
        place = self.rows.index(row) + 1
        return self.rows[place] if place < len(self.rows) else None

    def touch(self, row: int) -> None:
        self.used.add(row)

    def victim(self, row: int, held: Held) -> int | None:
        if set(self.rows) <= held:
            return None
        while True:
            other = self.rows[0] if self.hand is None else self.hand
            self.hand = self._behind(other)
            if other in held:
                continue
            if other not in self.used:
                self.rows.remove(other)
                return other
            self.used.remove(other)

    def insert(self, row: int, slot: int) -> None:
        self.rows.append(row)
        self.used.discard(row)

    def remove(self, row: int) -> None:
        if self.hand == row:
            self.hand = self._behind(row)
        self.rows.remove(row)


class S3Fifo(_Policy):
    """A small queue, a main one, and ghosts of what left the small one."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.small: list[int] = []  # all three: the oldest first
        self.main: list[int] = []
        self.ghosts: list[int] = []
        self.uses: dict[int, int] = {}
        self.small_size = max(self.capacity // 10, 1)

    def touch(self, row: int) -> None:
        self.uses[row] = min(self.uses[row] + 1, 3)

    def victim(self, row: int, held: Held) -> int | None:
        while not set(self.small + self.main) <= held:
            main_has_free = not set(self.main) <= held
            small_has_free = not set(self.small) <= held
            if small_has_free and (len(self.small) >= self.small_size or not main_has_free):
                chosen = self._leave_small(held)  # none if all that are free have gone on to the main queue
                if chosen is not None:
                    return chosen
            else:
                return self._leave_main(held)
        return None

    def _leave_small(self, held: Held) -> int | None:
        while not set(self.small) <= held:
            other = self.small.pop(0)
            if self.uses[other] > 1:
                self.main.append(other)
                self.uses[other] = 0
            elif other in held:
                self.small.append(other)
            else:
                self._remember(other)
                return other
        return None

    def _leave_main(self, held: Held) -> int:
        while True:
            other = self.main.pop(0)
            if other not in held:
                if self.uses[other] == 0:
                    return other
                self.uses[other] -= 1
            self.main.append(other)

    def _remember(self, row: int) -> None:
        size = self.capacity - min(self.capacity, self.small_size)
        self.ghosts = [*self.ghosts, row][-size:] if size else []

    def insert(self, row: int, slot: int) -> None:
        self.uses[row] = 0
        if row in self.ghosts:
            self.ghosts.remove(row)
            self.main.append(row)
        else:
            self.small.append(row)

    def remove(self, row: int) -> None:
        (self.main if row in self.main else self.small).remove(row)


class LookAhead(_Policy):
    """Belady's rule for what is expected, behind that the level of a row: how often it was used, or what was given."""

    def __init__(self, capacity: int, num_rows: int, levels: list[int] | None) -> None:
        super().__init__(capacity, num_rows, levels)
        self.levels = levels
        self.counts = [0] * num_rows
        self.reads: dict[int, list[int]] = {}  # by number, those that are over included while one before them is not
        self.awaited: set[int] = set()  # numbers of those that are to come
        self.end_number = 0
        self.current: int | None = None
        # Of each row, in the order in which they came to stand where they are among their equals.
        self.rows: dict[int, tuple[float, int]] = {}  # number of the next read (or infinity), level
        self.held: dict[int, float] = {}  # of rows that reads hold: the number of the next read

    def _count(self, ids: list[int]) -> None:
        for row in ids:
            self.counts[row] += 1

    def _level(self, row: int) -> int:
        if self.levels is not None:
            return self.levels[row]
        count = self.counts[row]
        if count < 64:
            return count
        doublings = count.bit_length() - 4
        return 64 + 8 * (doublings - 3) + (count >> doublings) - 8

    def _after(self, number: float, row: int) -> float:
        """Return the next read to come behind read `number` that uses a row."""
        return min((other for other in self.awaited if other > number and row in self.reads[other]), default=NEVER)

    def _next(self, row: int) -> float:
        """Return the next use for the read at hand; one that was not expected knows the last one alone."""
        if self.current is not None:
            return self._after(self.current, row)
        last = max((number for number, ids in self.reads.items() if row in ids), default=NEVER)
        return last if last in self.awaited else NEVER

    def _put(self, row: int, following: float) -> None:
        self.rows.pop(row, None)
        self.rows[row] = (following, self._level(row))

    def expect(self, ids: list[int]) -> None:
        self._count(ids)
        self.reads[self.end_number] = list(ids)
        self.awaited.add(self.end_number)
        for row in dict.fromkeys(ids):
            if row in self.rows and self.rows[row][0] not in self.awaited:
                self._put(row, self.end_number)
            if row in self.held and self.held[row] not in self.awaited:
                self.held[row] = self.end_number
        self.end_number += 1

    def expect_nothing(self) -> None:
        known = [row for row in self.rows if self.rows[row][0] != NEVER]
        for row in sorted(known, key=lambda row: self.rows[row][0]):  # from the nearest use to the farthest
            self._put(row, NEVER)
        self.held = dict.fromkeys(self.held, NEVER)
        self.reads, self.awaited = {}, set()

    def begin(self, ids: list[int]) -> None:
        self.current = min((number for number in self.awaited if self.reads[number] == ids), default=None)
        if self.current is None:
            self._count(ids)
        else:
            self.awaited.remove(self.current)

    def touch(self, row: int) -> None:
        if row in self.rows:
            self._put(row, self._used(row, self.rows[row][0]))
        else:
            self.bypass(row)

    def bypass(self, row: int) -> None:
        self.held[row] = self._used(row, self.held[row])

    def _used(self, row: int, following: float) -> float:
        """Return the next use of a row that the read at hand uses."""
        if self.current is None or (following in self.awaited and following < self.current):
            return following
        return self._next(row)

    def victim(self, row: int, held: Held) -> int | None:
        def worth(following: float, level: int) -> tuple[float, int]:
            return (-following, level if following == NEVER else 0)

        if not self.rows:
            return None
        first = min(self.rows, key=lambda other: worth(*self.rows[other]))
        if worth(*self.rows[first]) >= worth(self._next(row), self._level(row)):
            return None
        del self.rows[first]
        return first

    def insert(self, row: int, slot: int) -> None:
        self._put(row, self._next(row))

    def end(self, held: list[int]) -> None:
        if self.current is not None:
            self._drop(self.current)
        for row in held:
            if row in self.rows:
                self.held[row] = self.rows.pop(row)[0]
        self.current = None

    def release(self, rows: list[int]) -> None:
        for row in rows:
            following = self.held.pop(row)
            self._put(row, following if following in self.awaited else self._after(following, row))

    def _drop(self, current: int) -> None:
        """Forget the first reads, as far as they are over, or were passed over by 64 others."""
        for number in sorted(self.reads):
            if number in self.awaited:
                if current - number < 64:
                    return
                self.awaited.remove(number)
                for row in [row for row, (following, _) in self.rows.items() if following == number]:
                    self._put(row, self._after(number, row))
            del self.reads[number]

    def remove(self, row: int) -> None:
        del self.rows[row]


POLICIES = {"lru": Lru, "clock": Clock, "s3-fifo": S3Fifo, "sieve": Sieve, "look-ahead": LookAhead}
