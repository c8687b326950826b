"""Pinning and sharing memory, against CUDA's functions as they answer, and devices that are not there."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

import headrace as hr
from headrace.cuda import gpu as gpu_module
from headrace.cuda.backend import is_gpu, is_reachable, is_usable, stand_in
from headrace.cuda.errors import DeviceError
from headrace.cuda.memory import is_pinned, pin, reach_peer, shared
from headrace.ops import gpu

from cuda_host.stand_in import StandIn


class CudaError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


class Runtime:
    """CUDA's functions, as far as pinning asks them: memory up to a limit, each page once."""

    CUDARuntimeError = CudaError

    def __init__(self, limit=1 << 20):
        self.pinned, self.limit = {}, limit

    def hostRegister(self, address, size, flags):  # noqa: N802 - CuPy's name
        assert flags == 1
        if address in self.pinned:
            raise CudaError(712)
        if size > self.limit:
            raise CudaError(2)
        self.pinned[address] = size

    def hostUnregister(self, address):  # noqa: N802
        if address not in self.pinned:
            raise CudaError(713)
        del self.pinned[address]


def test_memory_is_pinned_and_unpinned_once():
    runtime, x = Runtime(), torch.zeros(100)
    unpin = pin(x, runtime)
    assert runtime.pinned == {x.data_ptr(): 400}
    unpin()
    unpin()  # what is not pinned any more stays so
    assert not runtime.pinned


def test_memory_that_is_pinned_already_stays_so():
    runtime, x = Runtime(), torch.zeros(100)
    pin(x, runtime)
    pin(x, runtime)()
    assert runtime.pinned


def test_more_memory_than_can_be_pinned():
    with pytest.raises(DeviceError, match=r"pin: 4,194,304 bytes cannot be pinned .*(ulimit -l allows|no limit)"):
        pin(torch.zeros(1 << 20), Runtime(limit=1 << 20))


def test_nothing_to_pin():
    pin(torch.zeros(0), Runtime(limit=-1))()


@pytest.mark.parametrize("tensor", [torch.zeros(4, 4)[:, :2], torch.zeros(4, device="meta")])
def test_what_cannot_be_pinned(tensor):
    with pytest.raises(DeviceError, match="expected a contiguous tensor of the host"):
        pin(tensor, Runtime())


def test_a_failure_to_unpin_is_an_error():
    runtime, x = Runtime(), torch.zeros(8)
    unpin = pin(x, runtime)
    runtime.hostUnregister = lambda address: (_ for _ in ()).throw(CudaError(999))
    with pytest.raises(DeviceError, match="cannot be unpinned"):
        unpin()


@pytest.mark.parametrize(("status", "reached"), [(None, True), (704, True), (217, False)])
def test_memory_of_peers(status, reached):
    def enable(other):
        assert other == 2
        if status is not None:
            raise CudaError(status)

    runtime = SimpleNamespace(
        CUDARuntimeError=CudaError,
        deviceCanAccessPeer=lambda device, other: (device, other) == (1, 2),
        deviceEnablePeerAccess=enable,
    )
    assert reach_peer(1, 2, runtime) == reached
    assert not reach_peer(1, 3, runtime)


def test_memory_of_no_gpu_is_not_shared():
    with pytest.raises(DeviceError, match="expected a tensor on a GPU, got one on cpu"):
        shared(torch.zeros(3))


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
    with pytest.raises(hr.PlanError, match="copy_to: the device 'cuda' cannot be used here"):
        plan.loader()


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"need CuPy, which cannot be imported .* pip install 'headrace\[cuda13\]'"):
        gpu_module.check_cupy()


def test_cupy_for_another_cuda(monkeypatch):
    runtime = SimpleNamespace(runtimeGetVersion=lambda: 12_080)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(DeviceError, match=r"torch was built for CUDA 13.0, CuPy for CUDA 12; .*headrace\[cuda13\]"):
        gpu_module.check_cupy()


def test_errors_of_devices_are_headraces():
    with pytest.raises(hr.DeviceError, match="why"), gpu.device_errors():
        raise DeviceError("why")


def test_tensors_that_the_device_cannot_read():
    device = torch.device("cpu")
    with stand_in(StandIn()):
        with pytest.raises(hr.InputError, match=r"ids must be a 1-d tensor of int64 on cpu, .*got a tensor on meta"):
            gpu.on_device(torch.zeros(3, dtype=torch.int64, device="meta"), "ids", device, stage="here")
        with pytest.raises(hr.InputError, match=r"got float32\[3\]"):
            gpu.on_device(torch.zeros(3), "ids", device, stage="here")
        with pytest.raises(hr.InputError, match=r"got list; pass torch\.as_tensor"):
            gpu.on_device([1, 2], "ids", device, stage="here")


class Launched:
    """CuPy, as far as launching asks it."""

    def __init__(self):
        self.calls = []
        stream = type(
            "Stream", (), {"__init__": lambda *_: None, "__enter__": lambda *_: 0, "__exit__": lambda *_: None}
        )
        self.cuda = SimpleNamespace(Device=stream, ExternalStream=stream)


def test_launches_take_words_and_few_blocks(monkeypatch):
    """No more blocks than keep the processors busy, and every argument eight bytes wide."""
    cupy = Launched()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=2))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: SimpleNamespace(cuda_stream=7))
    function = lambda *arguments: cupy.calls.append(arguments)  # noqa: E731 - what CuPy calls a kernel
    monkeypatch.setattr(gpu_module, "module", lambda file, index: SimpleNamespace(get_function=lambda name: function))
    device = gpu_module.Gpu(torch.device("cuda", 0))
    device.launch("gather.cu", "kernel", 10_000_000, 128, [1 << 63, -5, 0.5], ())
    device.launch("gather.cu", "kernel", 129, 128, [], ())
    (blocks, threads, words), (few, _, _) = cupy.calls
    assert (blocks, threads) == ((2 * gpu_module.BLOCKS_PER_PROCESSOR,), (128,))
    assert [(word.itemsize, word.item()) for word in words] == [(8, 1 << 63), (8, -5), (8, 0.5)]
    assert few == (2,)
