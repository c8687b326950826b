"""Inference on all nodes: a layer for all of them, then the next one."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.ops.gpu import resolved
from headrace.pipeline.data import Graph, ItemSet, check_switches, node_types_of, whole_number
from headrace.pipeline.data.checks import as_device, as_present_device
from headrace.pipeline.data.file_errors import check_path
from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.models.inference.layers import Layer, apply_layer, evaluating, layers_of
from headrace.pipeline.models.inference.outputs import outputs_of
from headrace.pipeline.models.inference.rows import (
    Batches,
    Kind,
    Rows,
    all_nodes,
    edge_features,
    input_rows,
    named_nodes,
)
from headrace.pipeline.models.inference.trial import LayerReturns, check_returned, try_layers
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.terminal import progress_bar


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
    """Return the exact output of a model for every node: from whole neighbourhoods, layer by layer for all nodes.

    Each layer reads every edge once, so the work is the number of edges times layers. Minibatches of whole
    neighbourhoods over several hops would compute the same rows repeatedly. The model runs in evaluation mode and
    without gradients; its modes are restored.

    A *layer* is a function ``layer(h, block, *edge_features)``. `h` has a row for each source of the block, the
    destinations first. The function returns the next `h`, a row for each destination, after all operations up to the
    next layer, such as activations and norms. Columns may hold data for later layers. The layers of `hr.nn` are such
    functions. A layer of PyG is called as ``conv((h, h[: block.num_dst]), block.edge_index)``, one of DGL as
    ``conv(block.to_dgl(), h)``. A method ``inference_layers()`` of the model returns the layers, or they are passed.

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
    ...         for layer, block in zip(self.inference_layers(), blocks, strict=True):
    ...             h = layer(h, block)
    ...         return h
    >>> graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0])
    >>> store = hr.FeatureStore(node={"x": torch.randn(4, 8)})
    >>> model = Network()
    >>> hr.inference(model, graph, store).shape
    torch.Size([4, 3])

    In a graph with node types, layers take rows by type: `h` is a dictionary with the rows of the sources of each type,
    destinations first, numbered as in ``block.edge_index_dict`` and ``block.relation(edge_type)``. PyG's ``HeteroConv``
    is called as ``conv(h, block.edge_index_dict)``. If one feature of all nodes is the input, `h` is a tensor, and
    ``RGCNConv`` is called as ``conv((h, h[: block.num_dst]), block.edge_index, block.edge_types)``. A layer returns the
    input of the next one, a dictionary or a tensor; the next layer has no rows of types that it does not return. For
    embeddings of nodes without features use ``block.types.within("author")``, the ids of the sources of that type. With
    edge types only, layers are called as without types, and blocks have ``edge_types`` and ``relation(edge_type)``.

    Parameters
    ----------
    model
        The model, with parameters on the device of the layers. The layers of models of ``torch_geometric.nn.models``
        (`GraphSAGE`, `GAT`, `GIN`, ...) are known; pass those of `GCN`, because it counts degrees in the batch.
    graph
        The graph whose in-edges are used; a whole graph.
    store
        Features of all nodes. They may be on disk, and larger than memory.
    layers
        The layers, input side first; by default ``model.inference_layers()``.
    node
        The node feature that is the input of the first layer. In a graph with node types, a feature of all nodes, or,
        if there is none, the feature of this name of each type that has one. ``{"paper": "x", "author": "name"}`` gives
        a name for each type.
    edge
        Edge features to pass to every layer, in this order, such as `hr.gcn_norm` for a graph convolution. Features of
        edge types, ``{("author", "writes", "paper"): ["date"]}``, are passed as a dictionary for each name.
    nodes
        The nodes whose rows to return, ids or a mask as for `hr.ItemSampler`; all by default. The last layer is
        computed only for these. In a graph with node types by type, ``{"paper": ids}``. An empty list gives no rows.
    batch_size
        Destinations in a batch. A batch takes memory for the rows of all their in-neighbours.
    out
        Path of a ``.npy`` file for the rows of the last layer, which are then not kept in memory. In a graph with node
        types it is a folder with a file for each node type (``paper.npy``). Rows of at most two layers are in files
        beside it at a time. The file or folder appears when it is complete, and not after an error, in a folder that
        exists.
    overwrite
        Whether `out` may replace a file, or a folder of such files.
    device
        The device of the layers; by default that of the model's first parameter.
    num_threads
        Threads of the loader; by default the machine's cores.
    progress
        Show a progress bar, if stderr is a terminal or a notebook.

    Returns
    -------
    Tensor, or dict of node type to Tensor
        [num_nodes, ...], or [len(nodes), ...] in the order of `nodes`, in CPU memory. With `out` a memory map of the
        file; writing to it does not change the file. In a graph with node types, such a tensor for each type that the
        last layer returns, or for the types of `nodes`, with ids that count within the type.

    Raises
    ------
    InputError
        Before work starts: for a model without known layers; for a layer that does not return a row for each
        destination, or whose rows depend on other nodes of the batch (all layers are tried on a few nodes, of each edge
        type); for pairs or labels in `nodes`; for nodes of a type that the last layer does not return; for a path `out`
        that cannot be written, as in a folder that does not exist; and for `overwrite` without `out`. Later: if a layer
        changes its number of columns, its dtype or the types that it returns between batches.
        If the store lacks a feature, or it is not as long as the graph.
        If features are named for a type that does not exist.
    HeadraceError
        If `device` is none of this machine.
    OSError
        If a file cannot be written.

    Notes
    -----
    All work is done in the calling process, also under torch.distributed: call it on one rank.
    """
    if isinstance(graph, GraphShard):
        raise InputError(
            "inference: expected a whole hr.Graph, got the shard of a rank; pass graph and features before they were "
            "cut, data.graph and data.store of data = hr.open_dataset(folder), on one rank. Or evaluate batches of the "
            "shards on all ranks, by a loader over all nodes"
        )
    if not isinstance(graph, Graph):
        raise InputError(
            f"inference: expected a whole hr.Graph, got {type(graph).__name__}; pass the graph and not a loader, "
            "which may shuffle or leave out nodes: batches are made here, of all nodes in their order"
        )
    if not isinstance(store, FeatureStore):
        raise InputError(f"inference: expected an hr.FeatureStore, got {type(store).__name__}")
    check_switches("inference", overwrite=overwrite, progress=progress)
    if out is not None and not isinstance(out, str | os.PathLike):
        raise InputError(f"inference: expected out to be the path of a file to write, got {type(out).__name__}")
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
    if out is not None:
        check_path(out, "inference: out", InputError)
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
        total = sum(len(items or ()) for of_layer in items_of for items in of_layer.values())
        with progress_bar(shown=progress, total=total, unit="node", unit_scale=True) as bar:
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
        wanted = as_device(device, "inference")
        as_present_device(resolved(wanted), "inference")
        if wanted.type != "meta":
            return wanted
        raise InputError('inference: expected a device with memory, got meta; write "cpu" or "cuda"')
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
