"""Memory of peers and of nobody, against CUDA's functions as they answer, and devices that are not there."""

from __future__ import annotations

import pickle
import re
import sys
from types import SimpleNamespace

import pytest
import torch

import headrace as hr
from headrace.cuda import backend
from headrace.cuda import gpu as gpu_module
from headrace.cuda.backend import is_gpu, is_reachable, is_usable, stand_in
from headrace.cuda.errors import DeviceError
from headrace.cuda.memory import is_pinned, opened, reach_peer, shared
from headrace.ops import gpu

from cuda_host.cuda_runtime import CudaError
from cuda_host.stand_in import StandIn


@pytest.mark.parametrize(("status", "reached"), [(None, True), (704, True), (217, False)])
def test_memory_of_peers(status, reached):
    copied = []

    def enable(other):
        assert other == 2
        assert copied == [(1, 2)]  # torch has mapped its expandable segments for the peer before
        if status is not None:
            raise CudaError(status)

    asked = []

    def can_access(device, other):
        asked.append((device, other))
        return (device, other) == (1, 2)

    class Runtime(SimpleNamespace):
        __hash__ = object.__hash__  # what was found out is kept for it

    def copy(device, other):
        copied.append((device, other))

    runtime = Runtime(CUDARuntimeError=CudaError, deviceCanAccessPeer=can_access, deviceEnablePeerAccess=enable)
    for _ in range(3):  # each read of rows asks
        assert reach_peer(1, 2, runtime, copy) == reached
        assert not reach_peer(1, 3, runtime, copy)
    assert asked == [(1, 2), (1, 3)]


def test_torch_copies_from_the_peer_that_is_read(monkeypatch):
    """By that it maps segments of the peer for the reader, and not the other way round."""
    been = []

    def moved(device):
        been.append(device)
        return SimpleNamespace(to=moved)

    class Runtime(SimpleNamespace):
        __hash__ = object.__hash__

    enabled = []
    runtime = Runtime(
        CUDARuntimeError=CudaError, deviceCanAccessPeer=lambda *_: True, deviceEnablePeerAccess=enabled.append
    )
    monkeypatch.setattr(torch, "zeros", lambda size, device: moved(device))
    assert reach_peer(1, 2, runtime)
    assert been == [torch.device("cuda", 2), torch.device("cuda", 1)]
    assert enabled == [2]


def test_memory_of_no_gpu_is_not_shared():
    with pytest.raises(DeviceError, match="expected a tensor on a GPU, got one on cpu"):
        shared(torch.zeros(3))


@pytest.mark.parametrize("address", [4096, 8191])
def test_expandable_segments_are_not_shared(address, monkeypatch):
    segments = [
        {"address": 0, "total_size": 4096, "is_expandable": False},
        {"address": 4096, "total_size": 4096, "is_expandable": True},
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    with pytest.raises(DeviceError, match="leave expandable_segments:True out of PYTORCH_CUDA_ALLOC_CONF"):
        shared(Shareable(address))
    for elsewhere in (address - 4096, address + 4096):
        assert opened(shared(Shareable(elsewhere))).address == elsewhere


class Shareable:
    """Stands for a tensor on a GPU, at an address."""

    is_cuda, device = True, "cuda:0"

    def __init__(self, address):
        self.address = address

    def data_ptr(self):
        return self.address


def test_memory_that_cannot_be_opened_is_named():
    with pytest.raises(DeviceError, match="expected memory that another process shares, got an error: invalid device"):
        opened(pickle.dumps(_Gone()))


class _Gone:
    def __reduce__(self):
        return _fail, ()


def _fail():
    raise RuntimeError("invalid device context")


def test_without_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert not is_pinned(torch.zeros(3))
    with pytest.raises(DeviceError, match="torch finds no GPU"):
        gpu_module.gpu(torch.device("cuda", 0))
    assert not is_usable(torch.device("cuda", 0))
    assert not is_reachable(torch.zeros(3), torch.device("cuda", 0))
    assert not is_gpu(torch.device("cpu"))
    plan = hr.ItemSampler(4).copy_to("cuda")
    with pytest.raises(hr.PlanError, match="copy_to: expected a device that torch can use here, got 'cuda'"):
        plan.loader()


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"need CuPy, which cannot be imported .* pip install 'headrace\[cuda13\]'"):
        gpu_module.check_cupy()


def test_whether_a_gpu_is_usable_is_found_out_once(monkeypatch):
    """An import that fails is tried anew each time, and each read of rows asks."""
    asked = []
    backend._has_gpu_backend.cache_clear()

    def refuse(device):
        asked.append(device)
        raise DeviceError("CuPy cannot be imported")

    monkeypatch.setattr(gpu_module, "gpu", refuse)
    device = torch.device("cuda", 0)
    assert not any(is_usable(device) for _ in range(3))
    assert asked == [device]
    assert not is_usable(torch.device("cpu"))
    with stand_in(StandIn()):
        assert is_usable(torch.device("cpu"))
    assert not is_usable(torch.device("cpu"))
    backend._has_gpu_backend.cache_clear()


def test_cupy_for_another_cuda(monkeypatch):
    runtime = SimpleNamespace(runtimeGetVersion=lambda: 12_080)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(DeviceError, match=r"torch was built for CUDA 13.0, CuPy for CUDA 12; .*headrace\[cuda13\]"):
        gpu_module.check_cupy()


@pytest.mark.parametrize(("cuda", "package"), [("13.0", "nvidia-cuda-nvrtc==13.*"), ("12.8", "nvidia-cuda-nvrtc-cu12")])
@pytest.mark.parametrize("error", [ImportError, OSError, RuntimeError])
def test_without_a_compiler_of_kernels(error, cuda, package, monkeypatch):
    def version():
        raise error("libnvrtc.so cannot be opened\nin all of these folders")

    runtime = SimpleNamespace(runtimeGetVersion=lambda: 1000 * int(cuda[:2]))
    found = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, nvrtc=SimpleNamespace(getVersion=version)))
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    expected = (
        f"by NVRTC, which CuPy does not find (libnvrtc.so cannot be opened); install it with: pip install '{package}'"
    )
    with pytest.raises(DeviceError, match=re.escape(expected)):
        gpu_module.check_cupy()
    found.cuda.nvrtc.getVersion = lambda: (13, 0)
    gpu_module.check_cupy()


def test_errors_of_devices_are_headraces():
    with pytest.raises(hr.DeviceError, match="why"), gpu.device_errors():
        raise DeviceError("why")


def test_tensors_that_the_device_cannot_read():
    device = torch.device("cpu")
    with stand_in(StandIn()):
        with pytest.raises(hr.InputError, match=r"ids to be a 1-d tensor of int64 on cpu, .*got a tensor on meta"):
            gpu.on_device(torch.zeros(3, dtype=torch.int64, device="meta"), "ids", device, stage="here")
        with pytest.raises(hr.InputError, match=r"got float32\[3\]"):
            gpu.on_device(torch.zeros(3), "ids", device, stage="here")
        with pytest.raises(hr.InputError, match=r"got list; pass torch\.as_tensor"):
            gpu.on_device([1, 2], "ids", device, stage="here")
