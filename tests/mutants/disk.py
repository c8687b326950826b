"""Faults in reading rows of files: what is merged, what is copied, short reads, errors, files that change."""

from __future__ import annotations

from mutants.mutant import Mutant

_ROWS = "tests/ops/features/test_disk_rows.py::"
_FEATURE = "tests/behaviour/storage/test_disk_feature.py::"

DISK = (
    Mutant(
        "ops/native/disk/read_plan.cpp",
        "next - end <= gap_bytes;",
        "next - end < gap_bytes;",
        _ROWS + "test_near_and_repeated_rows_are_one_read[threads]",
    ),
    Mutant(
        "ops/native/disk/read_plan.cpp",
        "next_end - begin > kMostRangeBytes",
        "false",
        _ROWS + "test_a_read_is_not_longer_than_a_quarter_of_a_megabyte[threads]",
    ),
    Mutant(
        "ops/native/disk/range_read.cpp",
        "if (done_ < range_->needed) return false;",
        "",
        _FEATURE + "test_short_interrupted_and_failing_reads",
    ),
    Mutant(
        "ops/native/disk/range_read.cpp",
        "if (reached <= done_) call_->file.throw_truncated(first_missing_row());",
        "if (reached <= done_) return true;",
        _ROWS + "test_a_truncated_file_is_an_error_that_names_the_first_row_that_is_gone[threads-False]",
    ),
    Mutant(
        "ops/native/disk/range_read.cpp",
        "if (outcome == -EINTR || outcome == -EAGAIN) return false;",
        "",
        _FEATURE + "test_short_interrupted_and_failing_reads",
    ),
    Mutant(
        "ops/native/disk/disk_reader.cpp",
        "file_.check_unchanged();",
        "",
        _ROWS + "test_a_file_that_was_written_to_is_refused[threads]",
    ),
    Mutant(
        "ops/native/disk/disk_reader.cpp",
        "!failure_ || slot.number < failed_",
        "!failure_ || slot.number > failed_",
        _ROWS + "test_a_truncated_file_is_an_error_that_names_the_first_row_that_is_gone[io_uring-False]",
    ),
    Mutant(
        "ops/native/disk/io_uring.cpp",
        "if (++num_refused_ > kTries) {",
        "if (false) {",
        "tests/ops/features/test_refusing_kernel.py::test_a_kernel_that_refuses_for_a_while_is_asked_less_and_less_often",
    ),
    Mutant(
        "ops/native/disk/row_file.cpp",
        "open(there.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);",
        "fcntl(descriptor, F_DUPFD_CLOEXEC, 0);",
        _ROWS + "test_the_descriptor_of_the_caller_stays_as_it_is[threads-False]",
    ),
    Mutant(
        "pipeline/storage/disk_feature.py",
        "if self._identity != expected:",
        "if False:",
        _FEATURE + "test_the_file_that_was_opened_is_read_on_when_another_takes_its_name",
    ),
    Mutant(
        "pipeline/storage/graph_files.py",
        "if name in names or (name in NOT_FEATURES",
        "if name or (name in NOT_FEATURES",
        "tests/behaviour/cli/test_command_line.py::test_arrays_of_edges_are_taken_over_and_others_named",
    ),
    Mutant(
        "pipeline/storage/dataset/reordered.py",
        "FeatureStore(node, dict(store.edge))",
        "FeatureStore(node)",
        "tests/behaviour/cli/test_command_line.py::test_arrays_of_edges_are_taken_over_and_others_named",
    ),
    Mutant(
        "pipeline/storage/parts/partition_dataset.py",
        "    check_kind(partition, (Partition, EdgePartition), expected, advice, InputError)\n",
        "",
        "tests/behaviour/storage/parts/test_arguments_of_parts.py::test_other_kinds",
    ),
)
