"""Fetching the rows of a frontier out of a graph too large for a GPU, and room there for hot parts of the graph."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from headrace.ops import ByRelation, FetchedRows, LineCache, fetch_rows, sample_fetched
from headrace.ops.gpu import device_of
from headrace.ops.memory_promises import Promise
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import GraphView, MiniBatch
from headrace.pipeline.data.graph_machinery import arrays_on, rows_of_nodes
from headrace.pipeline.lowered._finders import SampledHop
from headrace.pipeline.lowered.sample_hop import Expand, RuleHop, frontier_of
from headrace.pipeline.plan.checks import check_expand, check_graph
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import FETCHED, Counts, PlainStage, Runner, Stage


class GraphCache:
    """A cache of lines of a graph's rows, made when it is used first, on the GPU where that is.

    Compares by its size: what it holds changes no minibatch.

    Parameters
    ----------
    num_bytes
        What it may take of the GPU's memory.
    index
        The number of the GPU.
    """

    def __init__(self, num_bytes: int, index: int = 0) -> None:
        self.num_bytes = num_bytes
        self._taken = [0]
        self._promise = Promise(num_bytes, partial(sum, self._taken), place=index)
        self._lock = threading.Lock()
        self._is_made = False
        self._cache: LineCache | None = None

    def of(self, indices: Tensor, device: torch.device) -> LineCache | None:
        """Return the cache of a graph's indices on a device; None where there is no room for any."""
        with self._lock:
            if not self._is_made:
                self._cache = self._made(indices, device)
                self._is_made = True
                self._taken[0] = self.num_bytes
            return self._cache

    def _made(self, indices: Tensor, device: torch.device) -> LineCache | None:
        """Take half as much for as long as the device has not as much: other programs may have memory there."""
        num_bytes = self.num_bytes
        while num_bytes:
            try:
                cache = LineCache(indices, num_bytes, device)
            except torch.cuda.OutOfMemoryError:
                num_bytes //= 2
                continue
            if num_bytes < self.num_bytes:
                self._warn(f"it has {num_bytes:,}", device)
            return cache if cache.num_slots else None
        self._warn("rows come over the bus", device)
        return None

    def _warn(self, outcome: str, device: torch.device) -> None:
        warn_user(
            f"graph_cache: expected {self.num_bytes:,} bytes of free memory on {device} for a cache of the graph, "
            f"where there is less; {outcome}",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphCache) and self.num_bytes == other.num_bytes

    def __hash__(self) -> int:
        return hash(self.num_bytes)

    def __repr__(self) -> str:
        return f"GraphCache({self.num_bytes:,} bytes)"


class FetchedHop(NamedTuple):
    """A batch and the rows of its frontier, on their way to :class:`SampleFetched`; None where they had no room."""

    batch: MiniBatch
    rows: FetchedRows | None


@dataclass(frozen=True, eq=False, repr=False)
class FetchRows(PlainStage):
    """Copy the rows of the frontier to where the batch is: to a GPU each comes once, in whole lines.

    The pass ``split_sample`` makes it of a hop that looks at whole rows, where the graph does not fit in the GPU. Where
    there is no room for the rows, the hop reads them in place.

    Parameters
    ----------
    graph
        The graph to fetch from.
    expand
        Whose rows, as for the hop behind it.
    cache
        Where hot parts of the rows are kept; the pass ``graph_cache`` puts it here.
    """

    name: ClassVar[str] = "fetch_rows"
    lowered: ClassVar[bool] = True
    gives: ClassVar[str | None] = FETCHED
    reads: ClassVar[frozenset[str]] = frozenset({"n_id", "num_sampled_nodes"})

    graph: GraphView
    expand: Expand = field(default="all", kw_only=True)
    cache: GraphCache | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph)
        check_expand(self.name, self.expand)

    def run(self, batch: MiniBatch) -> tuple[FetchedHop, Counts]:
        nodes = frontier_of(batch, self.expand)
        device = device_of(nodes)
        arrays = None if device is None else arrays_on(self.graph, device)
        indptr, indices = (rows_of_nodes(self.graph), self.graph.indices) if arrays is None else arrays[:2]
        cache = None if device is None or self.cache is None else self.cache.of(indices, device)
        try:
            rows = fetch_rows(indptr, indices, nodes, cache=cache)
        except torch.cuda.OutOfMemoryError as error:
            why = str(error).partition(". ")[0]
            warn_user(f"split_sample: rows are sampled in place, as {why}")
            return FetchedHop(batch, None), {}
        return FetchedHop(batch, rows), {"fetched_edges": len(rows.indices)}


@dataclass(frozen=True, eq=False, repr=False)
class SampleFetched(RuleHop):
    """Sample in-neighbours of a frontier whose rows were fetched; parameters as for :class:`RuleHop`."""

    name: ClassVar[str] = "sample_fetched"
    lowered: ClassVar[bool] = True
    takes: ClassVar[frozenset[str]] = frozenset({FETCHED})

    def fits_behind(self, last: Stage) -> str | None:
        fits = isinstance(last, FetchRows) and last.graph is self.graph and last.expand == self.expand
        return None if fits else "expected its graph and expand to be those of the rows that were fetched before it"

    def runner(self, settings: RunSettings) -> Runner:
        def run(fetched: FetchedHop) -> tuple[SampledHop, Counts]:
            batch, rows = fetched
            if rows is None:
                return SampledHop(batch, self.pick(batch, settings)), {}
            rule = self.hop.rule
            assert not isinstance(rule, ByRelation)  # split_sample takes rules that look at whole rows of nodes
            hop = sample_fetched(
                rows,
                rule,
                self.hop.key(batch, settings),
                num_threads=settings.num_threads,
                parallel_edges=not rule.has_edge_variates or self.graph.has_parallel_edges,
            )
            # Sampling has waited for the rows.
            return SampledHop(batch, hop), {} if rows.counts is None else rows.counts.read()

        return run
