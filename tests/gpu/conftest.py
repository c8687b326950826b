"""The device of the tests in this folder: a GPU, or without one what stands in for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.ops.gpu import side_stream

from cuda_host.host_memory import host_copy
from cuda_host.stand_in import StandIn

#: Cycles that a GPU sleeps: some milliseconds, in which the host runs ahead.
LATE = 10_000_000


@dataclass(frozen=True)
class Device:
    """Where a test runs.

    Attributes
    ----------
    device
        Of tensors there.
    machine
        For plans.
    backend
        What stands in for a GPU; None where there is one.
    """

    device: torch.device
    machine: hr.Machine
    backend: StandIn | None

    def host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor in memory of the host."""
        there = host_copy(tensor)
        if self.backend is not None:
            self.backend.host.mark(there)
        return there

    def delay(self) -> None:
        """Let all that is launched next on the current stream run later than the host goes on."""
        if self.backend is None:
            torch.cuda._sleep(LATE)

    def another_stream(self) -> AbstractContextManager[object]:
        """Make a stream of the caller's own the current one."""
        if self.backend is None:
            return torch.cuda.stream(torch.cuda.Stream())
        return side_stream(self.device, behind_current=True)


@pytest.fixture
def gpu() -> Iterator[Device]:
    """Return the device; memory that nobody has written holds no number there."""
    backend = None if torch.cuda.is_available() else StandIn()
    device = torch.device("cpu") if backend else torch.device("cuda", torch.cuda.current_device())
    machine = hr.Machine(cores=2, gpus=1) if backend else hr.Machine.detect()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    if backend:  # on a GPU there are operations of torch that have no deterministic kernel
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = True
    with nullcontext() if backend is None else stand_in(backend):
        yield Device(device, machine, backend)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = filled
