"""What ranks that share edges do and send: the same work for any number of ranks, one message for each pair."""

from __future__ import annotations

import copy

import pytest
import torch
from hybrid import KINDS, STRATEGIES, model, one_batch, plan
from ranks import run_ranks

import headrace as hr

from plans import graph


def batches(steps: hr.Plan, partition: hr.EdgePartition) -> list[list[hr.MiniBatch]]:
    def work(comm: hr.Comm) -> list[hr.MiniBatch]:
        with steps.loader(comm=comm, cooperative=True, partition=partition) as loader:
            return list(loader)

    return run_ranks(partition.num_parts, work)


@pytest.mark.combinations(4)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_node_and_edge_of_a_layer_is_in_one_rank(strategy, kind):
    whole = list(plan(strategy, 3).loader())
    for world_size in (2, 3, 4, 8):
        partition = KINDS[kind](graph(), world_size)
        shares = batches(plan(strategy, 3), partition)
        for batch, *mine in zip(whole, *shares, strict=True):
            for layer, block in enumerate(batch.blocks):
                edge_ids = torch.cat([one.blocks[layer].edge_ids for one in mine])
                assert torch.equal(edge_ids.sort().values, block.edge_ids.sort().values)
                nodes = torch.cat([one.exchanges[layer].owned for one in mine])
                assert torch.equal(nodes.sort().values, batch.n_id[: block.num_src].sort().values)
                for rank, one in enumerate(mine):
                    assert bool((partition.nodes.owner(one.exchanges[layer].owned) == rank).all())
                    source, target = (one.exchanges[layer + end].owned for end in (0, 1))
                    assert (one.blocks[layer].num_src, one.blocks[layer].num_dst) == (len(source), len(target))
                    assert torch.equal(source[: len(target)], target)
            counts = [
                [sum(numbers) for numbers in zip(*(getattr(one, name) for one in mine), strict=True)]
                for name in ("num_sampled_nodes", "num_sampled_edges")
            ]
            assert counts == [list(batch.num_sampled_nodes), list(batch.num_sampled_edges)]
            assert torch.equal(torch.cat([one.seeds for one in mine]), batch.seeds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["global", "mini", "cluster with boundary"])
def test_counted_work_does_not_depend_on_the_number_of_ranks(strategy, kind):
    def counted(comm: hr.Comm, partition: hr.EdgePartition) -> tuple[float, float, float, float]:
        with plan(strategy).loader(comm=comm, cooperative=True, partition=partition) as loader:
            for _ in loader:
                pass
            stats = loader.stats()
            return tuple(stats["sample_in_subgraph"][name] for name in ("nodes", "edges")) + tuple(
                stats["fetch_feature"][name] for name in ("rows", "bytes")
            )

    with plan(strategy).loader() as loader:
        num_batches = len(list(loader))
        alone = loader.stats()
    expected = [alone["sample_in_subgraph"]["nodes"], alone["sample_in_subgraph"]["edges"]]
    expected += [alone["fetch_feature"]["rows"], alone["fetch_feature"]["bytes"]]
    assert num_batches > 0
    for world_size in (2, 5):
        partition = KINDS[kind](graph(), world_size)
        totals = run_ranks(world_size, lambda comm, partition=partition: counted(comm, partition))
        assert list(map(sum, zip(*totals, strict=True))) == expected


def test_inputs_without_gradients_cost_no_backward_messages():
    partition, network = KINDS["grid"](graph(), 4), model("mean", 1)

    def work(comm: hr.Comm) -> int:
        with plan("mini", 1).loader(comm=comm, cooperative=True, partition=partition) as loader:
            batch = next(iter(loader))
            out = batch.blocks[0].aggregate(batch.x, reduce="mean") @ copy.deepcopy(network).layers[0].own.weight.t()
            before = comm.num_collectives
            out.sum().backward()
            return comm.num_collectives - before

    assert run_ranks(4, work) == [0] * 4


def test_rounds_are_two_for_a_hop_and_four_for_all_layers_within_a_boundary():
    partition = KINDS["grid"](graph(), 4)

    def rounds(comm: hr.Comm, strategy: str) -> list[tuple[float, float]]:
        with plan(strategy, 3).loader(comm=comm, cooperative=True, partition=partition, prefetch=False) as loader:
            num_batches = len(list(loader))
            found = loader.stats().lowered
            return [
                (found[name]["rounds"] / num_batches, found[name]["collectives"] / num_batches)
                for name in found
                if name.startswith(("sample_hop", "induce_hop"))
            ]

    for strategy, expected in (
        ("mini", [(2, 4)] * 3),
        ("cluster with boundary", [(2, 4), (4, 6)]),
        ("global", [(4, 6)]),
    ):
        assert run_ranks(4, lambda comm, strategy=strategy: rounds(comm, strategy)) == [expected] * 4


def test_the_collectives_that_are_counted_are_those_of_the_channel():
    partition = KINDS["grid"](graph(), 4)

    def work(comm: hr.Comm) -> tuple[float, int]:
        made: list[hr.Comm] = []
        channel = comm.channel

        def kept() -> hr.Comm:
            made.append(channel())
            return made[-1]

        comm.channel = kept
        with plan("cluster with boundary").loader(
            comm=comm, cooperative=True, partition=partition, prefetch=False
        ) as loader:
            list(loader)
            return loader.stats().total("collectives"), sum(one.num_collectives for one in made)

    for counted, happened in run_ranks(4, work):
        assert counted == happened > 0


def test_a_step_is_the_same_bits_in_every_run():
    partition, network = KINDS["grid"](graph(), 6), model("attention")

    def work(comm: hr.Comm) -> list[torch.Tensor]:
        with plan("mini").loader(comm=comm, cooperative=True, partition=partition) as loader:
            return list(one_batch(copy.deepcopy(network), next(iter(loader)), comm).values())

    first, second = run_ranks(6, work), run_ranks(6, work)
    for mine, again in zip(first, second, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(mine, again, strict=True))
