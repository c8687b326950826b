"""Hops and fused sampling where their arrays are on a GPU: arguments for the twins, and errors from what these find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

import torch

from headrace.ops._arrays import Array
from headrace.ops.errors import GraphError, InputError, ItemsError
from headrace.ops.gpu import device_errors, on_device
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling.kernel_rules import check_rule, native_keys
from headrace.ops.sampling.rules import ByRelation, LaborImportanceRule, LaborRule, LatestRule, NeighborRule, Rule

if TYPE_CHECKING:
    from headrace.cuda.blocks import GpuSampled
    from headrace.cuda.faults import Fault
    from headrace.cuda.hop import GpuGraph
    from headrace.cuda.rules import HopRule
    from headrace.cuda.variates import Variates
    from headrace.ops.cache.line_cache import LineCache, LineCounts

Made = TypeVar("Made")

_IDS = (torch.int32, torch.int64)
_WEIGHTS = (torch.float32, torch.float64)


def if_there_is_room(array: torch.Tensor, device: torch.device, make: Callable[[], Made], otherwise: Made) -> Made:
    """Return a table of a graph with entries for the edges of an array, or something else if it is not to be made.

    A device that has no room for the array, which is in memory of the host then, is to have none for a table.
    """
    if array.device != device:
        return otherwise
    try:
        return make()
    except torch.cuda.OutOfMemoryError:
        return otherwise


def has_twin(rule: Rule | ByRelation) -> bool:
    """Whether a GPU can pick by a rule."""
    return isinstance(rule, NeighborRule | LatestRule | LaborRule | LaborImportanceRule)


def graph_on(
    device: torch.device,
    indptr: Array,
    indices: Array,
    stage: str,
    *,
    edge_ids: Array | None = None,
    times: Array | None = None,
    weights: Array | None = None,
) -> GpuGraph:
    """Return the arrays of a graph as kernels on a device read them."""
    from headrace.cuda.hop import GpuGraph

    starts = on_device(indptr, "indptr", device, stage=stage, error=GraphError)
    sources = on_device(indices, "indices", device, stage=stage, dtypes=_IDS, error=GraphError)
    if len(starts) == 0:
        raise GraphError(f"{stage}: indptr must have num_nodes + 1 entries, got none")
    ends = starts[[0, -1]].tolist()
    if ends != [0, len(sources)]:
        raise GraphError(
            f"{stage}: indptr must run from 0 to len(indices) = {len(sources)}, got {ends[0]} to {ends[1]}; run "
            "check_csc on the graph"
        )
    of_edges = {"edge_ids": (edge_ids, _IDS), "times": (times, (torch.int64,)), "weights": (weights, _WEIGHTS)}
    views: dict[str, torch.Tensor | None] = {}
    for name, (array, dtypes) in of_edges.items():
        views[name] = (
            None if array is None else on_device(array, name, device, stage=stage, dtypes=dtypes, error=GraphError)
        )
        view = views[name]
        if view is not None and len(view) != len(sources):
            raise GraphError(f"{stage}: {name} must have one entry per edge ({len(sources)}), got {len(view)}")
    return GpuGraph(starts, sources, **views)


def rule_of(rule: Rule, by_weight: bool, stage: str) -> HopRule:
    """Return the rule as the twins know it.

    Raises
    ------
    InputError
        For one that has no twin.
    """
    from headrace.cuda.rules import HopRule

    check_rule(rule, stage)
    if isinstance(rule, LaborRule):
        if by_weight:
            return HopRule("labor_weighted" if rule.exact else "poisson_weighted", rule.fanout)
        return HopRule("labor" if rule.exact else "poisson", rule.fanout)
    if isinstance(rule, NeighborRule):
        if by_weight:
            return HopRule("weighted_replacement" if rule.replace else "weighted", rule.fanout)
        return HopRule("replacement" if rule.replace else "neighbor", rule.fanout)
    if isinstance(rule, LatestRule):
        return HopRule("latest", rule.fanout)
    if isinstance(rule, LaborImportanceRule):
        return HopRule("importance", rule.fanout, rule.native_rounds)
    raise InputError(f"{stage}: a GPU does not pick by {rule}; pass the graph and the seeds in CPU memory")


def variates_of(key: int | BlendedKey, rule: Rule, stage: str) -> Variates:
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
    rule: Rule,
    key: int | BlendedKey,
    slots: Array | None,
    bounds: Array | None,
    lows: Array | None,
    parallel_edges: bool,
    stage: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Pick in-edges of a frontier, by weight if the graph has any.

    Returns indptr, neighbours, positions and importance weights. Errors are those of the CPU.
    """
    from headrace.cuda.edge_numbers import EdgeNumbers
    from headrace.cuda.faults import Fault, Faults
    from headrace.cuda.hop import FAULTS, Frontier, look_up, pick
    from headrace.cuda.rules import picker_of

    nodes = on_device(frontier, "frontier", device, stage=stage, error=ItemsError)
    of_elements: dict[str, torch.Tensor | None] = {"slots": None, "bounds": None, "lows": None}
    for name, array in (("slots", slots), ("bounds", bounds), ("lows", lows)):
        if array is not None:
            view = on_device(array, name, device, stage=stage, error=ItemsError)
            if len(view) != len(nodes):
                raise ItemsError(
                    f"{stage}: {name} must have one entry per element of the frontier ({len(nodes)}), got {len(view)}"
                )
            of_elements[name] = view
    if bounds is not None and graph.times is None:
        raise InputError(f"{stage}: expected the times of edges for a frontier with bounds, got none; pass times=")
    if lows is not None and bounds is None:
        raise InputError(f"{stage}: expected bounds for a frontier with lower bounds, got none; pass bounds=")
    if slots is not None and not rule.per_destination:
        raise InputError(
            f"{stage}: expected a frontier without slots for a layer-wise rule, which decides for all of it together, "
            "got slots; sample each slot by itself"
        )
    faults = Faults(FAULTS, device)
    numbers = EdgeNumbers() if parallel_edges else None
    try:
        with device_errors():
            hop_rule = rule_of(rule, graph.weights is not None, stage)
            how = picker_of(graph, hop_rule, variates_of(key, rule, stage), numbers, faults)
            picks = pick(graph, Frontier(nodes, None, **of_elements), faults, how)
            neighbors, _ = look_up(graph, picks, None, edge_ids=False)
    except Fault as fault:
        refuse(fault, nodes, graph, stage, "frontier")
    return picks.indptr, neighbors, picks.positions, picks.weights


def fetch_rows(
    device: torch.device, indptr: Array, indices: Array, frontier: Array, cache: LineCache | None, stage: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, LineCounts | None]:
    """Copy the rows of a frontier to the device, through a cache if there is one; errors are those of the CPU."""
    from headrace.cuda.faults import Fault, Faults
    from headrace.cuda.fetch_rows import copy_lines, find_lines
    from headrace.cuda.hop import FAULTS

    graph = graph_on(device, indptr, indices, stage)
    counts = None
    nodes = on_device(frontier, "frontier", device, stage=stage, error=ItemsError)
    try:
        with device_errors():
            rows = find_lines(graph, nodes, Faults(FAULTS, device))
            copied = torch.empty(rows.num_edges, dtype=graph.indices.dtype, device=device)
            if cache is None:
                copy_lines(graph, rows, None, copied)
            else:
                with cache.looked_up(rows.lines) as (places, counts):
                    copy_lines(graph, rows, places, copied)
    except Fault as fault:
        refuse(fault, nodes, graph, stage, "frontier")
    return rows.indptr, copied, rows.starts, counts


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
    from headrace.cuda.hop import GpuGraph

    # Its ends are not looked at: that would wait for the device. Rows are checked where they are found.
    graph = GpuGraph(indptr, indices)
    every = torch.arange(graph.num_nodes, device=device)
    return sample_hop(graph, device, every, rule, key, slots, None, None, parallel_edges, stage)


class BlockSampler:
    """The fused sampler on a device: `headrace.ops.BlockSampler` has one where its arrays are on a GPU.

    The first LABOR hop finds parallel edges, if there may be any, the first draw by weight makes running sums; both are
    kept. Of a graph that is too large for the device they would be as well: each hop then makes those of its frontier.

    Parameters
    ----------
    device
        Where seeds are and blocks will be.
    indptr, indices, edge_ids
        The graph, on the device or in pinned memory.
    weights
        By which to pick, vetted, there as well, or None.
    stage
        What errors name.
    """

    def __init__(
        self,
        device: torch.device,
        indptr: Array,
        indices: Array,
        edge_ids: Array | None,
        weights: Array | None,
        stage: str,
    ) -> None:
        from headrace.cuda.edge_numbers import EdgeNumbers
        from headrace.cuda.pick_weighted import sums_of_graph
        from headrace.cuda.streams import MadeOnce

        self._device = device
        self._graph = graph = graph_on(device, indptr, indices, stage, edge_ids=edge_ids, weights=weights)

        def make_sums() -> torch.Tensor | None:
            assert graph.weights is not None
            return if_there_is_room(graph.weights, device, lambda: sums_of_graph(graph, device), None)

        def make_numbers() -> EdgeNumbers | None:
            def make() -> EdgeNumbers | None:
                return EdgeNumbers.of_graph(graph.indptr, graph.indices, device)

            otherwise: EdgeNumbers | None = EdgeNumbers()
            return if_there_is_room(graph.indices, device, make, otherwise)

        self._sums = MadeOnce(device, make_sums, lambda sums: () if sums is None else (sums,))
        self._numbers = MadeOnce(device, make_numbers, lambda found: () if found is None else found.tensors)

    @property
    def scratch_bytes(self) -> int:
        """Bytes kept between calls."""
        return self._sums.num_bytes + self._numbers.num_bytes

    def sample(
        self,
        seeds: Array,
        rules: Sequence[Rule],
        keys: Sequence[int | BlendedKey],
        only_new: bool,
        edge_ids: bool,
        parallel_edges: bool,
        stage: str,
    ) -> GpuSampled:
        """Sample several hops of unique seeds; errors are those of the kernels of the CPU."""
        from headrace.cuda.blocks import sample_blocks
        from headrace.cuda.faults import Fault

        hops = [
            (rule_of(rule, self._graph.weights is not None, stage), variates_of(key, rule, stage))
            for rule, key in zip(rules, keys, strict=True)
        ]
        first = on_device(seeds, "seeds", self._device, stage=stage, error=ItemsError)
        try:
            with device_errors():
                numbered = parallel_edges and any(rule.has_edge_variates for rule in rules)
                numbers = self._numbers.here() if numbered else None
                draws = any(isinstance(rule, NeighborRule) and rule.fanout >= 0 for rule in rules)
                draws = draws and self._graph.weights is not None
                graph = self._graph._replace(sums=self._sums.here()) if draws else self._graph
                return sample_blocks(graph, first, hops, only_new=only_new, edge_ids=edge_ids, numbers=numbers)
        except Fault as fault:
            refuse(fault, first, self._graph, stage, "seeds")


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
        raise ItemsError(
            f"{stage}: {name}[{fault.item}] = {int(frontier[fault.item])} is not a node of the graph: expected "
            f"0 <= id < num_nodes = {graph.num_nodes}"
        ) from fault
    if fault.kind == "repeated":
        value = frontier[fault.item]
        first = int((frontier == value).nonzero()[0])
        raise ItemsError(
            f"{stage}: {name}[{first}] and {name}[{fault.item}] are both {int(value)}: expected unique {name}; pass "
            "them through unique_and_inverse"
        ) from fault
    if fault.kind == "too many draws":
        raise GraphError(
            f"{stage}: node {fault.item} needs more variates than its stream has; lower the fanout"
        ) from fault
    # Of later hops the item tells nothing: the first such row or source of the graph is named.
    if fault.kind == "no row":
        starts, stops, num_edges = graph.indptr[:-1], graph.indptr[1:], len(graph.indices)
        node = int(((starts < 0) | (stops < starts) | (stops > num_edges)).nonzero()[0])
        raise GraphError(
            f"{stage}: indptr[{node}] = {int(starts[node])} and indptr[{node + 1}] = {int(stops[node])} do not bound a "
            f"row: expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = {num_edges}; run check_csc on the graph"
        ) from fault
    foreign = graph.indices[(graph.indices < 0) | (graph.indices >= graph.num_nodes)]
    raise GraphError(
        f"{stage}: indices hold {int(foreign[0])}, which is not a node id: expected 0 <= id < num_nodes = "
        f"{graph.num_nodes}; run check_csc on the graph"
    ) from fault
