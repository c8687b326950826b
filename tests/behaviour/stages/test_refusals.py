"""What stages refuse: the call, the error, and what its message says."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import graph, items, pairs, store, typed_graph, typed_items

#: A name, a call, an error, and a pattern of its message.
REFUSALS = [
    (
        "drop_last_that_leaves_clusters_without_nodes_alone_is_refused",
        lambda: hr.ClusterSampler(hr.Partition.of([2, 2], 3), 2, shuffle=False, drop_last=True).loader(),
        hr.InputError,
        "expected nodes in the first 2 clusters",
    ),
    ("a_graph_is_needed", lambda: hr.GlobalBatch(5), hr.InputError, "GlobalBatch"),
    (
        "refuses_ids_of_edges_for_nodes",
        lambda: hr.ItemSampler([1, 2, 3], edge_ids=[1, 2, 3]),
        hr.InputError,
        "expected pairs beside edge_ids, got 3 items",
    ),
    ("pinsage_of_no_graph", lambda: items().sample_pinsage(3, 1, 1, 1), hr.InputError, "Graph, got int; make one"),
    (
        "pinsage_with_another_expand",
        lambda: items().sample_pinsage(graph(), 1, 1, 1, expand="old"),
        hr.InputError,
        "'all' or 'new'",
    ),
    (
        "pinsage_by_missing_weights",
        lambda: items().sample_pinsage(graph(), 1, 1, 1, weight="w"),
        hr.InputError,
        r"sample_pinsage.*'w'",
    ),
    (
        "pinsage_beyond_the_graph",
        lambda: hr.ItemSampler(torch.tensor([3, 200])).sample_pinsage(graph(), 1, 1, 1).loader(),
        hr.InputError,
        "item 200 is not",
    ),
    (
        "pinsage_with_edge_features",
        lambda: items().sample_pinsage(graph(), 1, 1, 1).fetch_feature(store(), edge=["e"]).loader(),
        hr.PlanError,
        "edge features",
    ),
    ("ego_nets_that_are_refused_1", lambda: items().sample_shadow(graph(), 0, 3), hr.InputError, "depth"),
    ("ego_nets_that_are_refused_2", lambda: items().sample_shadow(graph(), 2, -2), hr.InputError, "fanout"),
    (
        "times_of_a_mask",
        lambda: hr.ItemSampler(torch.tensor([True, False, False]), time=[1, 2, 3]),
        hr.InputError,
        r"each of 1 items, got 3; pass time\[mask\]",
    ),
    (
        "types_need_edge_ids",
        lambda: typed_items().sample_neighbor(typed_graph(), [1], edge_ids=False),
        hr.InputError,
        "edge_ids=True for a graph with types",
    ),
    (
        "features_fetched_before_are_refused",
        lambda: pairs().fetch_feature(store(), node=["x"]).sample_uniform_negative(graph()).loader(),
        hr.PlanError,
        "node features were fetched before",
    ),
    (
        "weights_of_sources_that_are_not_drawn_are_refused_1",
        lambda: pairs().sample_uniform_negative(graph(), 2, source_weight="degree"),
        hr.InputError,
        'expected corrupt="both" beside source_weight',
    ),
    (
        "weights_of_sources_that_are_not_drawn_are_refused_2",
        lambda: pairs().sample_uniform_negative(graph(), 2, corrupt="both", source_weight=[1.0]),
        hr.InputError,
        r"source_weight to have a number for each of \d+ nodes",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_it_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
