"""Edges between seeds are not in their neighbourhoods: peers.md, A 5.18. See `tests/ops/sampling/test_excluded.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from explained import names
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, edges, graph, items, pairs

SAMPLERS = {
    "neighbor": lambda plan: plan.sample_neighbor(graph(), [6, 4]),
    "replace": lambda plan: plan.sample_neighbor(graph(), [6, 4], replace=True),
    "weighted": lambda plan: plan.sample_neighbor(graph(), [6, 4], weight="weight", expand="new"),
    "labor": lambda plan: plan.sample_layer_neighbor(graph(), [6, 4]),
    "poisson": lambda plan: plan.sample_layer_neighbor(graph(), [6, 4], exact=False, weight="weight"),
    "labor_star": lambda plan: plan.sample_layer_neighbor(graph(), [6, 4], importance="*"),
    "ladies": lambda plan: plan.sample_ladies(graph(), [60, 60]),
    "in_subgraph": lambda plan: plan.sample_in_subgraph(graph(), num_hops=2),
    "induced": lambda plan: plan.sample_neighbor(graph(), [6, 4], expand="new").induce_subgraph(graph()),
    "shadow": lambda plan: plan.sample_shadow(graph(), 2, 6),
    "trees": lambda plan: plan.sample_neighbor(graph(), [6, 4], disjoint=True),
}


def picked(batch):
    """The edges of all blocks in global ids."""
    found = [batch.n_id[block.edge_index].t().tolist() for block in batch.blocks]
    return {tuple(edge) for block in found for edge in block}


def between_seeds(batch):
    pairs_of = batch.seeds if batch.num_positives is None else batch.seeds[: batch.num_positives, :2]
    return set(map(tuple, pairs_of.tolist()))


def back(some):
    return {(v, u) for u, v in some}


@pytest.mark.parametrize("name", SAMPLERS)
def test_peers_18_excluded_seed_edges_and_their_reverses_are_absent(name):
    """Without the stage they are there, and so are reverses where these are not excluded."""
    seen = {"plain": 0, "forward": 0}
    for batch in SAMPLERS[name](pairs()).loader():
        seen["plain"] += len(picked(batch) & between_seeds(batch))
    for batch in SAMPLERS[name](pairs().exclude_seed_edges()).loader():
        assert not picked(batch) & between_seeds(batch)
        seen["forward"] += len(picked(batch) & back(between_seeds(batch)))
    for batch in SAMPLERS[name](pairs().exclude_seed_edges(reverse=True)).loader():
        assert not picked(batch) & (between_seeds(batch) | back(between_seeds(batch)))
    assert seen["plain"] > 10
    assert seen["forward"] > 0


def test_peers_18_what_is_left_of_a_row_is_still_picked():
    """Not filtered afterwards: a node with as many other in-edges has the whole fanout."""
    degree = graph().indptr.diff()
    for batch in pairs().exclude_seed_edges().sample_neighbor(graph(), [5]).loader():
        gone = torch.zeros(NUM_NODES, dtype=torch.int64)
        for u, v in between_seeds(batch):
            gone[v] += int((graph().indices[graph().indptr[v] : graph().indptr[v + 1]] == u).sum())
        seeds = batch.n_id[: batch.num_sampled_nodes[0]]
        left = (degree - gone)[seeds]
        assert torch.equal(batch.blocks[0].indptr.diff(), left.clamp(max=5))


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_negatives_are_not_excluded(mode):
    """Drawn among the edges of a complete graph, each of them stays."""
    every = torch.arange(6)
    complete = hr.Graph.from_coo(every.repeat(6), every.repeat_interleave(6), num_nodes=6)
    plan = hr.ItemSampler(torch.tensor([[0, 1], [2, 3]]), seed=2).sample_uniform_negative(complete, 4, mode)
    (batch,) = plan.exclude_seed_edges().sample_in_subgraph(complete).loader()
    ends = batch.n_id[: batch.num_sampled_nodes[0]].tolist()
    assert picked(batch) == {(u, v) for u in range(6) for v in ends} - {(0, 1), (2, 3)}


def typed():
    """Users (0 to 3) and movies (4 to 6): what users saw, and by whom movies were seen; and who knows whom."""
    saw = torch.tensor([[0, 1, 2, 3, 0, 1], [4, 4, 5, 6, 6, 5]])
    knows = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return hr.Graph.from_coo(
        torch.cat([saw[0], saw[1], knows[0]]),
        torch.cat([saw[1], saw[0], knows[1]]),
        num_nodes=7,
        node_types={"user": 4, "movie": 3},
        edge_types={("user", "saw", "movie"): 6, ("movie", "seen", "user"): 6, ("user", "knows", "user"): 3},
    )


@pytest.mark.parametrize(
    "reverse", [True, {("user", "saw", "movie"): ("movie", "seen", "user")}, {"saw": "seen"}], ids=str
)
def test_types(reverse):
    seen = torch.tensor([[0, 0], [1, 1]])  # user 0 saw movie 0, which is node 4; user 1 saw movie 1, node 5
    plan = hr.ItemSampler({("user", "saw", "movie"): seen}, seed=1)
    plan = plan.sample_uniform_negative(typed(), 2).exclude_seed_edges(reverse=reverse)
    (batch,) = plan.sample_neighbor(typed(), [-1, -1]).loader()
    assert batch.seeds[:2].tolist() == [[0, 4], [1, 5]]
    assert (batch.seeds[2:, 1] >= 4).all()  # movies alone are drawn as destinations
    whole = typed()
    ends = torch.arange(7).repeat_interleave(whole.indptr.diff())
    all_edges = set(zip(whole.indices.tolist(), ends.tolist(), strict=True))
    gone = {(0, 4), (1, 5), (4, 0), (5, 1)}
    assert not picked(batch) & gone
    reached = set(batch.n_id[: sum(batch.num_sampled_nodes[:2])].tolist())
    assert picked(batch) == {(u, v) for u, v in all_edges - gone if v in reached}


def test_types_of_one_direction_alone():
    plan = hr.ItemSampler({("user", "saw", "movie"): torch.tensor([[0, 0]])}, seed=1).exclude_seed_edges()
    (batch,) = plan.sample_neighbor(typed(), [-1, -1]).loader()
    assert (0, 4) not in picked(batch)
    assert (4, 0) in picked(batch)


@pytest.mark.parametrize(
    ("reverse", "message"),
    [
        ({"saw": "nope"}, "expected reverse to name edge types, got 'nope': there is no type"),
        ({"saw": "movie:seen:user"}, r"there is no type .*; write \('movie', 'seen', 'user'\)"),
        ({"nope": "seen"}, "expected reverse to name edge types, got 'nope': there is no type"),
        ({"saw": "knows"}, "for .*saw.* a type from 'movie' to 'user', got .*knows.*, whose edges are no edges back"),
        ({"knows": "knows"}, "expected the edge type of the seeds, .*saw.*, among the keys of reverse"),
    ],
    ids=str,
)
def test_refuses_types_that_are_not_there_and_seeds_without_theirs(reverse, message):
    plan = hr.ItemSampler({("user", "saw", "movie"): torch.tensor([[0, 0]])}, seed=1)
    with pytest.raises(hr.InputError, match=message):
        plan.exclude_seed_edges(reverse=reverse).sample_neighbor(typed(), [2]).loader()


def test_refuses_pairs_that_are_of_no_type_that_is_named():
    """Pairs in the ids of the whole graph have no name; their ends say what they cannot be."""
    pair = hr.ItemSampler(torch.tensor([[0, 4]]), seed=1)
    with pytest.raises(hr.InputError, match="expected pairs of an edge type among the keys of reverse"):
        pair.exclude_seed_edges(reverse={"knows": "knows"}).sample_neighbor(typed(), [2]).loader()
    with pytest.raises(hr.InputError, match="is not a node"):
        beyond = hr.ItemSampler(torch.tensor([[0, 7]]), seed=1).exclude_seed_edges(reverse={"saw": "seen"})
        beyond.sample_neighbor(typed(), [2]).loader()
    (batch,) = pair.exclude_seed_edges(reverse={"saw": "seen"}).sample_neighbor(typed(), [-1]).loader()
    assert not picked(batch) & {(0, 4), (4, 0)}


def test_a_shard_leaves_out_the_edges_that_it_holds():
    """And ranks that each sample what they need of shards find what one process finds."""
    owners = hr.Partition.hash(NUM_NODES, 2)

    def chain(one):
        return pairs().exclude_seed_edges(reverse=True).sample_neighbor(one, [4, 3])

    def work(comm):
        with chain(graph().shard(owners, comm.rank)).loader(comm=comm) as loader:
            return list(loader)

    found = run_ranks(2, work)
    for rank in range(2):
        expected = chain(graph()).loader(rank=rank, world_size=2)
        assert [batch.digest() for batch in found[rank]] == [batch.digest() for batch in expected]


@pytest.mark.parametrize("per", ["batch", "seed"])
def test_a_gpu_draws_negatives_and_samples_if_it_can_do_both(per):
    plan = pairs().copy_to("cuda").sample_uniform_negative(graph()).exclude_seed_edges(per=per)
    machine = hr.Machine(gpus=1, gpu_memory=(1 << 30,))
    trees = ["plant_trees"] if per == "seed" else []
    sampled = plan.sample_neighbor(graph(), [3], disjoint=per == "seed")
    before = ["sample_uniform_negative", *trees]
    assert names(sampled, machine) == ["item_sampler", "copy_to", *before, "sample_fused"]
    assert names(sampled, replace(machine, world_size=2)) == names(sampled, machine)
    assert names(sampled, hr.Machine()) == ["item_sampler", *before, "sample_fused", "copy_to"]
    if per == "batch":
        on_cpu = names(plan.sample_ladies(graph(), [5]), machine)
        assert on_cpu.index("sample_uniform_negative") == 1
        assert on_cpu[-1] == "copy_to"


def test_refusals():
    with pytest.raises(hr.InputError, match='per to be "batch" or "seed"'):
        pairs().exclude_seed_edges(per="node")
    for reverse in ("yes", 1, None, {}):
        with pytest.raises(hr.InputError, match="reverse to be True, False or"):
            pairs().exclude_seed_edges(reverse=reverse)
    with pytest.raises(hr.InputError, match="expected seeds that are pairs"):
        items().exclude_seed_edges().sample_neighbor(graph(), [2]).loader()
    with pytest.raises(hr.InputError, match="expected seeds that are pairs"):
        plan = hr.ItemSampler(torch.tensor([0]), seed=1).exclude_seed_edges(reverse={"saw": "seen"})
        plan.sample_neighbor(typed(), [2]).loader()
    with pytest.raises(hr.PlanError, match="chain it once"):
        pairs().exclude_seed_edges().exclude_seed_edges().sample_neighbor(graph(), [2]).loader()


def test_a_source_that_knows_its_share_alone_is_refused_on_several_ranks():
    class Pairs:
        def reset(self, state=None):
            self.left = 1

        def __next__(self):
            if not self.left:
                raise StopIteration
            self.left = 0
            return edges()[:8]

        def state_dict(self):
            return {}

    plan = hr.ext.NodeSource(Pairs(), seed=1).exclude_seed_edges().sample_neighbor(graph(), [5])
    (batch,) = plan.loader()
    assert not picked(batch) & between_seeds(batch)
    with pytest.raises(hr.PlanError, match="expected a source that knows the seeds of all ranks, got NodeDrawer"):
        plan.loader(rank=0, world_size=2)
