"""Attributes of batches of PyG, DGL and GraphBolt: where a minibatch has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.ops.errors import InputError
from headrace.ops.names import no_attribute_of

if TYPE_CHECKING:
    from headrace.pipeline.data.batch import MiniBatch

_ALL_HOPS = "batch.to_pyg() has it for all hops together, batch.blocks[layer] for one layer"
_BY_TYPE = "batch.to_pyg() has it by type; here batch.types tells the type of each node"
_NODE = 'fetch_feature(store, node=[...]) fetches node features, which are in batch.node["name"]'
_EDGE = 'fetch_feature(store, edge=[...]) fetches edge features, which are in batch.edge["name"], one for each block'
_PAIRS = "batch.seeds has a row for each pair, batch.seed_index their rows in the output of a model"
_MASK = "all seeds of a batch are items of the plan: out[batch.seed_index] are their rows"

_INSTEAD: dict[str, str] = {
    # PyG
    "edge_index": "batch.blocks[layer].edge_index has those of a layer, batch.to_pyg().edge_index those of all hops",
    "adj_t": "batch.blocks[layer] has indptr and indices of a layer; " + _ALL_HOPS,
    "edge_attr": _EDGE,
    "edge_weight": 'batch.blocks[layer].weight has importance weights; fetched ones are in batch.edge["name"]',
    "batch_size": "batch.num_seeds is the number of seeds",
    "input_id": "batch.item_index has the position of each seed among the items",
    "num_nodes": "len(batch.n_id) is the number of nodes",
    "num_edges": "sum(block.num_edges for block in batch.blocks) is the number of edges",
    "num_node_features": "batch.x.shape[1] is the number of columns",
    "num_features": "batch.x.shape[1] is the number of columns",
    "batch": "batch.slot has the tree of each node, where seeds grow trees of their own",
    "edge_label_index": _PAIRS,
    "edge_label": "batch.y has the labels of pairs",
    "src_index": _PAIRS,
    "dst_pos_index": _PAIRS,
    "dst_neg_index": _PAIRS,
    "train_mask": _MASK,
    "val_mask": _MASK,
    "test_mask": _MASK,
    "x_dict": _BY_TYPE,
    "y_dict": 'batch.y["paper"] has the labels of a type, where labels of several types were fetched',
    "n_id_dict": _BY_TYPE,
    "edge_index_dict": _BY_TYPE,
    "root_n_id": "batch.seed_index has the row of each seed",
    "node_norm": 'batch.node["loss_weight"] has it',
    "edge_norm": "batch.blocks[0].weight has it",
    # DGL and GraphBolt
    "cuda": 'write batch.to("cuda")',
    "input_nodes": "batch.n_id has the nodes whose features a model reads",
    "input_node_ids": "batch.n_id has the nodes whose features a model reads",
    "output_nodes": "batch.seeds has the seeds, batch.seed_index their rows in the output of a model",
    "seed_nodes": "batch.seeds has the seeds",
    **dict.fromkeys(("node_id", "node_ids", "nodes"), "batch.n_id has the ids of nodes"),
    "edge_ids": "batch.blocks[layer].edge_ids has those of a layer, batch.e_id those of all hops",
    "original_edge_ids": "batch.e_id has those of all hops, batch.blocks[layer].edge_ids those of a layer",
    "sampled_subgraphs": "batch.blocks has a block for each layer, input side first",
    "node_features": _NODE,
    "edge_features": _EDGE,
    "srcdata": _NODE,
    "dstdata": _NODE,
    "ndata": _NODE,
    "edata": _EDGE,
    "labels": "batch.y has the labels",
    "indexes": "batch.item_index has the position of each seed among the items",
    "num_layers": "len(batch.blocks) is the number of layers",
    "node_pairs": _PAIRS,
    "compacted_seeds": _PAIRS,
    "compacted_node_pairs": _PAIRS,
    "positive_node_pairs": _PAIRS,
    "negative_node_pairs": _PAIRS,
    "negative_srcs": _PAIRS,
    "negative_dsts": _PAIRS,
    "to_pyg_data": "write batch.to_pyg()",
}


def missing(batch: MiniBatch, name: str) -> AttributeError:
    """Return the error for an attribute that a minibatch does not have: where it is, or the nearest name."""
    features = vars(batch).get("node", {})  # none yet, while a copy is made

    def instead(word: str) -> str | None:
        return f"batch.node[{word!r}] has it" if word in features else _INSTEAD.get(word)

    return no_attribute_of(batch, "a MiniBatch", name, instead)


def no_fields(batch: MiniBatch, names: Sequence[str]) -> InputError:
    """Return the error for changes of what a minibatch has no fields for: features go into the fields by name."""
    message = f"MiniBatch.replace: expected names of fields, got {', '.join(names)}; "
    features: dict[str, list[str]] = {}
    for name in names:
        domain = "edge" if name in batch.edge else "node" if name == "x" or name in batch.node else None
        if domain is None:
            return InputError(f"{message}there are {', '.join(vars(batch))}, and node and edge have features by name")
        features.setdefault(domain, []).append(f'"{name}": {name}')
    changes = [f"{domain}={{**batch.{domain}, {', '.join(named)}}}" for domain, named in features.items()]
    return InputError(f"{message}write replace({', '.join(changes)})")
