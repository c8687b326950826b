"""What tests of sampling share: rules, and comparisons of samples."""

from __future__ import annotations

import numpy as np
import torch

from headrace.ops import LaborImportanceRule, LaborRule, LadiesRule, NeighborRule

BIG_RULES = [
    NeighborRule(10),
    NeighborRule(10, replace=True),
    NeighborRule(100),
    NeighborRule(-1),
    LaborRule(10),
    LaborRule(100),
    LaborRule(10, exact=False),
    LaborImportanceRule(10, 1),
    LaborImportanceRule(10),
    LadiesRule(3_000),
    LadiesRule(3_000, poisson=True),
]


FIELDS = ("indptr", "indices", "edge_ids", "weights")


def same(one, other):
    """Equal tensors, or both None."""
    return one is other if one is None or other is None else torch.equal(one, other)


def numpy_of(tensor):
    return None if tensor is None else tensor.numpy()


def assert_same(got, expected):
    assert (got is None) == (expected is None)
    if expected is not None:
        assert np.array_equal(got.numpy(), expected)


def assert_same_sample(got, expected):
    assert_same(got.n_id, expected.n_id)
    assert got.num_sampled_nodes == expected.num_sampled_nodes
    assert got.num_sampled_edges == expected.num_sampled_edges
    assert len(got.hops) == len(expected.hops)
    for hop, oracle in zip(got.hops, expected.hops, strict=True):
        for field in FIELDS:
            assert_same(getattr(hop, field), getattr(oracle, field))
        assert (hop.num_dst, hop.num_src) == (oracle.num_dst, oracle.num_src)
