"""Caches, slowly: for each read which rows it finds, which it misses, and which slots these fill in.

Reads may overlap, one after the other being looked up, and finished in any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.ops.reference.cache_policies import POLICIES, LookAhead


@dataclass
class Read:
    """What a read does; positions are those of ids in it."""

    hits: list[tuple[int, int]] = field(default_factory=list)  # position, slot
    misses: list[int] = field(default_factory=list)  # positions, where each missing row comes first
    fills: dict[int, int] = field(default_factory=dict)  # slots by position
    repeats: list[tuple[int, int]] = field(default_factory=list)  # position, and where the row came first
    evicted: list[int] = field(default_factory=list)  # rows
    held: list[int] = field(default_factory=list)  # slots, each once, in the order in which the read came to hold them


class CacheIndex:
    """The oracle of `headrace.ops.CacheIndex`: a dictionary of slots, and a policy that keeps lists."""

    def __init__(
        self,
        policy: str,
        capacity: int,
        num_rows: int,
        ids: list[int] | None = None,
        levels: list[int] | None = None,
    ) -> None:
        self.slot_of: dict[int, int] = {}
        self.free = list(reversed(range(capacity)))
        self.fixed = None if ids is None else {row: slot for slot, row in enumerate(ids)}
        self.num_holds = [0] * capacity  # by slot
        self.filling: set[int] = set()  # slots
        self.policy: Any = None if policy == "static" else POLICIES[policy](capacity, num_rows, levels)

    @property
    def ready(self) -> dict[int, int]:
        """The slots of rows that a look-up finds."""
        return {row: slot for row, slot in self.slot_of.items() if slot not in self.filling}

    def read(self, ids: list[int]) -> Read:
        """Read rows."""
        read = self.look_up(ids)
        self.finish(read)
        return read

    def look_up(self, ids: list[int]) -> Read:
        """Begin to read rows."""
        read = Read()
        held = read.held
        first_position: dict[int, int] = {}
        if isinstance(self.policy, LookAhead):
            self.policy.begin(ids)
        found = self.ready
        for position, row in enumerate(ids):
            if row in found:
                read.hits.append((position, self.slot_of[row]))
                if row not in first_position:
                    held.append(self.slot_of[row])
                    if self.policy is not None:
                        self.policy.touch(row)
            first_position.setdefault(row, position)
        for position, row in enumerate(ids):
            if row in found:
                continue
            if first_position[row] < position:
                read.repeats.append((position, first_position[row]))
                continue
            read.misses.append(position)
            slot = self._slot_for(row, read, first_position)
            if slot is not None:
                self.slot_of[row] = read.fills[position] = slot
                if slot not in held:
                    held.append(slot)
        if isinstance(self.policy, LookAhead):
            row_in = {slot: row for row, slot in self.slot_of.items()}
            self.policy.end([row_in[slot] for slot in held])
        self.filling.update(read.fills.values())
        for slot in held:
            self.num_holds[slot] += 1
        return read

    def finish(self, read: Read) -> None:
        """End a read whose slots are filled in."""
        self.filling.difference_update(read.fills.values())
        for slot in read.held:
            self.num_holds[slot] -= 1
        if isinstance(self.policy, LookAhead):
            row_in = {slot: row for row, slot in self.slot_of.items()}
            self.policy.release([row_in[slot] for slot in read.held if not self.num_holds[slot]])

    def _slot_for(self, row: int, read: Read, first_position: dict[int, int]) -> int | None:
        if row in self.slot_of:  # another read is filling it in
            if isinstance(self.policy, LookAhead):
                self.policy.bypass(row)
            return None
        if self.fixed is not None:
            return self.fixed.get(row)
        if self.free:
            slot = self.free.pop()
        else:
            held_rows = {other for other, slot in self.slot_of.items() if slot in read.held or self.num_holds[slot]}
            victim = self.policy.victim(row, held_rows) if self.slot_of else None
            if victim is None:
                return None
            slot = self.slot_of.pop(victim)
            if first_position.get(victim) in read.fills:
                del read.fills[first_position[victim]]  # a miss of this read, which bypasses the cache after all
            else:
                read.evicted.append(victim)
        self.policy.insert(row, slot)
        return slot

    def invalidate(self, ids: list[int]) -> None:
        """Forget rows."""
        for row in ids:
            slot = self.slot_of.pop(row, None)
            if slot is not None and self.fixed is None:
                self.policy.remove(row)
                self.free.append(slot)
