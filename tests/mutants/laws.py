"""Faults in the compiled samplers: what is picked, by which random numbers, with which weights.

Those in vector code need an x86-64 processor with AVX2.
"""

from __future__ import annotations

from mutants.mutant import Mutant

_WIDE = "tests/ops/core/test_wide_ids.py::"
_SEGMENTS = "tests/ops/sampling/test_segments.py::"
_TREES = "tests/ops/sampling/test_trees.py::"
_TEMPORAL = "tests/behaviour/stages/test_temporal.py::"
_LAW = "tests/ops/sampling/test_sample_law.py::"
_WEIGHTED = "tests/ops/sampling/test_weighted_picks.py::test_picks_are_those_of_the_reference"
_PARTS = "tests/ops/sampling/test_layer_reducer.py::"

LAWS = (
    Mutant(
        "ops/native/sampling/parallel_edges.hpp",
        "numbers_[i++] = repeat.number;",
        "numbers_[i++] = 0;",
        "tests/ops/sampling/test_parallel_edges.py::test_one_of_three_edges_from_two_sources",
    ),
    # Variates: all of an id and of a variate counts.
    Mutant(
        "ops/native/random/labor_variates.cpp",
        "c1[v] = _mm256_srli_epi64(c0[v], 32);",
        "c1[v] = _mm256_setzero_si256();",
        _WIDE + "test_hops_equal_the_reference",
    ),
    Mutant(
        "ops/native/sampling/labor_scan.cpp",
        "__m256i c1[2] = {_mm256_srli_epi64(front, 32), _mm256_srli_epi64(back, 32)};",
        "__m256i c1[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};",
        _WIDE + "test_hops_equal_the_reference",
    ),
    Mutant(
        "ops/native/sampling/labor_scan.cpp",
        "num_kept += high[i] <= largest ? 1 : 0;",
        "num_kept += high[i] < largest ? 1 : 0;",
        "tests/ops/sampling/test_labor_scan.py::test_long_rows_select_instead_of_counting",
    ),
    Mutant(
        "ops/native/sampling/pick_labor.hpp",
        "|| scan_.variate(row, i) <= largest ? 1 : 0;",
        "|| scan_.high(i) == largest_high ? 1 : 0;",
        _WIDE + "test_a_threshold_is_compared_by_all_64_bits",
    ),
    Mutant(
        "ops/native/sampling/pick_labor.hpp",
        "if (scan_.keep(wanted) != wanted) return",
        "if (scan_.keep(wanted) == 0) return",
        _WIDE + "test_equal_high_words_are_told_apart_by_the_low_ones",
    ),
    Mutant(
        "ops/native/random/variate_keys.cpp",
        "turn.sine * normal_quantile(unit_interval(other))",
        "(1.0 - turn.cosine) * normal_quantile(unit_interval(other))",
        "tests/ops/random/test_dependency.py::test_a_batch_by_itself_is_uniform",
    ),
    Mutant(
        "ops/native/random/variate_keys.hpp",
        "if (keys.blends) keys.next_key = slot_key(keys.next_key, slot);",
        "",
        "tests/ops/sampling/test_blended_picks.py::test_hops_equal_the_reference",
    ),
    # Picks.
    Mutant(
        "ops/native/weighted/pick_labor_weighted.hpp",
        "ordered_bits(variate(positions[i]) / weights_[positions[i]])",
        "ordered_bits(variate(positions[i]))",
        _LAW + "test_weighted_labor_exact_picks_the_smallest_quotients",
    ),
    Mutant(
        "ops/native/weighted/pick_labor_weighted.hpp",
        "scale(positions, picked, total / fanout, weights);",
        "scale(positions, picked, 0.0, weights);",
        "tests/ops/sampling/test_designs.py::test_hajek",
    ),
    Mutant(
        "ops/native/weighted/pick_weighted.hpp",
        "4 * fanout_ + 16;",
        "4 * fanout_ + 18;",
        _WEIGHTED + "[cpu-10-one takes nearly all-False]",
    ),
    Mutant(
        "ops/native/weighted/pick_weighted.hpp",
        "negative_log(unit_interval(times[i])) / weight",
        "negative_log(unit_interval(times[i]))",
        _LAW + "test_weighted_picks_of_nearly_a_whole_row_follow_successive_draws",
    ),
    Mutant(
        "ops/native/weighted/pick_weighted.hpp",
        "if (picked_set_.insert(picked, position)) positions",
        "positions",
        _LAW + "test_weighted_picks_follow_successive_draws",
    ),
    Mutant(
        "ops/native/weighted/running_sums.hpp",
        "edge += sum <= target ? 1 : 0;",
        "edge += sum < target ? 1 : 0;",
        "tests/ops/sampling/test_picks.py::test_edges_of_weight_zero_are_not_drawn_among_the_smallest_doubles",
    ),
    Mutant(
        "ops/native/random/stream_words.cpp",
        "words[2 * (k - i) + 1];",
        "words[2 * (k - i)];",
        "tests/ops/sampling/test_weighted_picks.py::test_the_lower_half_of_a_variate_counts",
    ),
    Mutant(
        "ops/native/sampling/pick_uniform.hpp",
        "bounded(stream, last + 1)",
        "bounded(stream, last)",
        "tests/ops/sampling/test_picks.py::test_large_fanouts_use_another_duplicate_check",
    ),
    # What an element of a frontier may pick from, and under which stream.
    Mutant(
        "ops/native/sampling/segments.hpp",
        "std::upper_bound(first, first + row.degree, bound)",
        "std::lower_bound(first, first + row.degree, bound)",
        _SEGMENTS + "test_slots_and_bounds_equal_the_reference",
    ),
    Mutant(
        "ops/native/sampling/segments.hpp",
        "if (frontier_.bounds != nullptr) row.degree =",
        "if (frontier_.bounds != nullptr)",
        _TEMPORAL + "test_peers_14_equal_times_are_included",
    ),
    Mutant(
        "ops/native/sampling/segments.hpp",
        "std::lower_bound(first, first + row.degree, low)",
        "std::upper_bound(first, first + row.degree, low)",
        _SEGMENTS + "test_slots_and_bounds_equal_the_reference",
    ),
    Mutant(
        "ops/native/sampling/parallel_edges.hpp",
        "if (row.start == csc_.indptr[place] && is_in",
        "if (is_in",
        _TREES + "test_repeats_are_counted_from_where_a_window_begins",
    ),
    Mutant(
        "ops/native/sampling/hop.cpp",
        "if (call.frontier.lows != nullptr) graph.weights.sums = nullptr;",
        "",
        _TREES + "test_draws_by_weight_in_a_window",
    ),
    Mutant(
        "ops/native/sampling/fused_elements.hpp",
        "keys_.of(static_cast<std::int64_t>(chunk.neighbors[e]), slots_[first_dst + i])",
        "keys_.of(static_cast<std::int64_t>(chunk.neighbors[e]), 0)",
        _TREES + "test_trees_equal_the_reference",
    ),
    Mutant(
        "ops/native/sampling/pick_uniform.hpp",
        "take_all({row.start + static_cast<std::int64_t>(row.degree - count), count}, positions)",
        "take_all({row.start, count}, positions)",
        _TEMPORAL + "test_peers_14_last_is_the_most_recent",
    ),
    Mutant(
        "ops/native/graphs/row_order.cpp",
        "keys[a] != keys[b] ? keys[a] < keys[b] : a < b",
        "keys[a] != keys[b] ? keys[a] < keys[b] : a > b",
        "tests/ops/graphs/test_row_order.py::test_rows_are_in_order_and_equal_keys_in_theirs",
    ),
    Mutant(
        "ops/native/sampling/hop_loop.hpp",
        "while (end < num_dst && slots[end] == slots[begin]) ++end;",
        "end = num_dst;",
        _SEGMENTS + "test_a_node_picks_independently_in_each_slot",
    ),
    Mutant(
        "ops/native/sampling/hop.cpp",
        "if (!rule.by_weight) graph.weights = {};",
        "",
        _SEGMENTS + "test_a_rule_that_does_not_read_weights_is_not_given_any",
    ),
    # Layer-wise rules.
    Mutant(
        "ops/native/layerwise/labor_importance.cpp",
        "degree * (degree - fanout) / fanout;",
        "degree * degree / fanout;",
        "tests/ops/sampling/test_labor_importance.py::test_scales_solve_the_variance_equation",
    ),
    Mutant(
        "ops/native/layerwise/labor_importance.cpp",
        "if (!part_.is_whole()) part_.reducer().largest(largest);",
        "",
        _PARTS + "test_parts_solve_what_the_whole_solves",
    ),
    Mutant(
        "ops/native/layerwise/labor_importance.cpp",
        "part_.counts(t) ? 1.0 / next[t] : 0.0",
        "1.0 / next[t]",
        _PARTS + "test_parts_solve_what_the_whole_solves",
    ),
    Mutant(
        "ops/native/layerwise/ladies.cpp",
        "all.count += part.counts(t) ? 1 : 0;",
        "all.count += 1;",
        _PARTS + "test_parts_draw_what_the_whole_draws",
    ),
    Mutant(
        "ops/native/layerwise/ladies.cpp",
        "draw.inverse[t] = 1.0 / probability;",
        "draw.inverse[t] = 1.0;",
        "tests/ops/sampling/test_ladies.py::test_draw_equals_reference",
    ),
    # SAINT, walks, dropout.
    Mutant(
        "ops/native/walks/saint.cpp",
        "power == 2 ? inverse * inverse : inverse;",
        "power == 2 ? inverse : inverse;",
        "tests/ops/sampling/test_saint.py::test_laws_equal_exact_fractions",
    ),
    Mutant(
        "ops/native/walks/saint.cpp",
        "(pair.second + pair.both) / pair.both;",
        "(pair.first + pair.both) / pair.both;",
        "tests/ops/sampling/test_saint.py::test_weights_equal_exact_fractions",
    ),
    Mutant(
        "ops/native/walks/walk.cpp",
        "one.first < other.first;",
        "one.node < other.node;",
        "tests/ops/sampling/test_walk.py::test_ties_go_to_the_first_visited",
    ),
    Mutant(
        "ops/native/walks/walk.cpp",
        "ids == nullptr ? first + i :",
        "ids == nullptr ? i :",
        "tests/ops/sampling/test_walk.py::test_law_of_one_and_of_two_steps",
    ),
    Mutant(
        "ops/native/random/dropout.cpp",
        "static_cast<std::uint64_t>(ids[i]), 0, width",
        "static_cast<std::uint64_t>(i), 0, width",
        "tests/ops/random/test_dropout.py::test_equals_the_reference",
    ),
)
