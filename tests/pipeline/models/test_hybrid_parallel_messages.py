"""Ranks that share edges: one message for each pair, layer and direction, and only the rows that are needed."""

from __future__ import annotations

import copy

import pytest
import torch
from hybrid import KINDS, Model, model, plan
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


@pytest.mark.slow
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
