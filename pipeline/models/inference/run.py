"""Inference on all nodes: a layer for all of them, then the next one."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.errors import FeatureError, InputError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.models.inference.batches import Batches
from headrace.pipeline.models.inference.layers import ROWS, Layer, apply_layer, evaluating, layers_of
from headrace.pipeline.models.inference.outputs import outputs_of
from headrace.pipeline.models.inference.trial import Returned, check_returned, try_layers
from headrace.pipeline.storage.features import FeatureSource, FeatureStore
from headrace.pipeline.storage.terminal import shows_bars


def inference(
    model: nn.Module,
    graph: Graph,
    store: FeatureStore,
    *,
    layers: Sequence[Layer] | None = None,
    node: str = "x",
    edge: Sequence[str] = (),
    nodes: Any = None,
    batch_size: int = 4096,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    device: str | torch.device | None = None,
    num_threads: int | None = None,
    progress: bool = False,
) -> Tensor:
    """Return what a model gives every node, exactly: whole neighbourhoods, one layer for all nodes after the other.

    Each layer reads every edge once, so the work is that of edges times layers, where minibatches of whole
    neighbourhoods of several hops would compute the same rows over and over. The model runs in the mode of evaluation
    and without gradients; its modes are restored.

    A *layer* is a function ``layer(h, block, *edge_features)``. `h` has a row for each source of the block, the
    destinations first; it returns the next `h`, a row for each destination, and does all that the model does up to the
    next layer: activations, norms. Columns may carry what later layers need. The layers of `hr.nn` are such functions;
    one of PyG is called as ``conv((h, h[: block.num_dst]), block.edge_index)``, one of DGL as
    ``conv(block.to_dgl(), h)``. A model says its layers by a method ``inference_layers()``, or they are passed.

    >>> import headrace as hr, torch
    >>> class Network(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.convs = torch.nn.ModuleList([hr.nn.SAGEConv(8, 16), hr.nn.SAGEConv(16, 3)])
    ...
    ...     def inference_layers(self):
    ...         first, second = self.convs
    ...         return [lambda h, block: first(h, block).relu(), second]
    ...
    ...     def forward(self, h, blocks):
    ...         for layer, block in zip(self.inference_layers(), blocks):
    ...             h = layer(h, block)
    ...         return h
    >>> graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0])
    >>> store = hr.FeatureStore(node={"x": torch.randn(4, 8)})
    >>> model = Network()
    >>> hr.inference(model, graph, store).shape
    torch.Size([4, 3])

    Parameters
    ----------
    model
        With parameters on the device that layers run on. Models of ``torch_geometric.nn.models`` (`GraphSAGE`, `GAT`,
        `GIN`, ...) say their layers already; those of `GCN` count degrees in the batch, so its layers are passed.
    graph
        Whose in-edges are taken: a whole graph without types.
    store
        Features of all nodes. They may be on disk, and larger than memory.
    layers
        The layers, input side first; by default ``model.inference_layers()``.
    node
        The node feature that is the input of the first layer.
    edge
        Edge features that every layer is called with, in this order. A graph convolution takes `hr.gcn_norm` here.
    nodes
        The nodes to return rows of, ids or a mask as for `hr.ItemSampler`; all by default. The last layer is computed
        for these alone.
    batch_size
        Destinations in a batch. One takes memory for the rows of all their in-neighbours.
    out
        Keep rows in ``.npy`` files and not in memory: those of the last layer remain, under this name. Two layers at
        most are there at once, beside it. The file appears when all is done, and is not there before, nor after an
        error.
    overwrite
        Whether `out` may replace a file.
    device
        Where layers run; by default where the model's first parameter is.
    num_threads
        Of the loader; by default the machine's cores.
    progress
        Show a progress bar, where stderr is a terminal or a notebook.

    Returns
    -------
    Tensor
        [num_nodes, ...], or [len(nodes), ...] in the order of `nodes`, in CPU memory. With `out` a memory map of the
        file; writing into it does not change the file.

    Raises
    ------
    InputError
        Before work starts: for a model that does not say its layers, a layer that does not return a row for each
        destination, or whose rows depend on what else is in the batch (all layers are tried on a few nodes), pairs or
        labels among `nodes`, and a place where `out` cannot be. If a layer changes its columns or dtype midway.
    FeatureError
        If the store lacks a feature, or it is not as long as the graph.
    OSError
        If a file cannot be written.

    Notes
    -----
    All of it runs in the process that calls it, also under torch.distributed: let one rank call it.
    """
    edge = (edge,) if isinstance(edge, str) else tuple(edge)
    if not isinstance(graph, Graph):
        raise InputError(f"inference: expected a whole hr.Graph, got {type(graph).__name__}")
    if graph.node_types is not None or graph.edge_types is not None:
        raise InputError(f"inference: expected a graph without types, got {graph!r}; pass graph.untyped()")
    if not isinstance(store, FeatureStore):
        raise FeatureError(f"inference: expected an hr.FeatureStore, got {type(store).__name__}")
    store.check(node=[node], edge=edge, num_nodes=graph.num_nodes, num_edges=graph.num_edges, stage="inference")
    batch_size = whole_number(batch_size, "inference: batch_size", 1, InputError)
    applied = layers_of(model, layers, len(edge))
    every, last = ItemSet.of(graph.num_nodes), ItemSet.of(graph.num_nodes if nodes is None else nodes)
    if last.are_pairs or last.labels is not None:
        raise InputError(f"inference: expected ids or a mask of nodes, got {'pairs' if last.are_pairs else 'labels'}")
    batches = Batches(graph, store, edge, batch_size, _device_of(model, device), num_threads)
    rows: FeatureSource = store.node[node]
    batches.loader(last, rows).close()  # refuses what the layers before the last would be computed in vain for
    place = None if out is None else Path(out).expanduser().resolve()
    with evaluating(model, *applied), torch.no_grad(), outputs_of(place, overwrite=overwrite) as outputs:
        returned = try_layers(applied, batches, rows)
        total = (len(applied) - 1) * len(every) + len(last)
        with _bar(total, progress=progress) as bar:
            for number, layer in enumerate(applied):
                bar.set_description(f"layer {number + 1} of {len(applied)}")
                items = last if number == len(applied) - 1 else every
                pieces = _pieces(number, layer, returned[number], batches, items, rows, bar)
                with closing(pieces):
                    rows = kept = outputs.keep(pieces, len(items), returned[number])
        return outputs.finish(kept)


def _pieces(
    number: int, layer: Layer, returned: Returned, batches: Batches, items: ItemSet, rows: FeatureSource, bar: Any
) -> Generator[Tensor, None, None]:
    """Yield the rows of a layer batch by batch, in the order of the nodes, in CPU memory."""
    with batches.loader(items, rows) as loader:
        for batch in loader:
            out = apply_layer(number, layer, batch.node[ROWS], batch, batches.edge)
            check_returned(number, out, returned)
            if len(out) < batch.num_seeds:  # some came twice
                out = out[batch.seed_index]
            yield out.cpu().contiguous()
            bar.update(batch.num_seeds)


def _device_of(model: nn.Module, device: str | torch.device | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def _bar(total: int, *, progress: bool) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="node", unit_scale=True, disable=not (progress and shows_bars()))
