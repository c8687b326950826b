"""Local numbers of ids by first occurrence, on a device and without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.hop import GpuGraph, Picks, found_edges
from headrace.cuda.launch import launch


class Numbering:
    """The ids of a minibatch, and the numbers that stand for them: twin of ``ops/native/sampling/compact.cpp``.

    Parameters
    ----------
    room
        Ids that there may be.
    device
        Where they are.
    expected
        Ids that the table is made for, by default `room`. If there are as many as `num_slots`, numbers are wrong.
    """

    def __init__(self, room: int, device: torch.device, expected: int | None = None) -> None:
        self._device = device
        self.ids = torch.empty(room, dtype=torch.int64, device=device)
        self._make_table(room if expected is None else min(room, expected))

    def _make_table(self, room: int) -> None:
        self._bits = max(2 * room - 1, 1).bit_length()
        #: Of the table, for ids: at least twice as many as it was made for.
        self.num_slots = 1 << self._bits
        self._table = torch.full((self.num_slots + 1, 2), -1, dtype=torch.int64, device=self._device)

    def begin(self, ids: Tensor, num_seen: Tensor, repeated: Tensor) -> None:
        """Give numbers to the first ids, which are distinct, int64[n].

        How many there are is written to num_seen, int64[1]; the first that is there already to repeated, int64[1].
        """
        num_ids = ids.shape[0]  # small batches feel each call of Python, such as len() of a tensor
        arguments = (ids, num_ids, self._table, self._bits, self.ids, num_seen, repeated)
        launch("begin_ids", (), max(num_ids, 1), *arguments, device=self._device)

    def make_room(self, num_seen: Tensor, room: int) -> None:
        """Make room for more ids, of which num_seen, int64[1], are there."""
        if room <= self.ids.shape[0]:
            return
        seen = self.ids
        self.ids = torch.empty(room, dtype=torch.int64, device=self._device)
        self.ids[: len(seen)] = seen
        self._make_table(room)
        self._find(seen, num_seen, torch.zeros_like(num_seen))

    def add(self, values: Tensor, count: Tensor | None, num_seen: Tensor, sizes: Tensor) -> Tensor:
        """Give numbers to values, new ones behind those seen.

        Parameters
        ----------
        values
            int32 or int64[room]; there is room for all of them that are new.
        count
            int64[1], how many of them count; None for all.
        num_seen
            int64[1], ids so far.
        sizes
            int64[2], which gets how many ids there are from now on, and how many values there were.

        Returns
        -------
        local : torch.Tensor
            Of the dtype of `values`, [room], their numbers.
        """
        return self._number(values, count, num_seen, sizes, self._find(values, count, num_seen))

    def add_sources(
        self, graph: GpuGraph, picks: Picks, faults: Faults, *, edge_ids: bool, num_seen: Tensor, sizes: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Do what `hop.look_up` does, and `add` for the sources; return their numbers, and the ids of the edges."""
        positions, count = picks.positions, picks.indptr[-1:]
        room = positions.shape[0]
        neighbors, edges, id_type = found_edges(graph, positions, edge_ids)
        slots = torch.empty(room, dtype=torch.int64, device=self._device)
        launch(
            "find_sources", (neighbors.dtype, id_type), room, graph.indices, graph.num_nodes, graph.edge_ids, positions,
            room, count, neighbors, edges, faults.items, num_seen, self._table, self._bits, slots,
            device=self._device,
        )  # fmt: skip
        return self._number(neighbors, count, num_seen, sizes, slots), edges

    def new_since(self, num_before: Tensor, num_after: Tensor, room: int) -> tuple[Tensor, Tensor]:
        """Return the ids that are new since there were so many of them, int64[room], and how many these are, int64[1].

        There are no more than `room`; num_before and num_after begin with the ids then and now.
        """
        taken, num_new = (torch.empty(size, dtype=torch.int64, device=self._device) for size in (room, 1))
        arguments = (self.ids, num_before, num_after, room, taken, num_new)
        launch("take_new", (), max(room, 1), *arguments, device=self._device)
        return taken, num_new

    def _number(self, values: Tensor, count: Tensor | None, num_seen: Tensor, sizes: Tensor, slots: Tensor) -> Tensor:
        room, types, device = values.shape[0], (values.dtype,), self._device
        ranks = torch.empty_like(slots)
        launch("mark_first", (), room, room, count, num_seen, self._table, slots, ranks, device=device)
        torch.cumsum(ranks, 0, out=ranks)
        local = torch.empty_like(values)
        arguments = (values, room, count, num_seen, ranks, slots, self._table, self.ids, sizes)
        launch("number_new", types, max(room, 1), *arguments, device=device)
        launch("renumber", types, room, room, count, self._table, slots, local, device=device)
        return local

    def _find(self, values: Tensor, count: Tensor | None, num_seen: Tensor) -> Tensor:
        room = values.shape[0]
        slots = torch.empty(room, dtype=torch.int64, device=self._device)
        arguments = (values, room, count, num_seen, self._table, self._bits, slots)
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
    faults = Faults(("no node of seen", "repeated", "no node"), device, num_sizes=3)
    if num_nodes is not None:
        for kind, ids in ((0, seen), (2, values)):
            items = faults.items[kind : kind + 1]
            launch("check_rows", (ids.dtype,), len(ids), ids, len(ids), num_nodes, None, 0, items, device=device)
    numbering = Numbering(len(seen) + len(values), device)
    num_seen, sizes = faults.sizes[:1], faults.sizes[1:]
    numbering.begin(seen, num_seen, faults.items[1:2])
    local = numbering.add(values, None, num_seen, sizes)
    _, num_ids, _ = faults.check()
    return numbering.ids[:num_ids], local
