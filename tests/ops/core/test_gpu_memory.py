"""Free memory of GPUs by what NVML says, against a library that answers as NVML does."""

from __future__ import annotations

import ctypes

import pytest

from headrace.ops import gpu_memory
from headrace.ops.gpu_memory import free_gpu_memory

GB = 1 << 30
UUIDS = ("GPU-aa11", "GPU-aa22", "GPU-bb33")
INSTANCE = "MIG-cc44"


class Nvml:
    """NVML on a machine of three GPUs; of `fails` no function works."""

    def __init__(self, free=(70 * GB, 60 * GB, 50 * GB), totals=(80 * GB,) * 3, cut=(), fails=()):
        self.free, self.totals, self.cut, self.fails = free, totals, cut, fails
        self.open = 0

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in object.__getattribute__(self, "fails"):
            return lambda *_: 3
        return object.__getattribute__(self, name)

    def nvmlInit_v2(self):  # noqa: N802 - NVML's names
        self.open += 1
        return 0

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1
        return 0

    def nvmlDeviceGetCount_v2(self, count):  # noqa: N802
        count._obj.value = len(self.free)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number, handle):  # noqa: N802
        handle._obj.value = 100 + number.value
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):  # noqa: N802
        handle._obj.value = 200
        return 0 if uuid == INSTANCE.encode() else 6

    def nvmlDeviceGetUUID(self, handle, text, length):  # noqa: N802
        assert length.value == len(text)
        text.value = UUIDS[handle.value - 100].encode()
        return 0

    def nvmlDeviceGetMigMode(self, handle, current, pending):  # noqa: N802
        assert pending._obj.value == 0
        current._obj.value = handle.value - 100 in self.cut
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle, memory):  # noqa: N802
        number = handle.value - 100
        found = memory._obj
        assert ctypes.sizeof(found) == 24
        found.total, found.free = (10 * GB, 9 * GB) if number == 100 else (self.totals[number], self.free[number])
        found.used = found.total - found.free
        return 0


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def in_gigabytes(nvml):
    found = free_gpu_memory(nvml)
    assert nvml.open == 0
    return [free / GB for free in found]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [70, 60, 50]),
        ("0,1,2", [70, 60, 50]),
        ("2, 0", [50, 70]),
        ("1", [60]),
        ("", []),
        ("-1", []),
        ("1,-1,0", [60]),  # what stands behind a GPU that is none is hidden
        ("1,7,0", [60]),
        ("1,1", []),
        ("2x,0", [50, 70]),  # as CUDA reads numbers
        ("none", []),
        ("GPU-bb33,GPU-aa11", [50, 70]),
        ("GPU-b", [50]),
        ("GPU-aa", []),  # two begin so
        ("GPU-aa22,GPU-zz,GPU-aa11", [60]),
        ("GPU-aa22,GPU-aa2", []),
        ("GPU-aa22,0", [60]),
        ("MIG-cc44", [9]),
        ("MIG-cc45", []),
    ],
)
def test_gpus_are_those_that_cuda_shows_in_its_order(visible, expected, monkeypatch):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert in_gigabytes(Nvml()) == expected


def test_different_gpus_may_have_other_numbers_in_cuda(monkeypatch):
    """CUDA begins with the fastest; only by UUID, or asked to go by slots, it is known which has which number."""
    nvml = Nvml(totals=(80 * GB, 80 * GB, 60 * GB))
    assert in_gigabytes(nvml) == [50, 50, 50]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert in_gigabytes(nvml) == [50, 50]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert in_gigabytes(nvml) == [70, 60]
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", UUIDS[0])
    assert in_gigabytes(nvml) == [70]


def test_of_gpus_in_instances_these_alone_are_known(monkeypatch):
    assert in_gigabytes(Nvml(cut={1})) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", UUIDS[1])
    assert in_gigabytes(Nvml(cut={1})) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", INSTANCE)
    assert in_gigabytes(Nvml(cut={1})) == [9]


@pytest.mark.parametrize(
    "function", ["nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo"]
)
def test_what_fails_is_not_known(function):
    assert in_gigabytes(Nvml(fails={function})) == []


def test_no_gpu_no_function_and_no_library(monkeypatch):
    assert in_gigabytes(Nvml(free=())) == []
    old = Nvml()
    monkeypatch.delattr(Nvml, "nvmlDeviceGetMigMode")
    assert in_gigabytes(old) == []
    monkeypatch.setattr(gpu_memory, "_LIBRARY", "libno-such-library.so.1")
    assert free_gpu_memory() == ()
