"""Samplers of users where ranks make batches together: those that can say so, others are refused by name."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from own_hops import OF_HOP, ByNode, BySeeds, InTrees, Plants, ring
from ranks import run_ranks

import headrace as hr
from headrace import ext

X = torch.arange(100.0)[:, None]


class Sum(torch.nn.Module):
    """A layer that sums what comes, and the node's own row ten times."""

    def forward(self, h, block):
        return block.aggregate(h) + 10 * h[: block.num_dst]


def model(num_layers):
    made = torch.nn.Module()
    made.layers = torch.nn.ModuleList([Sum() for _ in range(num_layers)])
    made.scale = torch.nn.Parameter(torch.ones(1))

    def forward(h, blocks):
        for layer, block in zip(made.layers, blocks, strict=True):
            h = layer(h, block)
        return made.scale * h

    made.forward = forward
    return made


def planned(*stages, seeds=(7, 3, 12, 0, 41, 8, 8), **options):
    plan = hr.ItemSampler(list(seeds), batch_size=4, seed=1, **options)
    for stage in stages:
        plan = plan.then(stage)
    return plan.fetch_feature(hr.FeatureStore(node={"x": X}), node=["x"])


def outputs(batch, h):
    return list(zip(batch.item_index.tolist(), h[batch.seed_index][:, 0].tolist(), strict=True))


def alone(plan, num_layers):
    return sorted(one for batch in plan.loader() for one in outputs(batch, model(num_layers)(batch.x, batch.blocks)))


def together(plan, num_layers, size=2):
    def work(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            own = hr.cooperative(model(num_layers))
            return [one for batch in loader for one in outputs(batch, own(batch, batch.x, batch.blocks))]

    return sorted(one for mine in run_ranks(size, work, timeout=20.0) for one in mine)


def explain(*stages, **options):
    return planned(*stages).explain(machine=hr.Machine(world_size=2), cooperative=True, **options)


@dataclass(frozen=True, eq=False, repr=False)
class Bare(BySeeds):
    """Says nothing but what it writes."""

    name = "bare"
    num_hops = 0


@dataclass(frozen=True, eq=False, repr=False)
class Macro(ext.MacroStage):
    name = "macro"
    graph: hr.Graph

    def parts(self):
        return (BySeeds(self.graph),)


@pytest.mark.parametrize("kind", [BySeeds, Bare, Macro])
def test_a_sampler_that_does_not_say_that_it_goes_by_nodes_is_refused(kind):
    name = "by_seeds" if kind is BySeeds else kind.__name__.lower()
    match = (
        rf"cooperative: {name}: expected a stage that finds edges for each node of n_id by itself.*"
        r"write finds_by_node = True in .*docs/extending.md.*or pass cooperative=False"
    )
    with pytest.raises(hr.PlanError, match=match):
        explain(kind(ring()))
    with pytest.raises(hr.PlanError, match=match):
        together(planned(kind(ring())), 1)
    with pytest.raises(hr.PlanError, match=match):
        explain(kind(ring()), partition=hr.EdgePartition.grid(ring(), 2))


def test_without_cooperation_it_need_not_say_anything():
    for rank in range(2):
        assert len(list(planned(BySeeds(ring()), seeds=range(7)).loader(rank=rank, world_size=2))) == 2


@pytest.mark.parametrize("num_hops", [1, 2])
@pytest.mark.parametrize("size", [2, 3])
def test_a_sampler_by_node_has_the_outputs_of_one_process(num_hops, size):
    plan = planned(*[ByNode(ring())] * num_hops)
    assert together(plan, num_hops, size) == alone(plan, num_hops)


@pytest.mark.parametrize("num_hops", [1, 2])
@pytest.mark.parametrize("size", [2, 3])
def test_a_sampler_in_trees_that_a_stage_of_users_plants_has_the_outputs_of_one_process(num_hops, size):
    plan = planned(Plants(), *[InTrees(ring())] * num_hops)
    assert together(plan, num_hops, size) == alone(plan, num_hops)


def test_trees_have_the_times_of_the_seeds_of_all_ranks():
    times = torch.tensor([5, 8, 1, 9, 2, 7, 3])
    plan = planned(Plants(), InTrees(ring()), time=times)

    def work(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            return [(batch.seed_time.tolist(), batch.exchanges[-1].wanted_slot.tolist()) for batch in loader]

    for mine in run_ranks(2, work):
        assert [of_all for of_all, _ in mine] == [times[:4].tolist(), times[4:].tolist()]


def test_what_a_stage_that_plants_does_is_done():
    """And not what those of headrace do."""

    @dataclass(frozen=True, eq=False, repr=False)
    class Counts(Plants):
        graph: hr.Graph

        def runner(self, settings):
            run = super().runner(settings)
            return lambda batch: (run(batch)[0], {"planted": len(batch.seeds)})

    plan = planned(Counts(ring()), InTrees(ring()))

    def work(comm):
        with plan.loader(cooperative=True, comm=comm) as loader:
            list(loader)
            return loader.stats()["plants"]["planted"]

    assert sum(run_ranks(2, work)) == 7


def written(change, *, writes=OF_HOP, **members):
    """A stage that says that it goes by nodes, and does something else."""

    def run(batch):
        return change(batch), {}

    members = {"graph": ring(), "finds_by_node": True, "reads": frozenset({"n_id"}), "writes": writes, **members}
    return type("Odd", (ext.MapStage,), {**members, "name": "odd", "runner": lambda self, settings: run})()


def by_seeds(batch):
    return with_seeds(batch).replace(seed_index=torch.arange(len(batch.seeds)))


def with_seeds(batch):
    return BySeeds(ring()).runner(None)(batch)[0]


def twice(batch):
    once = ByNode(ring()).runner(None)(batch)[0]
    return ByNode(ring()).runner(None)(once)[0]


def uncounted(batch):
    return ByNode(ring()).runner(None)(batch)[0].replace(num_sampled_nodes=batch.num_sampled_nodes)


ODD = {
    "seeds": (by_seeds, r"(n_id that begins with|a block from its \d n_id to) the \d that it was given"),
    "two hops": (twice, "one block more in front, got 2"),
    "counts": (uncounted, r"num_sampled_nodes with one more entry"),
    "slots": (
        lambda batch: ByNode(ring()).runner(None)(batch)[0].replace(slot=torch.zeros(3)),
        "slot with a tree for each of n_id",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_a_stage_that_says_so_and_does_not_is_refused_at_its_batch(what):
    change, match = ODD[what]
    plan = planned(written(change, writes=OF_HOP | {"seed_index"}))
    with pytest.raises(hr.PlanError, match=f"expected Odd, which finds by node, to return {match}"):
        run_ranks(2, lambda comm: list(plan.loader(cooperative=True, comm=comm)), timeout=20.0)


def test_two_hops_in_one_stage_are_refused():
    two = written(twice, num_hops=2)
    with pytest.raises(hr.PlanError, match=r"cooperative: odd: expected one hop in a stage, .* got num_hops=2"):
        explain(two)


def test_slots_of_no_trees_are_refused():
    members = {"name": "bare", "plants_trees": False}
    with pytest.raises(hr.PlanError, match=r"cooperative: bare: .* plants_trees = True"):
        explain(type("Bare", (Plants,), members)(), InTrees(ring()))
    declared = type("Bare", (Plants,), members | {"finds_by_node": True})()
    match = "expected Bare, which finds by node, to return (slot with a tree for each|n_id that begins with|a block)"
    with pytest.raises(hr.PlanError, match=match):
        together(planned(declared, InTrees(ring())), 1)


def test_a_sampler_that_may_write_slots_needs_no_trees():
    own = type("Own", (ByNode,), {"writes": OF_HOP | {"slot"}})(ring())
    assert together(planned(own), 1) == alone(planned(own), 1)


def test_a_stage_that_plants_finds_no_edges():
    both = type("Both", (ByNode,), {"name": "both", "plants_trees": True})(ring())
    with pytest.raises(hr.PlanError, match="cooperative: both: expected a stage that plants trees to find no edges"):
        explain(both)


def test_trees_are_numbers_of_seeds():
    def plant(batch):
        return batch.replace(slot=batch.n_id + 100), {}

    odd = type("Odd", (Plants,), {"runner": lambda self, settings: plant})()
    match = r"expected Odd, which plants trees, to return slot of int64, the number of a seed, below \d"
    with pytest.raises(hr.PlanError, match=match):
        list(planned(odd, seeds=range(4)).loader())


@dataclass(frozen=True, eq=False, repr=False)
class Drop(ext.MapStage):
    """Drops the edges of odd ids."""

    name = "drop"
    finds_by_node = True
    reads = writes = frozenset({"blocks"})

    def runner(self, settings):
        def kept(block):
            keep = block.edge_ids % 2 == 0
            indptr = torch.cat((torch.zeros(1, dtype=torch.int64), keep.cumsum(0)))[block.indptr]
            return hr.Block(indptr, block.indices[keep], block.num_src, block.num_dst, edge_ids=block.edge_ids[keep])

        return lambda batch: (batch.replace(blocks=tuple(map(kept, batch.blocks))), {})


def test_a_stage_that_changes_edges_alone():
    plan = planned(ByNode(ring()), ByNode(ring()), Drop())
    assert together(plan, 2) == alone(plan, 2)
    assert alone(plan, 2) != alone(planned(ByNode(ring()), ByNode(ring())), 2)


def test_a_stage_of_headrace_needs_no_word():
    plan = planned().stages
    built_in = hr.Plan([plan[0], *hr.ItemSampler(1).sample_neighbor(ring(), [-1]).stages[1:], *plan[1:]])
    assert together(built_in, 1) == alone(built_in, 1)
