"""The counts of hybrid-parallel execution that the benchmark reports."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
import torch

import headrace as hr

from plans import NUM_NODES, graph


def test_counts_are_those_of_the_whole_batch(bench):
    hybrid = bench("hybrid_parallel")
    options = argparse.Namespace(layers=2, batches=2, width=10)
    source = hr.ItemSampler(graph().num_nodes, batch_size=50, shuffle=True, seed=0)
    batches = list(source.sample_in_subgraph(graph(), num_hops=2).loader())[:2]
    totals = {}
    for name in hybrid.PARTITIONS:
        for world_size in (1, 4):
            records, totals[name, world_size] = hybrid.records_of("case", source, graph(), name, world_size, options)
            found = {record.metric: record for record in records}
            edges = [batch.blocks[0].num_edges for batch in batches]
            assert (found["layer 1: edges"].min, found["layer 1: edges"].max) == (min(edges), max(edges))
            rows = found["layer 2: rows to mirrors"].median + found["layer 2: rows to masters"].median
            assert found["layer 2: bytes"].median == 40 * rows
            assert (rows > 0) == (world_size > 1)
            assert found["layer 1: edge balance"].min >= 1
    hybrid.check_work("case", totals)
    totals["2D grid", 4] = totals["2D grid", 4] + np.eye(2, dtype=int)[:, :, None]
    with pytest.raises(ValueError, match="case: expected the same nodes and edges by 2D grid on 4 ranks"):
        hybrid.check_work("case", totals)


def test_copies_of_a_node_are_the_ranks_that_need_it(bench):
    hybrid = bench("hybrid_parallel")
    src, dst = graph().indices.tolist(), torch.arange(NUM_NODES).repeat_interleave(graph().in_degrees()).tolist()
    for make in hybrid.PARTITIONS.values():
        partition = make(graph(), 6)
        needs = [{rank} for rank in partition.nodes.owner(torch.arange(NUM_NODES)).tolist()]
        for part in range(6):
            for edge in partition.owned(part).tolist():
                needs[src[edge]].add(part)
                needs[dst[edge]].add(part)
        assert hybrid.most_copies(graph(), partition) == max(map(len, needs))


def test_claims_are_decided_by_what_is_counted(bench):
    hybrid, bars = bench("hybrid_parallel"), bench("bars").BARS
    options = argparse.Namespace(layers=1, batches=1, width=4)
    spokes = torch.arange(1, 801)
    star = hr.Graph.from_coo(spokes, torch.zeros_like(spokes), num_nodes=801)
    source, records, totals = hr.GlobalBatch(star, seed=0), [], {}
    for name in hybrid.PARTITIONS:
        for ranks in (1, 16):
            case = f"star, global-batch, {ranks} ranks"
            taken, totals[name, ranks] = hybrid.records_of(case, source, star, name, ranks, options)
            records += taken
    records += hybrid.work_records("star, global-batch", totals)
    claims = [bar for bar in bars if bar.bench == hybrid.BENCH]
    assert len(claims) == 3
    for bar in claims:
        decisive = bar.decided_by(records)
        assert decisive
        # A hash spreads few spokes less evenly than many.
        assert all(bar.met(record) or (bar.metric.startswith("largest") and record.median < 1.5) for record in decisive)
    totals["2D grid", 16] = 2 * totals["2D grid", 16]
    assert not all(claims[0].met(record) for record in hybrid.work_records("star, global-batch", totals))
