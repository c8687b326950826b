"""Hypothesis strategy for graphs with types: relations that end in one node type or in all, some without an edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st

from headrace.ops import TypedRows, coo_to_csc, typed_rows

from strategies import edge_lists


@dataclass(frozen=True)
class TypedGraph:
    """A CSC sorted by relation, with what its rows are made of."""

    indptr: torch.Tensor
    indices: torch.Tensor
    edge_ids: torch.Tensor | None
    relation_of_edge: np.ndarray  # by input edge id
    destination_of_edge: np.ndarray
    rows: TypedRows

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @property
    def num_relations(self) -> int:
        return len(self.rows.relations)


@st.composite
def typed_graphs(draw) -> TypedGraph:
    """Edges in the order of their relations, as types are ranges of input edge ids."""
    edges = draw(edge_lists(min_nodes=1, strided=False))
    num_types = draw(st.integers(1, 4), label="node types")
    cuts = sorted(draw(st.lists(st.integers(0, edges.num_nodes), min_size=num_types - 1, max_size=num_types - 1)))
    first_nodes = (0, *cuts, edges.num_nodes)
    everywhere = tuple(range(num_types))
    ends = [(draw(st.integers(0, num_types - 1)),) for _ in range(draw(st.integers(0, 4), label="relations"))]
    ends.append(everywhere)  # so that every edge has a relation
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="relations of edges"))
    dst = edges.dst.numpy()
    node_type = np.searchsorted(first_nodes, dst, side="right") - 1
    relation = random.integers(0, len(ends), len(dst))
    allowed = np.array([[t in one for t in everywhere] for one in ends])
    relation = np.where(allowed[relation, node_type], relation, len(ends) - 1)
    order = np.argsort(relation, kind="stable")
    csc = coo_to_csc(edges.src[order], edges.dst[order], edges.num_nodes)
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(np.bincount(relation, minlength=len(ends)))]))
    rows = typed_rows(csc.indptr, offsets, csc.edge_ids, first_nodes, ends)
    return TypedGraph(csc.indptr, csc.indices, csc.edge_ids, relation[order], dst[order], rows)
