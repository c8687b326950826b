"""Kernels on a GPU: launched by CuPy's binding of the driver, on torch's current stream."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Protocol

import torch

from headrace.cuda.backend import word_of
from headrace.cuda.compile import module
from headrace.cuda.errors import DeviceError

#: Blocks for each multiprocessor that a launch has at most: enough to hide the memory's latency.
BLOCKS_PER_PROCESSOR = 16


class Driver(Protocol):
    """What launches kernels on one GPU.

    Attributes
    ----------
    index
        The number of the GPU.
    most_blocks
        Of a launch.
    current_device
        Returns the number of the GPU that is current in this thread.
    current_stream
        Returns the address of torch's current stream on a GPU.
    launch_kernel
        cuLaunchKernel: takes the function, three sizes of the grid and three of a block, bytes of shared memory, the
        stream, the address of the addresses of arguments, and 0.
    """

    index: int
    most_blocks: int
    current_device: Callable[[], int]
    current_stream: Callable[[int], int]
    launch_kernel: Callable[..., object]

    def function(self, file: str, name: str) -> Any:
        """Return an instance of a kernel; its address is `ptr`."""

    def current(self) -> AbstractContextManager[None]:
        """Let the GPU be current in this thread, for torch and the driver."""


class Gpu:
    """Runs kernels on one GPU.

    Python takes longer than the driver, so that what does not change from launch to launch is made once: functions, and
    for each thread and kernel the memory that the driver reads arguments from.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._index = driver.index
        self._most_blocks = driver.most_blocks
        self._current_device, self._current_stream = driver.current_device, driver.current_stream
        self._launch_kernel = driver.launch_kernel
        self._functions: dict[str, Any] = {}
        self._threads = threading.local()

    def launch(
        self,
        file: str,
        name: str,
        num_items: int,
        block_size: int,
        words: Sequence[int],
        arguments: Sequence[object],
    ) -> None:
        """Run a kernel on torch's current stream; see `headrace.cuda.backend.Backend`."""
        del arguments  # memory that torch gives out again is used on the same stream, behind the kernel
        try:
            kernel: _Kernel = self._threads.kernels[name]
        except (AttributeError, KeyError):
            kernel = self._prepared(file, name, len(words))
        if self._current_device() != self._index:
            with self._driver.current():
                self.launch(file, name, num_items, block_size, words, ())
            return
        try:
            kernel.pack(kernel.words, 0, *words)
        except struct.error:  # one is below 0
            kernel.pack(kernel.words, 0, *map(word_of, words))
        blocks = min((num_items + block_size - 1) // block_size, self._most_blocks)
        stream = self._current_stream(self._index)
        self._launch_kernel(kernel.function, blocks, 1, 1, block_size, 1, 1, 0, stream, kernel.address, 0)

    def _prepared(self, file: str, name: str, num_words: int) -> _Kernel:
        """Return a kernel that this thread has not launched yet. Before its first one it has no context."""
        with self._driver.current():
            function = self._functions.get(name)
            if function is None:
                function = self._functions[name] = self._driver.function(file, name)
        kernels: dict[str, _Kernel] = self._threads.__dict__.setdefault("kernels", {})
        kernels[name] = _Kernel(function, num_words)
        return kernels[name]


class _Kernel:
    """A kernel, and memory of a thread for its arguments, which the driver copies when it is launched."""

    __slots__ = ("_addresses", "_loaded", "address", "function", "pack", "words")

    def __init__(self, loaded: Any, num_words: int) -> None:
        self._loaded = loaded
        self.function: int = loaded.ptr
        self.words = (ctypes.c_uint64 * num_words)()
        first = ctypes.addressof(self.words)
        self._addresses = (ctypes.c_void_p * num_words)(*range(first, first + 8 * num_words, 8))
        self.address = ctypes.addressof(self._addresses)
        self.pack = struct.Struct(f"={num_words}Q").pack_into


class CupyDriver:
    """The driver, by CuPy; see `Driver`."""

    def __init__(self, device: torch.device) -> None:
        import cupy

        self.index: int = device.index
        properties = torch.cuda.get_device_properties(device)
        self.most_blocks = BLOCKS_PER_PROCESSOR * properties.multi_processor_count
        # What torch's own compiler asks, a tenth as long as what is public.
        of_torch = torch._C  # noqa: SLF001
        self.current_device = getattr(of_torch, "_cuda_getDevice", torch.cuda.current_device)
        self.current_stream = getattr(of_torch, "_cuda_getCurrentRawStream", _stream_address)
        self.launch_kernel = cupy.cuda.driver.launchKernel
        self._free = cupy.cuda.runtime.free

    def function(self, file: str, name: str) -> Any:
        """Return an instance of a kernel, compiled for this GPU, which is current."""
        return module(file, self.index).get_function(name)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Let the GPU be current in this thread. Freeing nothing makes its context the driver's current one."""
        with torch.cuda.device(self.index):
            self._free(0)
            yield


def _stream_address(index: int) -> int:
    address: int = torch.cuda.current_stream(index).cuda_stream
    return address


@cache
def gpu(device: torch.device) -> Gpu:
    """Return what runs kernels on a device.

    Raises
    ------
    DeviceError
        Without CuPy, with a CuPy for another CUDA than torch's, or where there is no such GPU.
    """
    if device.type != "cuda":
        raise DeviceError(f"expected a CUDA device, got {device}")
    if not torch.cuda.is_available():
        raise DeviceError(f"{device}: torch finds no GPU (torch.cuda.is_available() is False); use the CPU")
    check_cupy()
    index = torch.cuda.current_device() if device.index is None else device.index
    return Gpu(CupyDriver(torch.device("cuda", index)))


def check_cupy() -> None:
    """Check that kernels can be compiled and launched.

    Raises
    ------
    DeviceError
        With the package to install.
    """
    major = (torch.version.cuda or "13").partition(".")[0]
    wanted = f"install it with: pip install 'headrace[cuda{major}]'"
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(f"kernels on a GPU need CuPy, which cannot be imported ({error}); {wanted}") from error
    has = cupy.cuda.runtime.runtimeGetVersion() // 1000
    if str(has) != major:
        raise DeviceError(f"torch was built for CUDA {torch.version.cuda}, CuPy for CUDA {has}; {wanted}")
    try:
        cupy.cuda.nvrtc.getVersion()
    except (ImportError, OSError, RuntimeError) as error:  # as CuPy's versions have it
        package = f"nvidia-cuda-nvrtc-cu{major}" if int(major) < 13 else f"nvidia-cuda-nvrtc=={major}.*"
        reason = str(error).partition("\n")[0]
        raise DeviceError(
            f"kernels are compiled by NVRTC, which CuPy does not find ({reason}); install it with: "
            f"pip install '{package}'"
        ) from error
