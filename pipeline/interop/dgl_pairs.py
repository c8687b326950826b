"""Seeds that are pairs as DGL's loaders give them: a graph of the positive ones, and one of the negative ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.interop.typed import triple

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch

_STAGE = "MiniBatch.to_dgl"


def pair_graphs(batch: MiniBatch, last: Any, dgl: Any) -> tuple[Any, ...]:
    """Return the graph of the positive pairs and, where negatives were drawn, the one of the negative pairs.

    Parameters
    ----------
    batch
        Whose seeds are pairs, or triplets.
    last
        Its last block as DGL has it: the nodes of the graphs are its destinations.
    dgl
        The library.

    Raises
    ------
    InputError
        If the seeds are something else, or pairs in a graph of several types that do not say theirs, or if ranks made
        the batch together.
    """
    _check(batch)
    num_pairs, device = len(batch.seeds), batch.seeds.device
    rows = torch.arange(num_pairs, device=device)
    ends = batch.seed_index
    if batch.num_positives is None:
        return (_graph(batch, ends, rows, last, dgl, positive=True),)
    if batch.seeds.shape[1] == 2:
        is_positive = rows < batch.num_positives
        positive, negative = (ends[is_positive], rows[is_positive]), (ends[~is_positive], rows[~is_positive])
    else:
        num_each = batch.seeds.shape[1] - 2
        sources = ends[:, 0].repeat_interleave(num_each)
        positive = ends[:, :2], rows
        negative = torch.stack([sources, ends[:, 2:].flatten()], 1), rows.repeat_interleave(num_each)
    return (
        _graph(batch, *positive, last, dgl, positive=True),
        _graph(batch, *negative, last, dgl, positive=False),
    )


def _check(batch: MiniBatch) -> None:
    if batch.seeds.ndim != 2 or (batch.seeds.shape[1] != 2 and batch.num_positives is None):
        came = "nodes" if batch.seeds.ndim != 2 else f"{batch.seeds.shape[1]} nodes that belong together"
        raise InputError(f"{_STAGE}: expected seeds that are pairs for pairs=True, got {came}; leave out pairs=True")
    if batch.exchanges:
        raise InputError(
            f"{_STAGE}: expected a batch of one process for pairs=True, got one that ranks made together, whose layers "
            "have nodes of their own; leave out pairs=True, and use batch.seed_index behind the last batch.exchange"
        )
    if batch.types is not None and batch.link_types is None and batch.types.edge_types.num_types > 1:
        raise InputError(
            f"{_STAGE}: expected pairs with an edge type, of {list(batch.types.edge_types.names)}, for pairs=True, "
            "got some without; give the items by edge type, hr.ItemSampler({('user', 'rates', 'movie'): pairs})"
        )


def _graph(batch: MiniBatch, ends: Tensor, rows: Tensor, last: Any, dgl: Any, *, positive: bool) -> Any:
    """Return a graph with an edge for each of some pairs, between rows of the last block's destinations.

    Parameters
    ----------
    batch, last, dgl
        As for `pair_graphs`.
    ends: int64[num_edges, 2]
        Rows among the destinations, of all types.
    rows: int64[num_edges]
        The seeds that the edges are of, or are negatives of.
    positive
        Which of the two graphs it is.
    """
    columns = {} if batch.seed_time is None else {"seed_time": batch.seed_time}
    if positive:
        columns["item_index"] = batch.item_index
    # Triplets have the labels of their positive pairs.
    if isinstance(batch.y, Tensor) and (positive or batch.seeds.shape[1] == 2):
        columns["y"] = batch.y
    if batch.types is None:
        graph = dgl.graph((ends[:, 0], ends[:, 1]), num_nodes=last.num_dst_nodes())
        graph.ndata[dgl.NID] = last.dstdata[dgl.NID]
        graph.edata.update({name: values[rows] for name, values in columns.items()})
        return graph
    types, links = batch.types, batch.link_types
    names = types.edge_types.names if links is None else links.names
    numbers = torch.zeros_like(rows) if links is None else links.numbers[rows]
    places = {name: (numbers == number).nonzero().squeeze(1) for number, name in enumerate(names)}
    nothing = rows[:0]
    within = types.numbers[ends]
    edges = {}
    for name in dict.fromkeys((*types.edge_types.names, *names)):  # all that blocks have, as with DGL
        of_type = within[places.get(name, nothing)]
        edges[triple(name, _STAGE)] = of_type[:, 0], of_type[:, 1]
    node_types = [str(name) for name in types.node_types.names]
    graph = dgl.heterograph(edges, num_nodes_dict={name: last.num_dst_nodes(name) for name in node_types})
    for name in node_types:
        graph.nodes[name].data[dgl.NID] = last.dstnodes[name].data[dgl.NID]
    for name, mine in places.items():
        for column, values in columns.items():
            graph.edges[triple(name, _STAGE)].data[column] = values[rows[mine]]
    return graph
