"""Compile all files of kernels at once, in a process for each core, so that everything after them finds them compiled.

Prints one figure, and what the compiler says of each file that does not compile or load. Without a GPU the same files
are compiled for an architecture that is not here, where CUDA's compiler is installed, and for what stands in for a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from headrace.cuda.compile import compiled
from headrace.cuda.errors import DeviceError
from headrace.cuda.gpu import CupyDriver, check_cupy
from headrace.cuda.instances import FILES, instances_in
from headrace.cuda.source import flattened

TESTS = Path(__file__).resolve().parent.parent / "tests"
#: Of no GPU that is here.
ARCHITECTURE = "sm_90"
#: What takes by far the longest begins first.
LONGEST = ("pick_weighted.cu", "importance.cu", "negatives.cu", "pick_labor.cu")
#: Of what a compiler says of a file.
MOST_LINES = 6


def load(file: str) -> None:
    """Compile a file for the GPU, keep it on disk, and load it."""
    check_cupy()
    driver = CupyDriver(torch.device("cuda", torch.cuda.current_device()))
    with driver.current():
        driver.function(file, instances_in(file)[0])


def compile_alone(file: str) -> None:
    """Compile a file for an architecture."""
    compiled(flattened(file), file, ARCHITECTURE, instances_in(file))


def error_of(work: Callable[[str], None], file: str) -> str | None:
    """Return what is wrong with a file, if anything is; errors of CUDA's bindings do not reach other processes."""
    try:
        work(file)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other files have their turn
        return str(error) if isinstance(error, DeviceError) else f"{type(error).__name__}: {error}"
    return None


def errors(work: Callable[[str], None], files: Sequence[str], processes: int) -> Iterator[tuple[str, str]]:
    """Yield each file that something is wrong with, and what, as they come."""
    context = multiprocessing.get_context("forkserver")  # no process inherits a context of CUDA
    context.set_forkserver_preload(["__main__", "cupy"])
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = {pool.submit(error_of, work, file): file for file in files}
        for future in as_completed(futures):
            error = future.result()
            if error is not None:
                yield futures[future], error


def main() -> int:
    started, processes, status = time.perf_counter(), os.cpu_count() or 1, 0
    files = sorted(FILES, key=lambda file: LONGEST.index(file) if file in LONGEST else len(LONGEST))
    is_real = torch.cuda.is_available()
    if is_real or importlib.util.find_spec("cupy"):
        for file, error in errors(load if is_real else compile_alone, files, processes):
            status = 1
            lines = [line for line in error.splitlines() if line.strip(" =")]
            print(f"{file}:", *lines[:MOST_LINES], sep="\n    ", flush=True)
    else:
        print("no compiler of CUDA here")
    if not is_real:
        sys.path.insert(0, str(TESTS))
        importlib.import_module("cuda_host.stand_in").library()
    count = sum(len(instances_in(file)) for file in files)
    seconds = time.perf_counter() - started
    print(f"{len(files)} files of kernels, {count} instances: {seconds:.1f} s in {processes} processes")
    return status


if __name__ == "__main__":
    sys.exit(main())
