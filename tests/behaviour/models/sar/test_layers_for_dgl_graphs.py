"""Layers for DGL's graphs that hr.sar.wrap cannot hand a graph with frames are refused with what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sharded import WIDTH, features
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph


class Layer(nn.Module):
    def forward(self, g: Any, x: Tensor) -> Tensor:
        with g.local_scope():
            g.ndata["h"] = x
            g.apply_edges(lambda edges: {"e": edges.src["h"] - edges.dst["h"]})
            return g.ndata["h"] * 2


ADVICE = r"expected a layer of DGL that hr\.sar\.wrap has replaced .*compile the model that hr\.sar\.wrap returns"


@pytest.mark.parametrize("name", ["ndata", "srcdata", "edata"])
def test_a_graph_in_shards_has_no_frames(name):
    place = hr.sar.ShardedGraph(graph())
    with pytest.raises(hr.InputError, match=ADVICE):
        getattr(place, name)["x"] = place.rows(features(NUM_NODES, WIDTH))
    assert not hasattr(place, "no_such_attribute")


@pytest.mark.parametrize("in_place", [False, True])
def test_a_layer_that_was_compiled_before_is_refused(in_place):
    place, layer = hr.sar.ShardedGraph(graph()), Layer()
    if in_place:
        layer.compile(backend="eager")
    else:
        layer = torch.compile(layer, backend="eager")
    with pytest.raises(hr.InputError, match=ADVICE):
        hr.sar.wrap(layer, place)(place, place.rows(features(NUM_NODES, WIDTH)))


def test_a_model_is_compiled_behind_wrap():
    place = hr.sar.ShardedGraph(graph())
    x = place.rows(features(NUM_NODES, WIDTH))
    model = torch.compile(hr.sar.wrap(Layer(), place), backend="eager")
    torch.testing.assert_close(model(place, x), x * 2)
