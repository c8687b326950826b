"""Instruction sets that this machine has, for tests of what is chosen among them; threads for the smallest work."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest
import torch

from headrace.cuda.backend import stand_in
from headrace.ops import _native

from cuda_host.stand_in import StandIn
from gpu.moved import moved_to_gpu
from instruction_sets import SETS

#: Marks of tests that are not run on the others: what takes long here would take forever there.
CPU_ALONE = {"cpu", "law", "uninstrumented"}

#: CUDA's kernels are run on the CPU wherever there is no GPU, and where there is one as well.
IMPLEMENTATIONS = ["cpu", "cuda_host", *(["gpu"] if torch.cuda.is_available() else [])]
if "HEADRACE_MOVED" in os.environ:  # for bench/gpu.sh, which without a GPU tries the suite on copies of arguments
    IMPLEMENTATIONS = ["gpu"]


def pytest_generate_tests(metafunc):
    """Run tests marked `twins` once with each implementation of the operations."""
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "twins" in marks and not marks & CPU_ALONE:
        metafunc.parametrize("implementation", IMPLEMENTATIONS, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def implementation(request):
    """Let operations run on the CPU's kernels, on CUDA's compiled for the CPU, or on a GPU."""
    chosen = getattr(request, "param", "cpu")
    if chosen == "cpu":
        yield
    elif chosen == "cuda_host":
        backend = StandIn()
        # What kernels leave unwritten must not be what stood there before.
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        with stand_in(backend):
            yield backend
        torch.use_deterministic_algorithms(False)
    else:
        with nullcontext() if torch.cuda.is_available() else stand_in(StandIn()), moved_to_gpu(request.module):
            yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Report how many kernels the stand-in has launched for this module so far, for idle_modules.py."""
    report = yield
    backend = item.funcargs.get("implementation") if hasattr(item, "funcargs") else None
    if isinstance(backend, StandIn) and report.when == "call":
        report.launches = len(backend.launches)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what asks for another instruction set than the best one, or CUDA's kernels, as a test of kernels alone."""
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        sets = [value for value in values if isinstance(value, _native.InstructionSet)]
        if any(value is not SETS[-1] for value in sets) or any(
            isinstance(value, str) and value == "cuda_host" for value in values
        ):
            item.add_marker("kernel")


@pytest.fixture(params=SETS)
def instructions(request):
    """Use each instruction set in turn, and the best one again behind the test."""
    assert _native.use_instruction_set(request.param)
    yield request.param
    assert _native.use_instruction_set(SETS[-1])


@pytest.fixture(autouse=True)
def _shared_work():
    """Let kernels use the threads they are given, which for graphs as small as those of tests would not pay."""
    _native.share_all_work(True)
    yield
    _native.share_all_work(False)
