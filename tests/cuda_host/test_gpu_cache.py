"""Plans whose features have a cache on what stands in for a GPU: the same minibatches, and fewer rows over the bus."""

from __future__ import annotations

import warnings

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.lowered.expect_rows import ExpectRows
from headrace.pipeline.passes import feature_cache
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.storage.gpu_cached_feature import GpuCachedFeature
from headrace.pipeline.storage.rows_on_gpu import READS_IN_VIEW
from headrace.pipeline.storage.wanted import Wanted

from cuda_host.stand_in import StandIn
from gpu_plans import launched
from plans import PLANS, graph, items, store

#: With room for some rows of the features, but not for all; a thread, and two.
MACHINES = [hr.Machine(cores=cores, gpus=1, gpu_memory=(1 << 15,)) for cores in (1, 2)]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    monkeypatch.setattr(feature_cache, "LEAST_BYTES", 1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    backend = StandIn()
    with stand_in(backend):
        yield backend
    torch.use_deterministic_algorithms(False)


def plan(features=None, *, first=False, **names) -> hr.Plan:
    """Two hops, fetched and copied, or copied and fetched."""
    begun = items(shuffle=True).copy_to("cuda") if first else items(shuffle=True)
    fetches = names or {"node": ["x"], "edge": ["e"], "labels": "y"}
    fetched = begun.sample_layer_neighbor(graph(), [5, 3]).fetch_feature(features or store(), **fetches)
    return fetched if first else fetched.copy_to("cuda")


def epochs(of: hr.Plan, machine=MACHINES[1], count=1, **switches: bool) -> list[str]:
    with of.loader(machine=machine, **switches) as loader:
        return [batch.digest() for _ in loader.epochs(count) for batch in loader]


@pytest.fixture(scope="module")
def expected():
    plain = items(shuffle=True).sample_layer_neighbor(graph(), [5, 3])
    return epochs(plain.fetch_feature(store(), node=["x"], edge=["e"], labels="y"), hr.Machine())


@pytest.mark.slow
@pytest.mark.combinations(7)
@pytest.mark.parametrize("machine", MACHINES, ids=["one core", "two cores"])
@pytest.mark.parametrize("first", [True, False], ids=["sampled there", "copied there"])
@pytest.mark.parametrize("off", ["", "feature_cache", "lookahead", "stream_overlap", "uva_gather"])
def test_batches_are_the_same_with_and_without(machine, first, off, expected, gpu):
    switches = {off: False} if off else {}
    assert epochs(plan(first=first), machine, **switches) == expected
    looks_up = any("find_ids" in launched for launched in gpu.launches)
    assert looks_up == (off not in ("feature_cache", "uva_gather"))
    looks_ahead = any("expect_ids" in launched for launched in gpu.launches)
    assert looks_ahead == (looks_up and off != "lookahead")


@pytest.mark.parametrize("name", ["neighbor", "labor", "ladies", "in_subgraph"])
def test_other_samplers(name):
    whole = PLANS[name]()
    assert epochs(whole.copy_to("cuda")) == epochs(whole, hr.Machine())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 40, 200])
def test_caches_of_users_of_any_size(rows, expected):
    features = hr.FeatureStore(
        node={"x": GpuCachedFeature(store().node["x"], rows=rows), "y": store().node["y"]},
        edge={"e": GpuCachedFeature(store().edge["e"], rows=rows, place="cuda:0")},
    )
    for machine in MACHINES:
        assert epochs(plan(features), machine) == expected
    assert features.node["x"].stats()["hits"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("machine", MACHINES, ids=["one core", "two cores"])
def test_resumes(after, machine, expected):
    with plan().loader(machine=machine) as loader:
        batches = iter(loader)
        for _ in range(after):
            next(batches)
        state = loader.state_dict()
        rest = [batch.digest() for batch in batches]
        loader.load_state_dict(state)
        assert [batch.digest() for batch in loader] == rest == expected[after : after + len(rest)]


def test_caches_hit_more_by_looking_ahead():
    """A third of the rows have room; as many are missed as Belady's rule would have it, or few more."""
    misses = {}
    for lookahead in (False, True):
        x = GpuCachedFeature(store().node["x"], rows=64)
        with plan(hr.FeatureStore(node={"x": x}), node=["x"]).loader(
            machine=MACHINES[0], lookahead=lookahead
        ) as loader:
            rows = sum(len(batch.n_id) for _ in loader.epochs(2) for batch in loader)
            counted = loader.stats()["fetch_feature"]
        stats = x.stats()
        assert stats["hits"] + stats["misses"] == rows == counted["hits"] + counted["misses"]
        assert counted["bytes_from_cache"] == stats["hits"] * 32
        assert counted["bytes_from_pinned"] == stats["misses"] * 32
        misses[lookahead] = stats["misses"]
    assert misses[True] < 0.9 * misses[False]


def test_nothing_is_expected_behind_an_iteration():
    x = GpuCachedFeature(store().node["x"], rows=64)
    with plan(hr.FeatureStore(node={"x": x}), node=["x"]).loader(machine=MACHINES[0]) as loader:
        for number, _ in enumerate(loader):
            if number == 2:
                assert 0 < x.stats()["expected"] <= READS_IN_VIEW
                break
        assert x.stats()["expected"] == 0
        for _ in loader:
            pass
        assert x.stats()["expected"] == 0


@pytest.mark.slow
def test_an_error_leaves_nothing_expected_and_the_cache_right(expected):
    broken = [True]

    def fails_at_two(batch):
        if batch.index == 2 and broken[0]:
            raise RuntimeError("no third batch")
        return batch

    x = GpuCachedFeature(store().node["x"], rows=64)
    features = hr.FeatureStore(node={"x": x, "y": store().node["y"]}, edge={"e": store().edge["e"]})
    begun = items(shuffle=True).sample_layer_neighbor(graph(), [5, 3]).transform(fails_at_two)
    whole = begun.fetch_feature(features, node=["x"], edge=["e"], labels="y").copy_to("cuda")
    for machine in MACHINES:
        broken[0] = True
        with whole.loader(machine=machine) as loader:
            with pytest.raises(RuntimeError, match="no third batch"):
                list(loader)
            assert x.stats()["expected"] == 0
            broken[0] = False
            loader.set_epoch(0)
            assert [batch.digest() for batch in loader] == expected


def test_batches_in_view_stay_within_the_memory_and_the_foresight():
    x = GpuCachedFeature(store().node["x"], rows=20)
    features = hr.FeatureStore(node={"x": x})
    x.prepare(hr.Place("cuda"))
    batches = list(items(batch_size=4).sample_neighbor(graph(), [4]).loader(machine=hr.Machine()))
    for room, most in ((1, 1), (1 << 20, 99)):
        runner = ExpectRows(Wanted(features, node=("x",)), hr.Place("cuda"), bytes_in_view=room).runner(
            RunSettings(seed=1)
        )
        entered = 0
        while runner.wants_more and entered < len(batches):
            runner.enter(batches[entered])
            entered += 1
        assert entered == min(most, entered)
        assert x.stats()["expected"] == entered
        seen = sum(len(batch.n_id) for batch in batches[: entered - 1])
        assert seen < x.foresight
        for batch in batches[:entered]:
            assert runner(batch) == (batch, {})
        assert runner.wants_more
        runner.clear()


def test_a_missing_wait_is_found():
    """Rows come from a stream that runs as late as it may: the cache does not make them come earlier."""
    with plan(node=["x"]).loader(machine=MACHINES[1]) as loader:
        stages = loader._rewriting.final.stages
    before = next(iter(items().sample_neighbor(graph(), [4]).loader(machine=hr.Machine())))
    run = launched(stages, RunSettings(seed=3))
    for _ in range(2):
        coming = run(before)
        assert bool(coming.batch.node["x"].isnan().any())
    batch, _ = stages[-1].runner(RunSettings(seed=3))(coming)
    assert torch.equal(batch.node["x"], store().node["x"].read(batch.n_id).rows)


def test_without_room_rows_are_read_plainly(monkeypatch, expected):
    monkeypatch.setattr("headrace.pipeline.storage.rows_on_gpu.SetIndex", _no_room)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert epochs(plan()) == expected
    assert sum("has room for 0 of" in str(one.message) for one in caught) == 3


def _no_room(num_slots, *arguments, **options):
    if num_slots:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")
    return hr.ops.SetIndex(num_slots, *arguments, **options)
