"""The selection that LABOR and races share: against sorting, with equal keys, in many sweeps, under many schedules."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headrace.cuda.source import KERNELS, NATIVE

HERE = Path(__file__).resolve().parent

MAIN = """
#include "cuda_host.hpp"
#include "smallest.cuh"
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

using namespace headrace;

template <class Group>
__global__ void choose(const std::uint64_t* keys, std::int64_t count, std::int64_t wanted, std::int64_t bits,
                       std::int64_t* out, std::int64_t* placed) {
  __shared__ Bins bins[Group::kPerBlock];
  const Group group;
  for_each_by_group(Group::kPerBlock, group, [&](std::int64_t row) {
    const auto key = [&](std::int64_t i) { return keys[i]; };
    const Limit limit = find_limit(group, count, static_cast<std::uint64_t>(wanted), static_cast<int>(bits),
                                   bins[group.in_block], key);
    const std::int64_t found = emit_up_to(group, count, limit, key, [&](std::int64_t i, std::int64_t place) {
      if (place < wanted) out[row * wanted + place] = i;
    });
    if (group.rank == 0) placed[row] = found;
  });
}

template <class Group>
int check(const std::vector<std::uint64_t>& keys, std::int64_t wanted, std::int64_t bits, std::uint64_t seed) {
  std::vector<std::size_t> right(keys.size());
  std::iota(right.begin(), right.end(), std::size_t{0});
  std::stable_sort(right.begin(), right.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  right.resize(static_cast<std::size_t>(wanted));
  std::sort(right.begin(), right.end());
  std::vector<std::int64_t> out(static_cast<std::size_t>(wanted) * Group::kPerBlock, -1), placed(Group::kPerBlock, -1);
  const std::uint64_t words[] = {reinterpret_cast<std::uint64_t>(keys.data()), keys.size(),
                                 static_cast<std::uint64_t>(wanted), static_cast<std::uint64_t>(bits),
                                 reinterpret_cast<std::uint64_t>(out.data()),
                                 reinterpret_cast<std::uint64_t>(placed.data())};
  const char* error =
      cuda_host::launch(&choose<Group>, words, 6, 1, Group::kThreads * Group::kPerBlock, seed);
  if (error != nullptr) return std::puts(error), 1;
  for (std::size_t row = 0; row < placed.size(); ++row) {
    if (placed[row] != wanted) return std::puts("another number"), 1;
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (out[row * right.size() + i] != static_cast<std::int64_t>(right[i])) return std::puts("another key"), 1;
    }
  }
  return 0;
}

int main() {
  std::mt19937_64 random(5);
  int failed = 0;
  for (std::uint64_t round = 0; round < 300 && failed == 0; ++round) {
    std::vector<std::uint64_t> keys(1 + random() % 700);
    const std::uint64_t kinds[] = {~std::uint64_t{0}, 3, 255, std::uint64_t{1} << 20};
    const std::uint64_t mask = kinds[round % 4];
    const int shift = mask == 3 && round % 8 > 3 ? 62 : 0;
    for (std::uint64_t& key : keys) key = (mask + 1 == 0 ? random() : random() % (mask + 1)) << shift;
    if (round % 5 == 0) std::fill(keys.begin(), keys.end(), ~std::uint64_t{0});
    const auto wanted = static_cast<std::int64_t>(1 + random() % keys.size());
    const auto bits = static_cast<std::int64_t>(random() % 57);
    if (shift == 0 && mask + 1 != 0 && bits < 8) continue;
    if (mask + 1 == 0 && bits < 44) continue;
    failed += check<WarpGroup>(keys, wanted, shift == 62 || round % 5 == 0 ? 56 : bits, round);
    failed += check<BlockGroup>(keys, wanted, shift == 62 || round % 5 == 0 ? 56 : bits, round);
  }
  std::puts(failed == 0 ? "right" : "wrong");
}
"""


@pytest.mark.slow
def test_it_chooses_what_sorting_chooses(tmp_path):
    (tmp_path / "main.cpp").write_text(MAIN)
    flags = ["-std=c++17", "-O1", f"-I{HERE}", f"-I{KERNELS}", f"-I{NATIVE}"]
    files = [str(tmp_path / "main.cpp"), str(HERE / "cuda_host.cpp")]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(["g++", *flags, *files, "-o", str(tmp_path / "run")], check=True, env=environment)
    run = subprocess.run([tmp_path / "run"], capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert run.stdout.split() == ["right"], run.stdout + run.stderr
