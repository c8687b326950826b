"""Seeds that are pairs, as PyG's loaders give them: positive and negative ones with their labels, or triplets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.data.link_types import LinkTypes


def add_link_labels(batch: MiniBatch, data: Any, index: Tensor) -> None:
    """Give the Data ``edge_label_index`` and ``edge_label``; or of triplets their three indices, and ``input_id``.

    Parameters
    ----------
    batch
        Whose seeds are pairs, or more nodes that belong together.
    data
        A Data or HeteroData.
    index: int64[num_seeds, k]
        What the Data calls the seeds.
    """
    if batch.seed_time is not None:
        data.seed_time = batch.seed_time
    _add(batch, data, index, torch.arange(len(index), device=index.device))


def add_typed_link_labels(batch: MiniBatch, links: LinkTypes, data: Any, index: Tensor) -> None:
    """Give them to the edge types of the pairs, each its own: all that items have, of which a batch may lack one.

    Parameters
    ----------
    batch, index
        As for `add_link_labels`.
    links
        The types of the pairs.
    data
        A HeteroData.
    """
    for number, name in enumerate(links.names):
        rows = (links.numbers == number).nonzero().squeeze(1)
        _add(batch, data[name], index[rows], rows)
        if batch.seed_time is not None:
            data[name].edge_label_time = batch.seed_time[rows]


def _add(batch: MiniBatch, store: Any, index: Tensor, rows: Tensor) -> None:
    """Give a store some of the seeds, those at `rows`."""
    num_positives = len(batch.seeds) if batch.num_positives is None else batch.num_positives
    store.input_id = batch.item_index[rows[rows < num_positives]]  # negatives are no items
    if batch.num_positives is not None and index.shape[1] > 2:
        store.src_index, store.dst_pos_index = index[:, 0].contiguous(), index[:, 1].contiguous()
        negatives = index[:, 2:]
        store.dst_neg_index = (negatives[:, 0] if negatives.shape[1] == 1 else negatives).contiguous()
        return
    store.edge_label_index = index.t().contiguous()
    if isinstance(batch.y, Tensor):  # pairs have no labels by node type
        store.edge_label = batch.y[rows]
