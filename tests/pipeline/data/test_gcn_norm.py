"""Self-loops, and what a graph convolution multiplies messages by."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import headrace as hr
from headrace.pipeline.data import gcn_norm

from plans import NUM_NODES, graph


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, int]:
    num_nodes = draw(st.integers(1, 8))
    nodes = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(nodes, nodes), max_size=20))
    src, dst = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return src, dst, num_nodes


def of_all_edges_at_once(one: hr.Graph, weight: str | None) -> torch.Tensor:
    """The formula, with arrays of all edges on the way."""
    row = torch.arange(one.num_nodes).repeat_interleave(one.in_degrees())
    weights = torch.ones(one.num_edges) if weight is None else one.edge_weights(weight)
    degree = torch.zeros(one.num_nodes, dtype=torch.float64).index_add_(0, row, weights.double())
    scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
    out = torch.empty(one.num_edges)
    out[one.edge_ids.long()] = (weights * scale[row] * scale[one.indices.long()]).float()
    return out


@given(edge_lists(), st.sampled_from([None, torch.float32, torch.float64]), st.integers(1, 21), st.booleans())
def test_chunks_change_no_bit(edges, dtype, chunk, in_order):
    src, dst, num_nodes = edges
    if in_order:
        src, dst = src[dst.argsort(stable=True)], dst.sort().values
    weight = (torch.rand(len(src)) * (torch.rand(len(src)) < 0.8)).to(dtype or torch.float32)
    one = hr.Graph.from_coo(src, dst, num_nodes=num_nodes, edge_attrs={"w": weight})
    name = None if dtype is None else "w"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gcn_norm, "CHUNK", chunk)
        found = hr.gcn_norm(one, name)
    assert found.dtype == torch.float32
    assert torch.equal(found, of_all_edges_at_once(one, name))


class Sizes(TorchDispatchMode):
    """Entries of all tensors that torch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() not in {
            one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)
        }:
            self.made.append(out.numel())
        return out


@pytest.mark.parametrize("weight", [None, "weight"])
def test_memory_on_the_way_does_not_grow_with_the_edges(weight, monkeypatch):
    monkeypatch.setattr(gcn_norm, "CHUNK", 64)
    one = graph()
    if weight is not None:
        one.edge_weights(weight)  # looked at once in the life of a graph
    with Sizes() as sizes:
        norm = hr.gcn_norm(one, weight)
    assert len(norm) == one.num_edges == 1500
    assert [size for size in sizes.made if size > NUM_NODES + 1] == [one.num_edges]  # the result alone
