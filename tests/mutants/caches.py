"""Faults in caches: what is held, what is outdated, who makes room, what is counted."""

from __future__ import annotations

from mutants.mutant import Mutant

_MODEL = "tests/ops/cache/test_cache_model.py::"
_CACHED = "tests/behaviour/storage/test_cached_feature.py::"
_FORKED = "tests/ops/cache/test_forked_cache.py::"
_NEXT = "tests/ops/cache/test_next_uses.py::"
_LONG = _MODEL + "test_agrees_with_the_model_on_long_skewed_traces"

CACHES = (
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "    if (slots_[released[i]].is_outdated) empty(released[i]);",
        "    slots_[released[i]].is_outdated = false;",
        _MODEL + "test_what_was_outdated_while_it_was_read_is_not_found",
    ),
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "slot.is_outdated |= !filled;",
        "",
        _MODEL + "test_rows_of_a_read_that_failed_are_not_found",
    ),
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "slots_[slot].state != State::kReady || slots_[slot].is_outdated",
        "slots_[slot].state != State::kReady",
        _MODEL + "test_what_was_outdated_while_it_was_read_is_not_found",
    ),
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "slot_of_miss[slots_[slot].miss] = kNoSlot;",
        "",
        _MODEL + "test_agrees_with_the_model",
    ),
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "if (forks_ != num_forks()) begin_anew();",
        "",
        _FORKED + "test_nothing_is_held_found_expected_or_counted_in_the_child",
    ),
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "if (lookup.forks != num_forks()) return;",
        "",
        _FORKED + "test_nothing_is_held_found_expected_or_counted_in_the_child",
    ),
    Mutant(
        "ops/native/core/forks.hpp",
        "if (one->forks == num_forks()) return one->shared;",
        "if (true) return one->shared;",
        _FORKED + "test_a_look_up_in_another_thread_does_not_stop_the_child",
    ),
    Mutant(
        "ops/native/core/forks.hpp",
        "  ProcessMutex making_;",
        "  struct Plain {\n    std::mutex one;\n    std::mutex& get() { return one; }\n  } making_;",
        "tests/ops/sampling/test_forked_tables.py::test_the_first_call_in_another_thread_does_not_stop_the_child",
    ),
    Mutant(
        "ops/native/core/thread_pool.cpp",
        "if (num_threads_ > num_needed()) break;",
        "",
        "tests/ops/core/test_thread_pool.py::test_threads_that_one_call_alone_asked_for_end",
    ),
    Mutant(
        "ops/forks.py",
        "self._of_process.get(os.getpid())",
        "next(iter(self._of_process.values()), None)",
        "tests/ops/core/test_forks.py::test_a_lock_that_a_thread_holds_is_open_in_the_child",
    ),
    Mutant(
        "ops/native/cache/slot_table.hpp",
        "if (from_home < ((i - hole) & mask)) continue;",
        "",
        _LONG,
    ),
    Mutant(
        "ops/native/cache/lru.hpp",
        "while (holds_.of(used_.front) != 0) links_.move_to_back(used_, used_.front);",
        "",
        "tests/ops/cache/test_cache_model.py::test_what_a_read_holds_lets_others_make_room",
    ),
    Mutant(
        "ops/native/cache/sieve.hpp",
        "if (hand_ == slot) hand_ = links_.next(slot);",
        "",
        _MODEL + "test_rows_that_are_invalidated_leave_the_order_as_the_model_has_it[3-sieve]",
    ),
    Mutant(
        "ops/native/cache/s3_fifo.hpp",
        "if (row.uses > 1) {",
        "if (row.uses > 0) {",
        _LONG,
    ),
    Mutant(
        "ops/native/cache/look_ahead.cpp",
        ": kNumLevels + (reads_.end() - 1 - row.next.read);",
        ": kNumLevels + (row.next.read - reads_.first());",
        _LONG,
    ),
    Mutant(
        "ops/native/cache/look_ahead.cpp",
        "for (; worst_ < own_rank; ++worst_) {",
        "for (; worst_ <= own_rank; ++worst_) {",
        _LONG,
    ),
    Mutant(
        "ops/native/cache/cache_index.cpp",
        "policy_->bypass(own, position);",
        "",
        _NEXT + "test_of_several_later_uses_the_nearest_is_known",
    ),
    Mutant(
        "ops/native/cache/look_ahead.cpp",
        "reads_.has(next.read) ? reads_.after(next) : reads_.last(table_.id_in(slots[i]));",
        "reads_.after(next);",
        _NEXT + "test_the_next_read_is_given_up_while_the_row_is_held",
    ),
    Mutant(
        "pipeline/storage/cached_feature.py",
        "midway\n                self._index.invalidate(places)",
        "midway\n                pass",
        _CACHED + "test_what_is_read_while_the_source_is_being_updated_does_not_stay",
    ),
    Mutant(
        "pipeline/storage/cached_feature.py",
        "hits = num_ids - len(lookup.miss_ids)",
        "hits = len(lookup.hit_slots)",
        _CACHED + "test_reads_are_plain_indexing_and_counts_are_exact",
    ),
    Mutant(
        "pipeline/storage/cached_feature.py",
        "return source.row_bytes + (8 if isinstance(policy, CachePolicy) else SLOT_BYTES[policy])",
        "return source.row_bytes + 1",
        "tests/behaviour/storage/test_cache_budget.py::test_rows_of_a_budget_count_what_finds_them",
    ),
    Mutant(
        "pipeline/storage/cached_store.py",
        "room = budget // sum(costs[i + 1 :])",
        "pass",
        "tests/behaviour/storage/test_cached_store.py::test_small_features_leave_what_they_do_not_need_to_the_others",
    ),
)
