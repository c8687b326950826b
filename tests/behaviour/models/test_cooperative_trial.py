"""Layers of any make on ranks that cooperate: the loss of one process or a refusal on all ranks, never another loss."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
import torch_geometric.nn as pyg
from own_layers import (
    Backwards,
    Drawing,
    OfAllRows,
    OfBlock,
    OfDegrees,
    OfDestinationsOfBlock,
    OfEdgeIdsOfBlock,
    OfEdgesOfBlock,
    OfFirstRow,
    OfFirstRowOfBlock,
    OfInDegrees,
    OfNumberOfEdges,
    OfOutEdges,
    OfPair,
    OfPairAndNumber,
    OfPairAndWeights,
    OfPositions,
    OfSourceDegrees,
    OfTheirBatch,
    OfTheirNumber,
    WithLoops,
)
from torch import Tensor, nn

import headrace as hr
from headrace.testing import LocalGroup

WIDTH = 6
SPARSE = pytest.mark.filterwarnings(
    "ignore:Sparse CSR tensor support", "ignore:Sparse invariant checks", "ignore:Converting sparse tensor to CSR"
)


@pytest.fixture(scope="module")
def graph() -> hr.Graph:
    ends = torch.randint(0, 200, (2, 1_500), generator=torch.Generator().manual_seed(0))
    return hr.Graph.from_coo(*ends, num_nodes=200)


@pytest.fixture(scope="module")
def store() -> hr.FeatureStore:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(200, WIDTH, dtype=torch.float64, generator=generator)
    return hr.FeatureStore(node={"x": x, "y": torch.randint(0, WIDTH, (200,), generator=generator)})


def mlp() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)


#: In the form conv(h, edge_index)[:num_dst]: what is exact there, and what is not.
EXACT = {
    "sage": lambda: pyg.SAGEConv(WIDTH, WIDTH),
    "sage_max": lambda: pyg.SAGEConv(WIDTH, WIDTH, aggr="max"),
    "sage_lstm": lambda: pyg.SAGEConv(WIDTH, WIDTH, aggr="median"),
    "graph_conv": lambda: pyg.GraphConv(WIDTH, WIDTH),
    "gat": lambda: pyg.GATConv(WIDTH, WIDTH // 2, heads=2),
    "gatv2": lambda: pyg.GATv2Conv(WIDTH, WIDTH),
    "transformer": lambda: pyg.TransformerConv(WIDTH, WIDTH),
    "gin": lambda: pyg.GINConv(mlp()),
    "edge_conv": lambda: pyg.EdgeConv(nn.Linear(2 * WIDTH, WIDTH)),
    "gen": lambda: pyg.GENConv(WIDTH, WIDTH, norm="layer"),
    "cluster_gcn": lambda: pyg.ClusterGCNConv(WIDTH, WIDTH),
    "mf": lambda: pyg.MFConv(WIDTH, WIDTH),
    "le": lambda: pyg.LEConv(WIDTH, WIDTH),
    "gated": lambda: pyg.GatedGraphConv(WIDTH, num_layers=1),
    "res_gated": lambda: pyg.ResGatedGraphConv(WIDTH, WIDTH),
    "tag_1": lambda: pyg.TAGConv(WIDTH, WIDTH, K=1, normalize=False),
    "film": lambda: pyg.FiLMConv(WIDTH, WIDTH),
    "general": lambda: pyg.GeneralConv(WIDTH, WIDTH),
    "gcn_given": lambda: pyg.GCNConv(WIDTH, WIDTH, normalize=False),
    "loops": WithLoops,
    "drawing": Drawing,
    "gcn": lambda: pyg.GCNConv(WIDTH, WIDTH),
    "sg": lambda: pyg.SGConv(WIDTH, WIDTH),
    "arma": lambda: pyg.ARMAConv(WIDTH, WIDTH),
    "gcn2": lambda: pyg.GCN2Conv(WIDTH, alpha=0.1),
    "eg": lambda: pyg.EGConv(WIDTH, WIDTH, num_heads=2),
    "ssg": lambda: pyg.SSGConv(WIDTH, WIDTH, alpha=0.1),
    "fa": lambda: pyg.FAConv(WIDTH),
    "anti_symmetric": lambda: pyg.AntiSymmetricConv(WIDTH),
    "lg": pyg.LGConv,
}
IN_OTHER_FORMS = {
    "flow": lambda: pyg.GraphConv(WIDTH, WIDTH, flow="target_to_source"),
    "of_block": OfBlock,
    "of_pair": OfPair,
    "hr_sage": lambda: hr.nn.SAGEConv(WIDTH, WIDTH),
    "hr_gat": lambda: hr.nn.GATConv(WIDTH, WIDTH),
    "hr_gcn": lambda: hr.nn.GCNConv(WIDTH, WIDTH),
    "gcn_flow": lambda: pyg.GCNConv(WIDTH, WIDTH, flow="target_to_source"),
}
INEXACT = {
    "gcn_cached": lambda: pyg.GCNConv(WIDTH, WIDTH, cached=True),
    "cheb": lambda: pyg.ChebConv(WIDTH, WIDTH, K=2),
    "sg_2": lambda: pyg.SGConv(WIDTH, WIDTH, K=2),
    "tag": lambda: pyg.TAGConv(WIDTH, WIDTH),
    "tag_given": lambda: pyg.TAGConv(WIDTH, WIDTH, K=2, normalize=False),
    "appnp": lambda: pyg.APPNP(2, 0.1),
    "gated_2": lambda: pyg.GatedGraphConv(WIDTH, num_layers=2),
    "super_gat": lambda: pyg.SuperGATConv(WIDTH, WIDTH),
    "pair_norm": lambda: pyg.Sequential(
        "x, e", [(pyg.SAGEConv(WIDTH, WIDTH), "x, e -> x"), (pyg.PairNorm(), "x -> x")]
    ),
    "two_layers": lambda: pyg.Sequential(
        "x, e", [(pyg.SAGEConv(WIDTH, WIDTH), "x, e -> x"), (pyg.SAGEConv(WIDTH, WIDTH), "x, e -> x")]
    ),
    "dir": lambda: pyg.DirGNNConv(pyg.SAGEConv(WIDTH, WIDTH)),
    "degrees": OfDegrees,
    "in_degrees": OfInDegrees,
    "out_edges": OfOutEdges,
    "all_rows": OfAllRows,
    "number": OfTheirNumber,
    "batch": OfTheirBatch,
    "backwards": Backwards,
    "first_row": OfFirstRow,
    "number_of_edges": OfNumberOfEdges,
    "positions": OfPositions,
}


class Net(nn.Module):
    def __init__(self, make, call) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList([make(), make()])
        self.call = call

    def forward(self, h: Tensor, blocks) -> Tensor:
        h = self.first(h)
        for conv, block in zip(self.layers, blocks, strict=True):
            h = self.call(conv, h, block)[: block.num_dst]
        return h


def square(conv, h, block):
    if isinstance(conv, (pyg.GCN2Conv, pyg.FAConv)):
        return conv(h, h, block.edge_index)
    return conv(h, block.edge_index)


def pair(conv, h, block):
    return conv((h, h[: block.num_dst]), block.edge_index)


def matrix(conv, h, block):
    return conv((h, h[: block.num_dst]), block.adj_t(torch.ones(block.num_edges, dtype=h.dtype)))


def of_square(layout):
    """Called with the matrix of all nodes of a block."""

    def call(conv, h, block):
        made = torch.sparse_coo_tensor(
            block.edge_index.flip(0), h.new_ones(block.num_edges), (block.num_src,) * 2
        ).coalesce()
        return conv(h, made if layout == torch.sparse_coo else made.to_sparse(layout=layout))

    return call


def flipped(conv, h, block):
    return conv(h, block.edge_index.flip(0))


def with_block(conv, h, block):
    return conv(h, block)


def weighted(conv, h, block):
    weight = (block.edge_ids % 7 + 1).to(h.dtype)
    return conv((h, h[: block.num_dst]), block.edge_index, weight=weight, size=(block.num_src, block.num_dst))


def losses(make, call, graph, store, size, *, dtype=torch.float64, autocast=False, fanouts=(4, 4)):
    """The loss of each epoch over so many ranks, or the errors of all ranks."""
    group, total, errors = LocalGroup(size, timeout=20.0), [[0.0] * size for _ in range(2)], {}
    torch.manual_seed(0)
    state = Net(make, call).to(dtype).state_dict()

    def rank(comm):
        try:
            net = Net(make, call).to(dtype)
            net.load_state_dict(state)
            net = hr.cooperative(net, layers=list(net.layers))
            plan = hr.ItemSampler(100, batch_size=50, seed=1).sample_neighbor(graph, list(fanouts), edge_ids=True)
            plan = plan.fetch_feature(store, node=["x"], labels="y")
            with plan.loader(cooperative=True, comm=comm) as loader:
                for epoch in range(2):
                    for batch in loader:
                        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                            out = net(batch, batch.x.to(dtype), batch.blocks)[batch.seed_index]
                        loss = nn.functional.cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds
                        loss.backward()
                        total[epoch][comm.rank] += float(loss.detach())
                hr.sum_gradients(net, comm)
        except hr.HeadraceError as error:
            errors[comm.rank] = error

    threads = [threading.Thread(target=rank, args=(comm,)) for comm in group.comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors or all(map(sum, total))
    return errors or [sum(ranks) for ranks in total]


@pytest.mark.slow
@pytest.mark.combinations(8)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("size", [2, 3])
def test_exact_layers_have_the_loss_of_one_process(name, size, graph, store):
    one = losses(EXACT[name], square, graph, store, 1)
    assert losses(EXACT[name], square, graph, store, size) == pytest.approx(one, abs=1e-9)


@pytest.fixture
def layers_of_matrices() -> None:
    """PyG decides by the first layer of a class in a process whether all take matrices: another test's may not."""
    for kind in (pyg.SAGEConv, pyg.GraphConv, pyg.GINConv):
        if "_orig_propagate" in vars(kind):
            sys.modules.pop(kind.propagate.__module__, None)
            kind.propagate = kind._orig_propagate


@pytest.mark.slow
@SPARSE
@pytest.mark.usefixtures("layers_of_matrices")
@pytest.mark.parametrize(
    ("name", "call"),
    [(name, pair) for name in ("sage", "sage_max", "graph_conv", "gat", "gatv2", "transformer", "gin", "gen")]
    + [(name, matrix) for name in ("sage", "graph_conv", "gin")]
    + [("sage", of_square(one)) for one in (torch.sparse_coo, torch.sparse_csr)]
    + [
        ("flow", flipped),
        ("gcn_flow", flipped),
        ("of_block", with_block),
        ("hr_sage", with_block),
        ("hr_gat", with_block),
        ("hr_gcn", with_block),
    ]
    + [("of_pair", weighted)],
)
def test_exact_layers_are_exact_in_other_forms_of_call(name, call, graph, store):
    make = {**EXACT, **IN_OTHER_FORMS}[name]
    one = losses(make, call, graph, store, 1)
    assert losses(make, call, graph, store, 2) == pytest.approx(one, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sage", "sage_max", "gat", "gatv2", "transformer", "gin", "gen", "film"])
def test_exact_layers_pass_in_low_precision(name, graph, store):
    assert isinstance(losses(EXACT[name], square, graph, store, 2, dtype=torch.float32, autocast=True), list)
    assert isinstance(losses(EXACT[name], square, graph, store, 2, dtype=torch.bfloat16), list)


@pytest.mark.slow
@pytest.mark.combinations(12)
@pytest.mark.parametrize("name", INEXACT)
def test_other_layers_are_refused_on_all_ranks(name, graph, store):
    errors = losses(INEXACT[name], square, graph, store, 2)
    assert sorted(errors) == [0, 1], errors
    assert any(isinstance(error, hr.InputError) for error in errors.values())
    assert all("cooperative: " in str(error) for error in errors.values())
    if name not in {"pair_norm", "super_gat", "gcn_cached"}:  # others run on one process
        assert isinstance(losses(INEXACT[name], square, graph, store, 1), list)


@pytest.mark.slow
@SPARSE
@pytest.mark.parametrize(
    ("make", "call"),
    [
        (EXACT["gcn"], of_square(torch.sparse_coo)),
        (EXACT["gcn"], of_square(torch.sparse_csr)),
        (OfSourceDegrees, with_block),
        (OfEdgesOfBlock, with_block),
        (OfEdgeIdsOfBlock, with_block),
        (OfFirstRowOfBlock, with_block),
        (OfDestinationsOfBlock, with_block),
        (OfPairAndNumber, weighted),
        (OfPairAndWeights, weighted),
    ],
)
def test_other_layers_are_refused_in_other_forms_of_call(make, call, graph, store):
    errors = losses(make, call, graph, store, 2)
    assert sorted(errors) == [0, 1], errors
    assert any(isinstance(error, hr.InputError) for error in errors.values())


def test_refusals_reach_ranks_that_do_not_refuse(graph, store):
    """Soon, and without a `with` around the loop."""
    told, loaders = {}, []
    models = [Net(layer, square).double() for layer in (OfDegrees, WithLoops)]
    models[1].load_state_dict(models[0].state_dict())

    def rank(comm):
        net = hr.cooperative(models[comm.rank])
        plan = hr.ItemSampler(100, batch_size=50, seed=1).sample_neighbor(graph, [4, 4])
        loaders.append(plan.fetch_feature(store, node=["x"]).loader(cooperative=True, comm=comm))
        with pytest.raises(hr.HeadraceError) as caught:
            for batch in loaders[-1]:
                net(batch, batch.x, batch.blocks)
        told[comm.rank] = str(caught.value)

    threads = [threading.Thread(target=rank, args=(comm,)) for comm in LocalGroup(2, timeout=20.0).comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("to give a node the same row whatever" in told[rank] for rank in range(2)), told


@pytest.mark.parametrize("name", ["all_rows", "number", "out_edges"])
def test_layers_are_refused_where_all_nodes_matter(name, store):
    """Every node is a source of the first destinations: what changes is the number of rows, and degrees."""
    src, dst = torch.arange(200).repeat(60), torch.arange(60).repeat_interleave(200)
    dense = hr.Graph.from_coo(src, dst, num_nodes=200)
    errors = losses(INEXACT[name], square, dense, store, 2, fanouts=(150, 150))
    assert sorted(errors) == [0, 1], errors


@pytest.mark.parametrize("base", [WithLoops, Drawing])
def test_layers_are_called_once_a_batch(base, graph, store):
    """A layer is watched in its own call: what it keeps is as without a watch."""
    calls, nets = [], []

    class Kept(base):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            nets.append(self)

        def forward(self, h, edge_index):
            calls.append(self)
            self.calls += 1
            self.seen += 1
            return super().forward(h, edge_index)

    assert isinstance(losses(Kept, square, graph, store, 2), list)
    tried = [one for one in nets if one.calls]
    assert len(tried) == 4
    for one in tried:
        assert (one.calls, float(one.seen), one.training) == (4, 4.0, True)
        assert sum(called is one for called in calls) == 4


def test_small_batches_are_not_enough(store):
    """A block in which nothing can be told is followed by one in which it can."""
    src, dst = torch.randint(0, 200, (2, 1_500), generator=torch.Generator().manual_seed(0))
    keep = (dst >= 50) | (dst == 0)
    graph = hr.Graph.from_coo(src[keep], dst[keep], num_nodes=200)
    errors, done = {}, [0, 0]

    def rank(comm):
        net = hr.cooperative(Net(INEXACT["degrees"], square).double())
        plan = hr.ItemSampler(torch.arange(100), batch_size=50).sample_neighbor(graph, [4, 4])
        try:
            with plan.fetch_feature(store, node=["x"]).loader(cooperative=True, comm=comm) as loader:
                for batch in loader:
                    net(batch, batch.x, batch.blocks)
                    done[comm.rank] += 1
        except hr.HeadraceError as error:
            errors[comm.rank] = error

    threads = [threading.Thread(target=rank, args=(comm,)) for comm in LocalGroup(2, timeout=20.0).comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(errors) == [0, 1]
