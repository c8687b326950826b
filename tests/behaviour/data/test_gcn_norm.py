"""Self-loops, and what a graph convolution multiplies messages by."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from plans import NUM_NODES, graph


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, int]:
    num_nodes = draw(st.integers(1, 8))
    nodes = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(nodes, nodes), max_size=20))
    src, dst = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return src, dst, num_nodes


@given(edge_lists())
def test_every_node_has_a_loop(edges):
    src, dst, num_nodes = edges
    weight = torch.rand(len(src))
    looped = hr.Graph.from_coo(src, dst, num_nodes=num_nodes, edge_attrs={"w": weight}).with_self_loops(fill=7)
    lacking = [node for node in range(num_nodes) if not ((src == node) & (dst == node)).any()]
    added = torch.tensor(lacking, dtype=torch.int64)
    expected = hr.Graph.from_coo(
        torch.cat([src, added]),
        torch.cat([dst, added]),
        num_nodes=num_nodes,
        edge_attrs={"w": torch.cat([weight, torch.full((len(added),), 7.0)])},
    )
    assert looped == expected


@given(edge_lists(), st.booleans())
def test_norm_is_that_of_pyg(edges, weighted):
    pytest.importorskip("torch_geometric")
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    src, dst, num_nodes = edges
    weight = torch.rand(len(src))
    one = hr.Graph.from_coo(src, dst, num_nodes=num_nodes, edge_attrs={"w": weight})
    _, expected = gcn_norm(
        torch.stack([src, dst]), weight if weighted else None, num_nodes, add_self_loops=False, dtype=torch.float32
    )
    assert torch.allclose(hr.gcn_norm(one, "w" if weighted else None), expected)


def test_it_follows_the_order_of_the_edges():
    norm = hr.gcn_norm(graph())
    degrees = graph().in_degrees()
    assert len(norm) == graph().num_edges
    source = torch.empty(graph().num_edges, dtype=torch.int64)
    target = torch.empty_like(source)
    source[graph().edge_ids.long()] = graph().indices.long()
    target[graph().edge_ids.long()] = torch.arange(NUM_NODES).repeat_interleave(degrees)
    both = (degrees[source] * degrees[target]).double()
    assert torch.allclose(norm, torch.where(both > 0, both.rsqrt(), 0).float())


def test_refusals():
    with pytest.raises(hr.InputError, match="there is no edge attribute 'w'"):
        hr.gcn_norm(graph(), "w")
    with pytest.raises(hr.InputError, match="expected a whole Graph"):
        hr.gcn_norm(graph().shard(hr.Partition.hash(NUM_NODES, 2), 0))
    typed = hr.Graph.from_coo([0], [1], num_nodes=2, edge_types={"a": 1})
    with pytest.raises(hr.InputError, match="edge types"):
        typed.with_self_loops()
