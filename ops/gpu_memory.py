"""How much memory of GPUs is free, asked of the driver through NVML: CUDA is not initialised for it.

A process that has initialised CUDA cannot use it in processes that it forks, so nobody may do so just to look.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_UUID_BYTES = 96


class _Memory(ctypes.Structure):
    """What NVML calls nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _NvmlError(Exception):
    """NVML does not say."""


def free_gpu_memory(library: Any = None) -> tuple[int, ...]:
    """Return the bytes that are free on each GPU that this process sees, by the numbers that CUDA gives them.

    Empty where that is not known: without a driver, or on GPUs that are cut into instances and named by numbers.

    Parameters
    ----------
    library
        NVML; default: that of the driver.
    """
    try:
        nvml = ctypes.CDLL(_LIBRARY) if library is None else library
        _call(nvml, "nvmlInit_v2")
    except (OSError, AttributeError, _NvmlError):
        return ()
    try:
        return _free_memory(nvml)
    except (AttributeError, _NvmlError):  # a function that an old driver lacks
        return ()
    finally:
        nvml.nvmlShutdown()


def _free_memory(nvml: Any) -> tuple[int, ...]:
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    every = [_handle(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number)) for number in range(count.value)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [] if visible is None else [name.strip() for name in visible.split(",")]
    by_instance, by_uuid = (bool(names) and names[0].startswith(kind) for kind in ("MIG-", "GPU-"))
    if not by_instance and any(_is_cut(nvml, handle) for handle in every):
        return ()
    if by_instance or by_uuid:
        return tuple(_memory(nvml, handle).free for handle in _by_uuid(nvml, every, names))
    numbers = list(range(len(every))) if visible is None else _numbers(names, len(every))
    memory = [_memory(nvml, handle) for handle in every]
    in_order = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not in_order and len({one.total for one in memory}) > 1:
        # CUDA puts the fastest first, NVML goes by slots: which is which, CUDA alone knows.
        return (min(one.free for one in memory),) * len(numbers)
    return tuple(memory[number].free for number in numbers)


def _numbers(names: Sequence[str], count: int) -> list[int]:
    """Return the GPUs that are listed by number: those before the first that is none; none if one is listed twice."""
    numbers: list[int] = []
    for name in names:
        digits = name[: len(name) - len(name.lstrip("+0123456789"))]
        if not digits.lstrip("+").isdecimal() or int(digits) >= count:
            break
        numbers.append(int(digits))
    return numbers if len(set(numbers)) == len(numbers) else []


def _by_uuid(nvml: Any, every: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return the GPUs that are listed by UUID, or by how one begins, up to the first that is none."""
    kind, found, seen = names[0][:4], list[Any](), set[str]()
    uuids = {_uuid(nvml, handle): handle for handle in every} if kind == "GPU-" else {}
    for name in names:
        matching = [uuid for uuid in uuids if uuid.startswith(name)] if kind == "GPU-" else [name]
        if not name.startswith(kind) or len(matching) != 1:
            break
        if matching[0] in seen:
            return []
        seen.add(matching[0])
        is_instance = matching[0] not in uuids
        found.append(
            _handle(nvml, "nvmlDeviceGetHandleByUUID", matching[0].encode()) if is_instance else uuids[matching[0]]
        )
    return found


def _handle(nvml: Any, function: str, name: Any) -> Any:
    handle = ctypes.c_void_p()
    _call(nvml, function, name, ctypes.byref(handle))
    return handle


def _uuid(nvml: Any, handle: Any) -> str:
    text = ctypes.create_string_buffer(_UUID_BYTES)
    _call(nvml, "nvmlDeviceGetUUID", handle, text, ctypes.c_uint(_UUID_BYTES))
    return text.value.decode()


def _memory(nvml: Any, handle: Any) -> _Memory:
    memory = _Memory()
    _call(nvml, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return memory


def _is_cut(nvml: Any, handle: Any) -> bool:
    """Whether a GPU is cut into instances (MIG), of which CUDA then shows one in its place."""
    current, pending = ctypes.c_uint(), ctypes.c_uint()
    code = nvml.nvmlDeviceGetMigMode(handle, ctypes.byref(current), ctypes.byref(pending))
    return code == 0 and current.value == 1


def _call(nvml: Any, function: str, *arguments: Any) -> None:
    if getattr(nvml, function)(*arguments) != 0:
        raise _NvmlError(function)
