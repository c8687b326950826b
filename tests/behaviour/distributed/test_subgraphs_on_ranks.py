"""Subgraphs over ranks: all edges among the nodes of a batch, and ego nets, as one process finds them."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import cooperative_batches, partition, run_ranks
from torch import nn
from torch_geometric.nn import SAGEConv

import headrace as hr

from plans import RELATIONS, graph, items, pairs, store, typed_graph, typed_items, typed_store
from strategies import edge_lists

Elements = list[tuple[int, int]]
Edges = list[tuple[int, int, int, int]]


def elements(nodes: torch.Tensor, slots: torch.Tensor | None) -> Elements:
    return list(zip(nodes.tolist(), [0] * len(nodes) if slots is None else slots.tolist(), strict=True))


def edges_of(batch: hr.MiniBatch) -> Edges:
    """Edges of the one block: ends in global ids, ids, and the tree."""
    (block,) = batch.blocks
    nodes, slots = batch.n_id, batch.slot
    if batch.exchanges:
        nodes, slots = batch.exchanges[0].wanted, batch.exchanges[0].wanted_slot
    src, dst = block.edge_index
    of_edges = torch.zeros_like(dst) if slots is None else slots[dst]
    if slots is not None:
        assert torch.equal(slots[src], slots[dst])
    ends = (nodes[src], nodes[dst], block.edge_ids, of_edges)
    return sorted(zip(*(one.tolist() for one in ends), strict=True))


def assert_same_subgraph(whole: hr.MiniBatch, shares: list[hr.MiniBatch], owners: hr.Partition) -> None:
    """Nodes (in trees) and edges are those of one process, each on the rank that owns it; seeds are each rank's own."""
    owned = [share.exchanges[0] for share in shares]
    together = sorted(pair for one in owned for pair in elements(one.owned, one.owned_slot))
    assert together == sorted(elements(whole.n_id, whole.slot))
    for rank, one in enumerate(owned):
        assert (owners.owner(one.owned) == rank).all()
    assert sorted(edge for share in shares for edge in edges_of(share)) == edges_of(whole)
    for share in shares:
        (block,), (layer, of_seeds) = share.blocks, share.exchanges
        assert (block.num_src, block.num_dst) == (len(layer.wanted), len(layer.owned))
        assert torch.equal(layer.wanted[: block.num_dst], layer.owned)
        assert torch.equal(of_seeds.owned, layer.owned)
        assert torch.equal(share.n_id, layer.wanted)
        assert torch.equal(of_seeds.wanted[share.seed_index], share.seeds)
    for counts in ("num_sampled_nodes", "num_sampled_edges"):
        of_ranks = zip(*(getattr(share, counts) for share in shares), strict=True)
        assert tuple(map(sum, of_ranks)) == getattr(whole, counts)


PLANS = {
    "all": lambda plan, one: plan.sample_neighbor(one, [4, 2]).induce_subgraph(one),
    "new": lambda plan, one: plan.sample_neighbor(one, [3, 3, 2], expand="new").induce_subgraph(one),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [4, 2], expand="new").induce_subgraph(one),
    "ladies": lambda plan, one: plan.sample_ladies(one, [20, 30]).induce_subgraph(one),
    "full": lambda plan, one: plan.sample_in_subgraph(one, num_hops=1).induce_subgraph(one),
    "shadow": lambda plan, one: plan.sample_shadow(one, 2, 3),
    "shadow_all": lambda plan, one: plan.sample_shadow(one, 1, -1),
    "trees": lambda plan, one: plan.sample_neighbor(one, [3, 2], disjoint=True).induce_subgraph(one),
}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sharded"), [("hash", False), ("table", True)])
@pytest.mark.parametrize("name", PLANS)
def test_ranks_find_together_what_one_process_finds(name, kind, sharded):
    owners = partition(kind, 3)
    plan = PLANS[name](items(batch_size=25), graph())

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        one = graph().shard(owners, comm.rank) if sharded else graph()
        over = PLANS[name](items(batch_size=25), one).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
        with over.loader(cooperative=True, comm=comm, partition=owners) as loader:
            return list(loader)

    shares = run_ranks(3, work)
    for index, whole in enumerate(plan.loader()):
        mine = [batches[index] for batches in shares]
        assert_same_subgraph(whole, mine, owners)
        for share in mine:
            assert torch.equal(share.x, store().node["x"].read(share.n_id).rows)
            assert torch.equal(share.edge["e"][0], store().edge["e"].read(share.blocks[0].edge_ids).rows)
            assert torch.equal(share.y, share.seeds % 5)


@pytest.mark.slow
@given(
    edges=edge_lists(min_nodes=1),
    seed=st.integers(0, 9),
    world_size=st.integers(1, 3),
    name=st.sampled_from(["all", "new", "shadow", "shadow_all"]),
)
def test_any_graph(edges, seed, world_size, name):
    one = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.randint(edges.num_nodes, (5,), generator=generator)
    owners = hr.Partition.of(torch.randint(world_size, (edges.num_nodes,), generator=generator), world_size)
    plan = PLANS[name](hr.ItemSampler(seeds, batch_size=3, seed=seed), one)
    shares = cooperative_batches(plan, world_size, partition=owners)
    for index, whole in enumerate(plan.loader()):
        if world_size > 1:
            assert_same_subgraph(whole, [batches[index] for batches in shares], owners)
        else:
            assert shares[0][index].digest() == whole.digest()


def test_graphs_with_types():
    owners = partition("hash", 2)
    for sampled in (
        lambda plan: plan.sample_neighbor(typed_graph(), {"likes": [3, 2], "default": [2, 2]}, expand="new"),
        lambda plan: plan.sample_neighbor(typed_graph(), [2, 2], disjoint=True),
    ):
        plan = sampled(typed_items()).induce_subgraph(typed_graph())
        plan = plan.fetch_feature(typed_store(), node={"a": ["x"], "b": ["x"]}, edge={RELATIONS[1]: ["e"]})
        shares = cooperative_batches(plan, 2, partition=owners)
        for index, whole in enumerate(plan.loader()):
            mine = [batches[index] for batches in shares]
            assert_same_subgraph(whole, mine, owners)
            for share in mine:
                (block,) = share.blocks
                assert sum(block.relation(name).num_edges for name in RELATIONS) == block.num_edges
                for name in ("a", "b"):
                    rows = typed_store().node[name, "x"].read(share.types.within(name)).rows
                    assert torch.equal(share.node[name, "x"], rows)


def test_edges_between_seeds_are_left_out():
    """Those of the pairs of all ranks, whoever owns their ends."""
    owners = partition("hash", 3)
    plan = pairs().exclude_seed_edges(reverse=True).sample_neighbor(graph(), [3, 2]).induce_subgraph(graph())
    kept = pairs().sample_neighbor(graph(), [3, 2]).induce_subgraph(graph())
    shares = cooperative_batches(plan, 3, partition=owners)
    fewer = 0
    for index, (whole, with_them) in enumerate(zip(plan.loader(), kept.loader(), strict=True)):
        mine = [batches[index] for batches in shares]
        assert sorted(edge for share in mine for edge in edges_of(share)) == edges_of(whole)
        fewer += with_them.blocks[0].num_edges > whole.blocks[0].num_edges
    assert fewer


@pytest.mark.parametrize("name", ["shadow_all", "trees"])
@pytest.mark.parametrize("cooperative", [True, False])
def test_each_tree_leaves_out_the_edges_of_its_own_pair(name, cooperative):
    owners = partition("hash", 3)
    plan = PLANS[name](pairs().exclude_seed_edges(reverse=True, per="seed"), graph())
    other = PLANS[name](pairs().exclude_seed_edges(reverse=True), graph())
    if cooperative:
        shares = cooperative_batches(plan, 3, partition=owners)
    else:
        shares = [list(plan.loader(rank=rank, world_size=3)) for rank in range(3)]
    more = 0
    for index, (whole, of_batch) in enumerate(zip(plan.loader(), other.loader(), strict=True)):
        mine = [batches[index] for batches in shares]
        if cooperative:
            assert sorted(edge for share in mine for edge in edges_of(share)) == edges_of(whole)
        else:
            assert nets(mine) == nets([whole])
        more += whole.blocks[0].num_edges > of_batch.blocks[0].num_edges
    assert more


TREES = ("shadow", "shadow_all", "trees")


def nets(batches: list[hr.MiniBatch]) -> list[tuple[int, Elements, Edges]]:
    """What each item's tree has, by the place of the item in the set, whichever rank has it."""
    found = []
    for batch in batches:
        ends = edges_of(batch)
        for slot, item in enumerate(batch.item_index.tolist()):
            nodes = batch.n_id[batch.slot == slot].tolist()
            found.append((item, nodes, [edge[:3] for edge in ends if edge[3] == slot]))
    return sorted(found)


@pytest.mark.parametrize("name", TREES)
def test_each_rank_finds_the_trees_of_its_share(name):
    plan = PLANS[name](items(batch_size=25), graph()).fetch_feature(store(), node=["x"], labels="y")
    shares = [list(plan.loader(rank=rank, world_size=3)) for rank in range(3)]
    for index, whole in enumerate(plan.loader()):
        mine = [share[index] for share in shares]
        assert nets(mine) == nets([whole])
        for batch in mine:
            assert torch.equal(batch.x, store().node["x"].read(batch.n_id).rows)


@pytest.mark.parametrize("name", TREES)
def test_owners_find_trees_for_others(name):
    """Over shards, each rank has the batches that it has over the whole graph, bit for bit."""
    owners = partition("table", 3)

    def batches(one: hr.Graph, **options: object) -> list[str]:
        source = hr.ItemSampler(torch.arange(0, 200, 3), batch_size=25, shuffle=True, seed=3, partition=owners)
        plan = PLANS[name](source, one).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
        with plan.loader(**options) as loader:
            return [batch.digest() for batch in loader]

    found = run_ranks(3, lambda comm: batches(graph().shard(owners, comm.rank), comm=comm))
    assert found == [batches(graph(), rank=rank, world_size=3) for rank in range(3)]


@pytest.mark.slow
@given(edges=edge_lists(min_nodes=1), seed=st.integers(0, 9), name=st.sampled_from(TREES))
def test_owners_find_trees_of_any_graph(edges, seed, name):
    one = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    generator = torch.Generator().manual_seed(seed)
    seeds = torch.randint(edges.num_nodes, (5,), generator=generator)
    owners = hr.Partition.of(torch.randint(2, (edges.num_nodes,), generator=generator), 2)

    def batches(over: hr.Graph, **options: object) -> list[str]:
        plan = PLANS[name](hr.ItemSampler(seeds, batch_size=3, seed=seed, partition=owners), over)
        with plan.loader(**options) as loader:
            return [batch.digest() for batch in loader]

    found = run_ranks(2, lambda comm: batches(one.shard(owners, comm.rank), comm=comm))
    assert found == [batches(one, rank=rank, world_size=2) for rank in range(2)]


@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "shards"])
def test_trees_of_shares_leave_out_edges_between_seeds(sharded):
    owners = partition("hash", 2)

    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        one = graph().shard(owners, comm.rank) if sharded else graph()
        sampled = pairs().exclude_seed_edges(reverse=True).sample_neighbor(one, [3, 2], disjoint=True)
        with sampled.induce_subgraph(one).loader(comm=comm) as loader:
            return list(loader)

    plan = pairs().exclude_seed_edges(reverse=True).sample_neighbor(graph(), [3, 2], disjoint=True)
    shares = run_ranks(2, work)
    for index, whole in enumerate(plan.induce_subgraph(graph()).loader()):
        assert nets([share[index] for share in shares]) == nets([whole])


def test_trees_over_shards_have_types():
    owners = partition("hash", 2)

    def batches(one: hr.Graph, **options: object) -> list[str]:
        items = typed_items(partition=owners).sample_neighbor(one, [2, 2], disjoint=True)
        with items.induce_subgraph(one).loader(**options) as loader:
            return [batch.digest() for batch in loader]

    found = run_ranks(2, lambda comm: batches(typed_graph().shard(owners, comm.rank), comm=comm))
    assert found == [batches(typed_graph(), rank=rank, world_size=2) for rank in range(2)]


class Model(nn.Module):
    """More layers than the sampler has hops, all on the one block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(SAGEConv(*widths) for widths in ((8, 6), (6, 6), (6, 5)))
        self.norm = nn.BatchNorm1d(6)
        self.double()

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        (block,) = blocks
        h = x
        for number, layer in enumerate(self.layers):
            h = layer((h, h[: block.num_dst]), block.edge_index)
            h = self.norm(h).relu() if number == 0 else h
        return h


class Shared(Model):
    """The same of layers that exchange rows by themselves, where ranks share edges."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(hr.nn.SAGEConv(*widths) for widths in ((8, 6), (6, 6), (6, 5))).double()

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        (block,) = blocks
        h = self.norm(self.layers[0](x, block)).relu()
        return self.layers[2](self.layers[1](h, block).tanh(), block)


def test_ranks_that_share_edges_find_all_among_the_nodes():
    plan, shared = PLANS["full"](items(batch_size=25), graph()), hr.EdgePartition.grid(graph(), 4)
    shares = cooperative_batches(plan, 4, partition=shared)
    for index, whole in enumerate(plan.loader()):
        mine = [batches[index] for batches in shares]
        assert sorted(torch.cat([share.n_id for share in mine]).tolist()) == sorted(whole.n_id.tolist())
        found = torch.cat([share.blocks[0].edge_ids for share in mine])
        assert torch.equal(found.sort().values, whole.blocks[0].edge_ids.sort().values)
        for counts in ("num_sampled_nodes", "num_sampled_edges"):
            of_ranks = zip(*(getattr(share, counts) for share in mine), strict=True)
            assert tuple(map(sum, of_ranks)) == getattr(whole, counts)


@pytest.mark.parametrize(
    ("name", "kind"), [("new", Model), ("shadow", Model), ("full", Shared)], ids=["new", "shadow", "shared edges"]
)
def test_models_of_any_depth_train_as_in_one_process(name, kind):
    owners, model = partition("table", 2), kind()
    if kind is Shared:
        owners = hr.EdgePartition.grid(graph(), 2)
    plan = PLANS[name](items(batch_size=25), graph()).fetch_feature(store(), node=["x"], labels="y")

    def gradients(network: nn.Module, loss: torch.Tensor, batch: hr.MiniBatch, comm: hr.Comm | None) -> torch.Tensor:
        network.zero_grad()
        (loss / batch.num_global_seeds).backward()
        hr.sum_gradients(network, comm)
        return torch.cat([one.grad.flatten() for one in network.parameters()])

    def loss_of(out: torch.Tensor, batch: hr.MiniBatch) -> torch.Tensor:
        return nn.functional.cross_entropy(out[batch.seed_index], batch.y, reduction="sum")

    alone = copy.deepcopy(model)
    batches = list(plan.loader())
    expected = [gradients(alone, loss_of(alone(one.x.double(), one.blocks), one), one, None) for one in batches]

    def work(comm: hr.Comm) -> list[torch.Tensor]:
        together = hr.cooperative(copy.deepcopy(model))
        with plan.loader(cooperative=True, comm=comm, partition=owners) as loader:
            return [
                gradients(together, loss_of(together(one, one.x.double(), one.blocks), one), one, comm)
                for one in loader
            ]

    for found in run_ranks(2, work):
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
