"""How kernels are compiled for a GPU, by CuPy's NVRTC, when they are first used; CuPy keeps what was compiled on disk.

The text that is compiled has all includes in it (`source.flattened`), so what is kept is known by source, options and
device, and never stale.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from headrace.cuda.errors import DeviceError
from headrace.cuda.instances import FILES, instances_in
from headrace.cuda.source import flattened

#: Of CUDA's compiler. Functions are for the device unless they say otherwise, so headers of the CPU's kernels can be
#: read; no fused multiply-add, as where floating point decides a pick both devices have to round alike.
OPTIONS = (
    "-std=c++17",
    "--device-as-default-execution-space",
    "--device-int128",
    "--fmad=false",
    "-D__extension__=",  # what GCC wants said of integers of 128 bits
)


@cache
def module(file: str, device: int) -> Any:
    """Return the module of a file of kernels, compiled for the current device, whose number is given.

    Raises
    ------
    DeviceError
        If the file does not compile; the message has the compiler's, with files and lines.
    """
    import cupy

    if file not in FILES:
        raise DeviceError(f"expected a file of kernels, one of {', '.join(FILES)}, got {file!r}")
    compiled = cupy.RawModule(code=flattened(file), options=OPTIONS, name_expressions=instances_in(file))
    try:
        compiled.compile()
    except cupy.cuda.compiler.CompileException as error:
        raise DeviceError(f"cuda/kernels/{file} does not compile for device {device}:\n{error}") from error
    return compiled
