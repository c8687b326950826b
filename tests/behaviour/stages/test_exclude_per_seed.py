"""exclude_seed_edges(per="seed"): each tree is that of a graph without its own pair's edges, and of no other pair's."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks
from without import without_edges

import headrace as hr

from plans import NUM_NODES, edges, graph, pairs, with_seed_times, with_times

SAMPLERS = {
    "all": lambda plan, one: plan.sample_neighbor(one, [-1, -1], disjoint=True),
    "neighbor": lambda plan, one: plan.sample_neighbor(one, [6, 4], disjoint=True, expand="new"),
    "replace": lambda plan, one: plan.sample_neighbor(one, [6, 4], replace=True, disjoint=True),
    "weighted": lambda plan, one: plan.sample_neighbor(one, [6, 4], weight="weight", disjoint=True),
    "labor": lambda plan, one: plan.sample_layer_neighbor(one, [6, 4], disjoint=True),
    "poisson": lambda plan, one: plan.sample_layer_neighbor(one, [6, 4], exact=False, weight="weight", disjoint=True),
    "shadow": lambda plan, one: plan.sample_shadow(one, 2, 6),
}


def of_tree(batch, tree):
    """The edges of one tree, (source, destination, original id), block by block."""
    found = []
    for block in batch.blocks:
        src, dst = block.edge_index
        mine = batch.slot[dst] == tree
        columns = batch.n_id[src], batch.n_id[dst], block.edge_ids
        found.append(sorted(zip(*(column[mine].tolist() for column in columns), strict=True)))
    return found


def linked(num_pairs=5):
    """Pairs whose ends are joined: many share an end, so that one tree reaches the edges of another's pair."""
    hub = (edges()[:, 1] == 7).nonzero().squeeze(1)[:num_pairs]
    return hr.ItemSampler(edges()[hub], batch_size=num_pairs, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", SAMPLERS)
def test_each_tree_is_that_of_a_graph_without_its_own_edges(name, fused, reverse):
    """The picks, bit for bit: nothing is filtered afterwards. Edges of other pairs are there."""
    plan = SAMPLERS[name](linked().exclude_seed_edges(reverse=reverse, per="seed"), graph())
    (batch,) = plan.loader(fuse_sampling=fused)
    of_others = 0
    for tree, pair in enumerate(batch.seeds):
        less, ids = without_edges(graph(), pair[None], reverse=reverse)
        (alone,) = SAMPLERS[name](linked(), less).loader()
        expected = [[(u, v, int(ids[e])) for u, v, e in block] for block in of_tree(alone, tree)]
        assert of_tree(batch, tree) == [sorted(block) for block in expected]
        picked = {(u, v) for block in of_tree(batch, tree) for u, v, _ in block}
        assert tuple(pair.tolist()) not in picked
        of_others += len(picked & set(map(tuple, batch.seeds.tolist())))
    assert of_others > 0


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_are_asked_of_the_graph_of_their_pair(mode):
    """1.5 negatives for each of 3 pairs: 2, 2 and 1; or 2 for each that share the tree of their pair."""
    every = torch.arange(6)
    complete = hr.Graph.from_coo(every.repeat(6), every.repeat_interleave(6), num_nodes=6)
    items = hr.ItemSampler(torch.tensor([[0, 1], [2, 3], [0, 4]]), seed=2)
    plan = items.sample_uniform_negative(complete, 1.5 if mode == "binary" else 2, mode)
    plan = plan.exclude_seed_edges(per="seed").sample_neighbor(complete, [-1, -1], disjoint=True)
    (batch,) = plan.loader()
    pair_of = [0, 1, 2, 0, 0, 1, 1, 2] if mode == "binary" else [0, 1, 2]
    assert len(batch.item_index) == len(pair_of)
    for tree, pair in enumerate(pair_of):
        picked = {(u, v) for u, v, _ in of_tree(batch, tree)[0]}
        gone = tuple(batch.seeds[pair, :2].tolist())
        assert picked == {(u, v) for u in range(6) for v in range(6)} - {gone}


def test_with_times():
    """Within the seed's time, without the pair's edges of any time."""
    one = with_times(graph())
    plan = with_seed_times(pairs()).exclude_seed_edges(reverse=True, per="seed")
    whole = list(with_seed_times(pairs()).sample_neighbor(one, [-1, -1], time="time").loader())
    gone = 0
    for index, batch in enumerate(plan.sample_neighbor(one, [-1, -1], time="time").loader()):
        for tree, pair in enumerate(batch.seeds.tolist()):
            ends = {tuple(pair), tuple(pair[::-1])}
            assert not {(u, v) for block in of_tree(batch, tree) for u, v, _ in block} & ends
            (_, before), (_, after) = of_tree(whole[index], tree), of_tree(batch, tree)
            kept = [edge for edge in before if edge[:2] not in ends]
            gone += len(before) - len(kept)
            assert after == kept
    assert gone > 10


def test_with_types():
    """Of the typed rows of both directions, by their own types."""
    saw = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 1, 1]])
    one = hr.Graph.from_coo(
        torch.cat([saw[0], saw[1] + 3]),
        torch.cat([saw[1] + 3, saw[0]]),
        num_nodes=5,
        node_types={"user": 3, "movie": 2},
        edge_types={("user", "saw", "movie"): 5, ("movie", "seen", "user"): 5},
    )
    plan = hr.ItemSampler({("user", "saw", "movie"): saw.t()}, seed=1).exclude_seed_edges(
        reverse={"saw": "seen"}, per="seed"
    )
    (batch,) = plan.sample_neighbor(one, [-1], disjoint=True).loader()
    every = {(u, v + 3) for u, v in saw.t().tolist()}
    every |= {(v, u) for u, v in every}
    for tree, (u, v) in enumerate(batch.seeds.tolist()):
        picked = {edge[:2] for edge in of_tree(batch, tree)[0]}
        assert picked == {edge for edge in every - {(u, v), (v, u)} if edge[1] in (u, v)}


def of_several_types():
    """Users 0 to 5, movies 6 to 9 and shows 10 to 12; who saw which, and back. Some edges are there twice."""
    random = torch.Generator().manual_seed(3)
    watched, seen = {}, {}
    for relation, kind, count in (("saw", "movie", 4), ("followed", "show", 3)):
        ends = torch.stack([torch.randint(6, (20,), generator=random), torch.randint(count, (20,), generator=random)])
        ends[:, ::4] = ends[:, 1::4]
        watched["user", relation, kind] = ends
        seen[kind, f"{relation} by", "user"] = ends.flip(0)
    relations = {**watched, **seen}
    first = {"user": 0, "movie": 6, "show": 10}
    flat = [torch.stack([ends[0] + first[name[0]], ends[1] + first[name[2]]]) for name, ends in relations.items()]
    graph = hr.Graph.from_coo(
        *torch.cat(flat, 1),
        num_nodes=13,
        node_types={"user": 6, "movie": 4, "show": 3},
        edge_types={name: ends.shape[1] for name, ends in relations.items()},
    )
    return graph, {name: ends.t() for name, ends in watched.items()}


@pytest.mark.parametrize(
    "reverse",
    [False, True, {("user", "saw", "movie"): "saw by", ("user", "followed", "show"): ("show", "followed by", "user")}],
    ids=["there", "both ways", "by type"],
)
@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
@pytest.mark.parametrize("order", [1, -1])
def test_pairs_of_several_edge_types_leave_out_their_own_edges(reverse, sampler, order):
    """Rows of a type are those of some of the pairs alone, so trees are those of these pairs."""
    one, items = of_several_types()
    items = dict(list(items.items())[::order])
    plan = hr.ItemSampler(items, batch_size=15, shuffle=True, seed=1).exclude_seed_edges(reverse=reverse, per="seed")
    whole = {
        edge
        for block in next(iter(hr.ItemSampler(13).sample_in_subgraph(one).loader())).blocks
        for edge in zip(*(ends.tolist() for ends in block.edge_index), block.edge_ids.tolist(), strict=True)
    }
    gone = 0
    for batch in getattr(plan, sampler)(one, [-1, -1], disjoint=True).loader():
        for tree, (u, v) in enumerate(batch.seeds.tolist()):
            out = {edge for edge in whole if edge[:2] == (u, v) or (reverse and edge[:2] == (v, u))}
            reached, found = {u, v}, set()
            for _ in range(2):
                found = {edge for edge in whole - out if edge[1] in reached}
                reached |= {edge[0] for edge in found}
            assert set(of_tree(batch, tree)[0]) == found
            gone += len(out)
    assert gone > 60


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_ranks_grow_the_trees_that_one_process_grows(mode):
    """Of a whole graph, and of shards, whose owners leave out edges of the trees of all."""
    owners = hr.Partition.hash(NUM_NODES, 2)

    def chain(one):
        negatives = pairs(shuffle=False).sample_uniform_negative(graph(), 2, mode)
        return negatives.exclude_seed_edges(reverse=True, per="seed").sample_neighbor(one, [5, 4], disjoint=True)

    def work(comm):
        with chain(graph().shard(owners, comm.rank)).loader(comm=comm) as loader:
            return list(loader)

    whole = list(chain(graph()).loader())
    sharded = run_ranks(2, work)
    for rank in range(2):
        mine = list(chain(graph()).loader(rank=rank, world_size=2))
        assert [batch.digest() for batch in sharded[rank]] == [batch.digest() for batch in mine]
        for batch, one in zip(mine, whole, strict=True):
            for tree, slot in enumerate(batch.seed_slot.tolist()):
                assert of_tree(batch, tree) == of_tree(one, slot)


def test_the_batch_keeps_the_bits_of_per_batch():
    """Trees without edges of any pair are not those without their own; the default is the former."""
    plan = SAMPLERS["all"](linked().exclude_seed_edges(), graph())
    (batch,) = plan.loader()
    every = set(map(tuple, batch.seeds.tolist()))
    for tree in range(len(batch.seeds)):
        assert not {edge[:2] for block in of_tree(batch, tree) for edge in block} & every
    (other,) = SAMPLERS["all"](linked().exclude_seed_edges(per="batch"), graph()).loader()
    assert other.digest() == batch.digest()


@pytest.mark.parametrize(
    "chain",
    [
        lambda plan: plan.sample_neighbor(graph(), [3]),
        lambda plan: plan.sample_layer_neighbor(graph(), [3]),
        lambda plan: plan.sample_ladies(graph(), [9]),
        lambda plan: plan.sample_in_subgraph(graph(), num_hops=1),
    ],
)
def test_refuses_seeds_that_share_their_neighbourhood(chain):
    with pytest.raises(hr.PlanError, match=r'expected trees with exclude_seed_edges\(per="seed"\).*disjoint=True'):
        chain(pairs().exclude_seed_edges(per="seed")).loader()


def test_an_empty_share_has_no_trees():
    plan = SAMPLERS["neighbor"](linked(1).exclude_seed_edges(per="seed"), graph())
    sizes = [batch.num_seeds for rank in range(2) for batch in plan.loader(rank=rank, world_size=2)]
    assert sorted(sizes) == [0, 1]
