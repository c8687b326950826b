"""Every kernel compiles for the GPUs there are, by the compiler that a GPU's machine uses at run time."""

from __future__ import annotations

import re

import pytest

from headrace.cuda import compile as compiling
from headrace.cuda.errors import DeviceError
from headrace.cuda.instances import FILES, KERNELS, instances_in
from headrace.cuda.source import KERNELS as FOLDER
from headrace.cuda.source import flattened

nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed, and with it no compiler")

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def compiled(text: str, file: str, architecture: str, names: list[str]) -> list[str]:
    """Return what the compiled instances are called, or raise with the compiler's messages."""
    program = nvrtc.createProgram(text, file, [], [])
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        try:
            nvrtc.compileProgram(program, [*compiling.OPTIONS, f"-arch={architecture}"])
        except nvrtc.NVRTCError as error:
            raise AssertionError(nvrtc.getProgramLog(program)) from error
        return [nvrtc.getLoweredName(program, name) for name in names]
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_all_instances_compile(file, architecture):
    names = instances_in(file)
    assert len(set(compiled(flattened(file), file, architecture, names))) == len(names) > 0


def test_every_file_and_kernel_is_listed():
    assert {path.name for path in FOLDER.glob("*.cu")} == set(FILES)
    for file in FILES:
        text = (FOLDER / file).read_text()
        assert set(re.findall(r"__global__ void (\w+)", text)) == {
            name for name, kernel in KERNELS.items() if kernel.file == file
        }


def test_errors_name_file_and_line():
    text = flattened("gather.cu").replace("const std::int64_t place = places", "const std::int64_t place = plaices", 1)
    line = (
        (FOLDER / "gather.cu")
        .read_text()
        .splitlines()
        .index("    const std::int64_t place = places == nullptr ? i : places[i];")
    )
    with pytest.raises(AssertionError, match=rf"kernels/gather.cu\({line + 1}\): error: .*plaices"):
        compiled(text, "gather.cu", "sm_90", instances_in("gather.cu")[:1])


def test_a_file_that_there_is_not():
    with pytest.raises(DeviceError, match="expected a file of kernels, one of gather"):
        compiling.module("other.cu", 0)


def test_shared_headers_are_read_as_the_cpu_reads_them():
    """The random contract has one implementation: what kernels include of it are the files of ops/native."""
    text = flattened("pick_uniform.cu")
    assert '#line 1 "random/philox.hpp"' in text
    assert '#line 1 "random/bounded.hpp"' in text
    assert "#include" not in text
