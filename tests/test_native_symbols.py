"""The compiled module is tied to no torch version: it neither links to torch nor names a symbol of it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from headrace.ops import _native

# Sanitizer runtimes are there in the builds of `make sanitize`.
ALLOWED_LIBRARIES = re.compile(r"(libstdc\+\+|libgcc_s|libc|libm|libpthread|ld-linux-[\w-]+|libasan|libubsan)\.so\.\d+")
TORCH = re.compile(r"\b(?:_ZNK?\d*(?:2at|3c10|5torch)|at::|c10::|torch::|THP|aoti_torch|torch_)")


def output_of(tool: str, *arguments: str) -> str:
    path = shutil.which(tool)
    if path is None:
        pytest.fail(f"{tool} is not installed; it comes with the compiler that headrace is built with (binutils)")
    return subprocess.run([path, *arguments, _native.__file__], capture_output=True, text=True, check=True).stdout


def test_links_to_the_language_runtimes_only():
    libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "--dynamic", "--wide"))
    assert libraries, "readelf printed no needed library: has its format changed?"
    assert [library for library in libraries if not ALLOWED_LIBRARIES.fullmatch(library)] == []


def test_carries_no_search_path():
    assert re.findall(r"\((?:RPATH|RUNPATH)\).*", output_of("readelf", "--dynamic", "--wide")) == []


def test_names_no_symbol_of_torch():
    undefined = output_of("nm", "--dynamic", "--undefined-only", "--demangle").splitlines()
    assert any("Py" in line for line in undefined), "nm printed no symbol of Python: has its format changed?"
    assert [line for line in undefined if TORCH.search(line)] == []


def test_exports_no_kernel():
    """Two extension modules in a process must not resolve each other's helpers; type names may be shared."""
    exported = [line.split()[-1] for line in output_of("nm", "--dynamic", "--defined-only").splitlines()]
    assert "PyInit__native" in exported
    assert [name for name in exported if "headrace" in name and not name.startswith(("_ZTI", "_ZTS"))] == []
