"""Which ids are in which slots of a set-associative cache on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headrace.cuda.late import read_later
from headrace.cuda.launch import launch
from headrace.cuda.streams import in_order, read_back, use_here

#: Ways of a set: lanes of a warp.
WAYS = 32
#: So many reads that are expected can be told from each other; `kExpectedBits` of ``kernels/cache.cu``.
MOST_EXPECTED = 1 << 16


class SetIndex:
    """The slots of a cache: what is in them, and when it was used last and will be next.

    Parameters
    ----------
    num_slots
        1 or more.
    is_mixed
        Whether sets are drawn by a hash. Otherwise ids go round them.
    device
        Where it is.
    """

    def __init__(self, num_slots: int, device: torch.device, *, is_mixed: bool) -> None:
        self._device = device
        num_sets = -(-num_slots // WAYS)
        self._sets = (num_sets, num_slots // num_sets, num_slots % num_sets, is_mixed)
        self.ids = torch.full((num_slots,), -1, dtype=torch.int64, device=device)
        self._used = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self._next = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self._counts = torch.zeros(3, dtype=torch.int64, device=device)
        self._now = 0
        self._num_looked_up = 0
        self._known = (0, 0)
        self._asked: tuple[Callable[[], list[int] | None], int] | None = None

    def look_up(self, ids: Tensor, expected: Sequence[Tensor], *, keep_found: bool) -> tuple[Tensor, Tensor]:
        """Find ids, int32[n] or int64[n], and give slots to those that are missing: `slots` and `fills`, int64[n].

        The host does not wait.

        Parameters
        ----------
        ids
            The read.
        expected
            int32 or int64 each: the reads to come, the nearest first.
        keep_found
            Whether no slot makes room that this read finds.
        """
        self._now += 1
        num_ids = ids.shape[0]
        self._num_looked_up += num_ids
        use_here((self.ids, self._used, self._next, self._counts))
        device, now, sets = self._device, self._now, self._sets
        slots = torch.empty(num_ids, dtype=torch.int64, device=device)
        fills = torch.empty_like(slots)
        missing_of = torch.empty(num_ids, dtype=torch.int32, device=device)
        found = (self.ids, self._used, now, slots, fills, missing_of, self._counts)
        launch("find_ids", (ids.dtype,), WAYS * num_ids, ids, num_ids, *sets, *found, device=device)
        in_order()
        set_of, order = torch.sort(missing_of, stable=True)
        missing = (ids, order, set_of, num_ids)
        next_of = None
        if len(expected) > 0:
            next_of = torch.empty(num_ids, dtype=torch.int64, device=device)
            begin = torch.full((sets[0],), -1, dtype=torch.int64, device=device)
            launch("begin_runs", (), num_ids, set_of, num_ids, sets[0], begin, next_of, device=device)
            for number, one in reversed(list(enumerate(expected[:MOST_EXPECTED]))):
                known = (*sets, self.ids, self._next, now, *missing, begin, next_of)
                types = (one.dtype, ids.dtype)
                size = one.shape[0]
                launch("expect_ids", types, WAYS * size, one, size, number, *known, device=device)
        state = (*sets, self.ids, self._used, self._next, now, keep_found, fills, self._counts)
        launch("give_slots", (ids.dtype,), WAYS * num_ids, *missing, next_of, *state, device=device)
        if self._asked is None:
            self._asked = read_later(self._counts), self._num_looked_up
        return slots, fills

    def clear(self) -> None:
        """Let all slots be free."""
        use_here((self.ids, self._used))
        in_order()
        self.ids.fill_(-1)
        self._used.zero_()

    def counts(self) -> tuple[int, int, int, int]:
        """Return how many ids were looked up, found, given slots, and made room. Waits."""
        hits, fills, evictions = read_back(self._counts)
        return self._num_looked_up, hits, fills, evictions

    def known_counts(self) -> tuple[int, int]:
        """Return how many ids were looked up and found, up to some read of which the host knows by now."""
        if self._asked is not None:
            numbers = self._asked[0]()
            if numbers is not None:
                self._known, self._asked = (self._asked[1], numbers[0]), None
        return self._known
