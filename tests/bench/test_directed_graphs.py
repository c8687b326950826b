"""Generated directed graphs have the skew that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize("top_share", [0.2, 0.56, 0.8])
def test_the_busiest_nodes_have_their_share(bench, top_share):
    graph = bench("directed_graphs").directed_graph(5_000, 10, top_share)
    degrees = np.sort(hr.scores.out_degree(graph))[::-1]
    assert degrees[:50].sum() / degrees.sum() == pytest.approx(top_share, abs=0.03)
    assert np.corrcoef(hr.scores.out_degree(graph), graph.in_degrees())[0, 1] < 0.1


def test_items_of_one_corner(bench):
    directed_graphs = bench("directed_graphs")
    graph = directed_graphs.directed_graph(5_000, 10, 0.35)
    items = directed_graphs.clustered_items(graph, 100)
    assert len(np.unique(items)) == 100
