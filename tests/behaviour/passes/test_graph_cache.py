"""graph_cache: fires, refuses, is switched off; its results are compared where the CPU stands in for a GPU."""

from __future__ import annotations

from explained import one_line, passes, stages

import headrace as hr

from plans import graph, items

#: The graph takes some 13 kB.
SMALL = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 13,))


def labor(plan=None):
    return (plan or items().copy_to("cuda")).sample_layer_neighbor(graph(), [5, 3])


def fetches(plan, machine=SMALL, **switches) -> list[str]:
    """The stages that fetch rows."""
    text = plan.explain(machine=machine, prefetch=False, **switches)
    return [stage for stage in stages(text) if stage.startswith("fetch_rows(") or "fetch=True" in stage]


def test_fires_on_rows_that_are_fetched():
    (fused,) = fetches(labor())
    assert fused.endswith("cache=GraphCache(2,048 bytes))")
    apart = fetches(labor(), fuse_sampling=False)
    assert [stage.endswith("cache=GraphCache(2,048 bytes))") for stage in apart] == [True, True]
    text = one_line(labor().explain(machine=SMALL))
    assert "pass graph_cache (same batches): sample_fused, which fetches rows -> with a cache, one for all hops" in text


def test_fires_for_the_gpu_that_is_copied_to():
    machine = hr.Machine(cores=2, gpus=2, gpu_memory=(1 << 12, 1 << 13))
    (fetch,) = fetches(items().copy_to("cuda:1").sample_layer_neighbor(graph(), [5]), machine)
    assert fetch.endswith("cache=GraphCache(2,048 bytes))")


def test_refuses_what_is_not_fetched():
    assert not fetches(labor(), hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 20,)))
    assert "graph_cache" not in passes(labor().explain(machine=SMALL, split_sample=False))
    assert "graph_cache (no GPU)" in one_line(labor(items()).explain(machine=hr.Machine()))


def test_refuses_memory_without_room():
    (fetch,) = fetches(labor(), hr.Machine(gpus=1, gpu_memory=(3,)))
    assert "cache" not in fetch


def test_is_switched_off():
    (fetch,) = fetches(labor(), graph_cache=False)
    assert "cache" not in fetch
