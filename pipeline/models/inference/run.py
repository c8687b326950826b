"""Inference on all nodes: a layer for all of them, then the next one."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.errors import FeatureError, InputError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_types import node_types_of
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.models.inference.batches import Batches
from headrace.pipeline.models.inference.layers import Layer, apply_layer, evaluating, layers_of
from headrace.pipeline.models.inference.outputs import outputs_of
from headrace.pipeline.models.inference.rows import Kind, Rows, all_nodes, edge_features, input_rows, named_nodes
from headrace.pipeline.models.inference.trial import LayerReturns, check_returned, try_layers
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.terminal import shows_bars


def inference(
    model: nn.Module,
    graph: Graph,
    store: FeatureStore,
    *,
    layers: Sequence[Layer] | None = None,
    node: str | Mapping[str, str] = "x",
    edge: Sequence[str] | Mapping[Any, Sequence[str]] = (),
    nodes: Any = None,
    batch_size: int = 4096,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    device: str | torch.device | None = None,
    num_threads: int | None = None,
    progress: bool = False,
) -> Any:
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

    Of a graph with node types layers take rows by type: `h` is a dictionary with the sources of each, the destinations
    first among them, as ``block.edge_index_dict`` and ``block.relation(edge_type)`` number them. PyG's ``HeteroConv``
    is called as ``conv(h, block.edge_index_dict)``. Where one feature of all nodes is the input, `h` is a tensor, and
    ``RGCNConv`` is called as ``conv((h, h[: block.num_dst]), block.edge_index, block.edge_types)``. A layer returns
    what the next one takes, a dictionary or a tensor; types that it does not return are not there for the next. Nodes
    without features are looked up by ``block.types.within("author")``, the ids of the sources of that type. Of a graph
    with edge types alone all is as without types, and blocks have ``edge_types`` and ``relation(edge_type)``.

    Parameters
    ----------
    model
        With parameters on the device that layers run on. Models of ``torch_geometric.nn.models`` (`GraphSAGE`, `GAT`,
        `GIN`, ...) say their layers already; those of `GCN` count degrees in the batch, so its layers are passed.
    graph
        Whose in-edges are taken: a whole one.
    store
        Features of all nodes. They may be on disk, and larger than memory.
    layers
        The layers, input side first; by default ``model.inference_layers()``.
    node
        The node feature that is the input of the first layer. Of a graph with node types one of all nodes, or, where
        there is none such, that of each type that has one; ``{"paper": "x", "author": "name"}`` says which.
    edge
        Edge features that every layer is called with, in this order. A graph convolution takes `hr.gcn_norm` here.
        Those of edge types, ``{("author", "writes", "paper"): ["date"]}``, come as a dictionary for each name.
    nodes
        The nodes to return rows of, ids or a mask as for `hr.ItemSampler`; all by default. The last layer is computed
        for these alone. Of a graph with node types by type, ``{"paper": ids}``. For no nodes there are no rows.
    batch_size
        Destinations in a batch. One takes memory for the rows of all their in-neighbours.
    out
        Keep rows in ``.npy`` files and not in memory: those of the last layer remain, under this name; of a graph with
        node types it is that of a folder, with a file for each node type (``paper.npy``). Two layers at most are there
        at once, beside it. The file or folder appears when all is done, and is not there before, nor after an error.
    overwrite
        Whether `out` may replace a file, or a folder of such files.
    device
        Where layers run; by default where the model's first parameter is.
    num_threads
        Of the loader; by default the machine's cores.
    progress
        Show a progress bar, where stderr is a terminal or a notebook.

    Returns
    -------
    Tensor, or dict of node type to Tensor
        [num_nodes, ...], or [len(nodes), ...] in the order of `nodes`, in CPU memory. With `out` a memory map of the
        file; writing into it does not change the file. Of a graph with node types such a tensor for each type that the
        last layer returns rows of, or for those of `nodes`, whose rows count within the type.

    Raises
    ------
    InputError
        Before work starts: for a model that does not say its layers, a layer that does not return a row for each
        destination, or whose rows depend on what else is in the batch (all layers are tried on a few nodes, of each
        edge type), pairs or labels among `nodes`, nodes of a type that the last layer returns no rows of, a place where
        `out` cannot be, and `overwrite` without `out`. If a layer changes its columns, its dtype or the types that it
        returns midway.
    FeatureError
        If the store lacks a feature, or it is not as long as the graph.
    GraphError
        If features are named for a type that is not there.
    OSError
        If a file cannot be written.

    Notes
    -----
    All of it runs in the process that calls it, also under torch.distributed: let one rank call it.
    """
    if not isinstance(graph, Graph):
        raise InputError(
            f"inference: expected a whole hr.Graph, got {type(graph).__name__}; pass the graph and not a loader, "
            "which may shuffle or leave out nodes: batches are made here, of all nodes in their order"
        )
    if not isinstance(store, FeatureStore):
        raise FeatureError(f"inference: expected an hr.FeatureStore, got {type(store).__name__}")
    rows, names = input_rows(graph, store, node), edge_features(graph, store, edge)
    if overwrite and out is None:
        raise InputError("inference: expected out= beside overwrite=True, which names what it may replace, got none")
    batch_size = whole_number(batch_size, "inference: batch_size", 1, InputError)
    applied = layers_of(model, layers, len(names))
    every, asked = all_nodes(graph), named_nodes(graph, nodes)
    if not any(map(len, asked.values())):
        every = {}  # nobody reads the rows of the layers before the last
    batches = Batches(graph, store, names, batch_size, _device_of(model, device), num_threads)
    for some in asked.values():
        if len(some):
            batches.loader(some, rows).close()  # refuses what the layers before the last would be computed in vain for
    place = None if out is None else Path(out).expanduser().resolve()
    kept: dict[Kind, ArraySource] = {}
    by_type = graph.node_types is not None
    with (
        evaluating(model, *applied),
        torch.no_grad(),
        outputs_of(place, types=node_types_of(graph).names if by_type else None, overwrite=overwrite) as outputs,
    ):
        returned = try_layers(applied, batches, rows)
        last = _nodes_of_last(asked, returned[-1], named=nodes is not None)
        items_of = [{kind: every.get(kind) for kind in one.kinds} for one in returned[:-1]] + [last]
        with _bar(sum(len(items or ()) for of_layer in items_of for items in of_layer.values()), progress) as bar:
            for number, (layer, items_by_type) in enumerate(zip(applied, items_of, strict=True)):
                bar.set_description(f"layer {number + 1} of {len(applied)}")
                kept = {}
                for kind, items in items_by_type.items():
                    pieces = _pieces(number, layer, kind, returned[number], batches, items, rows, bar)
                    with closing(pieces):
                        place_of = kind if by_type else None
                        kept[kind] = outputs.keep(place_of, pieces, len(items or ()), returned[number].kinds[kind])
                outputs.end_layer()
                rows = Rows(kept, returned[number].by_type)
    if by_type:
        return outputs.result(kept)
    (rows_of_all,) = kept.values()
    return outputs.result({None: rows_of_all})[None]


def _nodes_of_last(asked: dict[Kind, ItemSet], returned: LayerReturns, *, named: bool) -> dict[Kind, ItemSet | None]:
    """Return the nodes that the last layer is computed for: of all types that it gives rows, or of those asked for.

    Raises
    ------
    InputError
        If it gives none to a type that was asked for.
    """
    if not named:
        return {kind: asked.get(kind) for kind in returned.kinds}
    for kind in asked:
        if kind not in returned.kinds:
            raise InputError(
                f"inference: expected the last layer to return rows of {kind!r}, nodes of which are asked for, got "
                f"those of {[*returned.kinds]}; ask for nodes of these types, or give the layer edges that end in "
                f"{kind!r}"
            )
    return {**asked}


def _pieces(
    number: int,
    layer: Layer,
    kind: Kind,
    returned: LayerReturns,
    batches: Batches,
    items: ItemSet | None,
    rows: Rows,
    bar: Any,
) -> Generator[Tensor, None, None]:
    """Yield the rows of nodes of a type batch by batch, in their order, in CPU memory; nothing for no nodes."""
    if items is None or not len(items):
        return
    with batches.loader(items, rows) as loader:
        for batch in loader:
            output = apply_layer(number, layer, rows.of(batch), batch, batches.edge)
            out = check_returned(number, kind, output, returned)
            if len(out) < batch.num_seeds:  # some came twice
                out = out[batch.seed_index]
            yield out.cpu().contiguous()
            bar.update(batch.num_seeds)


def _device_of(model: nn.Module, device: str | torch.device | None) -> torch.device:
    if device is not None:
        try:
            return torch.device(device)
        except (RuntimeError, TypeError) as error:
            message = f"inference: expected a device of torch, got {device!r}; pass device='cpu' or 'cuda'"
            raise InputError(message) from error
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def _bar(total: int, progress: bool) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="node", unit_scale=True, disable=not (progress and shows_bars()))
