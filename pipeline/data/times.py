"""Times of nodes and edges: what counts as one, rows sorted by them, and nodes in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.forks import cached_property
from headrace.ops.gpu import device_of, placed
from headrace.ops.graphs.csc import order_of_rows
from headrace.ops.graphs.ranked_rows import bounds_of
from headrace.ops.sampling.negatives import count_below
from headrace.pipeline.data.arrays import as_cpu_tensor, as_number, check_kind, describe
from headrace.pipeline.data.graph_machinery import Table, kept, table, typed_rows_of
from headrace.pipeline.data.graph_types import node_types_of
from headrace.pipeline.data.seen import Seen, note, of_times

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView, View


#: What times may be, integers and floating point; the widest of each holds all others.
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

EARLIEST = torch.iinfo(torch.int64).min


@dataclass(frozen=True, eq=False)
class Times:
    """The times of a graph under one name.

    Parameters
    ----------
    edges: int64[num_local_edges] or float64[num_local_edges], optional
        Of edges, in CSC order.
    nodes: int64[num_nodes] or float64[num_nodes], optional
        Of nodes, in the order of the graph's own ids.
    given: torch.dtype
        What they were before they were widened; the narrowest where edges and nodes differ, to which both are rounded.
    """

    edges: Tensor | None
    nodes: Tensor | None
    given: torch.dtype

    def rounded(self, seeds: Tensor) -> Tensor:
        """Return times of seeds as the graph could have them: those that were equal before are equal again."""
        return _rounded(seeds, self.given)

    @property
    def dtype(self) -> torch.dtype:
        """int64 or float64."""
        known = self.nodes if self.edges is None else self.edges
        assert known is not None  # made of one or the other
        return known.dtype


def as_times(values: ArrayLike | Tensor, name: str) -> Tensor:
    """Return times as int64[n] or float64[n].

    Raises
    ------
    InputError
        If they are not numbers in one dimension, or one of them is not a number. `name` says which argument it was.
    """
    times = as_cpu_tensor(values, name)
    if times.ndim != 1 or times.dtype not in (*INTEGERS, *FLOATS):
        raise InputError(f"expected {name} to be integers or floating point in one dimension, got {describe(times)}")
    if times.dtype in INTEGERS:
        return times.to(torch.int64).contiguous()
    if bool(times.isnan().any()):
        place = int(times.isnan().nonzero()[0])
        raise InputError(
            f"expected {name} to be times, got NaN at {place}; give what has no time the earliest one, -inf"
        )
    return times.to(torch.float64).contiguous()


def dtype_of_times(values: Any) -> torch.dtype | None:
    """Return what times are before they are widened, the narrowest of several types; None if they are no arrays."""
    arrays = values.values() if isinstance(values, Mapping) else [values]
    dtypes = [torch.as_tensor(one, device="cpu").dtype for one in arrays if isinstance(one, Tensor | np.ndarray)]
    return min(dtypes, key=lambda dtype: dtype.itemsize, default=None)


def _rounded(times: Tensor, dtype: torch.dtype) -> Tensor:
    """Return floating-point times as a narrower dtype has them, still float64."""
    return times if dtype in INTEGERS or dtype == torch.float64 else times.to(dtype).to(torch.float64)


def ordered(times: Tensor) -> Tensor:
    """Return times as integers in the same order, int64[n], equal ones for equal times."""
    if times.dtype == torch.int64:
        return times
    bits = (times + 0.0).view(torch.int64)  # the sum makes one zero of both
    return torch.where(bits < 0, bits ^ torch.iinfo(torch.int64).max, bits)


def latest_of(times: Tensor, *, strictly_before: bool) -> Tensor:
    """Return the latest time, as `ordered` has it, that each time allows: its own, or the largest one below it.

    Integers and floating point alike: no time lies between neighbours in that order. Below the smallest integer there
    is none, for which `earliest_allowed` says so.
    """
    latest = ordered(times)
    return torch.where(latest > EARLIEST, latest - 1, EARLIEST) if strictly_before else latest


def earliest_allowed(times: Tensor, window: float | None, *, strictly_before: bool) -> Tensor | None:
    """Return the earliest time, as `ordered` has it, that each time allows; None where all do.

    A window reaches back from the time itself, whether or not that is left out.
    """
    if window is not None:
        earliest = ordered(earliest_of(times, window))
    elif strictly_before and times.dtype == torch.int64:
        earliest = torch.full_like(times, EARLIEST)
    else:
        return None
    if strictly_before and times.dtype == torch.int64:  # nothing is earlier than the smallest integer
        return torch.where(times > EARLIEST, earliest, EARLIEST + 1)
    return earliest


def earliest_of(times: Tensor, window: float) -> Tensor:
    """Return the earliest time that is no more than `window` before each time."""
    if times.dtype == torch.float64:
        return times - window
    span = min(int(window), torch.iinfo(torch.int64).max)
    return torch.where(times < EARLIEST + span, EARLIEST, times - span)


def check_window(stage: str, window: Any, times: Times, *, strictly_before: bool = False) -> int | float:
    """Return a window as an int or a float; refuse one that no time can be in, or that is no difference of times."""
    whole = times.dtype == torch.int64
    number = as_number(window)
    if number is None or (whole and not isinstance(number, int)) or math.isnan(number) or number < 0:
        kind = "an int of at least 0, as times are integers" if whole else "a number of at least 0"
        raise InputError(f"{stage}: expected window to be {kind}, got {window!r}")
    if strictly_before and number == 0:
        raise InputError(
            f"{stage}: expected a window above 0 beside strictly_before=True, got 0, which leaves no time; give a "
            "window, or strictly_before=False"
        )
    return number


def times_of(graph: GraphView, name: str) -> Times:
    """Return the times of a graph under a name, which are looked at once.

    Raises
    ------
    InputError
        If there are none, they are no times, or those of edges are integers and those of nodes are not.
    """
    return table(graph, f"times {name}", lambda: _find_times(graph, name))


def _find_times(graph: GraphView, name: str) -> Times:
    advice = 'pass time="time"'
    check_kind(name, Hashable, "Graph: expected the name of times among edge_attrs or node_attrs", advice, InputError)
    found, seen, given_as = {}, [], {}
    for what, attributes in (("edge_attrs", graph.edge_attrs_csc), ("node_attrs", graph.node_attrs)):
        values = attributes.get(name)
        if values is not None:
            seen.append(seen_times(values, name))
            given_as[what] = values
        found[what] = None if values is None else as_times(values, f"{what}[{name!r}]")
    edges, nodes = found["edge_attrs"], found["node_attrs"]
    if edges is None and nodes is None:
        known = sorted({*graph.edge_attrs_csc, *graph.node_attrs})
        raise InputError(
            f"Graph: expected times under the name {name!r}, got a graph with {known or 'no attributes'}; pass "
            f"edge_attrs={{{name!r}: ...}} or node_attrs={{{name!r}: ...}} when building it"
        )
    if edges is not None and nodes is not None and edges.dtype != nodes.dtype:
        raise InputError(
            f"Graph: expected times {name!r} of edges and of nodes of one kind, got {graph.edge_attrs_csc[name].dtype} "
            f"and {graph.node_attrs[name].dtype}; convert one of them"
        )
    note(graph, of_times(name), seen)
    given = dtype_of_times(given_as)
    assert given is not None  # there are some
    edges, nodes = (None if one is None else _rounded(one, given) for one in (edges, nodes))
    return Times(edges, nodes, given)


def seen_times(values: Tensor, name: str) -> Seen:
    """Return times as they are now, of which tables are about to be made."""
    return Seen(
        values,
        f"times {name!r}",
        f"Graph: expected times {name!r} to stay as they were when a plan first sampled by them",
        "make a new graph with the new times",
    )


def table_of_times(graph: GraphView, name: str, kind: str, make: Callable[[], Table]) -> Table:
    """Return a table of a graph that is made of its times under a name, when it is first asked for.

    Raises
    ------
    InputError
        If torch has written to the times since.
    """
    check_times(graph, name)
    return table(graph, f"{kind} {name}", make)


def check_times(graph: GraphView, name: str) -> None:
    """Refuse times that torch has written to since they were first read.

    Raises
    ------
    InputError
        Saying so, or that there are no times of this name.
    """
    times_of(graph, name)
    for seen in kept(graph).seen.get(of_times(name), ()):
        seen.check_version()


def sorted_by_time(graph: View, name: str) -> View:
    """Return the graph with rows sorted by time; `hr.Graph.by_time` documents it."""
    times = times_of(graph, name)
    of_edges = times.edges
    if times.nodes is not None:
        of_sources = gather_rows(times.nodes, graph.indices)
        of_edges = of_sources if of_edges is None else torch.maximum(of_edges, of_sources)
    assert of_edges is not None  # one of the two is there
    keys = ordered(of_edges)
    rows = typed_rows_of(graph).row_ptr if graph.is_typed else graph.indptr
    order = order_of_rows(bounds_of(rows), keys)
    if order is None:
        return _with_seen(replace(graph, edge_times=keys), graph)
    edge_ids = graph.edge_permutation
    timed = replace(
        graph,
        indices=gather_rows(graph.indices, order),
        edge_permutation=_narrow(order, graph.num_edges) if edge_ids is None else gather_rows(edge_ids, order),
        edge_attrs_csc={one: gather_rows(rows, order) for one, rows in graph.edge_attrs_csc.items()},
        edge_times=gather_rows(keys, order),
    )
    return _with_seen(timed, graph)


def _with_seen(timed: View, graph: View) -> View:
    """Let the sorted graph know what the other one was seen to have: it is a table of it."""
    kept(timed).seen = kept(graph).seen
    return timed


def _narrow(order: Tensor, num_edges: int) -> Tensor:
    return order.int() if num_edges <= torch.iinfo(torch.int32).max else order


@dataclass(frozen=True, eq=False)
class _ByTime:
    """Nodes in an order by time, int64[n], and their times, int64[n] or float64[n]."""

    order: Tensor
    times: Tensor

    def _on(self, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """Return both where a GPU reads them, placed once; times are integers there, as `ordered` has them."""
        if device is None:
            return self.order, self.times
        known = self._placed.get(device)
        if known is None:
            order, times = placed((self.order, ordered(self.times)), device)
            assert order is not None
            assert times is not None
            known = self._placed.setdefault(device, (order, times))
        return known

    @cached_property
    def _placed(self) -> dict[torch.device, tuple[Tensor, Tensor]]:
        return {}

    def _num_below(self, first: int, last: int, bounds: Tensor, strictly: bool) -> Tensor:
        """Return how many of the times first, ..., last - 1 are at each bound or before it, or before it alone."""
        device = device_of(bounds)
        times = self._on(device)[1][first:last]
        if device is None:
            return torch.searchsorted(times, bounds.contiguous(), right=not strictly)
        return count_below(times, ordered(bounds), strictly=strictly)


@dataclass(frozen=True, eq=False)
class NodesByTime(_ByTime):
    """The nodes of a graph, type by type, those of a type by time.

    Parameters
    ----------
    order: int64[num_nodes]
        Ids of the graph's own.
    times: int64[num_nodes] or float64[num_nodes]
        Theirs, ascending within a type.
    """

    def of_type(self, first: int, last: int, device: torch.device | None = None) -> Tensor:
        """Return the nodes of a type, first, ..., last - 1, by time, where a GPU reads them: int64[last - first]."""
        return self._on(device)[0][first:last]

    def num_until(self, first: int, last: int, bounds: Tensor, *, strictly_before: bool = False) -> Tensor:
        """Return how many nodes of a type, first, ..., last - 1, have a time of each bound or earlier: int64[n]."""
        return self._num_below(first, last, bounds, strictly_before)


@dataclass(frozen=True, eq=False)
class EndsByTime(_ByTime):
    """The destinations of edges by the time at which these are there: until a time each node as often as its degree.

    Parameters
    ----------
    order: int64[num_edges]
        Ids of the graph's own; those of a type together, where its rows have their edges.
    times: int64[num_edges] or float64[num_edges]
        When the edges are there, ascending within a type.
    indptr: int64[num_nodes + 1]
        Of the graph.
    """

    indptr: Tensor

    def of_type(self, first: int, last: int, device: torch.device | None = None) -> Tensor:
        """Return the destinations of edges to nodes first, ..., last - 1, by time, where a GPU reads them."""
        return self._on(device)[0][self.indptr[first] : self.indptr[last]]

    def num_until(self, first: int, last: int, bounds: Tensor, *, strictly_before: bool = False) -> Tensor:
        """Return how many edges to these nodes are there at each bound, or before it: int64[n]."""
        return self._num_below(int(self.indptr[first]), int(self.indptr[last]), bounds, strictly_before)


def ends_by_time(graph: GraphView, name: str) -> EndsByTime:
    """Return the destinations of edges by times under a name, sorted once: 16 bytes for each edge.

    An edge is there at the latest of its own time and of those of its ends, as far as the graph has them.

    Raises
    ------
    InputError
        If there are no times under that name.
    """
    return table_of_times(graph, name, "ends by time", lambda: _sort_ends(graph, name))


def nodes_by_time(graph: GraphView, name: str) -> NodesByTime:
    """Return the nodes by their times under a name, which are sorted once in the life of the graph.

    Raises
    ------
    InputError
        If there are no such times of nodes.
    """
    return table_of_times(graph, name, "nodes by time", lambda: _sort(graph, name))


def _sort_ends(graph: GraphView, name: str) -> EndsByTime:
    known = times_of(graph, name)
    ends = torch.arange(graph.num_nodes, device="cpu").repeat_interleave(graph.indptr.diff())
    times = known.edges
    if known.nodes is not None:
        of_ends = torch.maximum(known.nodes[ends], gather_rows(known.nodes, graph.indices))
        times = of_ends if times is None else torch.maximum(times, of_ends)
    assert times is not None  # one of the two is there
    order = torch.empty_like(ends)
    for first, last in pairwise(graph.indptr[node_types_of(graph).offsets].tolist()):
        order[first:last] = times[first:last].argsort(stable=True) + first
    return EndsByTime(ends[order], times[order], graph.indptr)


def _sort(graph: GraphView, name: str) -> NodesByTime:
    times = times_of(graph, name).nodes
    if times is None:
        raise InputError(
            f"expected times of nodes under the name {name!r}, got times of edges alone; pass node_attrs={{{name!r}: "
            "...} when building the graph, or no time="
        )
    order = torch.empty(graph.num_nodes, dtype=torch.int64, device="cpu")
    bounds = node_types_of(graph).offsets.tolist()
    for first, last in pairwise(bounds):
        order[first:last] = times[first:last].argsort(stable=True) + first
    return NodesByTime(order, times[order])
