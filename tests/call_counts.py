"""Counts the functions of Python that small batches call."""

from __future__ import annotations

import gc
import sys

import torch

import headrace as hr

#: Batches that are counted, in the middle of an epoch.
NUM_BATCHES = 20


def calls_of(loader: hr.Loader, *, without: str = "") -> float:
    """Return how many functions of Python this thread calls for a batch.

    Functions of files whose path has `without` in it are not counted, nor those that they call; nor are comparisons of
    keys, which a cache makes only where another test has kept an equal object before.
    """
    num_calls = inside = 0

    def count(frame, event, argument):
        nonlocal num_calls, inside
        if event not in ("call", "return"):
            return
        if without and without in frame.f_code.co_filename:
            inside += 1 if event == "call" else -1
        elif event == "call" and not inside and frame.f_code.co_name != "__eq__":
            num_calls += 1

    with loader:
        for _ in loader:
            pass  # tables are made, modules loaded
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        gc.collect()
        gc.disable()  # what other tests have left calls functions when it is freed
        sys.setprofile(count)
        try:
            for _ in range(NUM_BATCHES):
                next(batches)
        finally:
            sys.setprofile(None)
            gc.enable()
        for _ in batches:
            pass  # ranks leave their loops together
    return num_calls / NUM_BATCHES


def plan_of_small_batches(place: str = "") -> hr.Plan:
    """Return a plan of two hops and a feature, of batches of 32 seeds, which are copied to a place first."""
    generator = torch.Generator().manual_seed(0)
    graph = hr.Graph.from_coo(*torch.randint(3_000, (2, 30_000), generator=generator), num_nodes=3_000)
    store = hr.FeatureStore(node={"x": torch.randn(3_000, 16, generator=generator)})
    source = hr.ItemSampler(1_000, batch_size=32, shuffle=True, seed=0)
    begun = source.copy_to(place) if place else source
    return begun.sample_neighbor(graph, [5, 5]).fetch_feature(store, node=["x"])
