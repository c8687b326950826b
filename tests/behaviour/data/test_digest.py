"""Fingerprints of arrays: whatever differs, name, dtype, shape or bytes, makes another one."""

from __future__ import annotations

import torch

import headrace as hr


def test_graphs_are_told_apart_by_their_edge_ids():
    """One structure, given in two orders: edge features belong to other edges."""
    src, dst = torch.tensor([1, 2, 0]), torch.tensor([0, 0, 1])
    one = hr.Graph.from_coo(src, dst, num_nodes=3)
    other = hr.Graph.from_coo(src[[1, 0, 2]], dst[[1, 0, 2]], num_nodes=3)
    shuffled = hr.Graph.from_coo(src[[2, 0, 1]], dst[[2, 0, 1]], num_nodes=3)
    assert torch.equal(one.indptr, shuffled.indptr)
    assert torch.equal(one.indices, shuffled.indices)
    assert one.content_digest() != shuffled.content_digest()
    assert len({graph.content_digest() for graph in (one, other, shuffled)}) == 3


def test_batches_are_told_apart_by_dtype_alone():
    seeds = torch.tensor([1])
    labels = torch.tensor([1.0, 2.0])
    one = hr.MiniBatch(seeds=seeds, y=labels)
    assert one.digest() != one.replace(y=labels.view(torch.int32)).digest()
    assert one.digest() == one.replace(y=labels.clone()).digest()
