"""exclude_seed_edges(by="edge_id"): batches are those of a graph without these edges alone; repeats of them stay."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from ranks import run_ranks
from without import edges_by_id, without_ids

import headrace as hr

NUM_NODES, NUM_EDGES = 30, 240


def repeated():
    """A graph of which every edge is there several times, half of all back as well; with weights and times."""
    random = torch.Generator().manual_seed(5)
    once = torch.randint(0, NUM_NODES, (2, 40), generator=random)
    ends = once[:, torch.randint(0, 40, (NUM_EDGES // 2,), generator=random)]
    ends = torch.cat([ends, ends.flip(0)], 1)
    return hr.Graph.from_coo(
        *ends,
        num_nodes=NUM_NODES,
        edge_attrs={
            "weight": torch.rand(NUM_EDGES, generator=random),
            "time": torch.randint(0, 9, (NUM_EDGES,), generator=random),
        },
    )


GRAPH = repeated()
BACK = torch.cat([torch.arange(NUM_EDGES // 2, NUM_EDGES), torch.arange(NUM_EDGES // 2)])
IDS = torch.randperm(NUM_EDGES, generator=torch.Generator().manual_seed(1))[:50]
IDS = IDS[(edges_by_id(GRAPH)[:, IDS] * torch.tensor([[NUM_NODES], [1]])).sum(0).argsort()]  # repeats in one batch
TIMES = GRAPH.edge_attrs["time"]


def items(ids=IDS, with_ids=True, **options):
    options = {"batch_size": 9, "seed": 3, **options}
    return hr.ItemSampler(edges_by_id(GRAPH)[:, ids].t(), edge_ids=ids if with_ids else None, **options)


SHARED = {
    "all": lambda plan, one: plan.sample_neighbor(one, [-1, -1]),
    "neighbor": lambda plan, one: plan.sample_neighbor(one, [6, 4]),
    "replace": lambda plan, one: plan.sample_neighbor(one, [6, 4], replace=True),
    "weighted": lambda plan, one: plan.sample_neighbor(one, [6, 4], weight="weight", expand="new"),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [6, 4]),
    "labor_star": lambda plan, one: plan.sample_layer_neighbor(one, [6, 4], importance="*"),
    "ladies": lambda plan, one: plan.sample_ladies(one, [30, 30]),
    "in_subgraph": lambda plan, one: plan.sample_in_subgraph(one, num_hops=2),
    "induced": lambda plan, one: plan.sample_neighbor(one, [6, 4], expand="new").induce_subgraph(one),
}
TREES = {
    "neighbor": lambda plan, one: plan.sample_neighbor(one, [6, 4], disjoint=True),
    "weighted": lambda plan, one: plan.sample_neighbor(one, [6, 4], weight="weight", disjoint=True, expand="new"),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [6, 4], disjoint=True),
    "temporal": lambda plan, one: plan.sample_neighbor(one, [6, 4], time="time"),
    "before": lambda plan, one: plan.sample_layer_neighbor(one, [6, 4], time="time", strictly_before=True, window=4),
    "shadow": lambda plan, one: plan.sample_shadow(one, 2, 6),
}


def by_block(batch, ids=None, tree=None):
    """Edges of each block, (source, destination, id in the whole graph), of one tree or of all."""
    found = []
    for block in batch.blocks:
        src, dst = block.edge_index
        mine = slice(None) if tree is None else batch.slot[dst] == tree
        edges = block.edge_ids if ids is None else ids[block.edge_ids]
        columns = (column[mine].tolist() for column in (batch.n_id[src], batch.n_id[dst], edges))
        found.append(sorted(zip(*columns, strict=True)))
    return found


def gone_of(batch, reverse, ids=IDS):
    there = ids[batch.item_index[batch.item_index >= 0]]
    return [*there.tolist(), *(BACK[there].tolist() if reverse else ())]


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_batches_are_those_of_a_graph_without_the_edges(name, reverse, fused):
    plan = items().exclude_seed_edges(by="edge_id", reverse=BACK if reverse else False)
    repeats = 0
    for index, batch in enumerate(SHARED[name](plan, GRAPH).loader(fuse_sampling=fused)):
        less, ids = without_ids(GRAPH, gone_of(batch, reverse))
        alone = list(SHARED[name](items(with_ids=False), less).loader())[index]
        assert by_block(batch) == by_block(alone, ids)
        ends = set(map(tuple, batch.seeds.tolist()))
        repeats += sum(edge[:2] in ends for block in by_block(batch) for edge in block)
    assert repeats > 50


@pytest.mark.slow
@pytest.mark.combinations(4)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_each_tree_is_that_of_a_graph_without_its_own_edge(name, reverse):
    timed = {"time": TIMES[IDS]} if name in ("temporal", "before") else {}
    plan = items(**timed).exclude_seed_edges(by="edge_id", per="seed", reverse=BACK if reverse else False)
    repeats = others = 0
    for index, batch in enumerate(TREES[name](plan, GRAPH).loader()):
        assert sorted(batch.item_index.tolist()) == list(range(9 * index, min(9 * index + 9, 50)))
        for tree, item in enumerate(batch.item_index.tolist()):
            gone = [int(IDS[item]), *([int(BACK[IDS[item]])] if reverse else [])]
            less, ids = without_ids(GRAPH, gone)
            alone = list(TREES[name](items(with_ids=False, **timed), less).loader())[index]
            found = by_block(batch, tree=tree)
            assert found == by_block(alone, ids, tree)
            listed = [edge for block in found for edge in block]
            repeats += sum(edge[:2] == tuple(batch.seeds[tree].tolist()) for edge in listed)
            others += len({edge[2] for edge in listed} & set(gone_of(batch, reverse)))
    assert repeats > 10
    assert others > 0


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("per", ["batch", "seed"])
def test_negatives_leave_out_the_edge_of_their_pair(mode, per):
    plan = items().sample_uniform_negative(GRAPH, 2, mode).exclude_seed_edges(by="edge_id", per=per)
    for batch in plan.sample_neighbor(GRAPH, [-1], disjoint=per == "seed").loader():
        gone = gone_of(batch, reverse=False)
        if per == "batch":
            assert not {edge for _, _, edge in by_block(batch)[0]} & set(gone)
            continue
        pair_of = [*range(len(gone)), *(i // 2 for i in range(2 * len(gone)))] if mode == "binary" else range(len(gone))
        destinations = edges_by_id(GRAPH)[1]
        for tree, pair in enumerate(pair_of):
            ends = set(batch.seeds[tree].tolist())
            whole = {i for i, end in enumerate(destinations.tolist()) if end in ends}
            assert {edge for _, _, edge in by_block(batch, tree=tree)[0]} == whole - {gone[pair]}


def test_earlier_repeats_stay_in_time():
    """The history of a pair: what by="ends" takes away."""
    graph = hr.Graph.from_coo([0, 0, 0, 1], [2, 2, 2, 2], num_nodes=3, edge_attrs={"time": [1, 2, 3, 3]})
    seeds = hr.ItemSampler(torch.tensor([[0, 2]]), edge_ids=[2], time=[3])
    found = {
        "edge_id": seeds.exclude_seed_edges(by="edge_id"),
        "ends": hr.ItemSampler(torch.tensor([[0, 2]]), time=[3]).exclude_seed_edges(),
    }
    (batch,) = found["edge_id"].sample_neighbor(graph, [-1], time="time").loader()
    assert sorted(batch.e_id.tolist()) == [0, 1, 3]
    (batch,) = found["ends"].sample_neighbor(graph, [-1], time="time").loader()
    assert batch.e_id.tolist() == [3]


TYPES = {("user", "saw", "movie"): 60, ("movie", "by", "user"): 60, ("user", "rated", "movie"): 40}


def typed():
    """Who saw which movie, back in the same order, and ratings between the same nodes; edges are repeated."""
    random = torch.Generator().manual_seed(2)
    saw = torch.stack([torch.randint(0, 5, (60,), generator=random), torch.randint(5, 9, (60,), generator=random)])
    flat = torch.cat([saw, saw.flip(0), saw[:, :40]], 1)
    return hr.Graph.from_coo(*flat, num_nodes=9, node_types={"user": 5, "movie": 4}, edge_types=TYPES), flat


@pytest.mark.parametrize("per", ["batch", "seed"])
@pytest.mark.parametrize("reverse", [False, True])
def test_types(per, reverse):
    """Ids count within a type; an edge of the same number of another type is another."""
    graph, flat = typed()
    saw, rated = torch.arange(0, 60, 7), torch.arange(0, 40, 5)
    first = {("user", "saw", "movie"): 0, ("user", "rated", "movie"): 120}
    ids = {("user", "saw", "movie"): saw, "rated": rated}
    offset = torch.tensor([0, 5])
    of_all = torch.cat([saw, rated + 120])
    pairs = {name: flat[:, some + first.get(name, 120)].t() - offset for name, some in ids.items()}
    back = {"saw": "by", ("user", "rated", "movie"): ("movie", "by", "user")} if reverse else False
    plan = hr.ItemSampler(pairs, edge_ids=ids, batch_size=6, shuffle=True, seed=1)
    plan = plan.exclude_seed_edges(by="edge_id", reverse=back, per=per)
    for batch in plan.sample_neighbor(graph, [-1, -1], disjoint=per == "seed").loader():
        own = of_all[batch.item_index]
        assert torch.equal(flat[:, own].t(), batch.seeds)
        returning = own % 120 + 60 if reverse else own
        for tree in range(len(own)):
            gone = {int(own[tree]), int(returning[tree])} if per == "seed" else {*own.tolist(), *returning.tolist()}
            reached = set(batch.seeds[tree].tolist()) if per == "seed" else set(batch.seeds.flatten().tolist())
            for _ in range(2):
                found = {edge for edge in range(160) if int(flat[1, edge]) in reached} - gone
                reached |= {int(flat[0, edge]) for edge in found}
            assert {edge for _, _, edge in by_block(batch, tree=tree if per == "seed" else None)[0]} == found


@pytest.mark.parametrize("per", ["batch", "seed"])
def test_ranks_leave_out_what_one_process_does(per):
    """Of a whole graph and of shards; and where each rank brings its own items."""
    owners = hr.Partition.hash(NUM_NODES, 2)

    def chain(one, **options):
        plan = items(shuffle=True, **options).exclude_seed_edges(by="edge_id", reverse=BACK, per=per)
        return plan.sample_neighbor(one, [5, 4], disjoint=per == "seed")

    def work(comm):
        with chain(GRAPH.shard(owners, comm.rank)).loader(comm=comm) as loader:
            return [batch.digest() for batch in loader]

    sharded = run_ranks(2, work)
    for rank in range(2):
        mine = list(chain(GRAPH).loader(rank=rank, world_size=2))
        assert [batch.digest() for batch in mine] == sharded[rank]
        for batch, whole in zip(mine, chain(GRAPH).loader(), strict=True):
            gone = {int(IDS[item]) for item in (whole if per == "batch" else batch).item_index}
            if per == "batch":
                assert not {edge for block in by_block(batch) for _, _, edge in block} & gone
            for tree, item in enumerate(batch.item_index.tolist() if per == "seed" else ()):
                found = {edge for block in by_block(batch, tree=tree) for _, _, edge in block}
                assert not found & {int(IDS[item]), int(BACK[IDS[item]])}


def test_a_graph_in_another_order_keeps_the_ids_of_edges():
    """Ids of nodes and edges are the user's, wherever rows lie."""
    plan = items().exclude_seed_edges(by="edge_id", reverse=BACK)
    other = hr.reorder(GRAPH, scores=torch.rand(NUM_NODES, generator=torch.Generator().manual_seed(3))).graph
    assert other.node_ids is not None
    both = zip(plan.sample_in_subgraph(GRAPH).loader(), plan.sample_in_subgraph(other).loader(), strict=True)
    assert all(by_block(one) == by_block(two) for one, two in both)


def test_resume_and_fingerprints():
    """Ids count; a plan without them has the fingerprint that it had."""
    plan = items(shuffle=True).exclude_seed_edges(by="edge_id").sample_neighbor(GRAPH, [4])
    whole = [batch.digest() for batch in plan.loader()]
    loader = plan.loader()
    for _ in zip(range(2), loader, strict=False):
        pass
    state = loader.state_dict()
    resumed = plan.loader()
    resumed.load_state_dict(state)
    assert [batch.digest() for batch in resumed] == whole[2:]
    moved = dataclasses.replace(items(shuffle=True), edge_ids=IDS.flip(0)).decisive()
    assert "edge_ids" in moved
    assert "edge_ids" not in items(with_ids=False).decisive()
    assert "by" not in items(with_ids=False).exclude_seed_edges().stages[1].decisive()


def sampled(plan):
    return plan.sample_neighbor(GRAPH, [2]).loader()


def test_refuses_pairs_without_ids():
    with pytest.raises(hr.PlanError, match=r"expected items that are edges by id .*ItemSampler\(pairs, edge_ids=ids\)"):
        sampled(items(with_ids=False).exclude_seed_edges(by="edge_id"))


def test_refuses_ids_that_nothing_reads():
    for plan in (items(), items().exclude_seed_edges()):
        with pytest.raises(hr.PlanError, match=r'exclude_seed_edges\(by="edge_id"\) behind items with edge_ids'):
            sampled(plan)


def test_refuses_ids_of_other_edges():
    other = hr.ItemSampler(edges_by_id(GRAPH)[:, IDS].t(), edge_ids=IDS.roll(1))
    with pytest.raises(hr.InputError, match=r"expected item 0, the pair .*, to be an edge by its id in edge_ids, got"):
        sampled(other.exclude_seed_edges(by="edge_id"))
    third = torch.arange(len(IDS)) == 2
    beyond = hr.ItemSampler(edges_by_id(GRAPH)[:, IDS].t(), edge_ids=IDS + NUM_EDGES * third)
    with pytest.raises(hr.InputError, match=rf"edge_ids to be ids of 240 edges, got {int(IDS[2]) + 240} for item 2;"):
        sampled(beyond.exclude_seed_edges(by="edge_id"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1]], "int32 or int64 ids in one dimension"),
        ([0.5] * 50, "int32 or int64 ids"),
        ([-1] * 50, "edge_ids of at least 0, got -1"),
        ([1, 2], "edge_ids for 50 items, got 2"),
        ({("a", "b", "c"): [1]}, "one edge_ids for all items, got some by type"),
    ],
    ids=str,
)
def test_refuses_what_are_no_ids_of_items(given, message):
    with pytest.raises(hr.InputError, match=message):
        hr.ItemSampler(edges_by_id(GRAPH)[:, IDS].t(), edge_ids=given)


@pytest.mark.parametrize(
    ("reverse", "message"),
    [
        (True, "to name the edge that leads back, got True; pass ids"),
        (None, "got None"),
        ({}, r"got \{\}"),
        (BACK[:5], "an id for each of 240 edges, got \\[5\\]"),
        (BACK + 9, "expected reverse to be ids of 240 edges"),
        (torch.arange(NUM_EDGES), "expected reverse to lead back for each edge, got for edge"),
    ],
    ids=["true", "none", "empty", "short", "beyond", "itself"],
)
def test_refuses_reverses_that_are_none(reverse, message):
    with pytest.raises(hr.InputError, match=message):
        sampled(items().exclude_seed_edges(by="edge_id", reverse=reverse))


def test_an_edge_may_have_no_reverse():
    plan = items().exclude_seed_edges(by="edge_id", reverse=torch.full((NUM_EDGES,), -1))
    alone = items().exclude_seed_edges(by="edge_id")
    for one, two in zip(sampled(plan), sampled(alone), strict=True):
        assert by_block(one) == by_block(two)


def test_refuses_ids_by_ends_and_other_words():
    with pytest.raises(hr.InputError, match=r'ids of reverses go with by="edge_id"'):
        items(with_ids=False).exclude_seed_edges(reverse=BACK)
    with pytest.raises(hr.InputError, match='by to be "ends" or "edge_id"'):
        items().exclude_seed_edges(by="id")


def test_refuses_types_that_do_not_lead_back_by_number():
    graph, flat = typed()
    name = ("user", "saw", "movie")
    seeds = hr.ItemSampler({name: flat[:, :60].t() - torch.tensor([0, 5])}, edge_ids={name: torch.arange(60)})
    mixed = dict(zip(TYPES, (60, 50, 50), strict=True))
    uneven = hr.Graph.from_coo(
        *torch.cat([flat[:, :110], flat[:, :50]], 1), node_types={"user": 5, "movie": 4}, edge_types=mixed
    )
    with pytest.raises(hr.InputError, match=r"expected as many edges of .*by.* as of .*saw.*, got 50"):
        seeds.exclude_seed_edges(by="edge_id", reverse={"saw": "by"}).sample_neighbor(uneven, [2]).loader()
    turned = hr.Graph.from_coo(
        *torch.cat([flat[:, :60], flat[:, 60:120].flip(1), flat[:, 120:]], 1),
        node_types={"user": 5, "movie": 4},
        edge_types=TYPES,
    )
    with pytest.raises(hr.InputError, match="expected reverse to lead back for each edge"):
        seeds.exclude_seed_edges(by="edge_id", reverse={"saw": "by"}).sample_neighbor(turned, [2]).loader()
    flat_items = hr.ItemSampler(flat[:, 120:].t(), edge_ids=torch.arange(120, 160))
    with pytest.raises(hr.InputError, match=r"types of all items among the keys of reverse, .*got edges of .*rated"):
        flat_items.exclude_seed_edges(by="edge_id", reverse={"saw": "by"}).sample_neighbor(graph, [2]).loader()
    with pytest.raises(hr.InputError, match=r"edge_ids of type .*saw.*expected ids of type"):
        far = hr.ItemSampler({name: flat[:, :1].t() - torch.tensor([0, 5])}, edge_ids={name: [60]})
        far.exclude_seed_edges(by="edge_id").sample_neighbor(graph, [2]).loader()
