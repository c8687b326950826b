"""Rows that a GPU reads where they are."""

from __future__ import annotations

import torch
from described_plans import GPU, fetched
from described_plans import names_on_gpu as names
from explained import stages
from pair_source import PairSource

import headrace as hr

from plans import (
    NUM_NODES,
    RELATIONS,
    graph,
    items,
    store,
    store_on_disk,
    typed_graph,
    typed_items,
    typed_store,
    unchanged,
)


def test_fires_for_rows_in_memory():
    assert "fetch_to" in names(fetched().copy_to("cuda"), stream_overlap=False)
    there = items().copy_to("cuda").sample_neighbor(graph(), [3])
    assert "fetch_to" in names(there.fetch_feature(store(), node=["x"]), stream_overlap=False)


def test_refuses_other_devices_and_rows_on_disk():
    assert "fetch_to" not in names(fetched().copy_to("meta"), stream_overlap=False)
    assert "fetch_to" not in names(fetched().copy_to("cuda"), hr.Machine(cores=2))
    assert "fetch_to" not in names(fetched(store_on_disk).copy_to("cuda"), stream_overlap=False)


def test_is_switched_off():
    assert "fetch_to" not in names(fetched().copy_to("cuda"), uva_gather=False, stream_overlap=False)


def short(num_rows=15) -> hr.FeatureStore:
    return hr.FeatureStore(node={"x": store().node["x"], "y": torch.arange(num_rows)}, edge={"e": store().edge["e"]})


def trusted(plan: hr.Plan) -> bool:
    """Whether ids are known to have rows, where a GPU fetches them."""
    text = plan.copy_to("cuda").explain(machine=GPU, stream_overlap=False)
    return next("trusted=True" in stage for stage in stages(text) if stage.startswith("fetch_to("))


def test_nobody_looks_at_ids_that_are_known_to_have_rows():
    every = {"node": ["x"], "edge": ["e"], "labels": "y"}
    sampled = items().sample_neighbor(graph(), [3])
    assert trusted(sampled.fetch_feature(store(), **every))
    assert trusted(items().sample_saint(graph(), "node", budget=40).fetch_feature(store(), **every))
    assert trusted(items().fetch_feature(store(), node=["x"], labels="y"))
    assert trusted(sampled.fetch_feature(short(NUM_NODES - 1), labels="y"))  # the last item is before the last node
    assert trusted(PairSource().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], edge=["e"]))
    assert not trusted(PairSource().sample_neighbor(graph(), [3]).fetch_feature(store(), labels="y"))
    assert not trusted(PairSource().fetch_feature(store(), node=["x"]))
    assert not trusted(sampled.transform(unchanged).fetch_feature(store(), node=["x"]))


def test_ids_of_types_are_known_to_have_rows():
    wanted = {"node": [("a", "x"), "all"], "edge": {RELATIONS[1]: ["e"]}, "labels": {"a": "y"}}
    sampled = typed_items().sample_neighbor(typed_graph(), [3])
    assert trusted(sampled.fetch_feature(typed_store(), **wanted))


def test_edge_ids_of_users_are_looked_at_once():
    for first, sound in ((0, True), (-1, False), (2, False)):
        numbers = torch.tensor([first, 1])
        mine = hr.Graph(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), numbers)
        edges = hr.FeatureStore(edge={"e": torch.zeros(2, 3)})
        assert trusted(hr.ItemSampler(2).sample_neighbor(mine, [3]).fetch_feature(edges, edge=["e"])) == sound
