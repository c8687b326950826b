"""What the shards of a rank hold, and which rows are sent without a copy."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks
from sharded import owners

import headrace as hr

from plans import graph


@pytest.mark.parametrize(("needed", "gathered"), [(31, None), (16, 16), (32, None)])
def test_rows_that_are_almost_all_needed_are_not_gathered(needed, gathered):
    nodes = torch.arange(32)
    src = nodes[:needed].repeat(2)  # to a node of the other rank, and to themselves
    whole = hr.Graph.from_coo(src, torch.cat([nodes[:needed] + 32, nodes[:needed]]), num_nodes=64)

    def work(comm: hr.Comm) -> torch.Tensor | None:
        place = hr.sar.ShardedGraph(whole, hr.Partition.range(64, 2), comm)
        return place._rounds.transfer.sends[1]

    sent, _ = run_ranks(2, work)
    assert (None if sent is None else len(sent)) == gathered


def test_indices_of_shards_are_of_owned_nodes_alone():
    def work(comm: hr.Comm) -> None:
        place = hr.sar.ShardedGraph(graph(), owners("hash", 3), comm)
        assert sum(len(shard.indptr) for shard in place._rounds.shards) == 3 * (place.num_dst + 1)

    run_ranks(3, work)
