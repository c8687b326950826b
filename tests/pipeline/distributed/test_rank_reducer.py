"""Errors of the reducer of ranks that sample together."""

from __future__ import annotations

import pytest
from ranks import run_ranks

import headrace as hr
from headrace.pipeline.distributed.rank_reducer import RankReducer

from plans import graph, items

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["begin", "counted", "largest", "total"])
def test_an_error_while_ranks_agree_reaches_all(method, monkeypatch):
    """It comes out of the kernel that waits for the others."""
    plan = items().sample_layer_neighbor(graph(), [5, 3], importance="*")
    agree = getattr(RankReducer, method)

    def fails(self, *arguments):
        if self._comm.rank == 1:
            raise ValueError("rank one cannot agree")
        return agree(self, *arguments)

    monkeypatch.setattr(RankReducer, method, fails)

    def error_of(comm: hr.Comm) -> Exception:
        with plan.loader(cooperative=True, comm=comm) as loader, pytest.raises((ValueError, hr.PeerError)) as raised:
            list(loader)
        return raised.value

    first, own, third = run_ranks(3, error_of)
    assert type(own) is ValueError
    for error in (first, third):
        assert isinstance(error, hr.PeerError)
        assert "rank 1 failed" in str(error)
        assert "rank one cannot agree" in str(error)
