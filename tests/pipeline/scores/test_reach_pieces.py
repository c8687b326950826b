"""Probabilities of picks are computed piece by piece."""

from __future__ import annotations

import torch

from headrace.ops.sampling.rules import LaborRule, NeighborRule
from headrace.pipeline.scores.reach import edge_picks

from plans import graph


def test_picks_in_pieces_are_those_of_the_whole(monkeypatch):
    weights = graph().edge_weights("weight")
    for rule in (NeighborRule(3), NeighborRule(3, replace=True), LaborRule(3), LaborRule(-1)):
        monkeypatch.setattr("headrace.pipeline.scores.reach.PIECE_EDGES", 1 << 22)
        whole = edge_picks(graph().indptr, weights, rule)
        for edges in (1, 17):
            monkeypatch.setattr("headrace.pipeline.scores.reach.PIECE_EDGES", edges)
            assert torch.allclose(edge_picks(graph().indptr, weights, rule), whole, atol=1e-7)
