"""Features in memory that cannot be pinned: read by the CPU, and copied."""

from __future__ import annotations

import warnings

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in

from cuda_host.device_work import CountingStandIn
from gpu_plans import GPU, copied_first
from plans import graph, items


@pytest.fixture
def backend():
    """Let the CPU stand in for a GPU."""
    counting = CountingStandIn()
    with stand_in(counting):
        yield counting


@pytest.fixture
def store():
    """Features of memory."""
    features = {name: torch.rand(graph().num_nodes, 4) for name in "abc"}
    return hr.FeatureStore(node=features)


def refusing(monkeypatch, num_bytes):
    """Let pinning fail as it does for pages that cannot be written, for features of a size."""
    from headrace.ops.features import pinned

    pin = pinned.pin

    def refuse(tensor):
        if tensor.nbytes == num_bytes:
            raise hr.HeadraceError("pin: 3,200 bytes cannot be pinned (cudaErrorInvalidValue)")
        return pin(tensor)

    monkeypatch.setattr(pinned, "pin", refuse)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_one_warning_and_one_wait_for_all_of_them(names, store, backend, monkeypatch):
    fetched = items().sample_neighbor(graph(), [4, 3]).fetch_feature(store, node=names)
    with fetched.loader(machine=hr.Machine()) as loader:
        expected = [batch.digest() for batch in loader]

    refusing(monkeypatch, graph().num_nodes * 16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with copied_first(fetched).loader(machine=GPU) as loader:
            found = [batch.digest() for batch in loader]
    texts = [str(warning.message) for warning in caught if "read by the CPU" in str(warning.message)]
    (text,) = texts
    listed = ", ".join(map(repr, names))
    assert text.startswith(f"fetch_feature: rows of {listed} are read by the CPU and copied, as pin: 3,200 bytes")
    assert found == expected
    # Kernels read memory of the host here, and check ids for each feature; on a GPU the CPU does.
    assert [work.waits.count("cpu") for work in backend.batches] == [1] * len(found)
