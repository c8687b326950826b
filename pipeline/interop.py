"""Batches as PyG and DGL objects; both libraries are imported when a conversion is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from headrace.pipeline.batch import MiniBatch
    from headrace.pipeline.block import Block

IMPORTANCE_WEIGHT = "importance_weight"


def batch_to_pyg(batch: MiniBatch) -> Any:
    """Return a ``torch_geometric.data.Data``; `MiniBatch.to_pyg` says what it holds."""
    from torch_geometric.data import Data

    if batch.exchanges:
        raise InputError(
            "MiniBatch.to_pyg: expected a batch of one process, got one that ranks made together, whose layers have "
            "vertices of their own; use hr.cooperative(model) with block.to_pyg(h) for each of batch.blocks"
        )
    hops = list(reversed(batch.blocks))
    kept = _first_occurrences(hops)
    data = Data(num_nodes=batch.n_id.numel())
    data.edge_index = _join([block.edge_index for block in hops], kept, dim=1)
    data.n_id = batch.n_id
    if hops and all(block.edge_ids is not None for block in hops):
        data.e_id = _join([block.edge_ids for block in hops if block.edge_ids is not None], kept)
    # The shared block of expand="new" has more destinations than seeds.
    data.batch_size = batch.num_sampled_nodes[0] if batch.num_sampled_nodes else batch.num_seeds
    data.input_id = batch.item_index
    data.num_sampled_nodes = list(batch.num_sampled_nodes)
    data.num_sampled_edges = (
        list(batch.num_sampled_edges) if len(hops) == 1 else [int(positions.numel()) for positions in kept]
    )
    for name, tensor in batch.node.items():
        data[name] = tensor
    for name, tensors in batch.edge.items():
        data[name] = _join(list(reversed(tensors)), kept)
    if hops and all(block.weight is not None for block in hops):
        data[IMPORTANCE_WEIGHT] = _join([block.weight for block in hops if block.weight is not None], kept)
    if batch.seeds.ndim == 2:
        data.edge_label_index = batch.seed_index.t().contiguous()
        if batch.y is not None:
            data.edge_label = batch.y
    else:
        data.seed_index = batch.seed_index
        if batch.y is not None:
            data.y = batch.y
    return data


def block_to_dgl(block: Block) -> Any:
    """Return a ``dgl`` block with ``dgl.EID`` and importance weights on its edges."""
    import dgl

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


def batch_to_dgl(batch: MiniBatch) -> list[Any]:
    """Return DGL blocks, input side first; `MiniBatch.to_dgl` says what they hold."""
    import dgl

    if len(batch.blocks) < len(batch.num_sampled_edges):
        raise InputError(
            f"MiniBatch.to_dgl: expected one block per hop ({len(batch.num_sampled_edges)}), got one shared block; "
            'sample with expand="all", which DGL models need, or use to_pyg()'
        )
    results = []
    for layer, block in enumerate(batch.blocks):
        result = block_to_dgl(block)
        sources = batch.exchanges[layer].wanted if batch.exchanges else batch.n_id
        result.srcdata[dgl.NID] = sources[: block.num_src]
        result.dstdata[dgl.NID] = sources[: block.num_dst]
        for name, tensors in batch.edge.items():
            result.edata[name] = tensors[layer]
        results.append(result)
    if results:
        for name, tensor in batch.node.items():
            results[0].srcdata[name] = tensor
    return results


def _first_occurrences(hops: list[Block]) -> list[Tensor]:
    """Return for each hop, from the seeds outward, the positions of its edges that no earlier hop brought.

    Edges repeated within one hop (sampling with replacement) stay.
    """
    if len(hops) < 2:
        return [torch.arange(block.num_edges, device=block.indptr.device) for block in hops]
    kept: list[Tensor] = []
    present: Tensor | None = None
    for block in hops:
        if block.edge_ids is None:
            raise InputError(
                "MiniBatch.to_pyg: expected edge ids on every block, to know the edges that hops share, got none; "
                'sample with edge ids, or with expand="new", or use Block.to_pyg layer by layer'
            )
        if present is None:
            positions = torch.arange(block.num_edges, device=block.indptr.device)
            present = block.edge_ids
        else:
            positions = torch.isin(block.edge_ids, present, invert=True).nonzero().squeeze(1)
            present = torch.cat([present, block.edge_ids[positions]])
        kept.append(positions)
    return kept


def _join(parts: list[Tensor], kept: list[Tensor], dim: int = 0) -> Tensor:
    """Concatenate the kept rows (columns for ``dim=1``) of each hop."""
    if not parts:
        return torch.empty((2, 0) if dim else 0, dtype=torch.int64)
    return torch.cat([part.index_select(dim, positions) for part, positions in zip(parts, kept, strict=True)], dim)
