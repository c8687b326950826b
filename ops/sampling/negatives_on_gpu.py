"""Negative destinations where the pairs are on a GPU: arguments for the twin, and errors from what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace.ops._arrays import Array
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_errors, on_device
from headrace.ops.graphs.ranked_rows import RankedRows, bounds_of

if TYPE_CHECKING:
    from headrace.cuda.faults import Fault
    from headrace.cuda.negatives import NegativeNodes, Pairs

_IDS = (torch.int32, torch.int64)


def draw_negatives(
    device: torch.device,
    indptr: Array | RankedRows,
    indices: Array,
    counts: Array,
    nodes: tuple[int, int],
    weight: str | Array | None,
    reject: Array | None,
    order: Array | None,
    prefix: Array | None,
    first_pair: int,
    key: int,
    total: int | None,
    stage: str,
) -> torch.Tensor:
    """Do what `headrace.ops.draw_negatives` does; errors are those of the CPU."""
    from headrace.cuda import negatives as twin
    from headrace.cuda.faults import Fault

    starts = on_device(bounds_of(indptr), "indptr", device, stage=stage, in_place=True)
    num_nodes = indptr.num_ids if isinstance(indptr, RankedRows) else len(starts) - 1
    sources = on_device(indices, "indices", device, stage=stage, dtypes=_IDS, in_place=True)
    of_pairs = on_device(counts, "counts", device, stage=stage)
    laws = {type(None): twin.UNIFORM, str: twin.IN_DEGREE}
    law = laws.get(type(weight), twin.WEIGHT)
    sums = None
    if weight is not None and not isinstance(weight, str):
        sums = on_device(weight, "weight", device, stage=stage, dtypes=(torch.float64,), in_place=True)
    reject = None if reject is None else on_device(reject, "reject", device, stage=stage)
    order, prefix = (
        None if array is None else on_device(array, name, device, stage=stage, in_place=True)
        for name, array in (("order", order), ("prefix", prefix))
    )
    size = nodes[1] - nodes[0]
    if law == twin.IN_DEGREE and (order is not None or prefix is not None):
        raise InputError(f"{stage}: expected nodes in their own order to draw by degree, got an order or a prefix")
    _check_length("sums", sums, size, "node")
    _check_length(f"{stage}: sources", reject, len(of_pairs), "pair")
    if law != twin.UNIFORM:
        _check_length(f"{stage}: order", order, size, "node")
    _check_length(f"{stage}: prefix", prefix, len(of_pairs), "pair")
    drawn_from = twin.NegativeNodes(*nodes, law, sums, order, size if order is None else len(order))
    pairs = twin.Pairs(of_pairs, reject, prefix, first_pair)
    try:
        with device_errors():
            return twin.draw_negatives(starts, sources, num_nodes, drawn_from, pairs, key, total)
    except Fault as fault:
        raise _error_of(fault, drawn_from, pairs, starts, sources, total, stage) from fault


def count_below(device: torch.device, numbers: Array, bounds: Array, strictly: bool, stage: str) -> torch.Tensor:
    """Do what `headrace.ops.sampling.negatives.count_below` does."""
    from headrace.cuda.negatives import count_below as count

    ascending, limits = (
        on_device(array, name, device, stage=stage) for name, array in (("numbers", numbers), ("bounds", bounds))
    )
    with device_errors():
        return count(ascending, limits, strictly=strictly)


def _check_length(name: str, array: torch.Tensor | None, size: int, each: str) -> None:
    if array is not None and len(array) != size:
        raise InputError(f"expected {name} to have one entry per {each} ({size}), got {len(array)}")


def _error_of(
    fault: Fault,
    nodes: NegativeNodes,
    pairs: Pairs,
    starts: torch.Tensor,
    indices: torch.Tensor,
    total: int | None,
    stage: str,
) -> InputError:
    """Return the error of the CPU for what a kernel found wrong."""
    first, last, _, _, order, size = nodes
    counts, sources, prefix, _ = pairs
    item, num_nodes = fault.item, len(starts) - 1

    def of(array: torch.Tensor | None) -> int:
        assert array is not None  # of which the fault is
        return int(array[item])

    if fault.kind == "broken degrees":
        return InputError(f"{stage}: indptr does not ascend from 0 to num_edges; run check_csc on the graph")
    if fault.kind == "no edges":
        return InputError(f"{stage}: expected in-edges to draw nodes by degree, got nodes without any")
    if fault.kind == "no weight":
        return InputError(f"{stage}: expected some weight above 0, got none")
    if fault.kind == "wrong prefix":
        return InputError(f"{stage}: expected prefixes of 0 to {size} nodes, got {of(prefix)}")
    if fault.kind == "wrong count":
        return InputError(f"{stage}: expected counts of at least 0, got {of(counts)}")
    if fault.kind == "wrong total":
        return InputError(f"{stage}: expected counts of a sum of {total}, got {int(counts.sum())}")
    if fault.kind == "no source":
        return InputError(
            f"{stage}: sources[{item}] = {of(sources)} is not a node of the graph: expected 0 <= id < num_nodes = "
            f"{num_nodes}"
        )
    if fault.kind == "no node":
        return InputError(f"{stage}: expected an order of nodes {first} to {last - 1}, got {of(order)}")
    if fault.kind == "no row":
        return InputError(
            f"{stage}: indptr[{item}] = {of(starts)} and indptr[{item + 1}] = {int(starts[item + 1])} do not bound a "
            f"row: expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = {len(indices)}; run check_csc on the graph"
        )
    return _no_negative(item, nodes, pairs, stage)


def _no_negative(item: int, nodes: NegativeNodes, pairs: Pairs, stage: str) -> InputError:
    """Return the error for a pair of which no negative can be drawn."""
    size = nodes.size if pairs.prefix is None else int(pairs.prefix[item])
    nothing = size == 0 or (nodes.sums is not None and not float(nodes.sums[size - 1]) > 0)
    if pairs.sources is None or nothing:
        return InputError(
            f"{stage}: pair {pairs.first + item} has no negative: none of the {size} nodes that it may have can be "
            "drawn; leave out such pairs"
        )
    return InputError(
        f"{stage}: pair {pairs.first + item} has no negative: node {int(pairs.sources[item])} has edges to all nodes "
        "that can be drawn; leave out such pairs, or do not reject edges"
    )
