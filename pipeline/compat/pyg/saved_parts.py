"""Clusters that were kept in a file: whether they are those of the graph at hand."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch_geometric.index import ptr2index
from torch_geometric.loader import cluster
from torch_geometric.sampler.base import DataType

from headrace.ops.errors import GraphError, InputError
from headrace.pipeline.compat.pyg.graph import kind_of

#: What made the parts.
METIS, STREAM = "metis", "stream"


def check_clusters(data: Any, sparse_format: Any) -> None:
    """Refuse what cannot be cut into clusters.

    Raises
    ------
    GraphError, InputError
        For data of several types or without ``edge_index``, and for another format.
    """
    if kind_of(data) != DataType.homogeneous:
        raise GraphError(
            f"ClusterData: expected a Data, got a {type(data).__name__}; data.to_homogeneous() makes one of several "
            "types"
        )
    if data.edge_index is None:
        raise GraphError(
            "ClusterData: expected data.edge_index, got data without one; of an adj_t it is "
            "torch_geometric.utils.to_edge_index(data.adj_t)[0].flip(0)"
        )
    if sparse_format not in ("csr", "csc"):
        raise InputError(f'ClusterData: expected sparse_format "csr" or "csc", got {sparse_format!r}')


def check_saved_parts(data: Any, partition: Any, num_parts: int, sparse_format: str) -> None:
    """Refuse parts that are not those of a graph; all of its edges are compared.

    Parameters
    ----------
    data
        The graph.
    partition
        What the file holds, PyG's ``Partition``.
    num_parts, sparse_format
        What is asked for.

    Raises
    ------
    InputError
        Saying what differs.
    """
    problem = _difference(data, partition, num_parts, sparse_format)
    if problem is not None:
        raise InputError(
            f"ClusterData: expected parts of this graph in save_dir, got {problem}; delete the file, or pass another "
            "save_dir or filename"
        )
    if getattr(partition, "made_by", None) == STREAM and find_spec("pymetis") is not None:
        warnings.warn(
            "ClusterData: the parts in save_dir are those of a streaming partition, which cuts more edges, though "
            "pymetis is installed now; delete the file for parts of METIS",
            stacklevel=4,
        )


def _difference(data: Any, partition: Any, num_parts: int, sparse_format: str) -> str | None:
    """Return what differs; None where the parts fit."""
    if not isinstance(partition, cluster.Partition):
        return f"a {type(partition).__name__}"
    sizes = (
        ("parts", partition.partptr.numel() - 1, num_parts),
        ("nodes", partition.node_perm.numel(), int(data.num_nodes)),
        ("edges", partition.edge_perm.numel(), int(data.edge_index.shape[1])),
    )
    for what, came, wanted in sizes:
        if came != wanted:
            return f"those of {came} {what}, where {wanted} are wanted"
    if partition.sparse_format != sparse_format:
        return f"those in the format {partition.sparse_format!r}, where {sparse_format!r} is wanted"
    place = torch.full_like(partition.node_perm, -1)
    place[partition.node_perm] = torch.arange(len(place), device=place.device)
    ends = [place[end[partition.edge_perm]] for end in data.edge_index]
    compressed, other = ends if sparse_format == "csr" else ends[::-1]
    fits = torch.equal(compressed, ptr2index(partition.indptr)) and torch.equal(other, partition.index)
    return None if fits and bool((place >= 0).all()) else "those of other edges, or in another order"
