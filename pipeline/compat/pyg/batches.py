"""The attributes that PyG's loaders set on their batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import SamplerOutput

from headrace.pipeline.compat.pyg.slicing import sliced_data, stacked
from headrace.pipeline.compat.pyg.stores import data_of_stores


def node_batch(data: Any, out: SamplerOutput, permutation: Tensor | None, *, num_threads: int) -> Any:
    """Return the batch of a node loader.

    Parameters
    ----------
    data
        The whole graph: a ``Data``, or a (FeatureStore, GraphStore).
    out
        What the sampler found; ``metadata`` are the ids of the items and their times.
    permutation
        From the edges of the sampler to those of the user; None where they are the same.
    num_threads
        Threads to copy rows by.
    """
    batch = subgraph(data, out, permutation, num_threads=num_threads)
    items, times = out.metadata[:2]
    batch.input_id = items
    batch.seed_time = times
    batch.batch_size = len(items)
    return batch


def link_batch(data: Any, out: SamplerOutput, permutation: Tensor | None, *, triplets: bool, num_threads: int) -> Any:
    """Return the batch of a link loader; parameters as for `node_batch`.

    ``metadata`` are the ids of the links, then the rows of their ends, labels and times; with `triplets` the rows of
    sources, of destinations and of negative destinations, and times.
    """
    batch = subgraph(data, out, permutation, num_threads=num_threads)
    batch.input_id = out.metadata[0]
    if triplets:
        batch.src_index, batch.dst_pos_index, batch.dst_neg_index, batch.seed_time = out.metadata[1:5]
        for name in ("edge_label_index", "edge_label_time"):
            if name in batch:  # the whole graph's
                del batch[name]
    else:
        batch.edge_label_index, batch.edge_label, batch.edge_label_time = out.metadata[1:4]
    return batch


def subgraph(data: Any, out: SamplerOutput, permutation: Tensor | None, *, num_threads: int) -> Any:
    """Return what the batches of all loaders have: the sampled nodes and edges, their attributes, ids and counts."""
    edge = out.edge
    if edge is not None:
        edge = edge.to(torch.int64)
        edge = edge if permutation is None else permutation[edge]
    edge_index = stacked(out.row, out.col)
    batch: Any
    if isinstance(data, Data):
        batch = sliced_data(data, out.node, edge_index, edge, num_threads=num_threads)
    else:
        batch = data_of_stores(*data, out.node, edge_index, edge)
    if "n_id" not in batch:
        batch.n_id = out.node
    if edge is not None and "e_id" not in batch:
        batch.e_id = edge
    batch.batch = out.batch
    batch.num_sampled_nodes = out.num_sampled_nodes
    batch.num_sampled_edges = out.num_sampled_edges
    if out.orig_row is not None and out.orig_col is not None:
        batch._orig_edge_index = torch.stack([out.orig_row, out.orig_col])  # noqa: SLF001 - PyG's name for it
    return batch
