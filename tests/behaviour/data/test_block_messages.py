"""Block.aggregate and Block.attend against plain operations of torch, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_graph import PlainGraph

import headrace as hr

from edge_rows import edge_rows

SHAPES = [(), (0,), (3,), (2, 3), (2, 1, 2)]


def block_of(rows):
    """A block of these edges, whose ids are not their positions."""
    return hr.Block(
        rows.indptr,
        rows.indices,
        max(rows.num_src, rows.num_dst),
        rows.num_dst,
        torch.arange(rows.num_edges).flip(0) * 7,
    )


blocks = st.builds(block_of, edge_rows())


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def assert_same(call, block, inputs):
    """Outputs, and gradients of all inputs."""
    found = []
    for graph in (block, PlainGraph(block)):
        out = call(graph)
        factors = torch.arange(out.numel(), dtype=out.dtype).remainder(5).view(out.shape)
        gradients = torch.autograd.grad((out * factors).sum(), inputs, allow_unused=True, materialize_grads=True)
        found.append((out, *gradients))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@given(blocks, st.sampled_from(["sum", "mean", "max", "min"]), st.sampled_from(SHAPES), st.integers(0, 2))
def test_aggregate(block, reduce, shape, weights):
    """Without weights, with one for each edge, and where rows are of heads with one for each of them."""
    x = drawn(block.num_src, *shape)
    weight = None if weights == 0 else drawn(block.num_edges, *shape[: weights - 1][: len(shape) > 1], seed=1)
    inputs = [x] if weight is None else [x, weight]
    assert_same(lambda graph: graph.aggregate(x, reduce=reduce, weight=weight), block, inputs)


@given(blocks, st.sampled_from([(2,), (2, 3), (2, 1, 2)]), st.booleans(), st.sampled_from([0.0, 0.5]))
def test_attend(block, shape, of_edges, dropout):
    x, source, destination = drawn(block.num_src, *shape), drawn(block.num_src, 2, seed=1), drawn(block.num_dst, 2)
    edge = drawn(block.num_edges, 2, seed=2) if of_edges else None
    inputs = [x, source, destination] if edge is None else [x, source, destination, edge]
    assert_same(
        lambda graph: graph.attend(x, source, destination, edge_scores=edge, slope=0.1, dropout=dropout, key=5),
        block,
        inputs,
    )


def test_refusals():
    block = hr.Block(torch.tensor([0, 2]), torch.tensor([1, 2]), num_src=3, num_dst=1)
    x, scores = torch.ones(3, 1, 2), torch.ones(3, 1)
    with pytest.raises(hr.InputError, match='reduce to be "sum", "mean", "max" or "min"'):
        block.aggregate(x, reduce="median")
    for call, words in (
        (lambda: block.aggregate(x[:2]), r"x of 3 rows, got float32\[2, 1, 2\]"),
        (lambda: block.aggregate(x, weight=torch.ones(3)), "weight of 2 rows"),
        (lambda: block.aggregate(x, weight=2.0), "weight of 2 rows, got float"),
        (lambda: block.attend(x, scores[:2], scores[:1]), "source_scores of 3 rows"),
        (lambda: block.attend(x, scores, scores), "destination_scores of 1 rows"),
        (lambda: block.attend(x, scores, scores[:1], edge_scores=scores), "edge_scores of 2 rows"),
    ):
        with pytest.raises(hr.InputError, match=words):
            call()
    with pytest.raises(hr.InputError):
        block.aggregate(x.long())
    with pytest.raises(hr.InputError, match="dropout goes by the ids of edges"):
        block.attend(x, scores, scores[:1], dropout=0.5)
    for dropout in (-0.1, float("nan"), 1.0, "0.1", None):
        with pytest.raises(hr.InputError, match=r"probability to be a number in \[0, 1\)"):
            block.attend(x, scores, scores[:1], dropout=dropout)


WROTE = ("author", "wrote", "paper")


def relation_of_two_types():
    graph = hr.Graph.from_coo([0, 1, 0], [2, 3, 3], node_types={"author": 2, "paper": 2}, edge_types={WROTE: 3})
    (batch,) = hr.ItemSampler({"paper": [0, 1]}, batch_size=2, seed=0).sample_in_subgraph(graph).loader()
    return batch.blocks[0].relation(WROTE)


def test_a_relation_of_two_types_has_no_own_rows():
    """The first authors are not the papers: layers that would take them for these refuse, with what to do."""
    block, authors = relation_of_two_types(), torch.tensor([[1.0], [10.0]])
    assert block.aggregate(authors).tolist() == [[1.0], [11.0]]
    layers = [
        hr.nn.SAGEConv(1, 1),
        hr.nn.GCNConv(1, 1),
        hr.nn.GATConv(1, 1),
        hr.nn.GINConv(torch.nn.Identity()),
        hr.nn.ClusterGCNConv(1, 1),
    ]
    for layer in layers:
        with pytest.raises(hr.InputError, match=f"{type(layer).__name__}: .* got a relation between two types"):
            layer(authors, block)
    with pytest.raises(hr.InputError, match=r"to_pyg: .* got a relation between two types"):
        block.to_pyg(authors)
