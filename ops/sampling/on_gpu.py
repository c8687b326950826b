"""Hops and fused sampling where their arrays are on a GPU: arguments for the twins, and errors from what these find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, cast

import torch

from headrace.ops._arrays import Array
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_errors, on_device
from headrace.ops.graphs.ranked_rows import RankedRows, bounds_of
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling.edge_positions import EdgePositions
from headrace.ops.sampling.find_edges_on_gpu import gaps_of
from headrace.ops.sampling.kernel_rules import native_keys, native_rules
from headrace.ops.sampling.rules import ByRelation, HopRule, Rule

if TYPE_CHECKING:
    from headrace.cuda.edge_numbers import EdgeNumbers
    from headrace.cuda.faults import Fault
    from headrace.cuda.hop import GpuGraph
    from headrace.cuda.rules import HopRule as GpuRule
    from headrace.cuda.rules import HopSpec
    from headrace.cuda.variates import Variates
    from headrace.ops.cache.line_cache import LineCache, LineCounts
    from headrace.ops.sampling.typed_rows import TypedRows

_IDS = (torch.int32, torch.int64)
_WEIGHTS = (torch.float32, torch.float64)


def graph_on(
    device: torch.device,
    indptr: Array | RankedRows,
    indices: Array,
    stage: str,
    *,
    edge_ids: Array | None = None,
    times: Array | None = None,
    weights: Array | None = None,
    rows: TypedRows | None = None,
) -> GpuGraph:
    """Return the arrays of a graph as kernels on a device read them; with types `indptr` is that of the rows."""
    from headrace.cuda.hop import GpuGraph, Relations

    starts = on_device(bounds_of(indptr), "indptr", device, stage=stage, in_place=True)
    sources = on_device(indices, "indices", device, stage=stage, dtypes=_IDS, in_place=True)
    if len(starts) == 0:
        raise InputError(f"{stage}: expected indptr to have num_nodes + 1 entries, got none")
    ends = starts[[0, -1]].tolist()
    if ends != [0, len(sources)]:
        raise InputError(
            f"{stage}: expected indptr to run from 0 to len(indices) = {len(sources)}, got {ends[0]} to {ends[1]}; run "
            "check_csc on the graph"
        )
    of_edges = {"edge_ids": (edge_ids, _IDS), "times": (times, (torch.int64,)), "weights": (weights, _WEIGHTS)}
    views: dict[str, torch.Tensor | None] = {}
    for name, (array, dtypes) in of_edges.items():
        views[name] = (
            None if array is None else on_device(array, name, device, stage=stage, dtypes=dtypes, in_place=True)
        )
        view = views[name]
        if view is not None and len(view) != len(sources):
            raise InputError(f"{stage}: expected {name} to have one entry per edge ({len(sources)}), got {len(view)}")
    relations = None
    if rows is not None:
        ranges = torch.tensor([one[1:] for one in rows.ranges], dtype=torch.int64, device=device).view(-1, 4)
        relations = Relations(ranges, rows.num_nodes)
    part = (indptr.blocks, indptr.num_ids) if isinstance(indptr, RankedRows) else (None, None)
    return GpuGraph(starts, sources, **views, relations=relations, ranks=part[0], num_rows=part[1])


def hop_of(rule: HopRule, key: int | BlendedKey, rows: TypedRows | None, by_weight: bool, stage: str) -> HopSpec:
    """Return how a hop picks as the twins know it.

    Raises
    ------
    InputError
        For a rule that has no twin, a key that is not for it, or rules of other relations than there are.
    """
    from headrace.cuda.rules import HopSpec

    native_rules(rule, by_weight, rows, stage)  # refuses what is no rule for the graph
    variates = variates_of(key, rule, stage)
    if rows is None:
        assert not isinstance(rule, ByRelation)  # refused
        return HopSpec((_rule_of(rule, by_weight, stage),), variates)
    assert isinstance(rule, ByRelation)  # likewise
    return HopSpec(tuple(_rule_of(rule.rules[one[0]], by_weight, stage) for one in rows.ranges), variates)


@lru_cache(maxsize=1024)
def _rule_of(rule: Rule, by_weight: bool, stage: str) -> GpuRule:
    """Return the rule as the twins know it, made once: a plan asks for its few rules in every batch."""
    from headrace.cuda.rules import HopRule as GpuRule

    traits = rule.traits
    if not traits.has_twin:
        raise InputError(f"{stage}: a GPU does not pick by {rule}; pass the graph and the seeds in CPU memory")
    reads_edges = by_weight or (traits.reads_edges and (rule.count >= 0 or traits.layer_wise))
    whole = rule.reads_whole_rows and not by_weight
    law = (rule.kind, rule.count, rule.rounds, by_weight)
    return GpuRule(*law, rule.per_destination, reads_edges, traits.is_bounded, whole)


def variates_of(key: int | BlendedKey, rule: HopRule, stage: str) -> Variates:
    """Return the key, or both of them with their turn, as the twins know them."""
    from headrace.cuda.variates import Variates

    keys = native_keys(key, rule, stage)
    if isinstance(keys, int):
        return Variates(keys)
    assert isinstance(key, BlendedKey)
    return Variates(key.key, key.next_key, key.step != 0, keys.cosine, keys.sine)


def sample_hop(
    graph: GpuGraph,
    device: torch.device,
    frontier: Array,
    rule: HopRule,
    key: int | BlendedKey,
    slots: Array | None,
    bounds: Array | None,
    lows: Array | None,
    parallel_edges: bool,
    stage: str,
    *,
    rows: TypedRows | None = None,
    excluded: EdgePositions | None = None,
    numbers: EdgeNumbers | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Pick in-edges of a frontier, by weight if the graph has any, of a graph with types from `rows`.

    Those that are `excluded` are not there. With `numbers` those of parallel edges are known.

    Returns indptr, neighbours, positions and importance weights. Errors are those of the CPU.
    """
    from headrace.cuda.edge_numbers import EdgeNumbers
    from headrace.cuda.faults import Fault, Faults
    from headrace.cuda.hop import FAULTS, Frontier, look_up
    from headrace.cuda.rules import pick_hop
    from headrace.cuda.sizes import Sizes

    nodes = on_device(frontier, "frontier", device, stage=stage)
    of_elements: dict[str, torch.Tensor | None] = {"slots": None, "bounds": None, "lows": None}
    for name, array in (("slots", slots), ("bounds", bounds), ("lows", lows)):
        if array is not None:
            view = on_device(array, name, device, stage=stage)
            if len(view) != len(nodes):
                raise InputError(
                    f"{stage}: expected {name} to have one entry per element of the frontier ({len(nodes)}), got "
                    f"{len(view)}"
                )
            of_elements[name] = view
    check_elements(graph, of_elements, [rule], stage)
    sizes = Sizes(Faults(FAULTS, device))
    if parallel_edges and numbers is None:
        numbers = EdgeNumbers()
    try:
        with device_errors():
            hop = hop_of(rule, key, rows, graph.weights is not None, stage)
            gaps = gaps_of(excluded, graph.indptr, device, stage, in_trees=slots is not None)
            picks = pick_hop(graph, Frontier(nodes, None, **of_elements), hop, numbers, sizes, gaps=gaps)
            neighbors, _ = look_up(graph, picks, None, edge_ids=False)
    except Fault as fault:
        refuse(fault, nodes, graph, stage, "frontier")
    return picks.indptr, neighbors, picks.positions, picks.weights


def check_elements(
    graph: GpuGraph, of_elements: Mapping[str, torch.Tensor | None], rules: Sequence[HopRule], stage: str
) -> None:
    """Refuse slots, bounds or lower bounds that rules, or the times of a graph, do not go with."""
    if of_elements["bounds"] is not None and graph.times is None:
        raise InputError(f"{stage}: expected the times of edges for a frontier with bounds, got none; pass times=")
    if of_elements["lows"] is not None and of_elements["bounds"] is None:
        raise InputError(f"{stage}: expected bounds for a frontier with lower bounds, got none; pass bounds=")
    if of_elements["slots"] is not None and not all(rule.per_destination for rule in rules):
        raise InputError(
            f"{stage}: expected a frontier without slots for a layer-wise rule, which decides for all of it together, "
            "got slots; sample each slot by itself"
        )


def fetch_rows(
    device: torch.device,
    indptr: Array | RankedRows,
    indices: Array,
    frontier: Array,
    cache: LineCache | None,
    stage: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, LineCounts | None]:
    """Copy the rows of a frontier to the device, through a cache if there is one; errors are those of the CPU."""
    from headrace.cuda.faults import Fault, Faults
    from headrace.cuda.fetch_rows import fetch
    from headrace.cuda.hop import FAULTS, Frontier, find_segments
    from headrace.cuda.sizes import Sizes

    graph = graph_on(device, indptr, indices, stage)
    nodes = on_device(frontier, "frontier", device, stage=stage)
    try:
        with device_errors():
            sizes = Sizes(Faults(FAULTS, device))
            segments = find_segments(graph, Frontier(nodes), sizes.faults)
            rows, copied, counts = fetch(graph, segments, sizes, cache)
    except Fault as fault:
        refuse(fault, nodes, graph, stage, "frontier")
    return rows.indptr, copied, rows.starts, cast("LineCounts | None", counts)


def sample_fetched(
    device: torch.device,
    indptr: torch.Tensor,
    indices: torch.Tensor,
    rule: Rule,
    key: int | BlendedKey,
    slots: Array | None,
    parallel_edges: bool,
    stage: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Pick of every row of a graph; returns what `headrace.ops.sampling.on_gpu.sample_hop` does."""
    from headrace.cuda.edge_numbers import EdgeNumbers
    from headrace.cuda.hop import GpuGraph

    # Its ends are not looked at: that would wait for the device. Rows are checked where they are found.
    graph = GpuGraph(indptr, indices)
    every = torch.arange(graph.num_nodes, device=device)
    numbers = None
    if parallel_edges and rule.has_edge_variates and rule.count >= 0:
        # All edges are there, so that nobody has to ask the device how many.
        numbers = EdgeNumbers.of_rows(indptr[:-1], indptr, len(indices), indices)
    return sample_hop(graph, device, every, rule, key, slots, None, None, parallel_edges, stage, numbers=numbers)


def compact(
    seen: Array, neighbors: Array, device: torch.device, num_nodes: int | None, stage: str, *, int64_alone: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do what `headrace.ops.compact` does; with `num_nodes`, ids outside of it are refused."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.numbering import compact as number

    known = on_device(seen, "seen", device, stage=stage)
    name = "ids" if int64_alone else "neighbors"
    values = on_device(neighbors, name, device, stage=stage, dtypes=_IDS[1:] if int64_alone else _IDS)
    try:
        with device_errors():
            return number(known, values, num_nodes)
    except Fault as fault:
        if fault.kind == "repeated":
            value = known[fault.item]
            first = int((known == value).nonzero()[0])
            raise InputError(
                f"compact: seen[{first}] and seen[{fault.item}] are both {int(value)}; expected unique ids, as "
                "unique_and_inverse returns them"
            ) from fault
        which, array = ("seen", known) if fault.kind == "no node of seen" else (name, values)
        raise InputError(
            f"{stage}: {which}[{fault.item}] = {int(array[fault.item])} is no node: expected 0 <= id < {num_nodes}"
        ) from fault


def refuse(fault: Fault, frontier: torch.Tensor, graph: GpuGraph, stage: str, name: str) -> NoReturn:
    """Say what is wrong with the input that a kernel found a fault in."""
    if fault.kind == "no node":
        raise InputError(
            f"{stage}: {name}[{fault.item}] = {int(frontier[fault.item])} is not a node of the graph: expected "
            f"0 <= id < num_nodes = {graph.num_nodes}"
        ) from fault
    if fault.kind == "repeated":
        value = frontier[fault.item]
        first = int((frontier == value).nonzero()[0])
        raise InputError(
            f"{stage}: {name}[{first}] and {name}[{fault.item}] are both {int(value)}: expected unique {name}; pass "
            "them through unique_and_inverse"
        ) from fault
    if fault.kind == "too many draws":
        raise InputError(
            f"{stage}: node {fault.item} needs more variates than its stream has; lower the fanout"
        ) from fault
    # Of later hops the item tells nothing: the first such row or source of the graph is named.
    if fault.kind == "no row":
        starts, stops, num_edges = graph.indptr[:-1], graph.indptr[1:], len(graph.indices)
        node = int(((starts < 0) | (stops < starts) | (stops > num_edges)).nonzero()[0])
        raise InputError(
            f"{stage}: indptr[{node}] = {int(starts[node])} and indptr[{node + 1}] = {int(stops[node])} do not bound a "
            f"row: expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = {num_edges}; run check_csc on the graph"
        ) from fault
    foreign = graph.indices[(graph.indices < 0) | (graph.indices >= graph.num_nodes)]
    raise InputError(
        f"{stage}: indices hold {int(foreign[0])}, which is not a node id: expected 0 <= id < num_nodes = "
        f"{graph.num_nodes}; run check_csc on the graph"
    ) from fault
