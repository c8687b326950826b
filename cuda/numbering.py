"""Local numbers of ids by first occurrence, on a device and without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.cuda.faults import NONE, Faults
from headrace.cuda.launch import launch


class Numbering:
    """The ids of a minibatch, and the numbers that stand for them: twin of ``ops/native/sampling/compact.cpp``.

    Parameters
    ----------
    room
        Ids that there may be.
    device
        Where they are.
    """

    def __init__(self, room: int, device: torch.device) -> None:
        self._device = device
        self.ids = torch.empty(room, dtype=torch.int64, device=device)
        self._make_table(room)

    def _make_table(self, room: int) -> None:
        self._bits = max(2 * room - 1, 1).bit_length()
        size = (1 << self._bits) + 1
        self._table = torch.full((size,), -1, dtype=torch.int64, device=self._device)
        self._places = torch.full((size,), NONE, dtype=torch.int64, device=self._device)

    def begin(self, ids: Tensor, repeated: Tensor) -> Tensor:
        """Give numbers to the first ids, which are distinct, int64[n], and return how many there are, int64[1].

        The first id that is there already is reported in `repeated`, int64[1].
        """
        num_ids = ids.shape[0]  # small batches feel each call of Python, such as len() of a tensor
        count = torch.tensor([num_ids], dtype=torch.int64, device=self._device)
        slots = self._find(ids, None, torch.zeros_like(count))
        launch("check_new", (), num_ids, num_ids, self._places, slots, repeated, device=self._device)
        self.ids[:num_ids] = ids
        return count

    def make_room(self, num_seen: Tensor, room: int) -> None:
        """Make room for more ids, of which num_seen, int64[1], are there."""
        if room <= self.ids.shape[0]:
            return
        seen = self.ids
        self.ids = torch.empty(room, dtype=torch.int64, device=self._device)
        self.ids[: len(seen)] = seen
        self._make_table(room)
        self._find(seen, num_seen, torch.zeros_like(num_seen))

    def add(self, values: Tensor, count: Tensor | None, num_seen: Tensor) -> tuple[Tensor, Tensor]:
        """Give numbers to values, new ones behind those seen.

        Parameters
        ----------
        values
            int32 or int64[room]; there is room for all of them that are new.
        count
            int64[1], how many of them count; None for all.
        num_seen
            int64[1], ids so far.

        Returns
        -------
        local : torch.Tensor
            Of the dtype of `values`, [room], their numbers.
        num_after : torch.Tensor
            int64[1], ids from now on.
        """
        room, types = values.shape[0], (values.dtype,)
        slots = self._find(values, count, num_seen)
        ranks = torch.empty(room, dtype=torch.int64, device=self._device)
        launch("mark_first", (), room, room, count, num_seen, self._places, slots, ranks, device=self._device)
        torch.cumsum(ranks, 0, out=ranks)
        after = num_seen.clone()
        local = torch.empty_like(values)
        arguments = (values, room, count, num_seen, ranks, slots, self._places, self.ids, after)
        launch("number_new", types, room, *arguments, device=self._device)
        launch("renumber", types, room, room, count, self._places, slots, local, device=self._device)
        return local, after

    def _find(self, values: Tensor, count: Tensor | None, num_seen: Tensor) -> Tensor:
        room = values.shape[0]
        slots = torch.empty(room, dtype=torch.int64, device=self._device)
        arguments = (values, room, count, num_seen, self._table, self._places, self._bits, slots)
        launch("find_slots", (values.dtype,), room, *arguments, device=self._device)
        return slots


def compact(seen: Tensor, values: Tensor, num_nodes: int | None) -> tuple[Tensor, Tensor]:
    """Give numbers to values behind those seen: twin of ``ops/native/sampling/compact.cpp``.

    Parameters
    ----------
    seen
        int64[num_seen], distinct.
    values
        int32 or int64[n].
    num_nodes
        Beyond which ids are faults, or None.

    Returns
    -------
    ids : torch.Tensor
        int64[num_ids].
    local : torch.Tensor
        [n] of the dtype of `values`.

    Raises
    ------
    Fault
        "repeated", or "no node of seen" or "no node" of values.
    """
    device = values.device
    faults = Faults(("no node of seen", "repeated", "no node"), device)
    if num_nodes is not None:
        for kind, ids in ((0, seen), (2, values)):
            items = faults.items[kind : kind + 1]
            launch("check_rows", (ids.dtype,), len(ids), ids, len(ids), num_nodes, None, 0, items, device=device)
    numbering = Numbering(len(seen) + len(values), device)
    num_seen = numbering.begin(seen, faults.items[1:2])
    local, after = numbering.add(values, None, num_seen)
    (num_ids,) = faults.check(after)
    return numbering.ids[:num_ids], local
