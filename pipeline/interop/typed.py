"""Batches of graphs with types as heterogeneous objects of PyG and DGL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.sampling.join_hops import JoinedHops
from headrace.pipeline.data.narrow_dtypes import put_rows
from headrace.pipeline.data.type_offsets import TypeName
from headrace.pipeline.data.typed_ids import TypedIds, type_number
from headrace.pipeline.interop.by_type import edges_by_type, nodes_by_type
from headrace.pipeline.interop.link_labels import add_link_labels, add_typed_link_labels
from headrace.pipeline.interop.seed_labels import labels_by_type

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch
    from headrace.pipeline.data.block import Block

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
    for node_type, nodes in nodes_by_type(types, batch.num_sampled_nodes, batch.slot).items():
        store = data[node_type]
        store.n_id, store.num_nodes = nodes.ids, len(nodes.ids)
        if nodes.slot is not None:
            store.batch = nodes.slot
        store.num_sampled_nodes = nodes.by_hop
    # One block that hops share has the edges hop by hop.
    of_hops = joined.num_edges if len(batch.blocks) > 1 else batch.num_sampled_edges
    weights = [block.weight for block in reversed(batch.blocks)]
    of_all = joined.join([one for one in weights if one is not None]) if weights and None not in weights else None
    by_type = edges_by_type(types, joined.edge_index, joined.edge_ids, of_hops)
    for number, (name, edges) in enumerate(by_type.items()):
        places = edges.places
        store = data[triple(name, "MiniBatch.to_pyg")]
        store.edge_index, store.e_id, store.num_sampled_edges = edges.edge_index, edges.ids, edges.by_hop
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
    num_rows = batch.num_sampled_nodes[0]
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
            if slot is not None:
                result.srcnodes[name].data["slot"] = slot[types.places(name)]
                result.dstnodes[name].data["slot"] = slot[destinations.places(name)]
        for number, (edge_type, one) in enumerate(relations.items()):
            assert one.edge_ids is not None
            result.edges[edge_type].data[dgl.EID] = one.edge_ids - int(types.edge_types.offsets[number])
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
