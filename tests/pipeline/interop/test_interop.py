"""What users of PyG rely on: the attributes of batches, and models that give the same numbers as on the whole graph."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.pipeline.interop import conversions as interop

SAMPLERS = st.sampled_from(["sample_neighbor", "sample_layer_neighbor"])


@st.composite
def graphs(draw, max_nodes=30):
    num_nodes = draw(st.integers(2, max_nodes))
    num_edges = draw(st.integers(0, 4 * num_nodes))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    src, dst = random.integers(0, num_nodes, (2, num_edges))
    return torch.from_numpy(src), torch.from_numpy(dst), num_nodes


def first_batch(plan):
    with plan.loader() as loader:
        return next(iter(loader))


@settings(max_examples=60)
@given(graphs(), SAMPLERS, st.lists(st.integers(-1, 4), min_size=2, max_size=4), st.booleans())
def test_hops_are_joined_alike_on_any_device(edges, verb, fanouts, replace):
    """By a kernel on the CPU, by torch elsewhere: the same edges in the same order."""
    src, dst, num_nodes = edges
    options = {"replace": True} if replace and verb == "sample_neighbor" else {}
    plan = getattr(hr.ItemSampler(num_nodes, batch_size=4), verb)
    batch = first_batch(plan(hr.Graph.from_coo(src, dst, num_nodes=num_nodes), fanouts=fanouts, **options))
    hops = batch.blocks[::-1]
    ids = [block.edge_ids for block in hops]
    native, elsewhere = interop.joined_edges(list(hops)), interop._joined_on_device(list(hops), ids)
    assert torch.equal(native.edge_index, elsewhere.edge_index)
    assert torch.equal(native.edge_ids, elsewhere.edge_ids)
    assert native.num_edges == elsewhere.num_edges
    assert torch.equal(native.join(ids), elsewhere.join(ids))
    assert torch.equal(native.join(ids), native.edge_ids)
