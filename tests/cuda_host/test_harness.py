"""The stand-in for CUDA: that it runs what a GPU would, and finds what threads do wrong."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

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
    stand_in = tmp_path_factory.mktemp("stand_in") / "cuda_host.o"
    subprocess.run([*compiler, "-c", HERE / "cuda_host.cpp", "-o", stand_in], check=True)

    def made(kernel: str) -> Path:
        folder = tmp_path_factory.mktemp("kernel")
        (folder / "main.cpp").write_text(MAIN.format(kernel=textwrap.dedent(kernel)))
        subprocess.run([*compiler, folder / "main.cpp", stand_in, "-o", folder / "run"], check=True)
        return folder / "run"

    return made


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


def test_a_barrier_lets_threads_see_each_others_values(build):
    assert outcomes(build(SUM.format(barrier="__syncthreads();"))) == {" ".join(["2080"] * 64)}


def test_a_missing_barrier_is_found(build):
    assert outcomes(build(SUM.format(barrier=""))) != {" ".join(["2080"] * 64)}


def test_a_barrier_that_some_threads_do_not_reach(build):
    program = build("__global__ void kernel(std::uint64_t*) { if (threadIdx.x < 40) __syncthreads(); }")
    assert outcomes(program) == {"threads that wait for others, which have ended or wait elsewhere"}


def test_lanes_that_are_waited_for_but_do_not_come(build):
    program = build("__global__ void kernel(std::uint64_t*) { if (threadIdx.x % 2 == 0) __syncwarp(); }")
    assert outcomes(program) == {"threads that wait for others, which have ended or wait elsewhere"}


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
