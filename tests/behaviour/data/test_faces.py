"""What `dir` and completion show of values that users hold: their own methods, and nothing that loaders keep there."""

from __future__ import annotations

import pytest

import headrace as hr

FACES = {
    "Graph": """
        by_original_ids by_time content_digest edge_attrs edge_ids edge_permutation edge_times edge_types
        edge_weights from_coo from_csc from_dgl from_pyg from_scipy has_parallel_edges in_degrees is_typed
        load node_ids node_types num_edges num_local_edges num_nodes original_edge_ids reordered save shard share_memory
        to_graph_ids to_original_ids undirected untyped with_reverse with_self_loops
    """,
    "FeatureStore": "check content_digest from_pyg share_memory",
    "Partition": """
        bounds content_digest hash louvain metis of of_type order owned owner position range range_of ranges report
        sizes stream
    """,
    "EdgePartition": "by_destination by_source grid num_parts num_rows owned owner report sizes",
    "MiniBatch": """
        blocks comm digest e_id epoch exchange exchanges index link_types num_bytes num_global_seeds num_positives
        num_sampled_edges num_sampled_nodes num_seeds of_seeds pin_memory replace seed_mask seed_slot seed_time slot
        tensors to to_dgl to_pyg types x y
    """,
    "Block": """
        adj_t aggregate attend bipartite edge_ids edge_index edge_index_dict edge_types map named_tensors num_edges
        pin_memory relation relation_places to to_dgl to_pyg transposed types update_all weight
    """,
}


@pytest.mark.parametrize("name", FACES)
def test_a_value_shows_what_users_call(name):
    shown = [one for one in dir(getattr(hr, name)) if not one.startswith("_")]
    assert shown == FACES[name].split()


def test_what_a_graph_keeps_is_not_shown_by_one_either():
    """Fields of an instance are in its dictionary: arrays that users give, and nothing else without an underscore."""
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    fields = {"indptr", "indices", "edge_attrs_csc", "node_attrs"}
    assert {one for one in dir(graph) if not one.startswith("_")} == fields | set(FACES["Graph"].split())
