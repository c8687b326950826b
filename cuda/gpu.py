"""Kernels on a GPU: CuPy's launches, on torch's current stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from headrace.cuda.compile import module
from headrace.cuda.errors import DeviceError

#: Blocks for each multiprocessor that a launch has at most: enough to hide the memory's latency.
BLOCKS_PER_PROCESSOR = 16


class Gpu:
    """Runs kernels on one GPU."""

    def __init__(self, device: torch.device) -> None:
        self._index = device.index
        properties = torch.cuda.get_device_properties(device)
        self._most_blocks = BLOCKS_PER_PROCESSOR * properties.multi_processor_count
        self._functions: dict[tuple[str, str], Any] = {}

    def launch(
        self,
        file: str,
        name: str,
        num_items: int,
        block_size: int,
        words: Sequence[int | float],
        arguments: Sequence[object],
    ) -> None:
        """Run a kernel on torch's current stream; see `headrace.cuda.backend.Backend`."""
        del arguments  # memory that torch gives out again is used on the same stream, behind the kernel
        import cupy
        import numpy as np

        with cupy.cuda.Device(self._index):
            function = self._functions.get((file, name))
            if function is None:
                function = self._functions[file, name] = module(file, self._index).get_function(name)
            blocks = min((num_items + block_size - 1) // block_size, self._most_blocks)
            values = tuple(np.float64(word) if isinstance(word, float) else _word(word) for word in words)
            with _stream(cupy, torch.cuda.current_stream(self._index), self._index):
                function((blocks,), (block_size,), values)


def _stream(cupy: Any, current: Any, device: int) -> Any:
    """Return torch's stream as CuPy's; CuPy before 14 and torch before 2.10 know its address alone."""
    from_external = getattr(getattr(cupy.cuda, "Stream", None), "from_external", None)
    if from_external is not None and hasattr(current, "__cuda_stream__"):
        return from_external(current)
    return cupy.cuda.ExternalStream(current.cuda_stream, device)


def _word(value: int) -> Any:
    """Return an integer of 64 bits, whichever sign it has."""
    import numpy as np

    return np.int64(value) if value < 0 else np.uint64(value)


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
    return Gpu(torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index))


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
