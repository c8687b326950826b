"""A graph's arrays on a device: placed once, whoever asks."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import torch

import headrace as hr
from headrace.pipeline.data import graph_machinery
from headrace.pipeline.data.graph_machinery import arrays_on, block_sampler, scratch_bytes, typed_rows_of, weights_on

from plans import typed_graph, with_times


def test_threads_that_sample_at_once_place_arrays_once(monkeypatch):
    """A second copy of a large graph might have no room on the device."""
    asked = []

    def placed(tensors, device):
        asked.append(len(tensors))
        time.sleep(0.05)  # others come meanwhile
        return list(tensors)

    monkeypatch.setattr(graph_machinery, "placed", placed)
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"w": [1.0, 2.0]})
    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(lambda _: arrays_on(graph, torch.device("cpu")), range(4)))
        weights = list(pool.map(lambda _: weights_on(graph, "w", torch.device("cpu")), range(4)))
    assert asked == [5, 1]
    assert all(one is arrays[0] for one in arrays)
    assert all(one is weights[0] for one in weights)


def test_what_is_placed_is_what_hops_read(monkeypatch):
    """Rows of types in the place of those of nodes, and the times that these are sorted by."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 30, 1 << 30))
    graph = with_times(typed_graph()).by_time("time")
    arrays = arrays_on(graph, torch.device("meta"))
    there = (arrays.indptr, arrays.indices, arrays.edge_ids, arrays.times)
    assert all(array.is_meta for array in there)
    assert arrays.rows.row_ptr is arrays.indptr
    assert arrays.rows.num_rows == typed_rows_of(graph).num_rows > graph.num_nodes
    assert sum(array.nbytes for array in there) == arrays_on(graph, None).num_bytes


def test_threads_that_sample_at_once_share_a_sampler(monkeypatch):
    made = []

    class Slow(graph_machinery.BlockSampler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            made.append(self)
            time.sleep(0.05)

    monkeypatch.setattr(graph_machinery, "BlockSampler", Slow)
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    with ThreadPoolExecutor(4) as pool:
        samplers = list(pool.map(lambda _: block_sampler(graph), range(4)))
    assert all(one is samplers[0] for one in samplers)
    assert scratch_bytes(graph) == samplers[0].scratch_bytes
