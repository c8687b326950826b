"""A test of a user's own layer: a destination gets its row from its own in-edges, whatever else is in the block."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data import MiniBatch, check_kind
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.checks import check_module

#: Destinations that are looked at alone, spread over a block.
_MOST = 16

#: What rows may differ by, of the largest element, by dtype: products of other sizes add up in another order.
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}


def check_layer(
    layer: nn.Module, batch: MiniBatch, call: Callable[[nn.Module, Tensor, Block], Tensor] | None = None
) -> int:
    """Check that a layer of your own gives a destination the same row alone as beside others: for your tests.

    Ranks that share a batch, and inference layer by layer, hold some of the destinations, with all of their in-edges.
    So a layer is right there if a row depends on the in-edges of its own node alone: not on means over all rows, on
    degrees of sources, on the number of rows or their positions. The layer is called in evaluation, without gradients,
    on the first block of a batch, and on the in-edges of some destinations by themselves.

    >>> import headrace as hr, torch
    >>> graph = hr.Graph.from_coo([0, 1, 2, 2], [1, 2, 0, 1], num_nodes=3)
    >>> store = hr.FeatureStore(node={"x": torch.randn(3, 4)})
    >>> plan = hr.ItemSampler(3).sample_neighbor(graph, [-1]).fetch_feature(store, node=["x"])
    >>> hr.testing.check_layer(hr.nn.SAGEConv(4, 2), next(iter(plan.loader())))
    3

    Parameters
    ----------
    layer
        The layer.
    batch
        A batch of one process with `x`, whose columns the layer takes. The more in-edges its destinations have in
        common, the more shows.
    call
        What to call, ``call(layer, x, block)``, where it is not ``layer(x, block)`` or, for a layer of PyG,
        ``layer((x, x[:num_dst]), block.edge_index)``.

    Returns
    -------
    int
        The number of destinations that were compared.

    Raises
    ------
    AssertionError
        If a row differs: of which node, and by how much.
    InputError
        If the batch has no `x`, no block with two destinations, or is one that ranks share.
    """
    check_module(layer, "check_layer")
    check_kind(batch, MiniBatch, "check_layer: expected a batch", "take one from a loader", InputError)
    block = batch.blocks[0] if batch.blocks else None
    x = batch.node.get("x")
    if not isinstance(block, Block) or block.num_dst < 2 or batch.exchanges or x is None:
        raise InputError(
            "check_layer: expected a batch of one process with x and a block of at least two destinations, got "
            f"{block!r}; take one from plan.sample_neighbor(graph, [-1]).fetch_feature(store, node=['x']).loader()"
        )
    call = call or (_of_pyg if hasattr(layer, "propagate") else _of_block)
    was_training, _ = layer.training, layer.eval()
    try:
        with torch.no_grad():
            together = _rows(layer, call(layer, x, block), block)
            chosen = torch.linspace(0, block.num_dst - 1, min(_MOST, block.num_dst), device="cpu").long().tolist()
            for place in chosen:
                one, sources = _alone(block, place)
                alone = _rows(layer, call(layer, x[sources], one), one)[0]
                _compare(layer, together[place], alone, int(batch.n_id[place]))
    finally:
        layer.train(was_training)
    return len(chosen)


def _of_pyg(layer: nn.Module, x: Tensor, block: Block) -> Any:
    return layer((x, x[: block.num_dst]), block.edge_index)


def _of_block(layer: nn.Module, x: Tensor, block: Block) -> Any:
    return layer(x, block)


def _rows(layer: nn.Module, out: Any, block: Block) -> Tensor:
    if not isinstance(out, Tensor) or out.dim() == 0 or len(out) < block.num_dst:
        got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise AssertionError(
            f"{type(layer).__name__}: expected a row for each of {block.num_dst} destinations, the first ones, "
            f"got {got}"
        )
    return out


def _alone(block: Block, place: int) -> tuple[Block, Tensor]:
    """Return the in-edges of a destination as a block, and its sources among those of the whole one, itself first."""
    start, stop = (int(block.indptr[place + further]) for further in (0, 1))
    indices = block.indices[start:stop].long()
    others = torch.unique(indices[indices != place])
    sources = torch.cat([others.new_tensor([place]), others])
    numbers = torch.searchsorted(others, indices) + 1
    numbers = numbers.masked_fill(indices == place, 0).to(block.indices.dtype)
    return dataclasses.replace(
        block,
        indptr=block.indptr.new_tensor([0, stop - start]),
        indices=numbers,
        num_src=len(sources),
        num_dst=1,
        edge_ids=None if block.edge_ids is None else block.edge_ids[start:stop],
        weight=None if block.weight is None else block.weight[start:stop],
        types=None if block.types is None else block.types.of(block.types.ids[sources]),
    ), sources


def _compare(layer: nn.Module, together: Tensor, alone: Tensor, node: int) -> None:
    if together.shape == alone.shape:
        largest = float(together.double().abs().nan_to_num().max()) if together.numel() else 0.0
        slack = _TOLERANCES.get(together.dtype, 1e-2)
        if torch.allclose(together.double(), alone.double(), rtol=0.0, atol=slack * max(largest, 1.0), equal_nan=True):
            return
    difference = (
        f"rows of {list(together.shape)} and {list(alone.shape)}"
        if together.shape != alone.shape
        else f"a difference of {float((together - alone).abs().max()):.2g}"
    )
    raise AssertionError(
        f"{type(layer).__name__}: expected node {node} to get the same row alone as beside other destinations, got "
        f"{difference}: the layer reads other rows, degrees of sources, the number of rows or their positions, or draws"
    )
