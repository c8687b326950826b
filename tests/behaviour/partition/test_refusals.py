"""What partitions refuse, with what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headrace as hr

GRAPH = hr.Graph.from_coo([0, 1, 2, 0, 1, 3], [1, 2, 0, 3, 4, 4], num_nodes=6)
REPORT = hr.Partition.range(6, 2).report

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "range_of nothing": (lambda: hr.Partition.range_of([]), "num_parts to be"),
    "range_of a negative size": (lambda: hr.Partition.range_of([2, -1]), "size to be"),
    "range_of half a node": (lambda: hr.Partition.range_of([1.5]), "size to be"),
    "of a part too large": (lambda: hr.Partition.of([0, 3], 3), "owners to be"),
    "of a negative part": (lambda: hr.Partition.of([-1, 0], 3), "owners to be"),
    "of half a part": (lambda: hr.Partition.of([0.5], 3), "owners to be"),
    "of a matrix": (lambda: hr.Partition.of([[0]], 3), "owners to be"),
    "metis no parts": (lambda: hr.Partition.metis(GRAPH, 0), "num_parts to be an integer from 1"),
    "metis half a part": (lambda: hr.Partition.metis(GRAPH, 2.5), "num_parts to be an integer"),
    "metis seed": (lambda: hr.Partition.metis(GRAPH, 2, seed=-1), "seed to be an integer from 0"),
    "metis balance": (lambda: hr.Partition.metis(GRAPH, 2, balance=[40]), "balance to be ids in"),
    "stream no parts": (lambda: hr.Partition.stream(GRAPH, 0), "num_parts to be an integer from 1"),
    "stream half a part": (lambda: hr.Partition.stream(GRAPH, 2.5), "num_parts to be an integer"),
    "stream seed": (lambda: hr.Partition.stream(GRAPH, 2, seed=-1), "seed to be an integer from 0"),
    "stream slack": (lambda: hr.Partition.stream(GRAPH, 2, slack=-1), "slack to be"),
    "stream passes": (lambda: hr.Partition.stream(GRAPH, 2, passes=0), "passes to be"),
    "edges of other nodes": (
        lambda: hr.EdgePartition.by_source(GRAPH, hr.Partition.range(4, 2)),
        "of the 4 nodes of the partition, got one of 6",
    ),
    "edges in columns": (
        lambda: hr.EdgePartition(GRAPH, hr.Partition.hash(6, 6), 4),
        "num_columns to divide the 6 parts, got 4",
    ),
    "edges in no parts": (lambda: hr.EdgePartition.grid(GRAPH, 0), "num_parts to be"),
    "report of another graph": (
        lambda: hr.Partition.range(5, 2).report(GRAPH),
        "of the 5 nodes of the partition, got one of 6",
    ),
    "report of a short mask": (lambda: REPORT(GRAPH, [True]), r"labelled to be bool\[6\] or ids"),
    "report of a large id": (lambda: REPORT(GRAPH, [6]), r"ids in \[0, 6\), got ids from 6 to 6"),
    "report of a negative id": (lambda: REPORT(GRAPH, [-1, 2]), "got ids from -1 to 2"),
    "report of half an id": (lambda: REPORT(GRAPH, [0.5]), "labelled to be int32 or int64 ids"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(hr.InputError, match=words):
        call()
