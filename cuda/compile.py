"""How kernels are compiled for a GPU, by CuPy's NVRTC, when they are first used; what was compiled is kept on disk.

The text that is compiled has all includes in it (`source.flattened`), so what is kept is known by source, options and
architecture, and never stale. CuPy's own `RawModule` would flush subnormal numbers to zero, which the CPU does not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from headrace.cuda.errors import DeviceError
from headrace.cuda.instances import FILES, instances_in
from headrace.cuda.kernel_cache import kept
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


class Module:
    """Kernels of one file on a GPU."""

    def __init__(self, loaded: Any, names: dict[str, str]) -> None:
        self._loaded, self._names = loaded, names

    def get_function(self, name: str) -> Any:
        """Return an instance of a kernel, by the name that `instances` has for it."""
        return self._loaded.get_function(self._names[name])


@cache
def module(file: str, device: int) -> Module:
    """Return the module of a file of kernels, compiled for the current device, whose number is given.

    Raises
    ------
    DeviceError
        If the file does not compile; the message has the compiler's, with files and lines.
    """
    if file not in FILES:
        raise DeviceError(f"expected a file of kernels, one of {', '.join(FILES)}, got {file!r}")
    import cupy

    text, names, target = flattened(file), instances_in(file), architecture(cupy.cuda.Device(device).compute_capability)
    version = ".".join(map(str, cupy.cuda.nvrtc.getVersion()))
    # Names of functions, which C++ made of those of instances, stand before the code.
    content = kept(
        (text, *OPTIONS, target, version, *names),
        lambda: b"\0".join(compiled(text, file, target, names)),
    )
    *lowered, code = content.split(b"\0", len(names))
    loaded = cupy.cuda.function.Module()
    loaded.load(code)
    return Module(loaded, {name: one.decode() for name, one in zip(names, lowered, strict=True)})


def architecture(capability: str) -> str:
    """Return what to compile for: a GPU that the compiler does not know takes PTX for the newest one before it.

    What a compiler knows has holes: NVRTC 12.8 knows 10.0, 10.1 and 12.0, and no 10.3.

    Raises
    ------
    DeviceError
        If all that the compiler knows is newer than the GPU.
    """
    from cupy.cuda import nvrtc

    known = [one for one in map(int, nvrtc.getSupportedArchs()) if one <= int(capability)]
    if not known:
        version = ".".join(map(str, nvrtc.getVersion()))
        raise DeviceError(
            f"expected a GPU that NVRTC {version} compiles for, got one of compute capability {capability}, which is "
            "older; install the CuPy and NVRTC of an older CUDA, or use the CPU"
        )
    return f"sm_{capability}" if max(known) == int(capability) else f"compute_{max(known)}"


def compiled(text: str, file: str, architecture: str, names: list[str]) -> list[bytes]:
    """Return what the instances of the kernels in a text are called, and behind these the code.

    Raises
    ------
    DeviceError
        If it does not compile.
    """
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, file, [], [])
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        nvrtc.compileProgram(program, [*OPTIONS, f"-arch={architecture}"])
        code = nvrtc.getPTX(program) if architecture.startswith("compute_") else nvrtc.getCUBIN(program)
        return [*(nvrtc.getLoweredName(program, name).encode() for name in names), code]
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise DeviceError(f"cuda/kernels/{file} does not compile for {architecture}:\n{log}") from error
    finally:
        nvrtc.destroyProgram(program)
