"""Faults in the other compiled code: numbering, grouping by owner, copying rows, building graphs, bad input."""

from __future__ import annotations

from mutants.mutant import Mutant

_SAMPLE = "tests/ops/test_sample.py::"

KERNELS = (
    Mutant(
        "ops/native/fisher_yates.cpp",
        "static_cast<std::uint32_t>(i + 1))",
        "static_cast<std::uint32_t>(i))",
        "tests/ops/test_shuffle.py::test_long_lists_equal_reference",
    ),
    Mutant(
        "ops/native/join_hops.cpp",
        "if (static_cast<std::size_t>(places_[i]) >= num_known)",
        "if (static_cast<std::size_t>(places_[i]) > num_known)",
        "tests/ops/test_join_hops.py::test_many_rows",
    ),
    Mutant(
        "ops/native/csc.cpp",
        "std::max<std::size_t>(begin, 1)",
        "begin + 1",
        "tests/ops/test_csc.py::test_order_is_looked_for_where_parts_meet_too",
    ),
    Mutant(
        "ops/native/vertex_map.hpp",
        "next = first_ + std::uint64_t{count}; next",
        "next = first_ + std::uint64_t{count} - 1; next",
        "tests/ops/test_traps.py::test_the_last_vertex_of_a_call_is_forgotten_too",
    ),
    Mutant(
        "ops/native/compact.cpp",
        "VertexTable table(true);",
        "VertexTable table(false);",
        "tests/ops/test_wide_ids.py::test_the_table_compares_whole_ids",
    ),
    Mutant(
        "ops/native/vertex_map.hpp",
        "table_(num_vertices > std::uint64_t{1} << 32)",
        "table_(false)",
        "tests/ops/test_wide_ids.py::test_the_table_compares_whole_ids",
    ),
    Mutant(
        "ops/native/compactor.cpp",
        'check_vertices("seen", seen, num_seen, num_vertices);',
        "",
        "tests/ops/test_compact.py::test_compactor_refuses_what_is_no_vertex",
    ),
    Mutant(
        "ops/native/fused.cpp",
        "if (n_id.size() == num_seeds) return;",
        "if (n_id.size() != 0) return;",
        _SAMPLE + "test_refuses_bad_seeds_and_goes_on",
    ),
    Mutant(
        "ops/native/fused.cpp",
        "if (expand == Expand::kNew) first_dst = num_seen;",
        "if (expand == Expand::kNew) first_dst = 0;",
        _SAMPLE + "test_fused_equals_hop_and_compact[uniform-new-NeighborRule(fanout=10, replace=False)]",
    ),
    Mutant(
        "ops/native/owners.cpp",
        "mixed ^= mixed >> 31;",
        "",
        "tests/ops/test_owners.py::test_hash_owners",
    ),
    Mutant(
        "ops/native/owners.cpp",
        "counts[part] += sum;",
        "counts[part] = sum;",
        "tests/ops/test_owners.py::test_grouping",
    ),
    Mutant(
        "ops/native/gather.cpp",
        "static_cast<Unsigned>(id) >= source.num_rows;",
        "static_cast<Unsigned>(id) > source.num_rows;",
        "tests/ops/test_gather.py::test_refuses_ids_without_a_row_and_writes_nothing",
    ),
    Mutant(
        "ops/native/gather.cpp",
        "static_cast<std::uint64_t>(place) >= out.num_rows;",
        "static_cast<std::uint64_t>(place) > out.num_rows;",
        "tests/ops/test_gather.py::test_refuses_places_that_are_no_rows",
    ),
    Mutant(
        "ops/native/scatter.cpp",
        "to[j] += from[j];",
        "to[j] = from[j];",
        "tests/ops/test_scatter.py::test_equals_the_reference",
    ),
    Mutant(
        "ops/native/csc.cpp",
        "if (graph.indptr[v] <= graph.indptr[v + 1]) continue;",
        "continue;",
        "tests/ops/test_csc.py::test_check_csc_names_the_fault",
    ),
    Mutant(
        "ops/native/weights.cpp",
        "if (!(weight >= 0.0 && weight <= kLargest))",
        "if (weight < 0.0 || weight > kLargest)",
        _SAMPLE + "test_refuses_bad_weights",
    ),
    Mutant(
        "ops/native/stream_partition.cpp",
        "static_cast<uint128>(count) * static_cast<std::uint64_t>(room);",
        "static_cast<uint128>(count);",
        "tests/ops/test_partition.py::test_stream_equals_the_reference",
    ),
    Mutant(
        "ops/native/stream_partition.cpp",
        "if (owner == kNowhere || source == vertex) continue;",
        "if (owner == kNowhere) continue;",
        "tests/ops/test_partition.py::test_stream_equals_the_reference",
    ),
)
