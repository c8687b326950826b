"""The edges of a conversion, sorted by destination, as the arrays of its graph: a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.convert.database import Database
from headrace.pipeline.convert.edges import GraphEdges
from headrace.pipeline.convert.sorted_edges import Ids, Repeats, RowEnds


class SortedEdges:
    """The edges of a conversion as the arrays of its graph.

    Attributes
    ----------
    are_in_order
        Whether edges are in the order of their ids, once all are known.
    """

    def __init__(self, base: Database, edges: GraphEdges, num_nodes: int) -> None:
        self._base, self._edges, self._num_nodes = base, edges, num_nodes
        self.are_in_order = True
        types = list(edges.types)
        self._starts = np.array([0, *accumulate(run.num_edges for run in edges.runs)], np.int64)
        self._kinds = np.array([types.index(run.type) if run.what == "table" else -1 for run in edges.runs], np.int64)
        self._repeats = Repeats(num_nodes, len(types))

    @property
    def num_repeats(self) -> list[int]:
        """By type of the tables of edges, how many edges repeat another one."""
        found: list[int] = self._repeats.counts.tolist()
        return found

    def pieces(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield keys of arrays, and their next rows."""
        ends, start = RowEnds(self._num_nodes), 0
        yield "indptr", ends.begin()
        for batch in self._base.batches(self._edges.in_order()):
            columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}
            dst, edge = columns.pop("dst"), columns["edge"]
            for some in ends.add(dst):
                yield "indptr", some
            self._repeats.add(columns["src"], dst, self._kinds_of(edge))
            self.are_in_order = self.are_in_order and bool((edge == np.arange(start, start + len(edge))).all())
            start += len(edge)
            yield from columns.items()
        for some in ends.end():
            yield "indptr", some

    def _kinds_of(self, edge: Ids) -> Ids:
        if len(self._kinds) == 1:
            return np.broadcast_to(self._kinds, len(edge))
        return self._kinds[np.searchsorted(self._starts, edge, side="right") - 1]
