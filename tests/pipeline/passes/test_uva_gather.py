"""Rows that a GPU reads where they are, where the CPU stands in for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pair_source import PairSource

import headrace as hr
from headrace.cuda.backend import stand_in

from cuda_host.stand_in import StandIn
from gpu_plans import GPU, digests, fetched
from plans import graph, store, typed_graph, typed_items, typed_store


def test_same_result():
    assert digests(fetched().copy_to("cuda")) == digests(fetched(), hr.Machine())


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
