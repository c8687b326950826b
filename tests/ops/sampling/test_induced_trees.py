"""Edges within each of several trees, against the subgraph of each."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import ops
from headrace.ops.sampling.induced_trees import induced_in_trees

from edge_lists import edge_lists


@given(edges=edge_lists(), seed=st.integers(0, 1000), most_edges=st.sampled_from([1, 7, 1 << 22]))
def test_each_tree_has_its_subgraph(edges, seed, most_edges):
    source, destination, num_nodes = edges
    graph = hr.Graph.from_coo(source, destination, num_nodes=num_nodes)
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.rand(4, num_nodes, generator=generator) < 0.5
    slots, nodes = pairs.nonzero().unbind(1)
    shuffled = torch.randperm(len(nodes), generator=generator)
    slots, nodes = slots[shuffled], nodes[shuffled]
    found = induced_in_trees(graph.indptr, graph.indices, nodes, slots, most_edges=most_edges)
    assert found.indices.dtype == graph.indices.dtype
    assert len(found.indptr) == len(nodes) + 1
    for slot in range(4):
        places = (slots == slot).nonzero().squeeze(1)
        wanted = ops.induced_subgraph(graph.indptr, graph.indices, nodes[places].contiguous())
        for number, place in enumerate(places.tolist()):
            here = slice(int(found.indptr[place]), int(found.indptr[place + 1]))
            there = slice(int(wanted.indptr[number]), int(wanted.indptr[number + 1]))
            assert torch.equal(found.positions[here], wanted.positions[there])
            assert torch.equal(found.indices[here].long(), places[wanted.indices[there].long()])
