"""Reports: what they count equals a slow count, and they print and draw."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from held_nodes import edges_of, held_by_parts
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from strategies import edge_lists

pytestmark = pytest.mark.slow


def small() -> tuple[hr.Graph, hr.Partition]:
    """Six nodes in two parts and six edges, two of which are cut, both into part 1."""
    graph = hr.Graph.from_coo([0, 1, 2, 0, 1, 3], [1, 2, 0, 3, 4, 4], num_nodes=6)
    return graph, hr.Partition.range(6, 2)


@given(edge_lists(min_nodes=1), st.integers(1, 7), st.booleans())
def test_counts_equal_a_slow_count(edges, num_parts, as_ids):
    graph = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    partition = hr.Partition.hash(graph.num_nodes, num_parts)
    labelled = torch.arange(graph.num_nodes) % 3 == 0
    report = partition.report(graph, labelled.nonzero().flatten() if as_ids else labelled)
    owners = partition.owner(torch.arange(graph.num_nodes)).tolist()
    ends = edges_of(graph)
    assert report.nodes.tolist() == list(partition.sizes)
    assert report.edges.tolist() == [sum(owners[v] == part for _, v in ends) for part in range(num_parts)]
    assert report.labelled is not None
    assert report.labelled.tolist() == np.bincount(np.array(owners)[labelled.numpy()], minlength=num_parts).tolist()
    assert report.edges_cut == sum(owners[u] != owners[v] for u, v in ends)
    needed = held_by_parts(graph, owners, num_parts)
    assert report.replication_factor == pytest.approx(sum(map(len, needed.values())) / graph.num_nodes)
    assert report.edges_between is not None
    assert int(report.edges_between.sum() - report.edges_between.trace()) == report.edges_cut


def test_shares():
    graph, partition = small()
    report = partition.report(graph, [0, 5, 4])
    assert report.cut_share == pytest.approx(2 / 6)
    assert report.node_balance == 1
    assert report.edge_balance == 1
    assert report.labelled_balance == pytest.approx(4 / 3)
    assert report.copies.tolist() == [3, 5]
    assert report.replication_factor == pytest.approx(8 / 6)


def test_a_graph_without_edges_or_labels():
    report = hr.Partition.range(3, 5).report(hr.Graph.from_coo([], [], num_nodes=3), [])
    assert report.cut_share == 0
    assert report.edge_balance == report.labelled_balance == 1
    assert report.replication_factor == 1


def test_table():
    graph, partition = small()
    assert repr(partition.report(graph, [0, 5, 4])).splitlines() == [
        "2 parts of 6 nodes and 6 edges",
        "                      mean         largest  largest / mean",
        "nodes                  3.0               3           1.000",
        "edges                  3.0               3           1.000",
        "labelled               1.5               2           1.333",
        "copies                 4.0               5           1.250",
        "edges cut           33.3%",
        "replication factor  1.333",
    ]
    lines = repr(hr.EdgePartition.by_source(graph, partition).report(graph))
    assert "labelled" not in lines
    assert "cut" not in lines


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_picture(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    graph, partition = small()
    reports = {
        "labelled": partition.report(graph, [0, 5, 4]),
        "plain": partition.report(graph),
        "edges": hr.EdgePartition.grid(graph, 4).report(graph),
        "empty": partition.report(hr.Graph.from_coo([], [], num_nodes=6)),
        "many": hr.Partition.hash(6, 1_025).report(graph),
    }
    if suffix != ".png":
        del reports["many"]  # which takes five seconds
    for name, report in reports.items():
        first, second = tmp_path / f"{name}{suffix}", tmp_path / f"{name}-again{suffix}"
        report.plot(first)
        assert first.stat().st_size > 1_000
        if suffix == ".png" and name != "many":
            report.plot(str(second))
            assert first.read_bytes() == second.read_bytes()


def test_a_missing_matplotlib_is_named_with_its_extra(tmp_path, monkeypatch):
    graph, partition = small()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs matplotlib, .*pip install 'headrace\[plot\]'"):
        partition.report(graph).plot(tmp_path / "report.png")
