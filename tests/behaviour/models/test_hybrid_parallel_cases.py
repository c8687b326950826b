"""Ranks that share edges: odd graphs, empty ranks, what models and loaders do around the layers, what is refused."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch
from hybrid import CLUSTERS, HEADS, KINDS, STRATEGIES, WIDTH, model, plan, run
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_graph import PlainGraph
from ranks import run_processes, run_ranks
from torch import nn
from training import NUM_CLASSES, assert_equal_training

import headrace as hr

from plans import NUM_NODES, graph
from strategies import edge_lists


def sums_of(steps: hr.Plan, num_nodes: int, partition: hr.EdgePartition | None) -> list[tuple[torch.Tensor, ...]]:
    """For each batch the output of every reduction of one layer, and its gradients, [num_nodes, ...] each."""

    def work(comm: hr.Comm | None) -> list[tuple[torch.Tensor, ...]]:
        found = []
        with steps.loader(comm=comm, cooperative=comm is not None, partition=partition) as loader:
            for batch in loader:
                graph = batch.blocks[0] if batch.exchanges else PlainGraph(batch.blocks[0])
                x = batch.x.clone().requires_grad_()
                rows = x.view(-1, 2, 2)
                scores = rows.sum(2)
                outs = [graph.aggregate(rows, reduce=reduce) for reduce in ("sum", "mean", "max", "min")]
                outs.append(graph.attend(rows, scores, scores[: graph.num_dst]))
                out = batch.exchange(1, torch.stack(outs, 1).flatten(1))
                out.square().sum().backward()
                tables = torch.zeros(num_nodes, out.shape[1], dtype=x.dtype), torch.zeros(num_nodes, 4, dtype=x.dtype)
                seeds = torch.zeros(len(out), dtype=torch.int64).index_copy(0, batch.seed_index, batch.seeds)
                tables[0].index_add_(0, seeds, out.detach())
                tables[1].index_add_(0, batch.n_id, x.grad)
                found.append(tables)
        return found

    if partition is None:
        return work(None)
    ranks = run_ranks(partition.num_parts, work)
    return [tuple(map(sum, zip(*tables, strict=True))) for tables in zip(*ranks, strict=True)]


@pytest.mark.slow
@settings(deadline=None)
@given(edges=edge_lists(min_nodes=1), kind=st.sampled_from(sorted(KINDS)), world_size=st.integers(2, 7), data=st.data())
def test_any_graph(edges, kind, world_size, data):
    """Isolated nodes, self-loops, edges several times, fewer nodes or edges than ranks, ranks that own nothing."""
    graph = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    masters = data.draw(st.lists(st.integers(0, world_size - 1), min_size=graph.num_nodes, max_size=graph.num_nodes))
    partition = KINDS[kind](graph, hr.Partition.of(torch.tensor(masters), world_size))
    source = data.draw(
        st.sampled_from(
            [
                hr.GlobalBatch(graph, seed=1),
                hr.ItemSampler(graph.num_nodes, batch_size=3, shuffle=True, seed=1),
                hr.ClusterSampler(hr.Partition.hash(graph.num_nodes, 3), 2, seed=1),
            ]
        )
    )
    # Few different numbers, so that many messages are equal.
    x = torch.arange(4 * graph.num_nodes).remainder(5).view(-1, 4).double()
    steps = source.sample_in_subgraph(graph).fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    alone, together = (sums_of(steps, graph.num_nodes, one) for one in (None, partition))
    for expected, found in zip(alone, together, strict=True):
        for left, right in zip(found, expected, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def test_seeds_that_repeat_and_pairs():
    x = torch.randn(NUM_NODES, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for items in (torch.arange(90) % 13, torch.arange(60).reshape(30, 2) % 37):
        source = hr.ItemSampler(items, batch_size=20, seed=3)
        steps = source.sample_in_subgraph(graph()).fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])

        def work(comm: hr.Comm | None, steps: hr.Plan = steps) -> list[torch.Tensor]:
            options = {} if comm is None else {"cooperative": True, "partition": KINDS["grid"](graph(), 4)}
            with steps.loader(comm=comm, **options) as loader:
                outs = []
                for batch in loader:
                    block = batch.blocks[0] if batch.exchanges else PlainGraph(batch.blocks[0])
                    outs.append(batch.exchange(1, block.aggregate(batch.x))[batch.seed_index])
                return outs

        for expected, *mine in zip(work(None), *run_ranks(4, work), strict=True):
            torch.testing.assert_close(torch.cat(mine), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 1, 2)])
@pytest.mark.parametrize("weights", ["none", "edges", "heads"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_rows_of_any_shape(reduce, weights, shape):
    if weights == "heads" and len(shape) < 2:
        return
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NUM_NODES, *shape, dtype=torch.float32, generator=generator)
    w = torch.rand(graph().num_edges, *shape[: weights == "heads"], generator=generator)
    steps = hr.GlobalBatch(graph(), seed=1).sample_in_subgraph(graph())

    def work(comm: hr.Comm | None) -> torch.Tensor:
        with steps.loader(comm=comm, cooperative=comm is not None, partition=KINDS["grid"](graph(), 4)) as loader:
            batch = next(iter(loader))
        block = batch.blocks[0] if batch.exchanges else PlainGraph(batch.blocks[0])
        weight = None if weights == "none" else w[batch.blocks[0].edge_ids]
        out = block.aggregate(x[batch.n_id], reduce=reduce, weight=weight)
        return torch.zeros(NUM_NODES, *shape).index_add(0, batch.n_id, out)

    torch.testing.assert_close(sum(run_ranks(4, work)), work(None), rtol=1e-5, atol=1e-5)


class Convolution(nn.Module):
    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.linear, self.own = nn.Linear(num_in, num_out), nn.Linear(num_in, num_out)

    def forward(self, h: torch.Tensor, block: hr.Block) -> torch.Tensor:
        return block.aggregate(self.linear(h), reduce="mean") + self.own(h[: block.num_dst])


class Network(nn.Module):
    """What it does between layers is exact for several ranks as `hr.cooperative` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Convolution(*pair) for pair in ((WIDTH, 8), (8, NUM_CLASSES)))
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(0.3)

    def forward(self, h: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        h = self.dropout(self.norm(self.layers[0](h, blocks[0])).relu())
        return self.layers[1](h, blocks[1])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["mini", "cluster with boundary"])
def test_a_model_of_one_process_trains_by_cooperative(strategy):
    """Eight steps of Adam, with batch normalisation and dropout, and parameters in the end."""
    torch.manual_seed(0)
    assert_equal_training(plan(strategy), Network().double(), 3, 1e-9, partition=KINDS["grid"](graph(), 3))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_of_attention_belongs_to_edges(kind):
    partition, steps = KINDS[kind](graph(), 4), plan("mini", 1)

    def work(comm: hr.Comm | None) -> list[torch.Tensor]:
        with steps.loader(comm=comm, cooperative=comm is not None, partition=partition) as loader:
            outs = []
            for batch in loader:
                block = batch.blocks[0] if batch.exchanges else PlainGraph(batch.blocks[0])
                x = batch.x.clone().requires_grad_()
                rows = x.view(-1, HEADS, WIDTH // HEADS)
                scores = rows.sum(2)
                out = block.attend(rows, scores, scores[: block.num_dst], dropout=0.4, key=77, slope=0.1)
                batch.exchange(1, out).square().sum().backward()
                outs.append(torch.zeros(NUM_NODES, WIDTH, dtype=x.dtype).index_add(0, batch.n_id, x.grad))
            return outs

    for expected, *mine in zip(work(None), *run_ranks(4, work), strict=True):
        torch.testing.assert_close(sum(mine), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strategy", ["mini", "cluster with boundary"])
def test_training_goes_on_with_another_number_of_ranks(strategy):
    """Behind the first batch, by ranks with another partition of edges."""
    steps, network = plan(strategy), model("mean")

    def begin(comm: hr.Comm) -> dict[str, object]:
        with steps.loader(comm=comm, cooperative=True, partition=KINDS["grid"](graph(), 4)) as loader:
            next(iter(loader))
            return loader.state_dict()

    def go_on(comm: hr.Comm, state: dict[str, object]) -> list[torch.Tensor]:
        with steps.loader(comm=comm, cooperative=True, partition=KINDS["by_source"](graph(), 3)) as loader:
            loader.load_state_dict(state)
            return [batch.seeds for batch in loader]

    states = run_ranks(4, begin)
    assert all(state == states[0] for state in states)
    expected = [batch.seeds for batch in steps.loader()][1:]
    for seeds, *mine in zip(expected, *run_ranks(3, lambda comm: go_on(comm, states[0])), strict=True):
        assert torch.equal(torch.cat(mine), seeds)
    assert run(steps, network)  # the plan was not changed


def two_batches(partition: hr.EdgePartition, steps: hr.Plan) -> list[hr.MiniBatch]:
    def work(comm: hr.Comm) -> hr.MiniBatch:
        with steps.loader(comm=comm, cooperative=True, partition=partition) as loader:
            return next(iter(loader))

    return run_ranks(partition.num_parts, work)


def test_batches_have_a_fingerprint_and_can_be_copied():
    partition = KINDS["grid"](graph(), 4)
    first, again = two_batches(partition, plan("mini")), two_batches(partition, plan("mini"))
    other = two_batches(KINDS["by_source"](graph(), partition.nodes), plan("mini"))
    assert [one.digest() for one in first] == [one.digest() for one in again]
    assert all(one.digest() != another.digest() for one, another in zip(first, other, strict=True))
    for batch in first:
        pickled = pickle.loads(pickle.dumps(batch))  # noqa: S301 - our own
        for one in (pickled, copy.copy(batch), batch.to("cpu")):
            assert one.digest() == batch.digest()
        with pytest.raises(hr.PeerError, match="copied or pickled cannot exchange rows"):
            pickled.blocks[0].aggregate(batch.x)
        assert repr(batch.blocks[0]).startswith(f"SharedBlock({batch.blocks[0].num_src} -> ")
        assert batch.num_bytes > batch.x.numel() * 8


def test_forms_of_other_libraries_are_refused_by_name():
    batch = two_batches(KINDS["grid"](graph(), 2), plan("mini"))[0]
    block = batch.blocks[0]
    for asked in (block.to_dgl, block.adj_t):
        with pytest.raises(hr.InputError, match=r"use layers of hr.nn.*partition=edge_partition.nodes"):
            asked()
    with pytest.raises(AttributeError, match=r"got 'indptr'; it needs all in-edges.*use layers of hr.nn"):
        block.indptr  # noqa: B018 - asking is what is tested
    assert not hasattr(block, "local_scope")


def test_edges_say_what_they_are_like_alone():
    pyg = pytest.importorskip("torch_geometric.nn")
    batch = two_batches(KINDS["grid"](graph(), 2), plan("mini"))[0]
    block = batch.blocks[0]
    assert block.edge_index.shape == (2, block.num_edges)
    pair, _, size = block.to_pyg(batch.x)
    assert [len(one) for one in pair] == list(size) == [block.num_src, block.num_dst]
    for asked in (lambda: block.edge_index[0], lambda: pyg.SAGEConv(WIDTH, 2).double()(pair, block.edge_index)):
        with pytest.raises(hr.InputError, match=r"of edge_index: .* belong in hr.cooperative\(model\)"):
            asked()


def test_rows_that_do_not_fit_are_refused_before_anything_is_sent():
    batch = two_batches(KINDS["grid"](graph(), 2), plan("mini"))[0]
    block, x, scores = batch.blocks[0], batch.x, batch.x[:, :2]
    number, edges = block.num_src, block.num_edges
    targets = scores[: block.num_dst]
    for asked, words in (
        (lambda: block.aggregate(x[1:]), rf"x with a row for each node .* {number} of them"),
        (lambda: block.aggregate(x.long()), "x of float16, bfloat16, float32 or float64, got int64"),
        (lambda: block.aggregate(x, reduce="product"), 'reduce "sum", "mean", "max" or "min"'),
        (lambda: block.aggregate(x, weight=x[:2, 0]), rf"weight with a row for each edge .* {edges} of them"),
        (lambda: block.aggregate(x, weight=torch.ones(edges)), "weight of float64, as x is, got float32"),
        (lambda: block.aggregate(x, weight=torch.ones(edges, 4).double()), r"\[num_src, heads, ...\]"),
        (lambda: block.attend(x, scores, targets), r"x of \[num_src, heads, ...\] and scores of"),
        (lambda: block.attend(scores, scores, scores), "destination_scores with a row for each destination"),
        (lambda: block.attend(scores, scores, targets, edge_scores=scores), "edge_scores with a row for each edge"),
    ):
        with pytest.raises(hr.InputError, match=words):
            asked()


def test_dropout_needs_ids_of_edges():
    steps = hr.GlobalBatch(graph(), seed=1).sample_in_subgraph(graph(), edge_ids=False)
    block = two_batches(KINDS["grid"](graph(), 2), steps)[0].blocks[0]
    rows = torch.zeros(block.num_src, 2)
    with pytest.raises(hr.InputError, match="sample with edge_ids=True"):
        block.attend(rows, rows, rows[: block.num_dst], dropout=0.5)


def test_one_rank_is_one_process():
    partition = KINDS["grid"](graph(), 1)
    for strategy in STRATEGIES:
        (batch,) = two_batches(partition, plan(strategy))
        assert batch.digest() == next(iter(plan(strategy).loader())).digest()
        assert isinstance(batch.blocks[0], hr.Block)


def test_clusters_and_masters_need_not_agree():
    """Clusters are those of the sampler, masters those of the loader: any of them, here uneven ones."""
    owners = torch.zeros(NUM_NODES, dtype=torch.int64)
    owners[::7] = 2
    partition = KINDS["grid"](graph(), hr.Partition.of(owners, 4))
    steps = hr.ClusterSampler(CLUSTERS, 2, seed=1).sample_in_subgraph(graph(), num_hops=2)
    shares = two_batches(partition, steps)
    assert [one.blocks[0].num_src for one in shares][1::2] == [0, 0]
    whole = next(iter(steps.loader()))
    assert sum(one.blocks[0].num_edges for one in shares) == whole.blocks[0].num_edges


def test_an_error_of_one_rank_reaches_the_others_within_a_layer():
    def work(comm: hr.Comm) -> None:
        with plan("mini").loader(comm=comm, cooperative=True, partition=KINDS["grid"](graph(), 4)) as loader:
            batch = next(iter(loader))
            if comm.rank == 2:
                raise ValueError("on purpose")
            batch.blocks[0].aggregate(batch.x)

    with pytest.raises(ValueError, match="on purpose"):
        run_ranks(4, work)


def test_ranks_that_call_different_layers_are_told():
    """Rather than taking rows of one layer for those of another."""

    def work(comm: hr.Comm) -> None:
        with plan("mini").loader(comm=comm, cooperative=True, partition=KINDS["grid"](graph(), 2)) as loader:
            batches = iter(loader)
            first, second = next(batches), next(batches)
            batch = (first, second)[comm.rank]
            batch.blocks[0].aggregate(batch.x)

    with pytest.raises(hr.PeerError, match="is at exchange"):
        run_ranks(2, work)


GLOO = """
import json, sys, torch
import headrace as hr
from hybrid import KINDS, model, one_batch, plan
from plans import graph
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
found = {}
for kind in ("weights", "max", "attention"):
    with plan("cluster with boundary").loader(cooperative=True, partition=KINDS["grid"](graph(), world_size)) as loader:
        batch = next(iter(loader))
        step = one_batch(model(kind), batch, batch.comm)
        found[kind] = {name: step[name].flatten().tolist() for name in ("loss", "out", "parameters")}
json.dump(found, sys.stdout)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_processes_of_a_process_group(tmp_path):
    """The same by gloo: messages of several kinds of rows, and of none."""
    shares = [json.loads(text) for text in run_processes(GLOO, 3, tmp_path / "meeting")]
    for kind in ("weights", "max", "attention"):
        (alone, *_) = run(plan("cluster with boundary"), model(kind))
        for name in ("loss", "out"):
            found = sum(torch.tensor(share[kind][name], dtype=torch.float64) for share in shares)
            torch.testing.assert_close(found, alone[name].flatten(), rtol=1e-9, atol=1e-9)
        for share in shares:
            found = torch.tensor(share[kind]["parameters"], dtype=torch.float64)
            torch.testing.assert_close(found, alone["parameters"], rtol=1e-9, atol=1e-9)
