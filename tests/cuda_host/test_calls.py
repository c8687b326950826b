"""How many functions of Python a batch calls for a GPU with a cache; those of what stands in for it do not count."""

from __future__ import annotations

import pytest
from call_counts import calls_of, plan_of_small_batches

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.passes import feature_cache

from cuda_host.stand_in import StandIn

#: Calls that a batch may take, of a plan of two hops that a GPU samples, and of rows that it keeps some of.
MOST_CALLS = 560


@pytest.mark.slow
def test_a_batch_for_a_gpu_with_a_cache_calls_few_functions(monkeypatch):
    monkeypatch.setattr(feature_cache, "LEAST_BYTES", 1)
    machine = hr.Machine(cores=1, gpus=1, gpu_memory=(1 << 20,))
    with stand_in(StandIn()):
        loader = plan_of_small_batches("cuda").loader(machine=machine, num_threads=1, prefetch=False)
        assert "expect_rows(" in loader.explain()  # which announces reads to the cache
        assert calls_of(loader, without="cuda_host") <= MOST_CALLS
