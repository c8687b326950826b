"""The counts of hybrid-parallel execution that the benchmark reports."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

import headrace as hr

from plans import graph


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
