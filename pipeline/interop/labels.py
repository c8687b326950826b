"""Labels of seeds and of links as other libraries have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.padded_batch import PaddedBatch
from headrace.pipeline.data.types import TypedIds, TypeName

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.data.typed_items import LinkTypes


def one_for_each(y: Tensor, rows: Tensor, num_rows: int, seeds: Tensor, stage: str) -> Tensor:
    """Return the label of each row, [num_rows, ...], where seeds may repeat.

    Parameters
    ----------
    y: [num_seeds, ...]
        Labels of seeds.
    rows: int64[num_seeds]
        The row of each; all rows have one.
    num_rows
        Rows.
    seeds: int64[num_seeds]
        Their ids, for messages.
    stage
        Who asks.

    Raises
    ------
    InputError
        If one row has two labels.
    """
    if num_rows == len(rows):
        return y
    places = torch.arange(len(rows), device=rows.device)
    first = torch.full((num_rows,), len(rows), device=rows.device).scatter_reduce(0, rows, places, "amin")
    labels = y[first]  # not by index_select, which has no unsigned integers wider than a byte
    of_seeds = labels[rows]
    differs = (of_seeds != y) & ~(of_seeds.isnan() & y.isnan())
    if bool(differs.any()):
        place = int(differs.reshape(len(rows), -1).any(1).nonzero()[0, 0])
        raise InputError(
            f"{stage}: seed {int(seeds[place])} comes twice with different labels, but its node has one row; "
            "expected one label per node. Convert batch.replace(y=None), and use out[batch.seed_index] with batch.y"
        )
    return labels


def labels_by_type(batch: MiniBatch, types: TypedIds, stage: str) -> dict[TypeName, Tensor]:
    """Return a label for each distinct seed of each type that has seeds with some, in the order of the type's nodes.

    Raises
    ------
    InputError
        If one seed has two labels.
    """
    if batch.y is None or batch.seeds.ndim > 1:
        return {}
    padded = batch if isinstance(batch, PaddedBatch) else None
    seeds = types.first(batch.num_sampled_nodes[0] if padded is None else padded.sizes.num_nodes[0])
    index = batch.seed_index if padded is None else batch.seed_index[: padded.num_real_seeds]
    of_rows = seeds.types[index]
    found = {}
    for number, name in enumerate(types.node_types.names):
        places, mine = seeds.places(name), (of_rows == number).nonzero().squeeze(1)
        # Of a type that never has seeds there is one row of padding.
        if not len(places) or (padded is not None and padded.sizes.nodes[0][number] == 1):
            continue
        if not isinstance(batch.y, Mapping):
            labels = batch.y[mine]
        elif name in batch.y:
            labels = batch.y[name]
        else:
            continue
        rows = seeds.numbers[index[mine]]
        num_rows = len(places) if padded is None else int(padded.node_mask[places].sum())
        found[name] = one_for_each(labels, rows, num_rows, batch.seeds[mine], stage)
        if padded is not None:
            found[name] = beside_others(found[name], len(places), stage)
    return found


def beside_others(labels: Tensor, num_rows: int, stage: str) -> Tensor:
    """Return labels of the first rows as labels of all, where the others have what no loss takes for a class.

    That is nan, or -100, which ``torch.nn.functional.cross_entropy`` leaves out.

    Raises
    ------
    InputError
        If their dtype has no such number.
    """
    if len(labels) == num_rows:
        return labels
    numbers = labels.dtype.is_floating_point or labels.dtype.is_complex
    if not numbers and not labels.dtype.is_signed:
        raise InputError(
            f"{stage}: expected labels of a dtype that has nan or -100 for a node without one, as the last block "
            f"ends at more nodes than the seeds, got {labels.dtype}; store them as int64 or float32, or fetch them as "
            "a feature of nodes"
        )
    rest = labels.new_full((num_rows - len(labels), *labels.shape[1:]), math.nan if numbers else -100)
    return torch.cat([labels, rest])


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
