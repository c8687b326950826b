"""Batches with padding in conversions: hops have the sizes with padding, and masks mark real rows."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.sampling.pad import Padded, real_rows
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.padded_batch import PaddedBatch
from headrace.pipeline.interop.labels import beside_others, one_for_each

#: The attributes that PyG's transform `Pad` adds: which nodes and edges are real.
NODE_MASK, EDGE_MASK = "pad_node_mask", "pad_edge_mask"


def rows_of_seeds(batch: MiniBatch) -> int:
    """Return the number of rows of distinct seeds, with padding."""
    counts = hop_sizes(batch)[0]
    return counts[0] if counts else batch.num_seeds


def hop_sizes(batch: MiniBatch) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of nodes and of edges of each hop, with padding."""
    if isinstance(batch, PaddedBatch):
        return batch.sizes.num_nodes, batch.sizes.num_edges
    return batch.num_sampled_nodes, batch.num_sampled_edges


def labels_with_padding(batch: PaddedBatch, labels: Tensor, stage: str) -> Tensor:
    """Return a label for each row of a distinct seed, and for padding one that losses ignore.

    Raises
    ------
    InputError
        If one seed has two labels.
    """
    num_rows, real = batch.num_sampled_nodes[0], slice(batch.num_real_seeds)
    found = one_for_each(labels[real], batch.seed_index[real], num_rows, batch.seeds[real], stage)
    return beside_others(found, rows_of_seeds(batch), stage)


def add_masks(batch: PaddedBatch, data: Any) -> None:
    """Give a Data its masks, under PyG's names; refuses as `real_edges`."""
    data[NODE_MASK] = batch.node_mask
    data[EDGE_MASK] = real_edges(batch)


def real_edges(batch: PaddedBatch) -> Tensor:
    """Return which edges of the one block are real, bool[num_edges].

    Raises
    ------
    InputError
        If hops overlap: how many edges they share differs from batch to batch.
    """
    if len(batch.blocks) > 1:
        raise InputError(
            "MiniBatch.to_pyg: expected hops that do not overlap behind pad(), as their union has no fixed size, got "
            f'{len(batch.blocks)} blocks; sample with expand="new"'
        )
    return real_rows(Padded(batch.num_sampled_edges, batch.sizes.num_edges), batch.n_id.device)
