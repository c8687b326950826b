"""The stand-in for CUDA: that it runs what a GPU would, and finds what threads do wrong."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from cuda_host.stand_in import WATCH

HERE = Path(__file__).resolve().parent

MAIN = """
#include "cuda_host.hpp"
#include <cstdio>
#include <cstdlib>
#include <vector>
{kernel}
int main(int, char** arguments) {{
  std::vector<std::uint64_t> out(64, 0);
  std::uint64_t words[] = {{reinterpret_cast<std::uint64_t>(out.data())}};
  const char* error = cuda_host::launch(&kernel, words, 1, 2, 64, std::strtoull(arguments[1], nullptr, 10));
  if (error != nullptr) {{
    std::puts(error);
    return 1;
  }}
  for (const std::uint64_t one : out) std::printf("%llu ", static_cast<unsigned long long>(one));
}}
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    compiler = ["g++", "-std=c++17", "-O1", f"-I{HERE}"]
    folder = tmp_path_factory.mktemp("stand_in")
    stand_in = [folder / f"{source.stem}.o" for source in HERE.glob("*.cpp")]
    for made in stand_in:
        subprocess.run([*compiler, "-c", HERE / f"{made.stem}.cpp", "-o", made], check=True)

    def made(kernel: str) -> Path:
        folder = tmp_path_factory.mktemp("kernel")
        (folder / "main.cpp").write_text(MAIN.format(kernel=textwrap.dedent(kernel)))
        kernel = folder / "main.o"
        subprocess.run([*compiler, *WATCH.split(), "-c", folder / "main.cpp", "-o", kernel], check=True)
        subprocess.run([*compiler, kernel, *stand_in, "-o", folder / "run"], check=True)
        return folder / "run"

    return made


#: With the barrier that is waited at, and the line that calls it.
NOBODY_COMES = re.compile(
    r"threads that wait for others, which have ended or wait elsewhere; "
    r"last at __sync(threads|warp) in main\.cpp:6 \(\d+ threads\)$"
)


def outcomes(program: Path, schedules: int = 20) -> set[str]:
    runs = [
        subprocess.run([program, str(seed)], capture_output=True, text=True, check=False) for seed in range(schedules)
    ]
    assert all(run.returncode in (0, 1) for run in runs)
    return {run.stdout.strip() for run in runs}


SUM = """
__global__ void kernel(std::uint64_t* out) {{
  __shared__ std::uint64_t values[64];
  values[threadIdx.x] = threadIdx.x + blockIdx.x;
  {barrier}
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += values[i];
  if (blockIdx.x == 1) out[threadIdx.x] = sum;
}}
"""


@pytest.mark.slow
def test_a_barrier_lets_threads_see_each_others_values(build):
    assert outcomes(build(SUM.format(barrier="__syncthreads();"))) == {" ".join(["2080"] * 64)}


def test_a_missing_barrier_is_found(build):
    assert outcomes(build(SUM.format(barrier=""))) != {" ".join(["2080"] * 64)}


def test_a_barrier_that_some_threads_do_not_reach(build):
    program = build("__global__ void kernel(std::uint64_t*) { if (threadIdx.x < 40) __syncthreads(); }")
    assert all(NOBODY_COMES.match(outcome) for outcome in outcomes(program))


def test_lanes_that_are_waited_for_but_do_not_come(build):
    program = build("__global__ void kernel(std::uint64_t*) { if (threadIdx.x % 2 == 0) __syncwarp(); }")
    assert all(NOBODY_COMES.match(outcome) for outcome in outcomes(program))


def test_shuffles_and_ballots(build):
    program = build("""
    __global__ void kernel(std::uint64_t* out) {
      const unsigned lane = threadIdx.x % 32;
      std::uint64_t sum = lane;
      for (unsigned by = 1; by < 32; by *= 2) {
        const std::uint64_t other = __shfl_up_sync(0xFFFFFFFFU, sum, by);
        if (lane >= by) sum += other;
      }
      const unsigned even = __ballot_sync(0xFFFFFFFFU, lane % 2 == 0);
      const std::uint64_t last = __shfl_sync(0xFFFFFFFFU, sum, 31);
      out[threadIdx.x] = last * 1000 + sum + (even == 0x55555555U ? 0 : 1) + 7 * __shfl_xor_sync(0xFFFFFFFFU, lane, 1);
    }
    """)
    lanes = range(32)
    expected = [496_000 + lane * (lane + 1) // 2 + 7 * (lane ^ 1) for lane in lanes]
    assert outcomes(program) == {" ".join(map(str, expected * 2))}


@pytest.mark.parametrize(
    ("add", "sound"),
    [("atomicAdd(out, 1)", True), ("out[0] = atomicAdd(out, 0) + 1", False)],
)
def test_what_is_no_atomic_operation_loses_updates(build, add, sound):
    program = build(f"__global__ void kernel(std::uint64_t* out) {{ {add}; atomicAdd(out + 1, 1); {add}; }}")
    counts = {outcome.split()[0] for outcome in outcomes(program)}
    assert (counts == {"256"}) == sound


@pytest.mark.parametrize(
    ("update", "sound"),
    [("atomicMin(out, i)", True), ("if (i < *out) *out = i", False)],
)
def test_a_smallest_one_that_is_found_without_atomic_operations(update, sound, build):
    """Between reading and writing another thread writes a smaller one, which is lost."""
    program = build(f"""
    __global__ void kernel(std::uint64_t* out) {{
      out[0] = 1000;
      __syncthreads();
      const std::uint64_t i = 99 - threadIdx.x;
      {update};
    }}
    """)
    smallest = {outcome.split()[0] for outcome in outcomes(program)}
    assert (smallest == {"36"}) == sound


@pytest.mark.parametrize(
    ("take", "sound"),
    [
        ("atomicCAS(out + slot, 0, i)", True),
        ("[&] { const std::uint64_t before = out[slot]; if (before == 0) out[slot] = i; return before; }()", False),
    ],
)
def test_slots_that_are_taken_without_atomic_operations(take, sound, build):
    """Two threads find a slot free, and both take it."""
    program = build(f"""
    __global__ void kernel(std::uint64_t* out) {{
      const std::uint64_t i = threadIdx.x % 8 + 1;
      if (blockIdx.x != 0 || threadIdx.x >= 16) return;
      for (unsigned slot = 0; slot < 64; ++slot) {{
        const std::uint64_t before = {take};
        if (before == 0 || before == i) return;
      }}
    }}
    """)
    taken = [sorted(word for word in outcome.split() if word != "0") for outcome in outcomes(program)]
    assert all(one == [*"12345678"] for one in taken) == sound


def test_an_address_that_is_no_multiple_of_its_words(build):
    program = build("""
    __global__ void kernel(std::uint64_t* out) {
      const auto* from = reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(out) + 8 * (threadIdx.x % 2));
      reinterpret_cast<uint4*>(out + 32)[threadIdx.x % 4] = *from;
    }
    """)
    assert outcomes(program) == {"an address that is not a multiple of the 16 bytes read or written there"}


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["atomicAdd(out, 1);", "__ballot_sync(0xFFFFFFFFU, 1);"])
def test_threads_that_never_end(wait, build):
    """With the line at which they have waited last."""
    program = build(f"""
    __global__ void kernel(std::uint64_t* out) {{
      __syncwarp();
      while (out[1] == 0) {{
        {wait}
      }}
    }}
    """)
    (outcome,) = outcomes(program, schedules=1)
    barrier = "__ballot_sync in main.cpp:10" if "ballot" in wait else "__syncwarp in main.cpp:8"
    assert outcome == f"threads that never end; last at {barrier} (64 threads)"
