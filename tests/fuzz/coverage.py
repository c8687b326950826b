"""Hand what `coverage.cpp` counts to libFuzzer."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

import numpy as np

from headrace.ops import _native

_PLACES: Final[list[np.ndarray]] = []  # libFuzzer reads them until the end


def register_coverage() -> None:
    """Tell libFuzzer where the native module counts what runs of it: between atheris.Setup and atheris.Fuzz.

    The libFuzzer of atheris is a module of Python, which sees no symbols of others and shows none. So it is told by
    address, and the warning that atheris prints, that coverage goes to the sanitizer's functions of the same names,
    does not apply. libFuzzer looks for a mutator when it is loaded: that module comes first, for all to see.
    """
    module = ctypes.CDLL(_native.__file__)
    if not hasattr(module, "fuzz_coverage_begin"):
        message = f"{_native.__file__} counts nothing: build it with HEADRACE_COVERAGE, as make .venv-sanitize does"
        raise RuntimeError(message)
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_GLOBAL)
    import atheris.custom_mutator

    sys.setdlopenflags(flags)
    import atheris.core_with_libfuzzer

    module.fuzz_coverage_begin.restype = module.fuzz_coverage_end.restype = ctypes.c_void_p
    begin, end = module.fuzz_coverage_begin(), module.fuzz_coverage_end()
    # libFuzzer wants an address and flags for every counter. It only prints them: their numbers do as well.
    places = np.zeros((end - begin, 2), np.uintp)
    places[:, 0] = np.arange(1, len(places) + 1)
    _PLACES.append(places)
    fuzzer = ctypes.CDLL(atheris.core_with_libfuzzer.__file__)
    fuzzer.__sanitizer_cov_8bit_counters_init(ctypes.c_void_p(begin), ctypes.c_void_p(end))
    first = places.ctypes.data
    fuzzer.__sanitizer_cov_pcs_init(ctypes.c_void_p(first), ctypes.c_void_p(first + places.nbytes))
