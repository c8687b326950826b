"""A block as a sparse matrix of torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops import InputError, JoinedHops, join_hops
from headrace.ops.optional import require
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.padded_batch import PaddedBatch
from headrace.pipeline.data.padded_block import PaddedBlock
from headrace.pipeline.data.registry import register
from headrace.pipeline.interop.dgl_pairs import pair_graphs
from headrace.pipeline.interop.labels import add_link_labels, beside_others, labels_by_type, one_for_each
from headrace.pipeline.interop.padded import (
    NODE_MASK,
    add_masks,
    hop_sizes,
    labels_with_padding,
    rows_of_seeds,
)
from headrace.pipeline.interop.typed import (
    IMPORTANCE_WEIGHT,
    add_node_features,
    slots_of_layer,
    to_hetero_blocks,
    to_hetero_data,
)

if TYPE_CHECKING:
    from headrace.pipeline.data import Block, MiniBatch, TypeName


@register
def adj_t_of(block: Block, values: Tensor | None) -> Tensor:
    """Return a ``torch.sparse_csr`` matrix [num_dst, num_src]; see `Block.adj_t`."""
    if values is None:
        values = torch.ones(block.num_edges, dtype=torch.float32, device=block.indices.device)
    if not isinstance(values, Tensor) or values.shape != block.indices.shape:
        raise InputError(f"Block.adj_t: expected values of [{block.num_edges}], got {describe(values)}")
    if block.indices.device.type == "cpu":
        _check_bounds(block)
    # Both index arrays are of one dtype: the narrow one costs nothing, as long as it can count the edges.
    narrow = block.indices.dtype == torch.int32 and block.num_edges <= torch.iinfo(torch.int32).max
    dtype = torch.int32 if narrow else torch.int64
    return torch.sparse_csr_tensor(
        block.indptr.to(dtype),
        block.indices.to(dtype),
        values,
        size=(block.num_dst, block.num_src),
        device=values.device,
        check_invariants=False,  # sorted columns are one of them
    )


def _check_bounds(block: Block) -> None:
    """Refuse what a product with the matrix would follow into foreign memory."""
    rows = block.indptr
    ends = int(rows[0]) == 0 and int(rows[-1]) == block.num_edges
    if not ends or bool((rows[1:] < rows[:-1]).any()):
        raise InputError(
            f"Block.adj_t: expected indptr to rise from 0 to num_edges = {block.num_edges}, got {rows.tolist()[:9]}"
        )
    if block.num_edges:
        least, most = (int(end) for end in block.indices.aminmax())
        if least < 0 or most >= block.num_src:
            raise InputError(f"Block.adj_t: expected indices in [0, num_src = {block.num_src}), got {least} to {most}")


@register
def batch_to_pyg(batch: MiniBatch) -> Any:
    """Return a ``torch_geometric.data.Data``; `MiniBatch.to_pyg` says what it holds."""
    data_type = require_pyg("MiniBatch.to_pyg").Data
    if batch.exchanges:
        raise InputError(
            "MiniBatch.to_pyg: expected a batch of one process, got one that ranks made together, whose layers have "
            "nodes of their own; use hr.cooperative(model) with block.to_pyg(h) for each of batch.blocks"
        )
    hops = list(reversed(batch.blocks))
    joined = joined_edges(hops, batch.slot)
    if batch.types is not None:
        return to_hetero_data(batch, joined, require_pyg("MiniBatch.to_pyg").HeteroData())
    data = data_type(num_nodes=batch.n_id.numel())
    data.edge_index = joined.edge_index
    data.n_id = batch.n_id
    if joined.edge_ids is not None and hops:
        data.e_id = joined.edge_ids
    # The shared block of expand="new" has more destinations than seeds.
    data.batch_size = rows_of_seeds(batch)
    data.input_id = batch.item_index
    data.num_global_seeds = batch.num_global_seeds
    num_nodes, num_edges = hop_sizes(batch)
    data.num_sampled_nodes = list(num_nodes)
    data.num_sampled_edges = list(num_edges) if len(hops) == 1 else list(joined.num_edges)
    if isinstance(batch, PaddedBatch):
        add_masks(batch, data)
    if hops and all(block.weight is not None for block in hops):
        data[IMPORTANCE_WEIGHT] = joined.join([block.weight for block in hops if block.weight is not None])
    if batch.slot is not None:
        data.batch = batch.slot
    if batch.seeds.ndim == 2:
        add_link_labels(batch, data, batch.seed_index)
    else:
        if batch.seed_time is not None:
            data.seed_time = batch.seed_time
        data.seed_index = batch.seed_index
        if batch.y is not None:
            data.y = labels_of_rows(batch, "MiniBatch.to_pyg")
    features = list(batch.node.items())
    features += [(name, joined.join(list(reversed(tensors)))) for name, tensors in batch.edge.items()]
    for name, tensor in features:
        if name in data:
            raise InputError(
                f"MiniBatch.to_pyg: expected features under names of their own, got a feature {name!r} beside what the "
                f"Data holds as {name!r} already; give it another name in the store, or do not fetch it"
            )
        data[name] = tensor
    return data


def joined_edges(hops: list[Block], slot: Tensor | None = None) -> JoinedHops:
    """Return the edges of all hops, from the seeds outward, without those that an earlier hop brought.

    Edges repeated within one hop (sampling with replacement) stay, and so does an edge that another tree brought, where
    nodes are in slots.
    """
    if slot is not None and len(hops) > 1:
        return _joined_in_trees(hops, slot)
    edge_ids = [block.edge_ids for block in hops if block.edge_ids is not None]
    if len(hops) > 1 and len(edge_ids) < len(hops):
        raise InputError(
            "MiniBatch.to_pyg: expected edge ids on every block, to know the edges that hops share, got none; "
            'sample with edge ids, or with expand="new", or use Block.to_pyg layer by layer'
        )
    if len(hops) == 1:
        (block,) = hops
        nothing = block.indices.new_empty(0, dtype=torch.int64)
        return JoinedHops(block.edge_index, block.edge_ids, (block.num_edges,), (nothing,), (0,))
    if any(block.indptr.device.type != "cpu" for block in hops):
        return _joined_on_device(hops, edge_ids)
    return join_hops([block.indptr for block in hops], [block.indices for block in hops], edge_ids)


def _joined_in_trees(hops: list[Block], slot: Tensor) -> JoinedHops:
    """Do it with the edges of each tree under ids of their own."""
    if any(block.edge_ids is None for block in hops):
        return joined_edges(hops)  # which says so
    largest = (int(block.edge_ids.max()) for block in hops if block.edge_ids is not None and block.num_edges)
    count = 1 + max(largest, default=0)

    def of_tree(block: Block) -> Block:
        trees = slot[: block.num_dst].repeat_interleave(block.indptr.diff(), output_size=block.num_edges)
        assert block.edge_ids is not None  # looked at above
        return replace(block, edge_ids=trees * count + block.edge_ids)

    joined = joined_edges([of_tree(block) for block in hops])
    return replace(joined, edge_ids=None if joined.edge_ids is None else joined.edge_ids % count)


@register
def edge_index_of(block: Block) -> Tensor:
    """Return the edges as int64[2, num_edges]; see `Block.edge_index`."""
    if block.indptr.device.type == "cpu":
        return join_hops([block.indptr], [block.indices]).edge_index
    destinations = torch.arange(block.num_dst, device=block.indptr.device)
    dst = torch.repeat_interleave(destinations, block.indptr.diff(), output_size=block.num_edges)
    return torch.stack([block.indices.to(torch.int64), dst])


def labels_of_rows(batch: MiniBatch, stage: str) -> Tensor:
    """Return one label for each distinct seed, by first occurrence, which is the order of the batch's first rows."""
    assert isinstance(batch.y, Tensor)  # of a graph without types
    if isinstance(batch, PaddedBatch):
        return labels_with_padding(batch, batch.y, stage)
    return one_for_each(batch.y, batch.seed_index, rows_of_seeds(batch), batch.seeds, stage)


def require_pyg(stage: str) -> Any:
    """Return ``torch_geometric.data``, or say how to install it."""
    return require("torch_geometric.data", extra="pyg", stage=stage)


def require_dgl(stage: str) -> Any:
    """Return ``dgl``, or say how to install it."""
    return require("dgl", extra="dgl", stage=stage)


@register
def block_to_dgl(block: Block) -> Any:
    """Return a ``dgl`` block with ``dgl.EID`` and importance weights on its edges."""
    dgl = require_dgl("Block.to_dgl")
    # DGL wants one id dtype. An empty list of edge ids would mean the positions as well, but its sums of edge features
    # in single precision stop at that.
    positions = torch.arange(block.num_edges, device=block.indptr.device)
    csc = (block.indptr, block.indices.to(torch.int64), positions)
    result = dgl.create_block(("csc", csc), num_src_nodes=block.num_src, num_dst_nodes=block.num_dst)
    if block.edge_ids is not None:
        result.edata[dgl.EID] = block.edge_ids
    if block.weight is not None:
        result.edata[IMPORTANCE_WEIGHT] = block.weight
    return result


@register
def batch_to_dgl(batch: MiniBatch, *, pairs: bool = False) -> Any:
    """Return DGL blocks, input side first, and with `pairs` the graphs of pairs; `MiniBatch.to_dgl` documents both."""
    dgl = require_dgl("MiniBatch.to_dgl")
    blocks = _blocks_to_dgl(batch, dgl)
    if not pairs:
        return blocks
    if not blocks:
        raise InputError("MiniBatch.to_dgl: expected a batch with blocks for pairs=True, got none; sample it first")
    return (blocks[0].srcdata[dgl.NID], *pair_graphs(batch, blocks[-1], dgl), blocks)


def _blocks_to_dgl(batch: MiniBatch, dgl: Any) -> list[Any]:
    if len(batch.blocks) < len(batch.num_sampled_edges):
        raise InputError(
            f"MiniBatch.to_dgl: expected one block per hop ({len(batch.num_sampled_edges)}), got one shared block; "
            'sample with expand="all", which DGL models need, or use to_pyg()'
        )
    if batch.types is not None:
        typed = to_hetero_blocks(batch, dgl)
        if typed:
            add_node_features(batch, batch.types, typed[0])
            if not batch.exchanges:
                _add_seeds(batch, typed[-1])
        return typed
    results = []
    for layer, block in enumerate(batch.blocks):
        result = block_to_dgl(block)
        sources = batch.exchanges[layer].wanted if batch.exchanges else batch.n_id
        result.srcdata[dgl.NID] = sources[: block.num_src]
        result.dstdata[dgl.NID] = sources[: block.num_dst]
        slot = slots_of_layer(batch, layer)
        if slot is not None:
            result.srcdata["slot"], result.dstdata["slot"] = slot, slot[: block.num_dst]
        for feature, tensors in batch.edge.items():
            result.edata[feature] = tensors[layer]
        if isinstance(block, PaddedBlock):
            result.srcdata[NODE_MASK], result.dstdata[NODE_MASK] = block.src_mask, block.dst_mask
        results.append(result)
    if results:
        for feature, tensor in batch.node.items():
            results[0].srcdata[feature] = tensor
        # The last blocks of cooperative batches end at owned nodes, not seeds.
        if not batch.exchanges:
            _add_seeds(batch, results[-1])
    return results


def _add_seeds(batch: MiniBatch, last: Any) -> None:
    """Say which destinations of the last block are seeds, if not all are, and give those their labels.

    Labels of pairs are rows of no node.
    """
    stage, num_seeds = "MiniBatch.to_dgl", rows_of_seeds(batch)
    frames: dict[TypeName | None, Any] = {None: last.dstdata}
    counts: dict[TypeName | None, int] = {None: num_seeds}
    labels: dict[TypeName | None, Tensor] = {}
    if batch.types is not None:
        names, seeds = batch.types.node_types.names, batch.types.first(num_seeds)
        frames = {name: last.dstnodes[name].data for name in names}
        counts = {name: seeds.count(name) for name in names}
        labels = dict(labels_by_type(batch, batch.types, stage).items())
    elif batch.y is not None and batch.seeds.ndim == 1:
        labels = {None: labels_of_rows(batch, stage)}
    all_are_seeds = num_seeds == last.num_dst_nodes()
    for name, data in frames.items():
        num_dst = last.num_dst_nodes(name)
        if not all_are_seeds:
            data["is_seed"] = torch.arange(num_dst, device=batch.n_id.device) < counts[name]
        if name in labels:
            data["y"] = beside_others(labels[name], num_dst, stage)


def converted_tensors(converted: Any) -> list[Tensor]:
    """Return the tensors of a PyG Data, or of the features and ids of DGL's blocks and graphs of pairs."""
    if isinstance(converted, (list, tuple)):
        return [tensor for one in converted for tensor in converted_tensors(one)]
    if isinstance(converted, Tensor):
        return [converted]
    if isinstance(converted, dict):  # the inputs of blocks, which are in their frames as well
        return list(converted.values())
    if hasattr(converted, "srcdata"):
        # The nodes of a graph that is no block are its sources and its destinations.
        ends = (converted.srcdata, converted.dstdata) if converted.is_block else (converted.ndata,)
        # Their values() are columns of DGL's own, which are no tensors; with several types they are dictionaries.
        columns = [frame[name] for frame in (*ends, converted.edata) for name in frame.keys()]  # noqa: SIM118 - not a dictionary
        parts = [column.values() if isinstance(column, dict) else (column,) for column in columns]
        return [tensor for part in parts for tensor in part]
    stores = converted.stores if hasattr(converted, "stores") else (converted.to_dict(),)
    return [tensor for store in stores for tensor in store.values() if isinstance(tensor, Tensor)]


def converted_to(converted: Any, device: torch.device) -> Any:
    """Return a PyG Data, or what DGL's loaders would give, on a device."""
    if isinstance(converted, (list, tuple)):
        return type(converted)([converted_to(one, device) for one in converted])
    if isinstance(converted, dict):
        return {name: ids.to(device) for name, ids in converted.items()}
    return converted.to(device)


def converted_bytes(converted: Any) -> int:
    """Return the bytes of these tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in converted_tensors(converted))


def _joined_on_device(hops: list[Block], edge_ids: list[Tensor]) -> JoinedHops:
    """Do what `join_hops` does where the blocks are on a device."""
    kept = [torch.arange(len(edge_ids[0]), device=edge_ids[0].device)]
    present = edge_ids[0]
    for ids in edge_ids[1:]:
        kept.append(torch.isin(ids, present, invert=True).nonzero().squeeze(1))
        present = torch.cat([present, ids[kept[-1]]])
    edge_index = torch.cat(
        [block.edge_index.index_select(1, places) for block, places in zip(hops, kept, strict=True)], 1
    )
    counts = tuple(int(places.numel()) for places in kept)
    return JoinedHops(edge_index, present, counts, tuple(kept), tuple(len(ids) for ids in edge_ids))
