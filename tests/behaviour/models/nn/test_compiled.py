"""Layers and aggregations under torch.compile: one graph, the results of eager calls, few compilations an epoch."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import headrace as hr

if not hasattr(torch.library, "register_autograd"):
    pytest.skip("torch before 2.4 has no operations to register", allow_module_level=True)

NUM_NODES, RELATIONS = 600, 3


def plan():
    """Batches of 90 seeds each but the last; some edges lead from a node to itself."""
    src, dst = torch.randint(NUM_NODES, (2, 4_000), generator=torch.Generator().manual_seed(0))
    src[:300] = dst[:300]
    graph = hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES)
    store = hr.FeatureStore(node={"x": torch.randn(NUM_NODES, 6, generator=torch.Generator().manual_seed(1))})
    sampled = hr.ItemSampler(400, batch_size=90, shuffle=True, seed=0).sample_neighbor(graph, [3, 3])
    return sampled.fetch_feature(store, node=["x"])


def batches():
    return list(plan().loader())


class Layers(nn.Module):
    def __init__(self, *convs):
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x, blocks, *more):
        for conv, block, *given in zip(self.convs, blocks, *more, strict=False):
            x = conv(x, block, *given).relu()
        return x


class RGCN(nn.Module):
    """R-GCN (arXiv 1703.06103) with the relation of each edge as a number."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.own = nn.Linear(in_channels, out_channels)
        self.of_relation = nn.ModuleList([nn.Linear(in_channels, out_channels) for _ in range(RELATIONS)])

    def forward(self, x, block, relations):
        out = self.own(x[: block.num_dst])
        for number, linear in enumerate(self.of_relation):
            out = out + linear(block.aggregate(x, reduce="mean", weight=(relations == number).to(x.dtype)))
        return out


class OfBatch(nn.Module):
    """Aggregations of blocks themselves, in a model that takes the whole batch."""

    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, batch):
        first, second = batch.blocks
        h = self.lin(batch.x)
        scores = h[:, :2], h[: first.num_dst, 2:4]
        h = first.attend(h.view(-1, 2, 4), *scores, dropout=0.25, key=7).flatten(1)
        return self.last(second.aggregate(h, reduce="max") + second.aggregate(h, reduce="min"))


def checked(model, calls):
    """Compare compiled calls with eager ones, and return how often was compiled."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    sizes = set()
    for arguments in calls:
        results = []
        for run in (model, compiled):
            if run is compiled:
                assert hr.nn.mark_dynamic(arguments) is arguments
            out = run(*arguments)
            results.append([out, *torch.autograd.grad(out.square().sum(), tuple(model.parameters()))])
        for eager, found in zip(*results, strict=True):
            torch.testing.assert_close(found, eager, rtol=1e-5, atol=1e-5)
        sizes.add(tuple(results[0][0].shape))
    assert len(calls) > 3
    assert len(sizes) > 1
    return counter.frame_count


MODELS = {
    "sage": lambda: Layers(hr.nn.SAGEConv(6, 5), hr.nn.SAGEConv(5, 4)),
    "gin": lambda: Layers(hr.nn.GINConv(nn.Linear(6, 4), train_eps=True)),
    "gcn": lambda: Layers(hr.nn.GCNConv(6, 4)),
    "gat": lambda: Layers(hr.nn.GATConv(6, 4, heads=2, concat=False, edge_dim=2)),
    "gatv2": lambda: Layers(hr.nn.GATv2Conv(6, 4, heads=2, concat=False, edge_dim=2)),
    "transformer": lambda: Layers(hr.nn.TransformerConv(6, 4, edge_dim=2, beta=True)),
    "graph": lambda: Layers(hr.nn.GraphConv(6, 4)),
    "gine": lambda: Layers(hr.nn.GINEConv(nn.Linear(6, 4), edge_dim=2)),
    "pool": lambda: Layers(hr.nn.SAGEConv(6, 4, "max", project=True)),
    "pna": lambda: Layers(hr.nn.PNAConv(6, 4, ["mean", "std"], ["identity", "linear"], torch.ones(4), edge_dim=2)),
    "rgcn": lambda: Layers(RGCN(6, 4)),
    "max": lambda: Layers(hr.nn.SAGEConv(6, 4, "max", normalize=True)),
    "cluster": lambda: Layers(hr.nn.ClusterGCNConv(6, 4)),
}
RARE = {"max", "cluster", "rgcn", "transformer", "graph", "gine", "pool", "pna"}


def calls_of(name):
    for batch in batches():
        generator = torch.Generator().manual_seed(2)
        blocks, more = batch.blocks, ()
        if name in ("gat", "gatv2", "transformer", "gine", "pna"):
            more = (tuple(torch.randn(block.num_edges, 2, generator=generator) for block in blocks),)
        if name in ("gat", "gcn", "gatv2", "gine"):
            weights = [torch.rand(block.num_edges, generator=generator) + 0.1 for block in blocks]
            blocks = tuple(dataclasses.replace(one, weight=weight) for one, weight in zip(blocks, weights, strict=True))
        if name == "rgcn":
            more = (tuple(block.edge_ids % RELATIONS for block in blocks),)
        yield batch.x, blocks, *more


@pytest.mark.combinations(4)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in RARE else name for name in MODELS]
)
def test_layers_are_one_graph_and_compiled_once_where_sizes_are_marked(name):
    torch.manual_seed(0)
    # A model that asks a block for num_dst, an int, compiles for the first one, then for any, then for the last batch.
    assert checked(MODELS[name](), list(calls_of(name))) <= (3 if name == "rgcn" else 1)


@pytest.mark.slow
def test_models_take_whole_batches_and_aggregate_by_blocks():
    torch.manual_seed(0)
    assert checked(OfBatch(), [(batch,) for batch in batches()]) <= 3


def test_relations_of_a_block_are_compiled_where_they_are_made_before():
    class OfRelations(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 2)

        def forward(self, rows, relations):
            sums = [relations[name].aggregate(rows[name[0]], reduce="mean") for name in relations]
            return self.lin(torch.cat(sums))

    counts = {("a", "to", "b"): 900, ("b", "to", "a"): 800}
    sizes = {"a": 120, "b": 90}
    generator = torch.Generator().manual_seed(0)
    edges = {
        name: tuple(torch.randint(sizes[end], (count,), generator=generator) for end in (name[0], name[2]))
        for name, count in counts.items()
    }
    graph = hr.Graph.from_coo(edges, num_nodes=sizes)
    plan = hr.ItemSampler({"a": 120}, batch_size=35, seed=0).sample_neighbor(graph, [2, 2])
    calls = []
    for batch in plan.loader():
        block = batch.blocks[0]
        rows = {name: torch.randn(block.types.count(name), 3, generator=generator) for name in sizes}
        calls.append((rows, {name: block.relation(name) for name in counts}))
    assert checked(OfRelations(), calls) == 1


@pytest.mark.slow
def test_dropout_of_attention_is_drawn_at_each_call():
    torch.manual_seed(0)
    model = hr.nn.GATConv(6, 4, heads=2, dropout=0.5)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    batch = batches()[0]
    outs = [compiled(batch.x, batch.blocks[0]) for _ in range(2)]
    assert not torch.equal(*outs)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(batch.x, batch.blocks[0]), compiled(batch.x, batch.blocks[0]))


def test_narrow_rows_are_summed_in_single_precision():
    batch = batches()[0]
    model = hr.nn.SAGEConv(6, 4)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, block: model(model.lin_l(x).repeat(1, 2)[:, :6], block), backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        eager = model(model.lin_l(batch.x).repeat(1, 2)[:, :6], batch.blocks[0])
        torch.testing.assert_close(compiled(batch.x, batch.blocks[0]), eager)


def test_compiled_layers_refuse_what_eager_ones_refuse():
    batch = hr.nn.mark_dynamic(batches()[0])
    torch._dynamo.reset()
    compiled = torch.compile(hr.nn.SAGEConv(6, 4), backend="eager")
    compiled(batch.x, batch.blocks[0])
    with pytest.raises(hr.InputError, match="SAGEConv: expected x of"):
        compiled(batch.x, batch.blocks[1])


@pytest.mark.slow
def test_loaders_mark_sizes_once_a_model_is_compiled():
    from torch._dynamo.testing import CompileCounterWithBackend

    def is_marked(tensor):
        return hasattr(tensor, "_dynamo_weak_dynamic_indices")

    torch._dynamo.reset()
    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).step()  # which tells the compiler to leave it out
    assert not any(map(is_marked, next(iter(plan().loader())).tensors()))
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(Layers(hr.nn.SAGEConv(6, 5), hr.nn.SAGEConv(5, 4)), backend=counter, fullgraph=True)
    for batch in plan().loader():
        assert is_marked(batch.x)
        compiled(batch.x, batch.blocks)
    assert counter.frame_count == 1
    # Padded batches have few sizes, for which constants are faster.
    assert not any(map(is_marked, next(iter(plan().pad().loader())).tensors()))


@pytest.mark.thorough  # a compiler of C++ takes half a minute
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_compiles_the_layers():
    torch.manual_seed(0)
    model = hr.nn.SAGEConv(6, 4)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True)
    for batch in batches()[-2:]:
        block = hr.nn.mark_dynamic(batch).blocks[0]
        results = []
        for run in (model, compiled):
            out = run(batch.x, block)
            results.append([out, *torch.autograd.grad(out.square().sum(), tuple(model.parameters()))])
        for eager, found in zip(*results, strict=True):
            torch.testing.assert_close(found, eager, rtol=1e-5, atol=1e-5)


def test_errors_name_sizes_that_are_dynamic():
    batch = hr.nn.mark_dynamic(batches()[0])
    torch._dynamo.reset()
    compiled = torch.compile(hr.nn.SAGEConv(6, 4), backend="eager", fullgraph=True)
    compiled(batch.x, batch.blocks[0])
    with pytest.raises(Exception, match="Observed exception") as refused:
        compiled(hr.nn.mark_dynamic(batch.x[:-3].clone()), batch.blocks[0])
    assert "builtin operator str" not in str(refused.value)


@pytest.mark.parametrize("key", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_keys_of_dropout_have_64_bits(key):
    batch = next(iter(plan().loader()))
    block = batch.blocks[0]
    arguments = batch.x[:, None], batch.x[:, :1], batch.x[: block.num_dst, 1:2]
    torch._dynamo.reset()
    compiled = torch.compile(lambda *given: block.attend(*given, dropout=0.5, key=key), backend="eager", fullgraph=True)
    assert torch.equal(compiled(*arguments), block.attend(*arguments, dropout=0.5, key=key))


@pytest.mark.parametrize("padded", [False, True])
def test_models_on_blocks_are_exported(padded):
    batch = next(iter((plan().pad() if padded else plan()).loader()))
    model = Layers(hr.nn.SAGEConv(6, 5), hr.nn.GATConv(5, 4)).eval()
    arguments = batch.x, batch.blocks
    assert torch.equal(torch.export.export(model, arguments).module()(*arguments), model(*arguments))
