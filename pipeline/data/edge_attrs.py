"""Attributes of a graph as users see them: by name, those of edges in the order in which they gave the edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from torch import Tensor

from headrace.ops.names import Named
from headrace.pipeline.data.narrow_dtypes import put_rows

#: Edges that are put in order at a time: their ids are widened, which is not to double the memory.
PIECE = 1 << 20


def attributes_by_name(attributes: Mapping[str, Tensor], of: str = "edge") -> Mapping[str, Tensor]:
    """Return attributes of edges, or of nodes, read-only; the error for an unknown name lists those that are there."""
    filled_by = f"give the graph {of}_attrs={{name: values}} when it is made"
    return MappingProxyType(Named(f"Graph.{of}_attrs", attributes, filled_by))


class EdgeAttrs(Mapping[str, Tensor]):
    """Edge attributes by name, row i that of input edge i.

    Samplers read them in CSC order, so that is how a graph keeps them. Where this is another order, rows are put in
    input order on each access: a copy, which belongs to whoever asks and is not kept.

    Parameters
    ----------
    csc: Mapping of [num_edges, ...]
        The attributes in CSC order.
    edge_permutation: int[num_edges], optional
        The input edge of each CSC position; None where they are the same.
    """

    def __init__(self, csc: Mapping[str, Tensor], edge_permutation: Tensor | None) -> None:
        self._csc = csc
        self._edge_permutation = edge_permutation

    def __getitem__(self, name: str) -> Tensor:
        rows, order = self._csc[name], self._edge_permutation
        if order is None:
            return rows
        result = rows.new_empty(rows.shape)
        for start in range(0, len(rows), PIECE):
            put_rows(result, order[start : start + PIECE].long(), rows[start : start + PIECE])
        return result

    def __contains__(self, name: object) -> bool:
        return name in self._csc

    def __iter__(self) -> Iterator[str]:
        return iter(self._csc)

    def __len__(self) -> int:
        return len(self._csc)

    def __repr__(self) -> str:
        return f"EdgeAttrs({list(self)})"
