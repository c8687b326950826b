"""Graphs whose nodes are known by other ids outside than inside: those that were put into an order for speed alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import are_each_once
from headrace.pipeline.data.types import TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.data.graph_view import GraphView


def check_node_ids(node_ids: Tensor, num_nodes: int, node_types: TypeOffsets | None) -> None:
    """Refuse original ids of nodes that are not each of them once.

    Raises
    ------
    InputError
        With what came; also for a graph with node types, which are ranges of ids.
    """
    if node_types is not None:
        raise InputError("Graph: expected node_ids of a graph without node types, which are ranges of ids")
    if node_ids.dtype != torch.int64 or node_ids.shape != (num_nodes,) or not node_ids.is_cpu:
        raise InputError(
            f"Graph: expected node_ids of int64[{num_nodes}] in CPU memory, got {node_ids.dtype}"
            f"{list(node_ids.shape)} on {node_ids.device}"
        )
    if not are_each_once(node_ids):
        raise InputError(f"Graph: expected node_ids to be each of the ids 0 to {num_nodes - 1} once, got others")


def check_known_by_own_ids(graph: GraphView, stage: str) -> None:
    """Refuse a graph whose nodes are known by other ids outside, for work that goes by one kind of id alone.

    Raises
    ------
    InputError
        Saying how to reorder the graph instead.
    """
    if not hasattr(graph, "node_ids"):
        raise InputError(
            f"{stage}: expected an hr.Graph, got {type(graph).__name__}; make one by hr.Graph.from_coo, from_pyg or "
            "from_dgl"
        )
    if graph.node_ids is not None:
        raise InputError(
            f"{stage}: expected a graph whose nodes go by its own ids, got one that was reordered and is used by "
            "original ids; reorder it with hr.reorder(..., original_ids=False), which gives features and items in the "
            "new ids too"
        )
