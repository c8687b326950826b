"""Faults in the other compiled code: numbering, grouping by owner, copying rows, building graphs, bad input."""

from __future__ import annotations

from mutants.mutant import Mutant

_SAMPLE = "tests/ops/sampling/test_sample.py::"
_REFUSALS = "tests/ops/sampling/test_sample_refusals.py::"

KERNELS = (
    Mutant(
        "ops/native/random/shuffle.cpp",
        "bounded(words, i + 1)",
        "bounded(words, i)",
        "tests/ops/random/test_shuffle.py::test_long_lists_equal_reference",
    ),
    Mutant(
        "ops/native/sampling/join_hops.cpp",
        "if (static_cast<std::size_t>(places_[i]) >= num_known)",
        "if (static_cast<std::size_t>(places_[i]) > num_known)",
        "tests/ops/sampling/test_join_hops.py::test_many_rows",
    ),
    Mutant(
        "ops/native/graphs/csc.cpp",
        "std::max<std::size_t>(begin, 1)",
        "begin + 1",
        "tests/ops/graphs/test_csc.py::test_order_is_looked_for_where_parts_meet_too",
    ),
    Mutant(
        "ops/native/sampling/node_map.hpp",
        "next = first_ + std::uint64_t{count}; next",
        "next = first_ + std::uint64_t{count} - 1; next",
        "tests/ops/core/test_traps.py::test_the_last_node_of_a_call_is_forgotten_too",
    ),
    Mutant(
        "ops/native/sampling/compact.cpp",
        "NodeTable table(true);",
        "NodeTable table(false);",
        "tests/ops/core/test_wide_ids.py::test_the_table_compares_whole_ids",
    ),
    Mutant(
        "ops/native/sampling/node_map.hpp",
        "table_(num_nodes > std::uint64_t{1} << 32)",
        "table_(false)",
        "tests/ops/core/test_wide_ids.py::test_the_table_compares_whole_ids",
    ),
    Mutant(
        "ops/native/sampling/compact.cpp",
        'check_nodes("seen", seen, num_seen, num_nodes);',
        "",
        "tests/ops/sampling/test_compact.py::test_compactor_refuses_what_is_no_node",
    ),
    Mutant(
        "ops/native/sampling/fused_elements.hpp",
        "if (n_id_.size() == num_seeds) return;",
        "if (n_id_.size() != 0) return;",
        _REFUSALS + "test_refuses_bad_seeds_and_goes_on",
    ),
    Mutant(
        "ops/native/sampling/fused.cpp",
        "if (expand == Expand::kNew) first_dst = num_seen;",
        "if (expand == Expand::kNew) first_dst = 0;",
        _SAMPLE + "test_fused_equals_hop_and_compact[cpu-uniform-new-NeighborRule(fanout=10, replace=False)]",
    ),
    Mutant(
        "ops/native/core/hash_owner.hpp",
        "mixed ^= mixed >> 31;",
        "",
        "tests/ops/partition/test_owners.py::test_hash_owners",
    ),
    Mutant(
        "ops/native/partition/owners.cpp",
        "counts[part] += sum;",
        "counts[part] = sum;",
        "tests/ops/partition/test_owners.py::test_grouping",
    ),
    Mutant(
        "ops/native/features/gather.cpp",
        "static_cast<Unsigned>(id) >= source.num_rows;",
        "static_cast<Unsigned>(id) > source.num_rows;",
        "tests/ops/features/test_gather.py::test_refuses_ids_without_a_row_and_writes_nothing",
    ),
    Mutant(
        "ops/native/features/gather.cpp",
        "static_cast<std::uint64_t>(place) >= out.num_rows;",
        "static_cast<std::uint64_t>(place) > out.num_rows;",
        "tests/ops/features/test_gather.py::test_refuses_places_that_are_no_rows",
    ),
    Mutant(
        "ops/native/features/scatter.cpp",
        "to[j] += from[j];",
        "to[j] = from[j];",
        "tests/ops/features/test_scatter.py::test_equals_the_reference",
    ),
    Mutant(
        "ops/native/graphs/csc.cpp",
        "if (graph.indptr[v] <= graph.indptr[v + 1]) return;",
        "return;",
        "tests/ops/graphs/test_csc.py::test_check_csc_names_the_fault",
    ),
    Mutant(
        "ops/native/weighted/weights.cpp",
        "if (!(weight >= 0.0 && weight <= kLargest))",
        "if (weight < 0.0 || weight > kLargest)",
        _REFUSALS + "test_refuses_bad_weights",
    ),
    Mutant(
        "ops/native/partition/stream_partition.cpp",
        "static_cast<uint128>(count) * static_cast<std::uint64_t>(room);",
        "static_cast<uint128>(count);",
        "tests/ops/partition/test_partition.py::test_stream_equals_the_reference",
    ),
    Mutant(
        "ops/native/partition/stream_partition.cpp",
        "if (owner == kNowhere || source == node) continue;",
        "if (owner == kNowhere) continue;",
        "tests/ops/partition/test_partition.py::test_stream_equals_the_reference",
    ),
)
