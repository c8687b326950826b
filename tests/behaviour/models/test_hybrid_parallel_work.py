"""What ranks that share edges do and send: the same work for any number of ranks, one message for each pair."""

from __future__ import annotations

import copy

import pytest
import torch
from hybrid import KINDS, STRATEGIES, Model, model, one_batch, plan
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, graph


class Recorded:
    """What the model sends on a channel: for each collective the rows, or bytes, for each rank."""

    def __init__(self, comm: hr.Comm) -> None:
        self.sent: list[list[int]] = []
        self._all_to_all = comm.all_to_all
        comm.all_to_all = self._record

    def _record(self, rows, send_counts, receive_counts, **options):
        self.sent.append(list(send_counts))
        return self._all_to_all(rows, send_counts, receive_counts, **options)

    def take(self) -> list[list[int]]:
        taken, self.sent = self.sent, []
        return taken


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


def layer_of(network: Model, comm: hr.Comm, batch: hr.MiniBatch, partition: hr.EdgePartition) -> dict[str, object]:
    """What the model sends in one layer forward and backward, and what the loader says of it."""
    recorded = Recorded(comm)
    block, h = batch.blocks[0], batch.x.clone().requires_grad_()
    out = network.layers[0](h, block, batch.edge["e"][0], batch.edge["norm"][0])
    forward = recorded.take()
    out.square().sum().backward()
    backward = recorded.take()
    masters = partition.nodes.owner(batch.n_id)
    assert bool((masters == comm.rank).all())
    return {"forward": forward, "backward": backward, "block": block}


@pytest.mark.combinations(14)
@pytest.mark.parametrize("world_size", [2, 4, 6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("messages", ["sum", "mean", "weights", "max", "attention"])
def test_a_pair_of_ranks_exchanges_one_message_for_each_layer_and_direction(messages, kind, world_size):
    partition, network = KINDS[kind](graph(), world_size), model(messages)
    steps = plan("cluster with boundary")

    def work(comm: hr.Comm) -> tuple[dict[str, object], dict[str, float]]:
        with steps.loader(comm=comm, cooperative=True, partition=partition, prefetch=False) as loader:
            batch = next(iter(loader))
            return layer_of(copy.deepcopy(network), comm, batch, partition), loader.stats().lowered["compact#2"]

    layers, stats = zip(*run_ranks(world_size, work), strict=True)
    to_mirrors, to_masters = ([list(one["forward"][number]) for one in layers] for number in (0, 1))
    back_to_mirrors, back_to_masters = ([list(one["backward"][number]) for one in layers] for number in (0, 1))
    # One collective each way, in each direction: so there is at most one message for a pair.
    assert all(len(one["forward"]) == len(one["backward"]) == 2 for one in layers)
    blocks = [one["block"] for one in layers]
    if messages in ("sum", "mean", "weights"):
        assert to_mirrors == [list(block.sources.send_counts) for block in blocks]
        assert to_masters == [list(block.destinations.receive_counts) for block in blocks]
        assert back_to_mirrors == [list(block.destinations.send_counts) for block in blocks]
        assert back_to_masters == [list(block.sources.receive_counts) for block in blocks]
        pairs = sum(bool(count) for sent in (*to_mirrors, *to_masters) for count in sent)
        assert pairs == sum(one["messages"] for one in stats)
        assert pairs == sum(bool(count) for sent in (*back_to_mirrors, *back_to_masters) for count in sent)
    for sent in (to_mirrors, to_masters, back_to_mirrors, back_to_masters):
        assert all(counts[rank] == 0 for rank, counts in enumerate(sent))  # nothing to itself
    # No more rows than edges of which the rank that holds them is not the master.
    owners = partition.nodes.owner(torch.arange(NUM_NODES))
    rows_out = rows_back = edges_out = edges_back = 0
    for rank, block in enumerate(blocks):
        rows_out += block.sources.num_sent
        rows_back += block.destinations.num_received
        positions = block.edges.positions
        targets = torch.searchsorted(graph().indptr, positions, right=True) - 1
        edges_out += int((owners[graph().indices[positions].long()] != rank).sum())
        edges_back += int((owners[targets] != rank).sum())
    assert rows_out == sum(one["rows_to_mirrors"] for one in stats)
    assert rows_back == sum(one["rows_to_masters"] for one in stats)
    assert 0 <= rows_out <= edges_out
    assert 0 <= rows_back <= edges_back
    if kind == "by_source":
        assert rows_out == 0 < rows_back
    if kind == "by_destination":
        assert rows_back == 0 < rows_out


def test_inputs_without_gradients_cost_no_backward_messages():
    partition, network = KINDS["grid"](graph(), 4), model("mean", 1)

    def work(comm: hr.Comm) -> list[list[int]]:
        with plan("mini", 1).loader(comm=comm, cooperative=True, partition=partition) as loader:
            batch = next(iter(loader))
            recorded = Recorded(comm)
            out = batch.blocks[0].aggregate(batch.x, reduce="mean") @ copy.deepcopy(network).layers[0].own.weight.t()
            recorded.take()
            out.sum().backward()
            return recorded.take()

    assert run_ranks(4, work) == [[]] * 4


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
