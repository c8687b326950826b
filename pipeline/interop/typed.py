"""Nodes and edges of all types together, as those of each type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from headrace.ops import InputError, JoinedHops
from headrace.pipeline.data.narrow_dtypes import put_rows
from headrace.pipeline.data.padded_batch import PaddedBatch
from headrace.pipeline.data.padded_block import PaddedBlock
from headrace.pipeline.data.types import TypedIds, TypeName, count_by_hop, type_number
from headrace.pipeline.interop.labels import add_link_labels, add_typed_link_labels, labels_by_type
from headrace.pipeline.interop.padded import EDGE_MASK, NODE_MASK, hop_sizes, real_edges, rows_of_seeds

if TYPE_CHECKING:
    from headrace.pipeline.data import Block, MiniBatch


class NodesOfType(NamedTuple):
    """The nodes of one type, in their order.

    Parameters
    ----------
    ids: int64[n]
        Their numbers within the type.
    slot: int64[n], optional
        The tree of each, where seeds grow trees of their own.
    by_hop
        How many each hop brought; empty where hops are not told apart.
    """

    ids: Tensor
    slot: Tensor | None
    by_hop: list[int]


class EdgesOfType(NamedTuple):
    """The edges of one type, in their order.

    Parameters
    ----------
    places: int64[n]
        Where they are among the edges of all types.
    edge_index: int64[2, n]
        Their ends, numbered among the nodes of their types.
    ids: int64[n]
        Their numbers within the type.
    by_hop
        How many each hop brought; empty where hops are not told apart.
    """

    places: Tensor
    edge_index: Tensor
    ids: Tensor
    by_hop: list[int]


def nodes_by_type(types: TypedIds, by_hop: Sequence[int] | None, slot: Tensor | None) -> dict[TypeName, NodesOfType]:
    """Return nodes type by type; all types have an entry.

    Parameters
    ----------
    types
        The nodes.
    by_hop
        How many each hop brought; None where hops are not told apart.
    slot: int64[num_nodes], optional
        The tree of each.
    """
    names = types.node_types.names
    counts = [[]] * len(names) if by_hop is None else count_by_hop(types.types, len(names), by_hop)
    return {
        name: NodesOfType(types.within(name), None if slot is None else slot[types.places(name)], of_hops)
        for name, of_hops in zip(names, counts, strict=True)
    }


def edges_by_type(
    types: TypedIds, edge_index: Tensor, edge_ids: Tensor, by_hop: Sequence[int] | None
) -> dict[TypeName, EdgesOfType]:
    """Return edges type by type; all types have an entry.

    Parameters
    ----------
    types
        The nodes that the ends are.
    edge_index: int64[2, num_edges]
        The ends, numbered among the nodes of all types.
    edge_ids: int64[num_edges]
        The edges, by which their types are known.
    by_hop
        How many each hop brought; None where hops are not told apart.
    """
    names = types.edge_types.names
    number, within = types.of_edges(edge_ids)
    order = number.to(torch.int16).argsort(stable=True)
    sizes = torch.bincount(number, minlength=len(names)).tolist()
    ends = torch.split(types.numbers[edge_index[:, order]], sizes, dim=1)
    counts = [[]] * len(names) if by_hop is None else count_by_hop(number, len(names), by_hop)
    each = zip(names, torch.split(order, sizes), ends, torch.split(within[order], sizes), counts, strict=True)
    return {name: EdgesOfType(places, both.contiguous(), ids, of_hops) for name, places, both, ids, of_hops in each}


#: Of a block in another library.
IMPORTANCE_WEIGHT = "importance_weight"


def triple(name: TypeName, stage: str) -> tuple[str, str, str]:
    """Return the name of an edge type, which has to say between which node types it leads.

    Raises
    ------
    InputError
        If it does not.
    """
    if not isinstance(name, tuple):
        raise InputError(
            f"{stage}: expected edge types (source type, relation, destination type), got {name!r}; name the graph's "
            "edge types so"
        )
    return name


def to_hetero_data(batch: MiniBatch, joined: JoinedHops, data: Any) -> Any:
    """Fill a ``HeteroData``; `MiniBatch.to_pyg` says what it holds.

    Parameters
    ----------
    batch
        With types.
    joined
        The edges of all hops.
    data
        An empty ``HeteroData``.
    """
    types = batch.types
    assert types is not None
    assert joined.edge_ids is not None
    num_nodes, num_edges = hop_sizes(batch)
    for node_type, nodes in nodes_by_type(types, num_nodes, batch.slot).items():
        store = data[node_type]
        store.n_id, store.num_nodes = nodes.ids, len(nodes.ids)
        if nodes.slot is not None:
            store.batch = nodes.slot
        store.num_sampled_nodes = nodes.by_hop
        if isinstance(batch, PaddedBatch):
            store[NODE_MASK] = batch.node_mask[types.places(node_type)]
    # One block that hops share has the edges hop by hop.
    of_hops = joined.num_edges if len(batch.blocks) > 1 else num_edges
    weights = [block.weight for block in reversed(batch.blocks)]
    of_all = joined.join([one for one in weights if one is not None]) if weights and None not in weights else None
    by_type = edges_by_type(types, joined.edge_index, joined.edge_ids, of_hops)
    edge_mask = real_edges(batch) if isinstance(batch, PaddedBatch) else None
    for number, (name, edges) in enumerate(by_type.items()):
        places = edges.places
        store = data[triple(name, "MiniBatch.to_pyg")]
        store.edge_index, store.e_id, store.num_sampled_edges = edges.edge_index, edges.ids, edges.by_hop
        if edge_mask is not None:
            store[EDGE_MASK] = edge_mask[places]
        if of_all is not None:
            store[IMPORTANCE_WEIGHT] = of_all[places]
        for feature, tensors in batch.edge.items():
            if isinstance(feature, tuple) and type_number(types.edge_types, feature[0]) == number:
                _set(store, feature[1], _of_relation(batch.blocks, tensors, name, joined, places))
            elif isinstance(feature, str):
                _set(store, feature, joined.join(list(reversed(tensors)))[places])
    for feature, rows in batch.node.items():
        if isinstance(feature, tuple):
            _set(data[feature[0]], feature[1], rows)
        else:
            for node_type in types.node_types.names:
                _set(data[node_type], feature, rows[types.places(node_type)])
    _add_seeds(batch, types, data)
    data.num_global_seeds = batch.num_global_seeds
    return data


def _of_relation(
    blocks: tuple[Block, ...], tensors: tuple[Tensor, ...], name: TypeName, joined: JoinedHops, places: Tensor
) -> Tensor:
    """Return the rows of an edge feature of one type, for the edges of that type among those of all hops."""
    hops = []
    for block, rows in zip(blocks, tensors, strict=True):
        of_hop = rows.new_zeros(block.num_edges, *rows.shape[1:])
        put_rows(of_hop, block.relation_places(name), rows)
        hops.append(of_hop)
    return joined.join(list(reversed(hops)))[places]


def _set(store: Any, name: str, value: Tensor) -> None:
    if name in store:
        raise InputError(
            f"MiniBatch.to_pyg: expected features under names of their own, got a feature {name!r} beside what the "
            f"HeteroData holds as {name!r} already; give it another name in the store, or do not fetch it"
        )
    store[name] = value


def _add_seeds(batch: MiniBatch, types: TypedIds, data: Any) -> None:
    """Say which nodes are the seeds, on all types, as a batch may lack one; pairs on the types that they have."""
    num_rows = rows_of_seeds(batch)
    if batch.seeds.ndim > 1:
        index = types.numbers[batch.seed_index]
        if batch.link_types is None:
            add_link_labels(batch, data, index)
        else:
            add_typed_link_labels(batch, batch.link_types, data, index)
        return
    seeds = types.first(num_rows)
    labels = labels_by_type(batch, types, "MiniBatch.to_pyg")
    for node_type in types.node_types.names:
        places = seeds.places(node_type)
        store = data[node_type]
        store.batch_size = len(places)
        of_type = torch.isin(batch.seed_index, places)
        if isinstance(batch, PaddedBatch):
            of_type &= batch.seed_mask  # padded seeds are of any type
        store.input_id = batch.item_index[of_type]
        if batch.seed_time is not None:
            store.seed_time = batch.seed_time[of_type]
        store.seed_index = types.numbers[batch.seed_index[of_type]]
        if node_type in labels:
            _set(store, "y", labels[node_type])
        elif isinstance(batch.y, Mapping) and node_type in batch.y:  # no seed of this type is in the batch
            _set(store, "y", batch.y[node_type])


def to_hetero_blocks(batch: MiniBatch, dgl: Any) -> list[Any]:
    """Return DGL's heterogeneous blocks, input side first; `MiniBatch.to_dgl` says what they hold."""
    results = []
    for layer, block in enumerate(batch.blocks):
        types, slot = block.types, slots_of_layer(batch, layer)
        assert types is not None
        destinations = types.first(block.num_dst)
        edges = {}
        relations = {triple(name, "MiniBatch.to_dgl"): block.relation(name) for name in types.edge_types.names}
        for edge_type, one in relations.items():
            edges[edge_type] = (
                "csc",
                (one.indptr, one.indices.to(torch.int64), torch.arange(one.num_edges, device="cpu")),
            )
        node_types = [str(name) for name in types.node_types.names]
        result = dgl.create_block(
            edges,
            num_src_nodes={name: types.count(name) for name in node_types},
            num_dst_nodes={name: destinations.count(name) for name in node_types},
        )
        for name in node_types:
            result.srcnodes[name].data[dgl.NID] = types.within(name)
            result.dstnodes[name].data[dgl.NID] = destinations.within(name)
            if isinstance(block, PaddedBlock):
                result.srcnodes[name].data[NODE_MASK] = block.src_mask[types.places(name)]
                result.dstnodes[name].data[NODE_MASK] = block.dst_mask[destinations.places(name)]
            if slot is not None:
                result.srcnodes[name].data["slot"] = slot[types.places(name)]
                result.dstnodes[name].data["slot"] = slot[destinations.places(name)]
        for number, (edge_type, one) in enumerate(relations.items()):
            assert one.edge_ids is not None
            result.edges[edge_type].data[dgl.EID] = types.of_edges(one.edge_ids)[1]
            if one.weight is not None:
                result.edges[edge_type].data[IMPORTANCE_WEIGHT] = one.weight
            for feature, tensors in batch.edge.items():
                if isinstance(feature, tuple) and type_number(types.edge_types, feature[0]) == number:
                    result.edges[edge_type].data[feature[1]] = tensors[layer]
                elif isinstance(feature, str):
                    result.edges[edge_type].data[feature] = tensors[layer][block.relation_places(edge_type)]
        results.append(result)
    return results


def slots_of_layer(batch: MiniBatch, layer: int) -> Tensor | None:
    """Return the trees of the sources of a block, int64[num_src]; None where seeds grow none.

    Layers of a batch that ranks made together have nodes of their own, those of others begin with the same ones.
    """
    if batch.exchanges:
        slots: Tensor | None = batch.exchanges[layer].wanted_slot
        return slots
    return None if batch.slot is None else batch.slot[: batch.blocks[layer].num_src]


def add_node_features(batch: MiniBatch, types: TypedIds, first: Any) -> None:
    """Put the features of nodes on the sources of the first block."""
    for feature, rows in batch.node.items():
        if isinstance(feature, tuple):
            first.srcnodes[feature[0]].data[feature[1]] = rows
        else:
            for name in types.node_types.names:
                first.srcnodes[name].data[feature] = rows[types.places(name)]
