"""A set-associative cache on a GPU, slowly: a dictionary of ids and lists of slots."""

from __future__ import annotations

from dataclasses import dataclass, field

WAYS = 32
MOST_MISSING = 128
NEVER = float("inf")
_MASK = (1 << 64) - 1


@dataclass
class SetCache:
    """The oracle of `headrace.ops.SetIndex`."""

    num_slots: int
    num_ids: int | None = None
    id_in: dict[int, int] = field(default_factory=dict)  # by slot
    used: dict[int, int] = field(default_factory=dict)  # number of the last read, by slot
    num_reads: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    bypasses: int = 0

    def slots_for(self, one: int) -> range:
        """Return the slots that an id may be in."""
        num_sets = -(-self.num_slots // WAYS)
        if self.num_ids is not None and self.num_ids <= self.num_slots:
            number = one % num_sets
        else:
            mixed = (one ^ (one >> 33)) * 0xFF51AFD7ED558CCD & _MASK
            mixed = (mixed ^ (mixed >> 33)) * 0xC4CEB9FE1A85EC53 & _MASK
            number = (mixed >> 32) * num_sets >> 32
        first = [
            set_ * (self.num_slots // num_sets) + min(set_, self.num_slots % num_sets) for set_ in (number, number + 1)
        ]
        return range(*first)

    def look_up(
        self, ids: list[int], expected: list[list[int]] | None = None, *, keep_found: bool = True
    ) -> tuple[list[int], list[int]]:
        """Read ids, and return the slot in which each is found, and that which it is given."""
        self.num_reads += 1
        slot_of = {one: slot for slot, one in self.id_in.items()}
        found = {one: slot_of[one] for one in ids if one in slot_of}
        self.used.update(dict.fromkeys(found.values(), self.num_reads))
        slots = [found.get(one, -1) for one in ids]
        fills = [-1] * len(ids)
        filled_by: dict[int, int] = {}  # positions of this read, by slot
        num_missing: dict[range, int] = {}

        def next_use(one: int | None) -> float:
            return next((number for number, read in enumerate(expected or []) if one in read), NEVER)

        def worth_of_giving_up(slot: int) -> tuple[float, int, int]:
            return next_use(self.id_in.get(slot)), -self.used.get(slot, -1), -slot

        for position, one in enumerate(ids):
            if one in found or one < 0 or not self.num_slots:
                continue
            ways = self.slots_for(one)
            num_missing[ways] = num_missing.get(ways, 0) + 1
            if num_missing[ways] > MOST_MISSING or one in [self.id_in.get(slot) for slot in ways]:
                continue
            may_go = [slot for slot in ways if not (keep_found and slot in found.values())]
            worst = max(may_go, key=worth_of_giving_up, default=None)
            if worst is None or worth_of_giving_up(worst)[:2] <= (next_use(one), -self.num_reads):
                continue
            if worst in filled_by:
                fills[filled_by[worst]] = -1
            elif worst in self.id_in:
                self.evictions += 1
            self.id_in[worst], self.used[worst], filled_by[worst] = one, self.num_reads, position
            fills[position] = worst
        self.hits += sum(slot >= 0 for slot in slots)
        self.misses += sum(slot < 0 for slot in slots)
        self.bypasses += sum(slot < 0 and fill < 0 for slot, fill in zip(slots, fills, strict=True))
        return slots, fills

    def counts(self) -> dict[str, int]:
        """Return what all reads together have found, missed, evicted and read past the cache."""
        return {"hits": self.hits, "misses": self.misses, "evictions": self.evictions, "bypasses": self.bypasses}
