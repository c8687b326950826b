"""What is refused of times and trees, by name and before work starts."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

NAN = float("nan")


def graph(**attrs):
    return hr.Graph.from_coo([1, 2, 0], [0, 0, 1], **attrs)


def timed(**attrs):
    return graph(edge_attrs={"t": [1, 2, 3], "w": [1.0, 1.0, 1.0]}, **attrs)


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ([1.0, NAN], "expected time to be times, got NaN at 1"),
        ([1], "expected a time for each of 2 items, got 1"),
        ([True, False], r"expected time to be integers or floating point in one dimension, got bool\[2\]"),
        ([[1], [2]], r"got int64\[2, 1\]"),
        (["a", "b"], "expected time to be a numeric tensor or array"),
        ([1j, 2j], "expected time to be integers or floating point"),
    ],
)
def test_times_of_items(time, message):
    with pytest.raises(hr.InputError, match=message):
        hr.ItemSampler([0, 1], time=time)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({}, r"expected times under the name 't', got a graph with no attributes; pass edge_attrs=\{'t': ...\}"),
        ({"edge_attrs": {"when": [1, 2, 3]}}, r"got a graph with \['when'\]"),
        ({"edge_attrs": {"t": [1.0, NAN, 3.0]}}, r"expected edge_attrs\['t'\] to be times, got NaN at 1"),
        ({"node_attrs": {"t": [NAN, 1.0, 3.0]}}, r"expected node_attrs\['t'\] to be times, got NaN at 0"),
        ({"edge_attrs": {"t": [True, True, False]}}, "expected edge_attrs.* integers or floating point"),
        ({"edge_attrs": {"t": torch.zeros(3, 2)}}, r"got float32\[3, 2\]"),
        (
            {"edge_attrs": {"t": [1, 2, 3]}, "node_attrs": {"t": [1.0, 2.0, 3.0]}},
            "expected times 't' of edges and of nodes of one kind, got torch.int64 and torch.float64",
        ),
    ],
)
@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
def test_times_of_graphs(sampler, attrs, message):
    plan = hr.ItemSampler([0], time=[1])
    with pytest.raises(hr.InputError, match=f"{sampler}: .*{message}"):
        getattr(plan, sampler)(graph(**attrs), [1], time="t")


def test_node_attributes_have_a_row_for_each_node():
    with pytest.raises(hr.InputError, match=r"expected node_attrs\['t'\] to have 3 rows, one for each node, got int64"):
        graph(node_attrs={"t": [1, 2]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": 3}, "time to be the name of times of edges or nodes, got int"),
        ({"time": "t", "window": -1}, "expected window to be an int of at least 0, as times are integers, got -1"),
        ({"time": "t", "window": 0.5}, "expected window to be an int of at least 0, as times are integers, got 0.5"),
        ({"time": "t", "window": True}, "expected window to be an int"),
        ({"window": 3}, "expected time= beside window=3, got none"),
        ({"disjoint": 1}, "disjoint to be True or False"),
        ({"strategy": "latest", "time": "t"}, "strategy to be 'uniform' or 'last', got 'latest'"),
        ({"strategy": "last"}, "expected time= beside strategy='last'"),
        ({"strategy": "last", "time": "t", "weight": "w"}, "and neither replace nor weight"),
        ({"strategy": "last", "time": "t", "replace": True}, "and neither replace nor weight"),
    ],
)
def test_parameters(options, message):
    with pytest.raises(hr.InputError, match=message):
        hr.ItemSampler([0], time=[1]).sample_neighbor(timed(), [1], **options)


@pytest.mark.parametrize("window", [NAN, -0.5, "1"])
def test_windows_of_floating_point(window):
    floating = graph(edge_attrs={"t": [1.0, 2.0, 3.0]})
    with pytest.raises(hr.InputError, match="expected window to be a number of at least 0"):
        hr.ItemSampler([0], time=[1.0]).sample_neighbor(floating, [1], time="t", window=window)


@pytest.mark.parametrize("options", [{"time": "t"}, {"disjoint": True}])
def test_importance_and_trees(options):
    with pytest.raises(hr.InputError, match="expected importance=0 where each seed grows a tree of its own"):
        hr.ItemSampler([0], time=[1]).sample_layer_neighbor(timed(), [1], importance="*", **options)


@pytest.mark.parametrize(
    ("source", "attrs", "message"),
    [
        (
            hr.ItemSampler([0], time=[1.0]),
            {},
            r"expected times of seeds of the kind of those of the graph, torch.int64",
        ),
        (hr.ItemSampler([0]), {}, "expected the times at which seeds are asked for, got none, and nodes have no attri"),
        (hr.ItemSampler([0], time="t"), {}, "got none, and nodes have no attribute 't'"),
        (hr.ItemSampler([0], time="when"), {"node_attrs": {"t": [1, 2, 3]}}, "under the name of those of the graph"),
        (hr.ItemSampler(torch.tensor([[0, 1]])), {"node_attrs": {"t": [1, 2, 3]}}, "and pairs have none of their own"),
    ],
)
def test_times_of_seeds(source, attrs, message):
    plan = source.sample_neighbor(timed(**attrs), [1], time="t")
    with pytest.raises(hr.InputError, match=f"sample_neighbor: .*{message}"):
        plan.loader()


def test_times_that_a_stage_gives_are_looked_at_as_well():
    plan = hr.ItemSampler([0, 1], seed=0).transform(lambda batch: batch.replace(seed_time=torch.tensor([1])))
    with pytest.raises(hr.InputError, match="expected a time for each of 2 seeds"):
        next(iter(plan.sample_neighbor(timed(), [1], time="t").loader()))
