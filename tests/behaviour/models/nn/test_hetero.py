"""hr.nn.HeteroConv against PyG's, on blocks of a graph with types, and on padded ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import headrace as hr

pyg = pytest.importorskip("torch_geometric.nn")

WIDTHS = {"author": 5, "paper": 4}
WRITES, CITES, BY = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")
EDGES = {WRITES: 120, CITES: 150, BY: 90}
NUM_AUTHORS, NUM_PAPERS = 30, 40


def graph() -> hr.Graph:
    generator = torch.Generator().manual_seed(0)
    sizes = {"author": NUM_AUTHORS, "paper": NUM_PAPERS}
    edges = {
        kind: tuple(torch.randint(0, sizes[end], (number,), generator=generator) for end in (kind[0], kind[2]))
        for kind, number in EDGES.items()
    }
    return hr.Graph.from_coo(edges, num_nodes=sizes)


def plan() -> hr.Plan:
    generator = torch.Generator().manual_seed(1)
    sizes = {"author": NUM_AUTHORS, "paper": NUM_PAPERS}
    node = {
        (kind, "x"): torch.randn(sizes[kind], width, dtype=torch.float64, generator=generator)
        for kind, width in WIDTHS.items()
    }
    steps = hr.ItemSampler({"paper": torch.arange(12), "author": torch.arange(6)}, batch_size=9, seed=3)
    return steps.sample_neighbor(graph(), [4]).fetch_feature(hr.FeatureStore(node=node), node=list(node))


def rows_of(batch: hr.MiniBatch) -> dict[str, Tensor]:
    return {kind: batch.node[kind, "x"] for kind in WIDTHS}


def layers(of: object, name: str) -> dict[tuple[str, str, str], nn.Module]:
    """A layer for each edge type; those of two types take rows of other widths."""
    make = getattr(of, name)
    options = {"add_self_loops": False} if name == "GATv2Conv" else {}
    return {kind: make((WIDTHS[kind[0]], WIDTHS[kind[2]]), 3, **options) for kind in (WRITES, BY)} | {
        CITES: make(WIDTHS["paper"], 3)
    }


@pytest.mark.parametrize("aggr", ["sum", "mean", "max", "min", "cat", None])
@pytest.mark.parametrize("name", ["SAGEConv", "GraphConv", "GATv2Conv", "TransformerConv"])
def test_it_is_that_of_pyg(name, aggr):
    torch.manual_seed(0)
    ours, theirs = (of.HeteroConv(layers(of, name), aggr).double() for of in (hr.nn, pyg))
    theirs.load_state_dict(ours.state_dict())
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for batch in plan().loader():
        block = batch.blocks[0]
        results = []
        for layer, edges in ((ours, block), (theirs, block.edge_index_dict)):
            x = {kind: rows.clone().requires_grad_() for kind, rows in rows_of(batch).items()}
            destinations = block.types.first(block.num_dst)
            out = {kind: rows[: destinations.count(kind)] for kind, rows in layer(x, edges).items()}
            leaves = [*x.values(), *layer.parameters()]
            loss = sum((rows * torch.linspace(-1, 1, rows.numel()).view_as(rows)).sum() for rows in out.values())
            results.append([*(out[kind] for kind in WIDTHS), *torch.autograd.grad(loss, leaves)])
        for one, other in zip(*results, strict=True):
            assert one.shape == other.shape
            assert float((one - other).detach().norm()) <= 1e-12 * max(float(other.detach().norm()), 1)


def test_features_of_edges_go_by_type():
    torch.manual_seed(0)
    convs = {WRITES: hr.nn.TransformerConv((5, 4), 3, edge_dim=2), CITES: hr.nn.SAGEConv(4, 3)}
    layer, batch = hr.nn.HeteroConv(convs).double(), next(iter(plan().loader()))
    block, x = batch.blocks[0], rows_of(batch)
    writes = block.relation(WRITES)
    features = torch.randn(writes.num_edges, 2, dtype=torch.float64)
    expected = convs[WRITES]((x["author"], x["paper"][: writes.num_dst]), writes, features)
    expected = expected + convs[CITES](x["paper"], block.relation(CITES))
    assert torch.equal(layer(x, block, {WRITES: features})["paper"], expected)


@pytest.mark.parametrize("name", ["SAGEConv", "GraphConv", "GATv2Conv", "TransformerConv"])
def test_padding_of_either_type_may_hold_anything(name):
    torch.manual_seed(0)
    layer = hr.nn.HeteroConv(layers(hr.nn, name)).double()
    for batch, padded in zip(plan().loader(), plan().pad().loader(), strict=True):
        results = []
        for one in (batch, padded):
            block, layer.grad = one.blocks[0], None
            layer.zero_grad()
            x = {kind: rows.clone() for kind, rows in rows_of(one).items()}
            real = {kind: torch.ones(len(rows), dtype=torch.bool) for kind, rows in x.items()}
            if one is padded:
                real = {kind: block.src_mask[block.types.places(kind)] for kind in x}
                x = {kind: rows.masked_fill(~real[kind][:, None], torch.nan) for kind, rows in x.items()}
            out = {kind: rows[real[kind][: len(rows)]] for kind, rows in layer(x, block).items()}
            sum(rows.square().sum() for rows in out.values()).backward()
            results.append([*(out[kind].detach() for kind in WIDTHS), *(p.grad.clone() for p in layer.parameters())])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_what_is_missing_is_refused():
    batch = next(iter(plan().loader()))
    layer = hr.nn.HeteroConv(layers(hr.nn, "SAGEConv")).double()
    with pytest.raises(hr.InputError, match="expected rows of 'author', an end of"):
        layer({"paper": rows_of(batch)["paper"]}, batch.blocks[0])
    with pytest.raises(hr.InputError, match="HeteroConv: expected aggr"):
        hr.nn.HeteroConv({}, "add")
    with pytest.raises(hr.InputError, match=r"expected a layer for each \(source type"):
        hr.nn.HeteroConv({"cites": hr.nn.SAGEConv(4, 3)})
    with pytest.raises(hr.InputError, match="expected add_self_loops=False on a relation between two types"):
        x, writes = rows_of(batch), batch.blocks[0].relation(WRITES)
        hr.nn.GATv2Conv((5, 4), 3).double()((x["author"], x["paper"][: writes.num_dst]), writes)
    with pytest.raises(hr.InputError, match=r"expected \(x_src, x_dst\) of \(\d+, 5\) and \(\d+, 4\)"):
        hr.nn.SAGEConv((5, 4), 3).double()((x["author"][1:], x["paper"][: writes.num_dst]), writes)
