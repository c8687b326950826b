"""A context of CUDA, and memory that is allocated and freed there: whether a tool lets a process reach the GPU.

It takes the driver alone, as importing torch under a sanitizer takes long. With ``--smoke`` no driver is fine as well.
"""

from __future__ import annotations

import ctypes
import sys


def main(smoke: bool) -> None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        if not smoke:
            raise
        print("no driver of CUDA here")
        return
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    for name, *arguments in (
        ("cuInit", 0),
        ("cuDeviceGet", ctypes.byref(device), 0),
        ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
        ("cuCtxSetCurrent", context),
        ("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(1 << 20)),
        ("cuMemFree_v2", address),
    ):
        status = getattr(driver, name)(*arguments)
        if status and not smoke:
            sys.exit(f"{name}: expected 0, got {status}")
    print("the driver answers")


if __name__ == "__main__":
    main("--smoke" in sys.argv)
