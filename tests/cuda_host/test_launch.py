"""Launches: arguments become words of eight bytes, which the driver finds at their addresses, on the right GPU."""

from __future__ import annotations

import ctypes
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import torch

from headrace.cuda import backend, memory
from headrace.cuda import gpu as gpu_module
from headrace.cuda.backend import stand_in, word_of
from headrace.cuda.launch import launch


class Driver:
    """A driver that notes launches, with the words that it finds at their addresses."""

    def __init__(self, index=0):
        self.index, self.most_blocks, self.here, self.launched = index, 32, 0, []

    def current_device(self):
        return self.here

    def current_stream(self, index):
        return 700 + index

    @contextmanager
    def current(self):
        before, self.here = self.here, self.index
        yield
        self.here = before

    def function(self, file, name):
        return SimpleNamespace(ptr=f"{file}: {name}")

    def launch_kernel(self, function, *sizes_and_stream):
        *sizes, stream, parameters, extra = sizes_and_stream
        assert extra == 0
        self.launched.append((self.here, function, sizes, stream, parameters))

    def words(self, number, count):
        addresses = ctypes.cast(self.launched[number][-1], ctypes.POINTER(ctypes.c_void_p))
        return [ctypes.c_uint64.from_address(addresses[place]).value for place in range(count)]


def test_launches_take_words_and_few_blocks():
    """No more blocks than keep the processors busy, every argument eight bytes wide, on torch's stream."""
    driver = Driver()
    device = gpu_module.Gpu(driver)
    device.launch("gather.cu", "kernel", 10_000_000, 128, [1 << 63, 5], ())
    assert driver.words(0, 2) == [1 << 63, 5]
    device.launch("gather.cu", "kernel", 129, 128, [-1, 0.5], ())
    device.launch("gather.cu", "none", 1, 128, [], ())
    assert driver.words(1, 2) == [(1 << 64) - 1, int.from_bytes(struct.pack("<d", 0.5), "little")]
    assert [one[:4] for one in driver.launched] == [
        (0, f"gather.cu: {name}", [blocks, 1, 1, 128, 1, 1, 0], 700)
        for name, blocks in (("kernel", 32), ("kernel", 2), ("none", 1))
    ]


def test_launches_on_a_gpu_that_is_not_current():
    """Also in threads that have never launched: the other one is current again behind it."""
    driver = Driver(index=1)
    device = gpu_module.Gpu(driver)
    for _ in range(2):
        device.launch("gather.cu", "kernel", 1, 128, [3], ())
        assert driver.here == 0
    assert [(one[0], one[3]) for one in driver.launched] == [(1, 701)] * 2


def test_threads_do_not_share_the_memory_of_arguments():
    driver = Driver()
    device = gpu_module.Gpu(driver)
    device.launch("gather.cu", "kernel", 1, 128, [3], ())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(device.launch, "gather.cu", "kernel", 1, 128, [4], ()).result()
        assert driver.words(0, 1) == [3]
        assert driver.words(1, 1) == [4]


def test_arguments_become_words():
    """Addresses, integers by their lower 64 bits, and the bits of other numbers."""
    given = []

    class Backend:
        def launch(self, file, name, num_items, block_size, words, arguments):
            given.append((file, name, num_items, block_size, [*map(word_of, words)], arguments))

    ids, parameter = torch.arange(3), torch.nn.Parameter(torch.zeros(1))
    arguments = (ids, -1, 1 << 63, True, None, 0.5, parameter)
    with stand_in(Backend()):
        launch("begin_ids", (), 3, *arguments, device=torch.device("cpu"))
        launch("begin_ids", (), 0, *arguments, device=torch.device("cpu"))
    bits = int.from_bytes(struct.pack("<d", 0.5), "little")
    words = [ids.data_ptr(), (1 << 64) - 1, 1 << 63, 1, 0, bits, parameter.data_ptr()]
    assert given == [("compact.cu", "headrace::begin_ids", 3, 128, words, arguments)]


class Devices:
    """GPUs of which one is current, and what was asked of it."""

    def __init__(self, monkeypatch):
        self.current, self.asked = 0, []
        monkeypatch.setattr(torch.cuda, "device", self.device)

    @contextmanager
    def device(self, which):
        before, self.current = self.current, which if isinstance(which, int) else which.index
        yield
        self.current = before

    def ask(self, *what):
        self.asked.append((self.current, *what))
        return True


def test_the_driver_has_the_gpu_current_of_which_it_frees_nothing(monkeypatch):
    """By that its context is the current one of the thread, for what CuPy loads and launches."""
    devices = Devices(monkeypatch)
    driver = object.__new__(gpu_module.CupyDriver)
    driver.index, driver._free = 1, devices.ask
    with driver.current():
        devices.ask("inside")
    assert devices.asked == [(1, 0), (1, "inside")]
    assert devices.current == 0


def test_a_gpu_is_current_when_it_is_to_reach_a_peer(monkeypatch):
    """CUDA lets the current one read the memory of the other."""
    devices = Devices(monkeypatch)
    monkeypatch.setattr(memory, "reach_peer", devices.ask)
    table = SimpleNamespace(device=torch.device("cuda", 2), is_cuda=True, is_cpu=False, nbytes=8)
    for reader in (1, 0):
        assert backend.reach_of(table, torch.device("cuda", reader)) == "in place"
    assert devices.asked == [(1, 1, 2), (0, 0, 2)]
    assert devices.current == 0
