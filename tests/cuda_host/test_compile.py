"""Every kernel compiles for the GPUs there are, by the compiler that a GPU's machine uses at run time."""

from __future__ import annotations

import pwd
import re
import tempfile
from types import SimpleNamespace

import pytest

from headrace.cuda import compile as compiling
from headrace.cuda.errors import DeviceError
from headrace.cuda.instances import FILES, KERNELS, instances_in
from headrace.cuda.source import KERNELS as FOLDER
from headrace.cuda.source import flattened

cupy = pytest.importorskip("cupy", reason="CuPy is not installed, and with it no compiler")
nvrtc = cupy.cuda.nvrtc

#: Code for a GPU that is not optimised, which takes a tenth of the time: whether files compile does not depend on it.
QUICKLY = ("--Ofast-compile=max",)


class Loaded:
    """A module that CuPy has loaded, as it is without a GPU."""

    def load(self, code):
        self.code = code

    def get_function(self, name):
        return name


@pytest.fixture
def modules(monkeypatch, tmp_path):
    """Let modules be made for a GPU that is newer than the compiler, so that their code is PTX; count compilations."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kept"))
    device = SimpleNamespace(compute_capability="999")
    monkeypatch.setattr(cupy.cuda, "Device", lambda number: device)
    monkeypatch.setattr(cupy.cuda.function, "Module", Loaded)
    compilations = []
    compile_once = compiling.compiled

    def counted(*arguments):
        compilations.append(arguments[1])
        return compile_once(*arguments)

    monkeypatch.setattr(compiling, "compiled", counted)
    compiling.module.cache_clear()
    yield SimpleNamespace(compilations=compilations, folder=tmp_path / "kept", device=device)
    compiling.module.cache_clear()


@pytest.mark.parametrize("file", FILES)
def test_all_instances_compile(file, monkeypatch):
    monkeypatch.setattr(compiling, "OPTIONS", (*compiling.OPTIONS, *QUICKLY))
    *lowered, code = compiling.compiled(flattened(file), file, "sm_80", instances_in(file))
    assert len(set(lowered)) == len(instances_in(file)) > 0
    assert not any(b"\0" in name for name in lowered)
    assert code.startswith(b"\x7fELF")


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("file", FILES)
def test_all_instances_compile_as_for_users(file, architecture):
    assert compiling.compiled(flattened(file), file, architecture, instances_in(file))[-1].startswith(b"\x7fELF")


@pytest.mark.parametrize("file", FILES)
def test_numbers_are_rounded_as_by_the_cpu(file):
    """No operation is fused with another one, and subnormal numbers are not flushed."""
    *_, code = compiling.compiled(flattened(file), file, "compute_80", instances_in(file))
    assert not re.findall(
        rb"\bfma\.[\w.]+|\bmad\.r[\w.]+|\b[\w.]+\.ftz[\w.]*|\b(?:div|sqrt)\.(?:approx|full)[\w.]*", code
    )
    assert b".f32" in code or file not in ("pick_weighted.cu", "scatter.cu", "attention.cu")


def test_compiled_kernels_are_kept(modules):
    names = instances_in("owners.cu")

    def load():
        compiling.module.cache_clear()
        made = compiling.module("owners.cu", 0)
        assert all(f".entry {made.get_function(name)}(".encode() in made._loaded.code for name in names)
        return made

    first = load()
    assert len({first.get_function(name) for name in names}) == len(names) > 0
    load()
    assert len(modules.compilations) == 1
    (file,) = modules.folder.iterdir()
    file.write_bytes(file.read_bytes()[:-100])  # as a machine leaves it that stopped
    load()
    load()
    assert len(modules.compilations) == 2
    modules.device.compute_capability = "90"
    compiling.module.cache_clear()
    assert compiling.module("owners.cu", 0)._loaded.code.startswith(b"\x7fELF")
    assert len(modules.compilations) == len(list(modules.folder.iterdir())) + 1 == 3


def test_where_nothing_can_be_kept_kernels_are_compiled(modules, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file"))
    assert b".entry" in compiling.module("owners.cu", 0)._loaded.code


def test_a_gpu_newer_than_the_compiler_takes_ptx():
    newest = max(nvrtc.getSupportedArchs())
    assert compiling.architecture(str(newest)) == f"sm_{newest}"
    assert compiling.architecture("999") == f"compute_{newest}"


def test_a_gpu_between_those_that_the_compiler_knows_takes_ptx(monkeypatch):
    monkeypatch.setattr(nvrtc, "getSupportedArchs", lambda: [75, 80, 90, 100, 101, 120])  # as NVRTC 12.8
    targets = {one: compiling.architecture(one) for one in ("80", "86", "89", "101", "103", "121")}
    assert targets == {
        "80": "sm_80",
        "86": "compute_80",
        "89": "compute_80",
        "101": "sm_101",
        "103": "compute_101",
        "121": "compute_120",
    }
    with pytest.raises(DeviceError, match=r"expected a GPU that NVRTC .* got one of compute capability 70, .* older"):
        compiling.architecture("70")


def test_kernels_of_a_user_without_a_home_are_kept_in_a_folder_of_its_own(modules, monkeypatch, tmp_path):
    monkeypatch.delenv("CUPY_CACHE_DIR")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def load():
        compiling.module.cache_clear()
        return compiling.module("owners.cu", 0)

    load()
    load()
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(modules.compilations) == 1
    folder.chmod(0o777)  # where others write, nothing is loaded
    load()
    assert len(modules.compilations) == 2


def test_every_file_and_kernel_is_listed():
    assert {path.name for path in FOLDER.glob("*.cu")} == set(FILES)
    for file in FILES:
        text = (FOLDER / file).read_text()
        assert set(re.findall(r"__global__\s+void (\w+)", text)) == {
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
    with pytest.raises(DeviceError, match=rf"kernels/gather.cu\({line + 1}\): error: .*plaices"):
        compiling.compiled(text, "gather.cu", "sm_90", instances_in("gather.cu")[:1])


def test_a_file_that_there_is_not():
    with pytest.raises(DeviceError, match="expected a file of kernels, one of gather"):
        compiling.module("other.cu", 0)


def test_shared_headers_are_read_as_the_cpu_reads_them():
    """The random contract has one implementation: what kernels include of it are the files of ops/native."""
    text = flattened("pick_uniform.cu")
    assert '#line 1 "random/philox.hpp"' in text
    assert '#line 1 "random/bounded.hpp"' in text
    assert "#include" not in text
