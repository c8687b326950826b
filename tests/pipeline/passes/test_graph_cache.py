"""Caches of the graph on a GPU, where the CPU stands in for it."""

from __future__ import annotations

import warnings

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.ops.cache.line_cache import LineCache
from headrace.pipeline.lowered.fused import SampleFused
from headrace.pipeline.lowered.gpu.fetch_rows import FetchRows, GraphCache
from headrace.pipeline.passes import rewrite

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first, digests
from plans import PLANS, graph, items

#: The graph takes some 13 kB. A quarter of these hold 13 of its 48 lines, 42 of them, and a single one.
SMALL, LARGER, TINY = (hr.Machine(cores=2, gpus=1, gpu_memory=(memory,)) for memory in (1 << 13, 26_000, 4 * 152))


def labor(plan=None):
    return (plan or items().copy_to("cuda")).sample_layer_neighbor(graph(), [5, 3])


def fetches(plan, machine=SMALL, **switches) -> list[FetchRows | SampleFused]:
    final = rewrite(plan, machine, {"prefetch": False, **switches}).final
    return [stage for stage in final.stages if isinstance(stage, FetchRows) or getattr(stage, "fetch", False)]


def hits(plan, machine=SMALL):
    with stand_in(StandIn()), plan.loader(machine=machine) as loader:
        for _ in loader.epochs(2):
            for _ in loader:
                pass
        (stats,) = (totals for name, totals in loader.stats().items() if name.startswith("sample"))
        return stats["hits"], stats["misses"]


@pytest.mark.slow
@pytest.mark.combinations(6)
@pytest.mark.parametrize("name", ["labor", "labor_poisson", "labor_new", "full", "in_subgraph_new"])
@pytest.mark.parametrize("machine", [SMALL, LARGER, TINY], ids=["small", "most lines", "one line"])
def test_same_result(name, machine):
    assert digests(copied_first(PLANS[name]()), machine) == digests(PLANS[name](), hr.Machine())


def test_same_result_in_several_threads():
    """Two workers sample on the GPU at once, with one cache."""
    plan = labor().prefetch(workers=2, depth=2)
    assert digests(plan, SMALL) == digests(labor(items()), hr.Machine())


def test_hits_and_misses_are_counted():
    """Lines that rows of one frontier share are looked up, and may be missed, for each of them."""
    (few, more_missed), (found, missed) = hits(labor(), SMALL), hits(labor(), LARGER)
    assert 0 < few < found
    assert found > missed
    assert few + more_missed == found + missed


def test_hops_share_a_cache():
    first, second = [stage.cache for stage in fetches(labor(), fuse_sampling=False)]
    assert second is first


def test_plans_for_one_machine_are_equal():
    left, right = (rewrite(labor(), SMALL).final for _ in range(2))
    assert left == right
    assert hash(fetches(labor())[0].cache) == hash(GraphCache(2048))
    assert GraphCache(2048) != GraphCache(2047)


def short_of_memory(monkeypatch, room):
    """Let devices have only so much memory."""
    made = LineCache.__init__

    def make(self, indices, num_bytes, device):
        if num_bytes > room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        made(self, indices, num_bytes, device)

    monkeypatch.setattr(LineCache, "__init__", make)


def test_a_smaller_cache_where_memory_is_taken(monkeypatch):
    short_of_memory(monkeypatch, 600)
    with pytest.warns(UserWarning, match=r"expected 2,048 bytes of free memory .* there is less; it has 512"):
        found, _ = hits(labor())
    assert found > 0


def test_no_cache_where_there_is_no_memory(monkeypatch):
    short_of_memory(monkeypatch, 0)
    expected = digests(labor(items()), hr.Machine())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert digests(labor(), SMALL) == expected
    assert [str(one.message).endswith("there is less; rows come over the bus") for one in seen] == [True]
