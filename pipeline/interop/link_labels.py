"""Seeds that are pairs, as PyG's loaders give them: positive and negative ones with their labels, or triplets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch


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
    data.input_id = batch.item_index[: batch.num_positives]  # negatives are no items
    if batch.num_positives is not None and index.shape[1] > 2:
        data.src_index, data.dst_pos_index = index[:, 0].contiguous(), index[:, 1].contiguous()
        negatives = index[:, 2:]
        data.dst_neg_index = (negatives[:, 0] if negatives.shape[1] == 1 else negatives).contiguous()
        return
    data.edge_label_index = index.t().contiguous()
    if batch.y is not None:
        data.edge_label = batch.y
