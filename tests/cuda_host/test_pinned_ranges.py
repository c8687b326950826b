"""Pinning memory against CUDA's functions as they answer: each byte once, as long as anybody wants it."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.cuda import memory
from headrace.cuda.errors import DeviceError
from headrace.cuda.memory import pin
from headrace.cuda.pinned_ranges import PinnedRanges
from headrace.ops.features.pinned import Pinned

from cuda_host.cuda_runtime import CudaError, Runtime


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
def ranges(runtime):
    return PinnedRanges(runtime)


def test_memory_is_pinned_and_unpinned_once(runtime, ranges):
    x = torch.zeros(100)
    unpin = pin(x, ranges)
    assert runtime.pinned == {x.data_ptr(): 400}
    assert runtime.flags == [3]
    unpin()
    assert not runtime.pinned
    unpin()  # what is not pinned any more stays so
    assert not runtime.pinned


def test_views_of_one_array_do_not_unpin_each_other(runtime, ranges):
    x = torch.zeros(100)
    views = [x[10:60], x, x[40:], x.view(10, 10), x[:1]]
    unpins = [pin(view, ranges) for view in views]
    for unpin in unpins:
        assert runtime.pinned == {x.data_ptr(): 400}
        unpin()
        unpin()  # a second time it holds nothing
    assert not runtime.pinned


def test_an_array_within_one_that_is_pinned(runtime, ranges):
    """NumPy's views have storages of their own in torch."""
    x = np.zeros(100, np.float32)
    whole = pin(torch.from_numpy(x), ranges)
    inner = pin(torch.from_numpy(x[50:]), ranges)
    whole()
    assert runtime.pinned
    inner()
    assert not runtime.pinned


def test_a_part_of_which_something_is_pinned_is_refused(runtime, ranges):
    x = np.zeros(100, np.float32)
    unpin = pin(torch.from_numpy(x[:50]), ranges)
    for overlapping in (x[49:], x):
        with pytest.raises(DeviceError, match="all or none are pinned, got some that are; pass a copy"):
            pin(torch.from_numpy(overlapping), ranges)
    pin(torch.from_numpy(x[50:]), ranges)()  # beside it is another one
    assert list(runtime.pinned.values()) == [200]
    other = pin(torch.from_numpy(x[60:]), ranges)  # now both ends are pinned, and not the middle
    with pytest.raises(DeviceError, match="got some that are"):
        pin(torch.from_numpy(x), ranges)
    other()
    unpin()
    pin(torch.from_numpy(x), ranges)
    assert list(runtime.pinned.values()) == [400]


def test_what_others_have_pinned_stays_so():
    x = np.zeros(100, np.float32)
    address = torch.from_numpy(x).data_ptr()
    ranges = PinnedRanges(Runtime(by_others={address: 400}))
    pin(torch.from_numpy(x), ranges)()
    pin(torch.from_numpy(x[10:20]), ranges)()
    for begin, size in ((0, 200), (200, 200)):
        ranges = PinnedRanges(Runtime(by_others={address + begin: size}))
        with pytest.raises(DeviceError, match="got some that are"):
            pin(torch.from_numpy(x), ranges)


def test_pages_that_cannot_be_written():
    x = torch.zeros(100)
    runtime = Runtime(read_only=[x.data_ptr()])
    unpin = pin(x, PinnedRanges(runtime))
    assert runtime.flags == [3, 11]
    unpin()
    assert not runtime.pinned


def test_more_memory_than_can_be_pinned(ranges):
    text = r"pin: 4,194,304 bytes cannot be pinned \(cudaError 2\); .*(ulimit -l allows|no limit)"
    with pytest.raises(DeviceError, match=text):
        pin(torch.zeros(1 << 20), ranges)


class Moving:
    """Memory of a tensor that torch may move, and give its old address to another one."""

    def __init__(self, address, size):
        self.address, self.size = address, size

    def data_ptr(self):
        return self.address

    def nbytes(self):
        return self.size


def test_memory_at_an_address_that_was_pinned_for_other_memory_is_pinned_anew(runtime, ranges):
    moved = Moving(4096, 400)
    unpin = ranges.pin(moved)
    moved.address = 8192  # share_memory_(): the old memory is freed, and given to somebody else
    registered = runtime.flags.copy()
    others = ranges.pin(Moving(4096, 400))
    assert len(runtime.flags) == len(registered) + 1
    again = ranges.pin(moved)
    assert runtime.pinned == {4096: 400, 8192: 400}
    unpin()  # of what is not there any more
    assert runtime.pinned == {4096: 400, 8192: 400}
    again()
    others()
    assert not runtime.pinned


def test_memory_that_was_given_back_is_not_pinned(runtime, ranges):
    resized = Moving(4096, 400)
    ranges.pin(resized)
    resized.size = 0
    ranges.pin(Moving(4200, 100))
    assert runtime.pinned == {4200: 100}


def test_a_shared_tensor_is_pinned_where_it_is_now(runtime, ranges):
    x = torch.zeros(1000)
    pin(x, ranges)
    x.share_memory_()
    pin(x, ranges)
    assert runtime.pinned == {x.data_ptr(): 4000}


def test_gpus_that_see_pinned_memory_elsewhere_are_refused():
    ranges = PinnedRanges(Runtime(same_addresses=(1, 0)))
    with pytest.raises(DeviceError, match=r"got cuda:1, which does not, as under WSL; pass tensors made by pin_memory"):
        pin(torch.zeros(8), ranges)


def test_nothing_to_pin():
    pin(torch.zeros(0), PinnedRanges(Runtime(limit=-1)))()


@pytest.mark.parametrize("tensor", [torch.zeros(4, 4)[:, :2], torch.zeros(4, device="meta")])
def test_what_cannot_be_pinned(tensor, ranges):
    with pytest.raises(DeviceError, match="expected a contiguous tensor of the host"):
        pin(tensor, ranges)


@pytest.mark.parametrize(("status", "fails"), [(999, True), (713, False)])
def test_a_failure_to_unpin_is_an_error(status, fails, runtime, ranges):
    x = torch.zeros(8)
    unpin = pin(x, ranges)
    runtime.hostUnregister = lambda address: (_ for _ in ()).throw(CudaError(status))
    if fails:
        with pytest.raises(DeviceError, match="cannot be unpinned"):
            unpin()
    else:
        unpin()
    del runtime.hostUnregister
    runtime.pinned.clear()
    pin(x, ranges)  # nothing is left of it


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=40))
def test_any_order_of_pinning_and_unpinning(steps):
    """Against a count for each array."""
    runtime, arrays = Runtime(), [torch.zeros(10) for _ in range(4)]
    ranges, held = PinnedRanges(runtime), [[] for _ in arrays]
    for array, start, pins in steps:
        if pins:
            held[array].append(pin(arrays[array][start:], ranges))
        elif held[array]:
            held[array].pop(start % len(held[array]))()
        assert runtime.pinned == {
            one.data_ptr(): one.untyped_storage().nbytes() for one, unpins in zip(arrays, held, strict=True) if unpins
        }


def test_a_destructor_that_runs_while_memory_is_pinned(runtime, ranges):
    """The collector may run it in the very thread that has the lock."""
    x, y = torch.zeros(8), torch.zeros(8)

    class Owner:
        def __init__(self):
            self.itself = self
            weakref.finalize(self, pin(x, ranges))

    register = runtime.hostRegister

    def collect(*arguments):
        gc.collect()
        register(*arguments)

    Owner()
    runtime.hostRegister = collect
    pin(y, ranges)
    assert list(runtime.pinned) == [y.data_ptr()]


def test_threads_that_pin_and_unpin_one_array(runtime, ranges):
    x = torch.zeros(8)

    def work():
        for _ in range(300):
            unpin = pin(x, ranges)
            assert runtime.pinned
            unpin()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not runtime.pinned


def test_sources_of_one_array_are_pinned_as_long_as_one_of_them_lives(runtime, monkeypatch):
    ranges = PinnedRanges(runtime)
    monkeypatch.setattr(memory, "_pinned_ranges", lambda: ranges)
    x = torch.zeros(8)
    one, other = Pinned(x), Pinned(x[2:])
    del one
    gc.collect()
    assert runtime.pinned
    del other
    gc.collect()
    assert not runtime.pinned
