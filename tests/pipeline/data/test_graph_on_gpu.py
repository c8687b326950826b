"""A graph's arrays on a device: placed once, whoever asks."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import torch

import headrace as hr
from headrace.pipeline.data import graph_view


def test_threads_that_sample_at_once_place_arrays_once(monkeypatch):
    """A second copy of a large graph might have no room on the device."""
    asked = []

    def placed(tensors, device):
        asked.append(len(tensors))
        time.sleep(0.05)  # others come meanwhile
        return list(tensors)

    monkeypatch.setattr(graph_view, "placed", placed)
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0]})
    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(lambda _: graph.arrays_on(torch.device("cpu")), range(4)))
        weights = list(pool.map(lambda _: graph.weights_on("w", torch.device("cpu")), range(4)))
    assert asked == [4, 1]
    assert all(one is arrays[0] for one in arrays)
    assert all(one is weights[0] for one in weights)


def test_threads_that_sample_at_once_share_a_sampler(monkeypatch):
    made = []

    class Slow(graph_view.BlockSampler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)
            time.sleep(0.05)

    monkeypatch.setattr(graph_view, "BlockSampler", Slow)
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    with ThreadPoolExecutor(4) as pool:
        samplers = list(pool.map(lambda _: graph.block_sampler(), range(4)))
    assert all(one is samplers[0] for one in samplers)
    assert graph.scratch_bytes == samplers[0].scratch_bytes
