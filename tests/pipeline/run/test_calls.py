"""How many functions of Python a small batch calls: its time is theirs, not that of the kernels."""

from __future__ import annotations

import sys

import torch

import headrace as hr

#: Calls that a batch may take: of plans of two hops on the CPU.
MOST_CALLS = 110


def calls_of(loader, *, num_batches=20):
    """Return how many functions of Python a batch calls, of those in the middle of an epoch."""
    for _ in loader:
        pass  # tables are made, modules loaded
    batches, num_calls = iter(loader), 0

    def count(frame, event, argument):
        nonlocal num_calls
        num_calls += event == "call"

    for _ in range(5):
        next(batches)
    sys.setprofile(count)
    try:
        for _ in range(num_batches):
            next(batches)
    finally:
        sys.setprofile(None)
    loader.close()
    return num_calls / num_batches


def test_a_batch_of_two_hops_calls_few_functions(monkeypatch):
    monkeypatch.delitem(sys.modules, "headrace.cuda.backend", raising=False)  # as in a process that has used no GPU
    generator = torch.Generator().manual_seed(0)
    graph = hr.Graph.from_coo(*torch.randint(3_000, (2, 30_000), generator=generator), num_nodes=3_000)
    store = hr.FeatureStore(node={"x": torch.randn(3_000, 16, generator=generator)})
    plan = hr.ItemSampler(3_000, batch_size=32, shuffle=True, seed=0).sample_neighbor(graph, [5, 5])
    loader = plan.fetch_feature(store, node=["x"]).loader(num_threads=1, prefetch=False)
    assert calls_of(loader) <= MOST_CALLS
