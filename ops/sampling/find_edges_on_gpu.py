"""Edges of pairs, and edges that are not to be picked, where their arrays are on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from headrace.ops._arrays import Array
from headrace.ops.errors import InputError
from headrace.ops.features.gather import gather_rows
from headrace.ops.gpu import device_errors, on_device
from headrace.ops.graphs.ranked_rows import RankedRows, bounds_of
from headrace.ops.sampling.edge_positions import EdgePositions, FoundOnGpu, check_excluded
from headrace.ops.sampling.typed_rows import TypedRows

if TYPE_CHECKING:
    from headrace.cuda.excluded import Gaps
    from headrace.cuda.faults import Fault

_IDS = (torch.int32, torch.int64)


def find_edges(
    device: torch.device,
    indptr: Array | RankedRows,
    indices: Array,
    edge_ids: Array | None,
    sources: Array,
    destinations: Array,
    of_pairs: Mapping[str, Array | None],
    rows: TypedRows | None,
    stage: str,
) -> EdgePositions:
    """Do what `headrace.ops.find_edges` does; errors are those of the CPU."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.find_edges import Pairs, Rows
    from headrace.cuda.find_edges import find_edges as find

    starts = on_device(bounds_of(indptr), "indptr", device, stage=stage, in_place=True)
    part = (indptr.blocks, indptr.num_ids) if isinstance(indptr, RankedRows) else (None, None)
    neighbors = on_device(indices, "indices", device, stage=stage, dtypes=_IDS, in_place=True)
    if len(starts) == 0:
        raise InputError(f"{stage}: expected indptr to have num_nodes + 1 entries, got none")
    ids = None
    if edge_ids is not None:
        ids = on_device(edge_ids, "edge_ids", device, stage=stage, dtypes=_IDS, in_place=True)
        if len(ids) != len(neighbors):
            raise InputError(
                f"{stage}: expected edge_ids to have one entry per edge ({len(neighbors)}), got {len(ids)}"
            )
    src = on_device(sources, "sources", device, stage=stage)
    columns: dict[str, torch.Tensor | None] = {}
    for name, array in {"destinations": destinations, **of_pairs}.items():
        column = None if array is None else on_device(array, name, device, stage=stage)
        if column is not None and len(column) != len(src):
            raise InputError(f"{stage}: expected {name} to have one entry per source ({len(src)}), got {len(column)}")
        columns[name] = column
    dst = columns.pop("destinations")
    assert dst is not None
    ranges = None if rows is None else rows.ranges_on(device)
    try:
        with device_errors():
            return FoundOnGpu(*find(Rows(starts, neighbors, ranges, ids, *part), Pairs(src, dst, **columns)))
    except Fault as fault:
        _refuse(fault, src, dst, starts, len(neighbors), stage)
        raise


def _refuse(
    fault: Fault, sources: torch.Tensor, destinations: torch.Tensor, starts: torch.Tensor, num_edges: int, stage: str
) -> None:
    """Say what is wrong with pairs or a graph that a kernel found a fault in."""
    if fault.kind in ("no source", "no destination"):
        name, nodes = ("sources", sources) if fault.kind == "no source" else ("destinations", destinations)
        raise InputError(
            f"{stage}: {name}[{fault.item}] = {int(nodes[fault.item])} is not a node of the graph: expected 0 <= id < "
            f"num_nodes = {len(starts) - 1}"
        ) from fault
    if fault.kind == "wrong ends":
        raise InputError(
            f"{stage}: expected indptr to run from 0 to len(indices) = {num_edges}, got {int(starts[0])} to "
            f"{int(starts[-1])}; run check_csc on the graph"
        ) from fault
    begins, stops = starts[:-1], starts[1:]
    node = int(((begins < 0) | (stops < begins) | (stops > num_edges)).nonzero()[0])
    raise InputError(
        f"{stage}: indptr[{node}] = {int(begins[node])} and indptr[{node + 1}] = {int(stops[node])} do not bound a "
        f"row: expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = {num_edges}; run check_csc on the graph"
    ) from fault


def gaps_of(
    excluded: EdgePositions | None, indptr: torch.Tensor, device: torch.device, stage: str, *, in_trees: bool
) -> Gaps | None:
    """Return excluded edges as hops on a device leave them out.

    Waits for the device to check them, but not for those that `find_edges` has found there.

    Parameters
    ----------
    excluded
        The edges, by row; None for no such edges.
    indptr: int64[num_rows + 1]
        Of the graph.
    device, stage
        Where hops are, and what errors name.
    in_trees
        Whether the hop has slots.

    Raises
    ------
    InputError
        If they are not those of a graph, by row, or have slots and the hop has none.
    """
    if excluded is None:
        return None
    check_excluded(excluded, stage)
    if excluded.slots is not None and not in_trees:
        raise InputError(
            "excluded edges: expected trees to leave out edges by tree, got seeds that share neighbourhoods"
        )
    rows, starts, positions = (
        on_device(getattr(excluded, name), f"excluded.{name}", device, stage=stage)
        for name in ("rows", "starts", "positions")
    )
    slots = None if excluded.slots is None else on_device(excluded.slots, "excluded.slots", device, stage=stage)
    if not isinstance(excluded, FoundOnGpu):
        _check(rows, starts, positions, slots, indptr)
    return _in_order(
        positions, None if slots is None else slots.repeat_interleave(starts.diff(), output_size=len(positions))
    )


def _in_order(positions: torch.Tensor, slots: torch.Tensor | None) -> Gaps:
    """Return positions by slot, and those of a slot ascending."""
    from headrace.cuda.excluded import Gaps

    positions, order = positions.sort()
    if slots is None:
        return Gaps(positions, None)
    slots, by_slot = slots[order].sort(stable=True)
    return Gaps(positions[by_slot], slots)


def _check(
    rows: torch.Tensor,
    starts: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor | None,
    indptr: torch.Tensor,
) -> None:
    """Refuse edges that are not by row, or of another graph."""
    for name, array, expected, size in (
        ("starts", starts, "one entry per row and one more", len(rows) + 1),
        ("slots", slots, "one entry per row", len(rows)),
    ):
        if array is not None and len(array) != size:
            raise InputError(f"excluded edges: expected {name} to have {expected} ({size}), got {len(array)}")
    _refuse_if(
        (starts[:1] != 0) | (starts[-1:] != len(positions)) | (starts.diff() < 0).any(),
        lambda _: f"starts that ascend from 0 to the number of positions, {len(positions)}",
    )
    num_rows = len(indptr) - 1
    _refuse_if((rows < 0) | (rows >= num_rows), lambda i: f"rows of the graph, got row {int(rows[i])}")
    distinct = rows
    if slots is not None:
        again = rows[1:] == rows[:-1]
        _refuse_if(again & (slots.diff() <= 0), lambda i: f"slots that ascend in row {int(rows[i])}")
        distinct = torch.cat([rows[:1], rows[1:][~again]])
    ascending = distinct.sort().values
    repeated = ascending[1:] == ascending[:-1]
    _refuse_if(repeated, lambda i: f"each row once, got row {int(ascending[i])} twice")
    entry = torch.arange(len(rows), device=rows.device).repeat_interleave(starts.diff(), output_size=len(positions))
    row = rows[entry]
    begins = torch.ones_like(positions, dtype=torch.bool)
    begins[1:] = entry[1:] != entry[:-1]
    first, end = gather_rows(indptr, row), gather_rows(indptr, row + 1)
    least = torch.where(begins, first, positions.roll(1) + 1)
    _refuse_if(positions < least, lambda i: f"positions that ascend in row {int(row[i])}")
    _refuse_if(positions >= end, lambda i: f"positions in row {int(row[i])}, got {int(positions[i])}")


def _refuse_if(wrong: torch.Tensor, what: Callable[[int], str]) -> None:
    """Refuse excluded edges where something is wrong with them, and say of the first what was expected."""
    found = wrong.nonzero()
    if len(found):
        raise InputError(
            f"excluded edges: expected {what(int(found[0]))}; pass what find_edges returned for this graph"
        )
