"""Sources of users: passes and stages take them as they take ours, by what they say of themselves."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from explained import names, passes
from own_sources import Duck, OnDisk, Table, X

import headrace as hr

from plans import NUM_NODES, graph, items

CPU, DISK = hr.Place("cpu"), hr.Place("disk")
SMALL = hr.Machine(cores=1, memory=1 << 13)


class DuckInPlace(Duck):
    def __init__(self, place=CPU):
        self.rows_in_place, self.place = X.clone(), place


class DuckOnDisk(Duck):
    place = DISK


def plan(x) -> hr.Plan:
    features = hr.FeatureStore(node={"x": x})
    return items().sample_neighbor(graph(), [4, 3]).fetch_feature(features, node=["x"])


def digests(planned: hr.Plan, machine: hr.Machine, **switches: bool) -> list[str]:
    with planned.loader(machine=machine, **switches) as loader:
        return [batch.digest() for batch in loader]


EXPECTED = digests(plan(X), hr.Machine())


def has_cache(planned: hr.Plan, machine: hr.Machine) -> bool:
    return "tiered_cache" in passes(planned.explain(machine=machine, lookahead=False))


@pytest.mark.parametrize("source", [OnDisk, DuckOnDisk])
def test_rows_on_disk_get_a_cache_and_reads_ahead(source):
    for machine in (SMALL, hr.Machine(cores=1, memory=1 << 20)):
        assert has_cache(plan(source()), machine)
    assert "fetch_ahead" in names(plan(source()), SMALL)
    for switches in ({}, {"lookahead": False}, {"tiered_cache": False}):
        assert digests(plan(source()), SMALL, **switches) == EXPECTED


@pytest.mark.parametrize("source", [Table, DuckInPlace])
def test_the_system_keeps_pages_of_a_mapped_file_that_fits(source):
    for memory, cached in ((1 << 13, True), (1 << 20, False)):
        assert has_cache(plan(source(DISK)), hr.Machine(cores=1, memory=memory)) == cached


@pytest.mark.parametrize("source", [Table, OnDisk])
def test_answers_that_are_not_given_have_defaults(source):
    asked = source()
    assert (asked.num_rows, asked.row_bytes, asked.shape, asked.dtype) == (NUM_NODES, 32, (NUM_NODES, 8), X.dtype)
    assert (asked.foresight, asked.places_rows, asked.reads_to(CPU)) == (0, False, True)
    ids = torch.tensor([3, 0, 3])
    out = torch.zeros(5, 8)
    asked.read_into(ids, out, places=torch.tensor([4, 0, 1]))
    assert torch.equal(out, torch.stack([X[0], X[3], X[0] * 0, X[0] * 0, X[3]]))
    asked.read_into(ids, out)
    assert torch.equal(out[:3], X[ids])
    for other in (copy.deepcopy(asked), pickle.loads(pickle.dumps(asked))):  # noqa: S301 - our own
        assert torch.equal(other.read(ids).rows, X[ids])


@pytest.mark.parametrize("source", [Table, Duck, DuckInPlace, OnDisk, DuckOnDisk])
def test_a_cache_has_what_a_source_does_not_say(source):
    own = source()
    assert isinstance(own, hr.FeatureSource)
    cached = hr.CachedFeature(own, rows=2)
    assert (cached.num_rows, cached.row_bytes, cached.shape, cached.dtype) == (NUM_NODES, 32, (NUM_NODES, 8), X.dtype)
    ids, out = torch.tensor([3, 0, 3]), torch.zeros(5, 8)
    cached.read_into(ids, out, places=torch.tensor([4, 0, 1]))
    assert torch.equal(out, torch.stack([X[0], X[3], X[0] * 0, X[0] * 0, X[3]]))
    with pytest.raises(hr.InputError, match=f"got {source.__name__}, which has none"):
        cached.update(ids[:1], X[:1])
    assert cached == hr.CachedFeature(own, rows=3)
    for other in (copy.deepcopy(cached), pickle.loads(pickle.dumps(cached))):  # noqa: S301 - our own
        assert torch.equal(other.read(ids).rows, X[ids])


def test_stores_and_caches_give_back_what_they_were_given():
    duck = Duck()
    features = hr.FeatureStore(node={"x": duck})
    assert features.node["x"] is duck
    assert dict(features.node)["x"] is duck
    assert hr.CachedFeature(duck, rows=2).source is duck
    assert hr.cached(hr.FeatureStore(node={"x": duck, "y": X}), node=["y"], bytes=1 << 20).node["x"] is duck


def test_writes_to_rows_in_place_are_noticed():
    source = Table()
    before = source.version
    source.rows_in_place[0] = 7
    assert source.version != before
    assert source.version_reader()() == source.version
    cache = hr.CachedFeature(source, rows=NUM_NODES)
    cache.read(torch.arange(3))
    source.rows_in_place[1] = 8
    assert torch.equal(cache.read(torch.arange(3)).rows, source.rows_in_place[:3])


def test_a_source_without_anything_says_what_is_missing():
    class Nothing(hr.FeatureSource):
        pass

    with pytest.raises(hr.InputError, match="expected Nothing to have 'read', or rows_in_place"):
        Nothing().read(torch.arange(1))
    with pytest.raises(hr.InputError, match="expected Nothing to have 'shape'"):
        list(plan(Nothing()).loader())
