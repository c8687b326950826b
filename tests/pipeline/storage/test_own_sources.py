"""Sources of users: passes and stages take them as they take ours, by what they say of themselves."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from own_sources import Duck, OnDisk, Table, X

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.passes import feature_cache, rewrite
from headrace.pipeline.storage.features import in_contract
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first, digests, names
from plans import graph, items

CPU, DISK = hr.Place("cpu"), hr.Place("disk")
#: A quarter of whose memory holds some rows of x, on the GPU and in CPU memory.
GPU = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 13,))


class DuckInPlace(Duck):
    def __init__(self, place=CPU):
        self.rows_in_place, self.place = X.clone(), place


class DuckOnDisk(Duck):
    place = DISK


def plan(x) -> hr.Plan:
    features = hr.FeatureStore(node={"x": x})
    return items().sample_neighbor(graph(), [4, 3]).fetch_feature(features, node=["x"])


EXPECTED = digests(plan(X), hr.Machine())


def source_of(planned: hr.Plan, machine: hr.Machine, **switches: bool) -> hr.FeatureSource:
    final = rewrite(planned, machine, {"stream_overlap": False, "lookahead": False, **switches}).final
    (wanted,) = (stage.wants for stage in final.stages if stage.wants is not None)
    return wanted.store.node["x"]


@pytest.mark.parametrize("source", [Table, DuckInPlace])
@pytest.mark.parametrize("cached", [False, True])
def test_a_gpu_reads_rows_in_place_and_caches_them(source, cached, monkeypatch):
    monkeypatch.setattr(feature_cache, "LEAST_BYTES", 1)
    for order in (plan(source()).copy_to("cuda"), copied_first(plan(source()))):
        assert "fetch_to" in names(order, GPU, stream_overlap=False)
        assert isinstance(source_of(order, GPU, feature_cache=cached), GpuCachedFeature) == cached
        assert digests(order, GPU, feature_cache=cached) == EXPECTED


@pytest.mark.parametrize("source", [Table, DuckInPlace])
def test_rows_that_a_gpu_reads_are_counted_as_those_of_arrays(source):
    with stand_in(StandIn()), plan(source()).copy_to("cuda").loader(machine=GPU, feature_cache=False) as loader:
        num_rows = sum(len(batch.n_id) for batch in loader)
        assert loader.stats().total("bytes_from_pinned") == num_rows * X[:1].nbytes


@pytest.mark.parametrize("source", [Table, DuckInPlace])
def test_a_source_that_was_pinned_can_be_copied(source):
    asked = in_contract(source())
    with stand_in(StandIn()):
        asked.prepare(hr.Place("cuda"))
        for other in (copy.deepcopy(asked), pickle.loads(pickle.dumps(asked))):  # noqa: S301 - our own
            assert torch.equal(other.read(torch.tensor([1])).rows, X[1:2])
            pinned = other.given if source is Table else other
            assert pinned._pinned is None  # its own memory is not


@pytest.mark.parametrize("source", [Duck, OnDisk, DuckOnDisk])
def test_what_is_not_in_one_tensor_is_read_by_the_cpu(source, monkeypatch):
    monkeypatch.setattr(feature_cache, "LEAST_BYTES", 1)
    assert "fetch_to" not in names(plan(source()).copy_to("cuda"), GPU)
    assert digests(plan(source()).copy_to("cuda"), GPU) == EXPECTED
