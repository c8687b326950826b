"""CUDA kernels compiled for the CPU, with `cuda_host.hpp` in CUDA's place, as a backend that stands in for a GPU.

It finds missing barriers, updates that are no atomic operations (threads of a block change places at each access to
memory), addresses that are not aligned, offsets beyond 32 bits (`test_addresses.py`, `test_far_addresses.py`), borders
that constants of kernels draw (`test_borders.py`), kernels that never end, missing waits between streams, memory that
one stream made and another one uses without `record_stream`, and numbers that the host reads before it has waited for
them (`stream_model.py`). Of what a test marks as memory of the host (`host_memory.py`) it finds what is read and is not
pinned, and what is pinned, and gone before a kernel reads it.

It does not find:

- what blocks do to each other at the same time: one runs after the other; nor the order in which a GPU's memory shows
  writes to other blocks
- accesses beyond an array, for which `make sanitize` runs some of the tests
- work of the main stream that a side stream does not wait for, as that of the main one runs at once, and its memory
  that side streams use without `record_stream`
- loops that never end without an access to memory
- limits of a GPU (shared memory, registers, threads), and how CuPy passes arguments: for these `test_compile.py`
  compiles all kernels, and `bench/gpu.sh` runs the same tests on a GPU
- numbers of items beyond 32 bits, such as entries of the output of `spmm` and rows that `scatter_add_rows` adds: a CPU
  does not get through them
- the wrong one of several devices, as all are the CPU; and code for a `torch.device` of CUDA alone, as events, and what
  tells torch's allocator of pinned memory: `test_launch.py`, `test_memory.py` and `test_waits.py` call that with fakes
- writes to memory, once it is made, that another stream does not wait for, where torch's own operations make them, but
  for copies and fills
- peers, CUDA IPC, copy engines, and time
- of CUDA graphs, what `graph_model.py` lists
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from headrace.cuda.backend import stand_in_of, word_of
from headrace.cuda.instances import FILES, instances_in
from headrace.cuda.source import KERNELS, NATIVE

from cuda_host.host_memory import HostMemory
from cuda_host.stream_model import StreamModel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "cuda_host"

#: With these kernels are run in a process that has AddressSanitizer.
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
#: With these GCC calls the functions of `accesses.cpp` at each access to memory; not together with AddressSanitizer.
WATCH = "-fsanitize=thread --param=tsan-instrument-func-entry-exit=0"


class StandIn:
    """Runs kernels on the CPU, under another schedule each time."""

    def __init__(self, seed: int = 0, most_blocks: int = 3) -> None:
        self._library = library()
        self._seeds = itertools.count(seed * 1_000_003)
        self._most_blocks = most_blocks
        self.launches: list[str] = []
        self.streams = StreamModel()
        self.host = HostMemory()
        self.free_memory = 1 << 40

    def active(self):
        return _moves()

    def is_on_host(self, tensor):
        return self.host.has(tensor)

    def reaches(self, tensor):
        return not self.host.has(tensor) or self.host.is_pinned(tensor)

    def copy(self, tensor):
        return self.streams.copy_from_host(tensor)

    def pin(self, tensor):
        return self.host.pin(tensor)

    def keep(self, tensor):
        self.host.keep(tensor, self.streams.queue)

    def launch(self, file, name, num_items, block_size, words, arguments):
        seed = next(self._seeds)
        self.launches.append(name)
        self.streams.check(arguments, name)
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        assert all(one.is_contiguous() for one in arguments[: len(words)] if isinstance(one, torch.Tensor))
        assert all(map(self.reaches, tensors)), f"{name}: memory of the host is read that is not pinned"
        kernel = getattr(self._library, symbol(file, name))
        kernel.restype = ctypes.c_char_p
        array = (ctypes.c_uint64 * max(len(words), 1))()
        for place, word in enumerate(words):
            array[place] = word_of(word)
        alive, lent = self._held(tensors)
        # Fewer threads than items, so that they take several, or more.
        blocks = 1 + seed % self._most_blocks

        def run() -> None:
            gone = [one for one in lent if one.expired()]
            assert not gone, f"{name}: pinned memory is read that others may have by now"
            error = kernel(array, ctypes.c_uint64(len(words)), blocks, block_size, ctypes.c_uint64(seed))
            assert isinstance(alive, list)  # and all that is in it
            if error is not None:
                raise AssertionError(f"{name}: {error.decode()}")

        graph, queue = self.streams.graph, self.streams.queue
        if graph is not None:
            graph.launch(arguments, run)
        elif queue is None:
            run()
        else:
            queue.append(run)

    def _held(self, tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[StorageWeakRef]]:
        """Return tensors that are there until a kernel has run, and memory that others get once its tensors are gone.

        Of a GPU, what the current stream uses is not given to others before it is done.
        """
        held, lent = [], []
        for one in tensors:
            if self.host.has(one) and not self.host.is_kept(one, self.streams.queue):
                lent.append(StorageWeakRef(one.untyped_storage()))
            else:
                held.append(one)
        return held, lent


_to = torch.Tensor.to


@wraps(_to)  # torch finds it by its name
def _moved(tensor: torch.Tensor, *args, **kwargs):
    """Copy where a GPU would: to the host, which is named by a string, without a wait; and from what tests mark."""
    backend = stand_in_of(torch.device("cpu"))
    device = kwargs.get("device", args[0] if args else None)
    if isinstance(backend, StandIn) and backend.streams.graph is None:
        is_late = isinstance(device, str) and device == "cpu" and kwargs.get("non_blocking")
        if is_late and not backend.is_on_host(tensor):
            return backend.streams.copy_to_host(tensor)
        if isinstance(device, torch.device) and device.type == "cpu" and backend.is_on_host(tensor):
            made = tensor.clone()
            if not kwargs.get("non_blocking"):
                backend.streams.synchronize()
            return made
    return _to(tensor, *args, **kwargs)


@contextmanager
def _moves() -> Iterator[None]:
    """Let tensors move as they would beside a GPU, as long as something stands in for one: other tests count calls."""
    before, torch.Tensor.to = torch.Tensor.to, _moved
    try:
        yield
    finally:
        torch.Tensor.to = before


def symbol(file: str, name: str) -> str:
    """Return what the library calls an instance of a kernel."""
    return f"cuda_host_{Path(file).stem}_{instances_in(file).index(name)}"


@cache
def library() -> ctypes.CDLL:
    """Return the compiled kernels; they are made anew when a source has changed."""
    flags = ["-std=c++17", "-O1", "-g1", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    # Kernels leave some of what they share unused.
    flags += ["-Wno-unknown-pragmas", f"-I{HERE}", f"-I{KERNELS}", f"-I{NATIVE}"]
    is_sanitized = "libasan" in os.environ.get("LD_PRELOAD", "")
    flags += SANITIZE.split() if is_sanitized else []
    watched = [] if is_sanitized else WATCH.split()
    sources = [*HERE.glob("*.*pp"), *KERNELS.rglob("*"), *NATIVE.rglob("*.hpp")]
    sources += [KERNELS.parent / "instances.py", HERE / "stand_in.py"]
    digest = hashlib.sha256(" ".join([*flags, *watched]).encode())
    for path in sorted(filter(Path.is_file, sources)):
        digest.update(path.read_bytes())
    folder = BUILD / digest.hexdigest()[:16]
    made = folder / "kernels.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not made.exists():
            _build(folder, flags, watched)
    return ctypes.CDLL(str(made))


def _build(folder: Path, flags: list[str], watched: list[str]) -> None:
    compiler = os.environ.get("CXX", "g++")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    objects = []
    for file in FILES:
        entry = folder / f"{Path(file).stem}.cpp"
        entry.write_text(_entries(file))
        objects.append([entry, folder / f"{entry.stem}.o", *watched])
    objects += [[source, folder / f"{source.stem}.o"] for source in sorted(HERE.glob("*.cpp"))]
    commands = [[compiler, *flags, *more, "-c", str(source), "-o", str(made)] for source, made, *more in objects]
    for pair in itertools.zip_longest(commands[::2], commands[1::2]):
        running = [subprocess.Popen(command, env=environment) for command in pair if command is not None]
        if any(process.wait() for process in running):
            raise AssertionError("kernels do not compile for the CPU; the compiler says why above")
    link = [compiler, *flags, "-shared", *(str(made) for _, made, *_ in objects), "-o", str(folder / "linked.so")]
    subprocess.run(link, env=environment, check=True)
    (folder / "linked.so").rename(folder / "kernels.so")


def _entries(file: str) -> str:
    """Return C++ with a function for each instance of the kernels in a file."""
    functions = [
        f'extern "C" const char* {symbol(file, name)}(const std::uint64_t* words, std::uint64_t num_words, '
        "unsigned num_blocks, unsigned block_size, std::uint64_t seed) {\n"
        f"  return cuda_host::launch(&{name}, words, num_words, num_blocks, block_size, seed);\n}}"
        for name in instances_in(file)
    ]
    return "\n".join(['#include "cuda_host.hpp"', f'#include "{file}"', *functions, ""])
