"""Rows that a GPU reads where they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.data.graph_machinery import has_sound_edge_ids
from headrace.pipeline.passes import rewrite

from cuda_host.stand_in import StandIn
from gpu_plans import GPU, digests, fetched, names
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


def test_same_result():
    assert digests(fetched().copy_to("cuda")) == digests(fetched(), hr.Machine())


class Pairs(hr.ext.BatchSource):
    num_batches = 2

    def seek(self, epoch, state):
        self.epoch, self.drawn = epoch, 0 if state is None else state["batch"]

    def draw(self):
        if self.drawn == self.num_batches:
            raise StopIteration
        self.drawn += 1
        return hr.MiniBatch.of_seeds(
            torch.tensor([self.drawn, 10 * self.drawn]), epoch=self.epoch, index=self.drawn - 1
        )


class PairSource(hr.ext.SourceStage):
    """Says nothing of its largest seed, 20."""

    name, seed = "pair_source", 7

    def source(self, settings):
        return Pairs()


def short(num_rows=15) -> hr.FeatureStore:
    return hr.FeatureStore(node={"x": store().node["x"], "y": torch.arange(num_rows)}, edge={"e": store().edge["e"]})


@pytest.mark.parametrize("machine", [hr.Machine(), GPU, replace(GPU, cores=1, gpu_memory=(1 << 20,))])
@pytest.mark.parametrize(
    ("sampled", "what"), [(False, {"labels": "y"}), (False, {"node": ["y"]}), (True, {"labels": "y"})]
)
def test_ids_without_rows_are_refused_there_too(machine, sampled, what, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.passes.feature_cache.LEAST_BYTES", 1)
    begun = PairSource().sample_neighbor(graph(), [2]) if sampled else PairSource()
    plan = begun.fetch_feature(short(), **what).copy_to("cuda" if machine.gpus else "cpu")
    with stand_in(StandIn()), pytest.raises(hr.InputError, match=r"= 20 has no row.* num_rows = 15"):
        list(plan.loader(machine=machine))


def trusted(plan: hr.Plan) -> bool:
    return next(
        stage.trusted
        for stage in rewrite(plan.copy_to("cuda"), GPU, {"stream_overlap": False}).final.stages
        if stage.name == "fetch_to"
    )


def test_nobody_looks_at_ids_that_are_known_to_have_rows():
    every = {"node": ["x"], "edge": ["e"], "labels": "y"}
    sampled = items().sample_neighbor(graph(), [3])
    assert trusted(sampled.fetch_feature(store(), **every))
    assert trusted(items().sample_saint_node(graph(), 40).fetch_feature(store(), **every))
    assert trusted(items().fetch_feature(store(), node=["x"], labels="y"))
    assert trusted(sampled.fetch_feature(short(NUM_NODES - 1), labels="y"))  # the last item is before the last node
    assert trusted(PairSource().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], edge=["e"]))
    assert not trusted(PairSource().sample_neighbor(graph(), [3]).fetch_feature(store(), labels="y"))
    assert not trusted(PairSource().fetch_feature(store(), node=["x"]))
    assert not trusted(sampled.transform(unchanged).fetch_feature(store(), node=["x"]))


def test_ids_of_types_are_known_to_have_rows_where_there_are_as_many():
    wanted = {"node": [("a", "x"), "all"], "edge": {RELATIONS[1]: ["e"]}, "labels": {"a": "y"}}
    sampled = typed_items().sample_neighbor(typed_graph(), [3])
    assert trusted(sampled.fetch_feature(typed_store(), **wanted))
    for name, num_rows in (("x", 119), ("y", 119), ("e", 1)):
        node, edge = dict(typed_store().node), dict(typed_store().edge)
        which, feature = (edge, (RELATIONS[1], "e")) if name == "e" else (node, ("a", name))
        which[feature] = torch.zeros(num_rows, 2)
        assert not trusted(sampled.fetch_feature(hr.FeatureStore(node=node, edge=edge), **wanted))


def test_labels_by_type_are_those_of_the_cpu():
    seeds = {"a": torch.arange(0, 120, 3), "b": torch.arange(40)}
    plan = hr.ItemSampler(seeds, batch_size=20, shuffle=True, seed=3).sample_neighbor(typed_graph(), [2])
    plan = plan.fetch_feature(typed_store(), labels={"a": "y", "b": "z"})
    assert digests(plan.copy_to("cuda")) == digests(plan, hr.Machine())
    of_one = typed_items().sample_neighbor(typed_graph(), [2])
    for labels in ({"b": "z"}, ("b", "z")):
        there = of_one.fetch_feature(typed_store(), labels=labels).copy_to("cuda")
        with stand_in(StandIn()), pytest.raises(hr.InputError, match="expected seeds of type 'b', of which 'z'"):
            list(there.loader(machine=GPU))


def test_edge_ids_of_users_are_looked_at_once():
    for first, sound in ((0, True), (-1, False), (2, False)):
        numbers = torch.tensor([first, 1])
        mine = hr.Graph(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), numbers)
        edges = hr.FeatureStore(edge={"e": torch.zeros(2, 3)})
        assert has_sound_edge_ids(mine) == sound
        assert trusted(hr.ItemSampler(2).sample_neighbor(mine, [3]).fetch_feature(edges, edge=["e"])) == sound
