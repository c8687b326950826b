"""What plan refuse: the call, the error, and what its message says."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import graph, items, store

HUGE = (1 << 31) - 1


def sampled() -> hr.Plan:
    return items().sample_neighbor(graph(), [3])


def two_pairs() -> hr.Plan:
    return hr.ItemSampler(torch.tensor([[0, 1], [1, 2]]))


#: A name, a call, an error, and a pattern of its message.
REFUSALS = [
    (
        "a_list_of_lists_of_fanouts",
        lambda: items().sample_neighbor(graph(), [[2, 3], [1]]),
        hr.InputError,
        r"fanouts to list one number per hop.*got \[\[2, 3\], \[1\]\]",
    ),
    (
        "errors_of_data_name_the_stage_that_was_written",
        lambda: hr.ItemSampler([5000]).sample_layer_neighbor(graph(), [3]).loader(),
        hr.InputError,
        r"^sample_layer_neighbor: item 5000 is not a node",
    ),
    (
        "samples_for_norms_that_are_not_asked_for",
        lambda: items().sample_saint_walk(graph(), 2, norms=False, num_samples=5),
        hr.InputError,
        "expected norms=True beside num_samples=5",
    ),
    ("a_slip_in_an_id", lambda: hr.Graph.from_coo([0], [1 << 62]), hr.InputError, "or the largest id, a slip"),
    (
        "a_subject_that_is_no_graph_1",
        lambda: items().sample_neighbor(torch.zeros(3), [2]),
        hr.InputError,
        r"hr\.Graph, got Tensor; make one",
    ),
    (
        "a_subject_that_is_no_graph_2",
        lambda: items().sample_ladies(torch.zeros(3), [2]),
        hr.InputError,
        r"sample_ladies.*hr.Graph, got Tensor; make one",
    ),
    (
        "a_subject_that_is_no_graph_3",
        lambda: items().sample_in_subgraph(torch.zeros(3)),
        hr.InputError,
        r"sample_in_subgraph.*hr.Graph, got Tensor; make one",
    ),
    ("bad_hop_rule", lambda: items().sample_neighbor(graph(), [2], expand="old"), hr.InputError, "'all' or 'new'"),
    (
        "missing_weights_list_those_that_exist",
        lambda: items().sample_neighbor(graph(), [2], weight="w"),
        hr.InputError,
        r"'w'.*\['weight'\]",
    ),
    (
        "missing_features_list_those_that_exist_1",
        lambda: items().fetch_feature(store(), node=["z"]),
        hr.InputError,
        r"'z'.*\['x', 'y'\]",
    ),
    ("missing_features_list_those_that_exist_2", lambda: items().fetch_feature(store()), hr.InputError, "at least one"),
    (
        "missing_features_list_those_that_exist_3",
        lambda: items().fetch_feature({"x": 1}, node=["x"]),
        hr.InputError,
        "FeatureStore, got dict",
    ),
    (
        "items_outside_the_graph_are_refused_before_work_starts",
        lambda: hr.ItemSampler([3, 200]).sample_neighbor(graph(), [2]).loader(),
        hr.InputError,
        "item 200 is not",
    ),
    ("bad_transform", lambda: items().transform(3), hr.PlanError, "function"),
    (
        "a_plan_begins_with_a_source",
        lambda: hr.Plan(items().prefetch().stages[1:]).loader(),
        hr.PlanError,
        "begins with a source",
    ),
    (
        "argument_1",
        lambda: sampled().loader(num_workers=4),
        hr.PlanError,
        r"prefetch\(workers=, depth=\).*\.loader\(num_threads=\)",
    ),
    (
        "argument_2",
        lambda: sampled().loader(batch_size=4),
        hr.PlanError,
        r"got batch_size=; give it to hr\.ItemSampler",
    ),
    ("argument_3", lambda: sampled().loader(prefech=False), hr.PlanError, r"did you mean prefetch=\?"),
    ("argument_4", lambda: sampled().loader(num_thread=2), hr.PlanError, r"did you mean num_threads=\?"),
    (
        "argument_5",
        lambda: sampled().loader(prefetch=2),
        hr.PlanError,
        "expected prefetch to be True or False, the switch of a pass, got 2",
    ),
    (
        "argument_6",
        lambda: hr.ItemSampler(10, num_workers=2),
        hr.PlanError,
        r"^ItemSampler: .*prefetch\(workers=, depth=\)",
    ),
    ("argument_7", lambda: hr.ItemSampler(10, batchsize=2), hr.PlanError, r"did you mean batch_size=\?"),
    (
        "argument_8",
        lambda: hr.ItemSampler(10, 4),
        hr.PlanError,
        r"at most 1 .*\(items\), got 2; name the others: batch_size=",
    ),
    (
        "argument_9",
        lambda: hr.ext.NodeSource(None, batch_size=3),
        hr.PlanError,
        "NodeSource: expected arguments among node, seed, got batch_",
    ),
    (
        "argument_10",
        lambda: items().sample_neighbor(graph(), [3], prob_name="w"),
        hr.PlanError,
        r"got prob_name=; here it is called weight=",
    ),
    (
        "argument_11",
        lambda: items().sample_neighbor(graph(), [3], weights="w"),
        hr.PlanError,
        r"did you mean weight=\?",
    ),
    (
        "argument_12",
        lambda: items().sample_neighbor(graph(), num_neighbors=[3]),
        hr.PlanError,
        r"here it is called fanouts= .*PyG's order",
    ),
    (
        "argument_13",
        lambda: items().sample_layer_neighbor(graph(), [3], replace=True),
        hr.PlanError,
        "only sample_neighbor draws with",
    ),
    (
        "argument_14",
        lambda: items().sample_neighbor(graph()),
        hr.PlanError,
        r"expected fanouts, got graph; pass fanouts=",
    ),
    ("argument_15", lambda: items().sample_neighbor(), hr.PlanError, "expected graph, fanouts, got nothing"),
    (
        "argument_16",
        lambda: items().sample_neighbor(graph(), [3], True),
        hr.PlanError,
        r"at most 2 .*\(graph, fanouts\), got 3",
    ),
    (
        "argument_17",
        lambda: sampled().fetch_feature(store(), node_feature_keys=["x"]),
        hr.PlanError,
        "here it is called node=",
    ),
    ("argument_18", lambda: items().prefetch(num_workers=2), hr.PlanError, "here it is called workers="),
    (
        "argument_19",
        lambda: two_pairs().sample_uniform_negative(graph(), num_negatives=3),
        hr.PlanError,
        r"here it is called ratio=",
    ),
    (
        "argument_20",
        lambda: two_pairs().sample_uniform_negative(graph(), negative_ratio=3),
        hr.PlanError,
        r"here it is called ratio=",
    ),
    (
        "argument_21",
        lambda: two_pairs().sample_uniform_negative(graph(), neg_sampling_ratio=3),
        hr.PlanError,
        r"here it is called ratio=",
    ),
    (
        "argument_22",
        lambda: items().exclude_seed_edges(include_reverse_edges=True),
        hr.PlanError,
        r"here it is called reverse=",
    ),
    (
        "argument_23",
        lambda: items().sample_shadow(graph(), 2, num_neighbors=3),
        hr.PlanError,
        r"here it is called fanout=",
    ),
    (
        "argument_24",
        lambda: items().sample_ladies(graph(), fanouts=[3]),
        hr.PlanError,
        r"here it is called layer_sizes=",
    ),
    (
        "argument_25",
        lambda: sampled().fetch_feature(store(), node_features=["x"]),
        hr.PlanError,
        r"here it is called node=",
    ),
    ("argument_26", lambda: items().transform(transformer=len), hr.PlanError, r"here it is called function="),
    (
        "argument_27",
        lambda: hr.ClusterSampler(hr.Partition.hash(8, 2), batch_size=3),
        hr.PlanError,
        r"here it is called clusters_per_batch=",
    ),
    (
        "argument_28",
        lambda: items().sample_neighbor(graph(), [3], exclude="self"),
        hr.PlanError,
        r"\.exclude_seed_edges",
    ),
    (
        "size_1",
        lambda: items().sample_layer_neighbor(graph(), [3], importance=10**9),
        (hr.InputError, hr.PlanError),
        "from 0 to 1000, got 1000000000",
    ),
    (
        "size_2",
        lambda: items().sample_pinsage(graph(), 3, num_walks=HUGE, walk_length=HUGE),
        (hr.InputError, hr.PlanError),
        r"at most 1,048,576, got 2,147,483",
    ),
    (
        "size_3",
        lambda: items().sample_pinsage(graph(), 3, 2, 2, num_layers=HUGE),
        (hr.InputError, hr.PlanError),
        "num_layers to be .* to 4096",
    ),
    (
        "size_4",
        lambda: items().sample_saint_walk(graph(), HUGE),
        (hr.InputError, hr.PlanError),
        "walk_length to be an integer from 1 to 1048576",
    ),
    (
        "size_5",
        lambda: items().sample_in_subgraph(graph(), num_hops=HUGE),
        (hr.InputError, hr.PlanError),
        "num_hops to be an integer from 1 to 4096",
    ),
    (
        "size_6",
        lambda: items().sample_neighbor(graph(), range(5000)),
        (hr.InputError, hr.PlanError),
        "one number per hop, .*, got 5000 numbers, more than 4096",
    ),
    (
        "size_7",
        lambda: items().sample_ladies(graph(), [3] * 5000),
        (hr.InputError, hr.PlanError),
        "got 5000 numbers, more than 4096",
    ),
    (
        "size_8",
        lambda: items().prefetch(workers=1 << 40),
        (hr.InputError, hr.PlanError),
        "workers to be an integer from 0 to 4096",
    ),
    (
        "size_9",
        lambda: items().prefetch(depth=1 << 80),
        (hr.InputError, hr.PlanError),
        "depth to be an integer from 1 to 1048576",
    ),
    (
        "edge_features_without_blocks",
        lambda: items().fetch_feature(store(), edge=["e"]).loader(),
        hr.PlanError,
        "reads blocks",
    ),
    (
        "features_before_the_sampler",
        lambda: items().fetch_feature(store(), node=["x"]).sample_neighbor(graph(), [2]).loader(),
        hr.PlanError,
        "node features were fetched before",
    ),
    (
        "labels_before_the_sampler",
        lambda: items().fetch_feature(store(), labels="y").sample_saint_edge(graph(), 5).loader(),
        hr.PlanError,
        "labels were fetched before",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_it_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
