"""A graph in files that are opened at once and checked when they are first read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headrace.ops import InputError, check_csc
from headrace.pipeline.data import Graph, TypeOffsets
from headrace.pipeline.data.edge_attrs import attributes_by_name
from headrace.pipeline.data.graph_machinery import Kept
from headrace.pipeline.data.node_ids import check_node_ids


class _Checked:
    """An array of a graph that is checked at its first look-up, and is a plain attribute from then on."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, graph: Any, owner: type | None = None) -> Any:
        if graph is None:
            return self
        graph.check_arrays()
        return graph.__dict__[self._name]


class OpenedGraph(Graph):
    """A graph whose memory maps nobody has read yet.

    Whether all ids exist takes a pass over all edges, which opening a file is not to take: the first look-up of an
    array that samplers read checks all of them.
    """

    indptr = _Checked()
    indices = _Checked()
    node_ids = _Checked()

    @classmethod
    def of(
        cls,
        label: str,
        indptr: Tensor,
        indices: Tensor,
        edge_ids: Tensor | None,
        node_ids: Tensor | None,
        edge_attrs: Mapping[str, Tensor],
        node_attrs: Mapping[str, Tensor],
        types: tuple[TypeOffsets | None, TypeOffsets | None],
    ) -> OpenedGraph:
        """Return a graph of arrays that have the right dtypes and lengths; errors begin with `label`."""
        graph = cls.__new__(cls)
        vars(graph).update(
            edge_permutation=edge_ids,
            edge_attrs_csc=attributes_by_name(edge_attrs),
            node_attrs=attributes_by_name(node_attrs, "node"),
            node_types=types[0],
            edge_types=types[1],
            edge_times=None,
            _kept=Kept(),
            unchecked=(label, indptr, indices, node_ids),
        )
        return graph

    def check_arrays(self) -> None:
        """Check the arrays, once.

        Raises
        ------
        InputError
            If indptr or an id is out of range.
        """
        unchecked = vars(self).get("unchecked")
        if unchecked is None:
            raise AttributeError("the graph has no arrays yet")
        label, indptr, indices, node_ids = unchecked
        try:
            check_csc(indptr, indices, indptr.numel() - 1)
            if node_ids is not None:
                check_node_ids(node_ids, indptr.numel() - 1, self.node_types)
        except InputError as cause:
            raise InputError(f"{label}: the graph is damaged: {cause}; copy it again, or convert again") from cause
        vars(self).update(indptr=indptr, indices=indices, node_ids=node_ids)

    def __repr__(self) -> str:
        if "indptr" in vars(self):
            return super().__repr__()
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, not read yet)"

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        unchecked = vars(self).get("unchecked")
        return super().num_nodes if unchecked is None else int(unchecked[1].numel()) - 1

    @property
    def num_edges(self) -> int:
        """Return the number of edges."""
        unchecked = vars(self).get("unchecked")
        return super().num_edges if unchecked is None else int(unchecked[2].numel())
