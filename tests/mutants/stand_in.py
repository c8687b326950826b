"""Faults that a GPU would trip over: words, offsets, streams, lifetimes, lost updates, barriers."""

from __future__ import annotations

from mutants.mutant import Mutant

_ADDRESSES = "tests/cuda_host/test_addresses.py::"
_STREAMS = "tests/cuda_host/test_streams.py::"
_FAR = _ADDRESSES + "test_rows_beyond_four_gigabytes"
_KEPT = _STREAMS + "test_what_a_side_stream_keeps_is_recorded_where_others_use_it"

STAND_IN = (
    Mutant(
        "cuda/compile.py",
        '    "--fmad=false",\n',
        "",
        "tests/cuda_host/test_compile.py::test_numbers_are_rounded_as_by_the_cpu[attention.cu]",
    ),
    Mutant(
        "cuda/gpu.py",
        "stream = self._current_stream(self._index)",
        "stream = 0",
        "tests/cuda_host/test_launch.py::test_launches_take_words_and_few_blocks",
    ),
    Mutant(
        "cuda/rows.py",
        "_word(row_bytes, stride, source.data_ptr(), out.data_ptr())",
        "_word(row_bytes, stride)",
        _ADDRESSES + "test_tables_and_outputs_begin_anywhere",
    ),
    Mutant(
        "cuda/rows.py",
        "_word(row_bytes, out.data_ptr(), *(one.data_ptr() for one in tables.tensors))",
        "_word(row_bytes, out.data_ptr())",
        _ADDRESSES + "test_tables_and_outputs_begin_anywhere",
    ),
    Mutant(
        "cuda/cached_rows.py",
        "stride, cache.data_ptr(), source.data_ptr(), out.data_ptr(), 16)",
        "stride, source.data_ptr(), out.data_ptr(), 16)",
        _ADDRESSES + "test_caches_begin_anywhere",
    ),
    Mutant(
        "cuda/cached_rows.py",
        "size = math.gcd(row_bytes, cache.data_ptr(), rows.data_ptr(), 16)",
        "size = math.gcd(row_bytes, rows.data_ptr(), 16)",
        _ADDRESSES + "test_caches_begin_anywhere",
    ),
    Mutant(
        "cuda/kernels/gather.cu",
        "copy_row(source + static_cast<std::int64_t>(ids[i]) * stride,",
        "copy_row(source + static_cast<std::int32_t>(ids[i] * stride),",
        _FAR,
    ),
    Mutant(
        "cuda/kernels/gather.cu",
        "source[static_cast<std::int64_t>(ids[i]) * stride + word]",
        "source[static_cast<std::uint32_t>(ids[i] * stride + word)]",
        _FAR,
    ),
    Mutant(
        "cuda/kernels/gather.cu",
        "out[place * row_words + word]",
        "out[static_cast<std::uint32_t>(place * row_words + word)]",
        _FAR,
    ),
    Mutant(
        "cuda/kernels/gather.cu",
        "tables[table[i]] + row[i] * row_words",
        "tables[table[i]] + static_cast<std::uint32_t>(row[i] * row_words)",
        _FAR,
    ),
    Mutant(
        "cuda/kernels/gather_cached.cu",
        "cache + slot * row_words",
        "cache + static_cast<std::uint32_t>(slot * row_words)",
        _FAR,
    ),
    Mutant(
        "cuda/kernels/gather_cached.cu",
        "cache[slot * row_words + item % row_words]",
        "cache[static_cast<std::uint32_t>(slot * row_words + item % row_words)]",
        _FAR,
    ),
    Mutant(
        "pipeline/lowered/gpu/on_stream.py",
        "        use_here(kept_tensors(batch)",
        "        (kept_tensors(batch)",
        "tests/cuda_host/test_plans.py::test_batches_are_those_of_the_cpu[sampled there-neighbor]",
    ),
    Mutant("cuda/cache.py", "use_here((self.ids, self._used, self._next, self._counts))", "", _KEPT),
    Mutant("ops/cache/line_cache.py", "use_here([self._entries])", "", _KEPT),
    Mutant("pipeline/storage/rows_on_gpu.py", "use_here([self._rows])", "", _KEPT),
    Mutant(
        "pipeline/storage/rows_on_gpu.py",
        "use_here(one.ids for one in expected)",
        "",
        _STREAMS + "test_reads_to_come_are_recorded_where_they_are_used",
    ),
    Mutant(
        "cuda/streams.py",
        "tensor.record_stream(torch.cuda.current_stream(tensor.device))",
        "pass",
        _STREAMS + "test_memory_on_a_gpu_is_recorded_on_the_current_stream",
    ),
    Mutant(
        "cuda/gpu.py",
        "        cupy.cuda.nvrtc.getVersion()\n",
        "        pass\n",
        "tests/cuda_host/test_memory.py::test_without_a_compiler_of_kernels",
    ),
    Mutant(
        "cuda/pinned_ranges.py",
        "hostRegister(address, size, _PORTABLE | _MAPPED)",
        "hostRegister(address, size, _PORTABLE)",
        "tests/cuda_host/test_pinned_ranges.py::test_memory_is_pinned_and_unpinned_once",
    ),
    Mutant(
        "pipeline/lowered/_fetch_stage.py",
        "if id(ids) not in self._copies:",
        "if True:",
        "tests/cuda_host/test_unpinned.py::test_one_warning_and_one_wait_for_all_of_them",
    ),
    Mutant(
        "cuda/late.py",
        " if event.is_done() else None",
        "",
        _STREAMS + "test_numbers_are_not_read_before_they_are_there",
    ),
    Mutant(
        "cuda/kernels/compact.cu",
        "if (before == kFree) before = atomicCAS(words + 2 * slot, kFree, id);",
        "if (before == kFree) words[2 * slot] = id;",
        "tests/cuda_host/test_schedules.py::test_all_have_the_bits_of_the_cpu[compact, all new]",
    ),
    Mutant(
        "cuda/kernels/compact.cu",
        "atomicMin(table.place(slot), static_cast<std::uint64_t>(*num_seen + i));",
        "const auto own = static_cast<std::uint64_t>(*num_seen + i);\n"
        "    if (own < *table.place(slot)) *table.place(slot) = own;",
        "tests/cuda_host/test_schedules.py::test_all_have_the_bits_of_the_cpu[compact]",
    ),
    Mutant(
        "cuda/kernels/faults.cuh",
        "atomicMin(faults + kind, item);",
        "if (item < faults[kind]) faults[kind] = item;",
        "tests/cuda_host/test_schedules.py::test_the_first_fault_is_found",
    ),
    Mutant(
        "cuda/kernels/group.cuh",
        "{ __syncwarp(); }",
        "{}",
        "tests/cuda_host/test_smallest.py::test_it_chooses_what_sorting_chooses",
    ),
)
