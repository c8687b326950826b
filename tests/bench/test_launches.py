"""Launches are noted as they were, and repeated through what launches kernels on a GPU."""

from __future__ import annotations

import pytest

from headrace.cuda.gpu import Gpu
from headrace.ops import LaborRule, NeighborRule


def test_launches_of_a_batch_are_repeated(bench, monkeypatch):
    launches = bench("launches")
    monkeypatch.setattr(launches, "REPEATS", 2)
    launched = []

    class Driver(launches.NoDriver):
        def launch_kernel(self, function, *sizes_and_stream):
            launched.append((function, sizes_and_stream[0]))

    found = launches.launches_of(NeighborRule(5))
    metrics = launches.launched(Gpu(Driver()), found, 0)
    assert len(found) == 1 + 3 * 6
    assert len(launched) == 2 * len(found)
    assert launched[: len(found)] == launched[len(found) :]
    assert len({function for function, _ in launched}) == 7
    assert metrics["launches time"] == pytest.approx(metrics["launch time"] * len(found))
    assert metrics["launch time"] > 0
    assert len(launches.launches_of(LaborRule(5))) == 1 + 3 * 6
