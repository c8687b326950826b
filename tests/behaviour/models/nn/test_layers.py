"""Layers of hr.nn against PyG's of the same parameters: outputs and all gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from edge_rows import edge_rows, rows_of

pyg = pytest.importorskip("torch_geometric.nn")


def block_of(rows, weighted=False, seed=0):
    """A block of these edges: destinations are the first sources."""
    num_src = max(rows.num_src, rows.num_dst)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(rows.num_edges, generator=generator) + 0.1 if weighted else None
    return hr.Block(rows.indptr, rows.indices, num_src, rows.num_dst, weight=weight)


blocks = st.builds(block_of, edge_rows(), st.booleans())
unweighted = st.builds(block_of, edge_rows())


def compare(ours, theirs, x, call_ours, call_theirs, tolerance=1e-10):
    """Assert that outputs and gradients of all inputs and parameters agree."""
    theirs.load_state_dict(ours.state_dict())
    assert list(theirs.state_dict()) == list(ours.state_dict())
    inputs = [one.detach().clone().requires_grad_() for one in x], [one.detach().clone().requires_grad_() for one in x]
    out, expected = call_ours(*inputs[0]), call_theirs(*inputs[1])
    assert out.shape == expected.shape
    assert torch.allclose(out, expected, rtol=tolerance, atol=tolerance)
    factors = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    for result, layer, given_inputs in ((out, ours, inputs[0]), (expected, theirs, inputs[1])):
        layer.zero_grad()
        leaves = [*given_inputs, *layer.parameters()]
        gradients = torch.autograd.grad((result * factors).sum(), leaves, allow_unused=True)
        layer.found = [
            torch.zeros_like(one) if gradient is None else gradient
            for one, gradient in zip(leaves, gradients, strict=True)
        ]
    for one, other in zip(ours.found, theirs.found, strict=True):
        assert torch.allclose(one, other, rtol=tolerance, atol=tolerance)


def drawn(*shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@given(unweighted, st.sampled_from(["mean", "sum", "max"]), st.booleans(), st.booleans(), st.booleans())
def test_sage(block, aggr, normalize, root_weight, bias):
    options = {"aggr": aggr, "normalize": normalize, "root_weight": root_weight, "bias": bias}
    ours, theirs = hr.nn.SAGEConv(5, 3, **options).double(), pyg.SAGEConv(5, 3, **options).double()
    compare(
        ours,
        theirs,
        [drawn(block.num_src, 5)],
        lambda x: ours(x, block),
        lambda x: theirs((x, x[: block.num_dst]), block.edge_index, size=(block.num_src, block.num_dst)),
    )


@given(blocks, st.sampled_from([(5, 3), (3, 5)]), st.booleans(), st.sampled_from(["loops", "norm", "plain"]), st.data())
def test_gcn(block, channels, improved, kind, data):
    improved = improved and kind == "loops"
    options = {"improved": improved, "normalize": kind != "plain", "add_self_loops": kind == "loops"}
    ours, theirs = hr.nn.GCNConv(*channels, **options).double(), pyg.GCNConv(*channels, **options).double()
    loops = block.edge_index[:, block.edge_index[0] == block.edge_index[1]][0]
    several = len(loops.unique()) < len(loops)  # of several loops PyG keeps any one
    if several and kind == "loops":
        return
    weights = [] if block.weight is None else [block.weight.double()]
    if weights and data.draw(st.booleans()):  # those of the block itself
        edge_weight = weights.pop()
        compare(
            ours,
            theirs,
            [drawn(block.num_src, channels[0])],
            lambda x: ours(x, block),
            lambda x: theirs(x, block.edge_index, edge_weight)[: block.num_dst],
        )
        return
    unweighted_block = hr.Block(block.indptr, block.indices, block.num_src, block.num_dst)
    compare(
        ours,
        theirs,
        [drawn(block.num_src, channels[0]), *weights],
        lambda x, *given_weights: ours(x, unweighted_block, *given_weights),
        # Where it is given no weights PyG 2.8 forgets that loops are improved.
        lambda x, *given_weights: theirs(x, block.edge_index, *(given_weights or [x.new_ones(block.num_edges)]))[
            : block.num_dst
        ],
    )


@given(
    unweighted,
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.2, 0.0, 1.0]),
)
def test_gat(block, heads, concat, add_self_loops, with_edges, slope):
    options = {
        "heads": heads,
        "concat": concat,
        "negative_slope": slope,
        "add_self_loops": add_self_loops,
        "edge_dim": 4 if with_edges else None,
        "dropout": 0.5,
    }
    ours, theirs = (kind(5, 3, **options).double().eval() for kind in (hr.nn.GATConv, pyg.GATConv))
    inputs = [drawn(block.num_src, 5)]
    if with_edges:
        inputs.append(drawn(block.num_edges, 4))
    size = block.num_src, block.num_dst
    compare(
        ours,
        theirs,
        inputs,
        lambda x, *edge_attr: ours(x, block, *edge_attr),
        lambda x, *edge_attr: theirs((x, x[: block.num_dst]), block.edge_index, *edge_attr, size=size),
        tolerance=1e-9,
    )


@given(unweighted, st.booleans())
def test_gin(block, train_eps):
    made = [
        kind(torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)), 0.3, train_eps)
        for kind in (hr.nn.GINConv, pyg.GINConv)
    ]
    ours, theirs = (layer.double() for layer in made)
    compare(
        ours,
        theirs,
        [drawn(block.num_src, 5)],
        lambda x: ours(x, block),
        lambda x: theirs((x, x[: block.num_dst]), block.edge_index, size=(block.num_src, block.num_dst)),
    )


def on_threads(found):
    """What a function returns on one thread and on four of torch."""
    before = torch.get_num_threads()
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            yield found()
    finally:
        torch.set_num_threads(before)


def float32_block():
    random = np.random.default_rng(0)
    plain = block_of(rows_of(random.integers(0, 9, 300), 900, random, torch.int32))
    block = hr.Block(plain.indptr, plain.indices, plain.num_src, plain.num_dst, torch.arange(plain.num_edges))
    return block, torch.randn(block.num_src, 32, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", ["SAGEConv", "GCNConv", "GATConv"])
def test_in_float32_and_on_any_number_of_threads(name):
    """1e-4 beside PyG; 1e-5 beside one thread, as torch's products round by their number on some processors."""
    block, x = float32_block()

    def found():
        torch.manual_seed(0)
        ours, theirs = getattr(hr.nn, name)(32, 16), getattr(pyg, name)(32, 16)
        compare(
            ours,
            theirs,
            [x],
            lambda x: ours(x, block),
            lambda x: theirs(x if name == "GCNConv" else (x, x[:300]), block.edge_index)[:300],
            tolerance=1e-4,
        )
        return ours.found[0]

    one, four = on_threads(found)
    torch.testing.assert_close(one, four, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "attend", "attend with dropout"])
def test_kernels_give_the_same_bits_on_any_number_of_threads(kind):
    """Forward and backward, without the products of a layer."""
    block, x = float32_block()
    generator = torch.Generator().manual_seed(4)
    weight = torch.rand(block.num_edges, generator=generator)
    scores = [torch.randn(size, 4, generator=generator) for size in (block.num_src, block.num_dst, block.num_edges)]

    def found():
        heads = x.view(-1, 4, 8)
        inputs = [heads, *scores] if kind.startswith("attend") else [x] if kind == "max" else [x, weight]
        inputs = [one.clone().requires_grad_() for one in inputs]
        if kind.startswith("attend"):
            dropped = {"dropout": 0.5, "key": 7} if "dropout" in kind else {}
            out = block.attend(*inputs[:3], edge_scores=inputs[3], **dropped)
        else:
            out = block.aggregate(inputs[0], reduce=kind, weight=inputs[1] if len(inputs) > 1 else None)
        factors = torch.linspace(-1, 1, out.numel()).view_as(out)
        return [out, *torch.autograd.grad((out * factors).sum(), inputs)]

    one, four = on_threads(found)
    assert all(torch.equal(a, b) for a, b in zip(one, four, strict=True))


def test_importance_weights_count():
    """A mean is the Hajek estimate, and attention is a softmax in which edges count by their weights."""
    block = hr.Block(torch.tensor([0, 3]), torch.tensor([1, 2, 2]), 3, 1, weight=torch.tensor([1.5, 0.75, 0.75]))
    x = torch.tensor([[9.0], [1.0], [4.0]])
    sage = hr.nn.SAGEConv(1, 1, root_weight=False, bias=False)
    torch.nn.init.ones_(sage.lin_l.weight)
    assert torch.allclose(sage(x, block), torch.tensor([[(1.5 * 1 + 1.5 * 4) / 3]]))
    gat = hr.nn.GATConv(1, 1, add_self_loops=False)
    torch.nn.init.ones_(gat.lin.weight)
    torch.nn.init.zeros_(gat.att_src)
    assert torch.allclose(gat(x, block), torch.tensor([[2.5]]))


def test_dropout_of_attention():
    """Kept attention is scaled; torch's seed decides; the backward direction has the same mask."""
    block = hr.Block(torch.tensor([0, 4_000]), torch.arange(1, 4_001), 4_001, 1)
    x = torch.ones(4_001, 1, requires_grad=True)
    gat = hr.nn.GATConv(1, 1, dropout=0.25, add_self_loops=False)
    torch.nn.init.ones_(gat.lin.weight)
    for vector in (gat.att_src, gat.att_dst):  # all attend alike
        torch.nn.init.zeros_(vector)
    torch.manual_seed(5)
    out = gat(x, block)
    assert abs(out.item() - 1) < 0.05
    torch.manual_seed(5)
    assert torch.equal(gat(x, block), out)
    assert not torch.equal(gat(x, block), out)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient.sum().item() == pytest.approx(out.item(), rel=1e-3)
    assert set((gradient[1:] * 3_000).round().unique().tolist()) == {0, 1}
    assert torch.equal(gat.eval()(x, block), gat(x, block))


def test_parameters_are_drawn_as_pyg_draws_them():
    """The same range for each of them: of 10,000 draws the largest comes close to its bound."""
    mlp = torch.nn.Linear(3, 3)
    pairs = [
        (hr.nn.SAGEConv(100, 100), pyg.SAGEConv(100, 100)),
        (hr.nn.GCNConv(100, 100), pyg.GCNConv(100, 100)),
        (hr.nn.GATConv(100, 50, heads=2, edge_dim=99), pyg.GATConv(100, 50, heads=2, edge_dim=99)),
        (hr.nn.GINConv(mlp, 0.5), pyg.GINConv(mlp, 0.5)),
    ]
    for ours, theirs in pairs:
        ours.reset_parameters()
        for name, value in theirs.state_dict().items():
            largest = float(ours.state_dict()[name].abs().max())
            assert largest == pytest.approx(float(value.abs().max()), rel=0.1), name


@pytest.mark.parametrize("layer", [hr.nn.ClusterGCNConv, hr.nn.GATConv, hr.nn.GCNConv, hr.nn.SAGEConv])
def test_sizes_of_numpy_are_sizes(layer):
    conv = layer(np.int64(3), np.int32(2))
    assert type(conv.in_channels) is int
    block = hr.Block(torch.tensor([0, 0]), torch.empty(0, dtype=torch.int32), 1, 1)
    assert conv(torch.zeros(1, 3), block).shape == (1, 2)


def test_of_two_loops_at_a_node_one_has_a_gradient():
    """The other one changes nothing, unlike in PyG, which gives it one."""
    graph = hr.Graph.from_coo([0, 1, 1, 1], [1, 0, 1, 1], num_nodes=2)
    [batch] = hr.ItemSampler(2, batch_size=2).sample_neighbor(graph, [-1]).loader()
    layer, x = hr.nn.GCNConv(3, 2).double(), torch.randn(2, 3, dtype=torch.float64)
    weight = (torch.rand(4, dtype=torch.float64) + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda weight: layer(x, batch.blocks[0], edge_weight=weight), (weight,))
