"""Faults in what notices writes between a read and its batch."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/behaviour/run/test_written_sources.py::"
_COPIES = "tests/behaviour/run/test_written_copies.py::"
_TABLES = "tests/behaviour/run/test_written_tables.py::"

WRITTEN = (
    Mutant(
        "pipeline/stages/item_source.py",
        "        for one in self._kept:\n            one.check_version()\n",
        "",
        "tests/behaviour/run/test_written_items.py::test_torch_s_writes_are_refused_with_the_next_batch[time]",
    ),
    Mutant(
        "pipeline/storage/reordering.py",
        " or self._copied.were_written()",
        "",
        "tests/behaviour/run/test_written_items.py::"
        "test_rows_written_since_they_were_copied_in_another_order_are_refused[True-data]",
    ),
    Mutant(
        "pipeline/run/hand_over.py",
        "if note.reading.versions() != note.versions:",
        "if False:",
        _FILE + "test_writes_that_torch_counts_are_seen[whole]",
    ),
    Mutant(
        "pipeline/run/hand_over.py",
        "if self._may_change and _contents(note.batch) != note.contents:",
        "if False:",
        _FILE + "test_a_transform_that_changes_what_it_is_given_is_refused",
    ),
    Mutant(
        "pipeline/run/hand_over.py",
        "self._source.batch_at(stale.epoch, stale.index)",
        "self._source.batch_at(stale.epoch, 0)",
        _FILE + "test_labels_and_times_of_items[False]",
    ),
    Mutant(
        "pipeline/storage/reads_ahead.py",
        "if self._version != self._source.version:",
        "if False:",
        _FILE + "test_rows_that_several_batches_share[one core]",
    ),
    Mutant(
        "pipeline/storage/tiered_feature.py",
        "if self._tables is not None and self.version != self._seen:",
        "if False:",
        _FILE + "test_copies_in_tiers_and_at_other_ranks_are_refused",
    ),
    Mutant(
        "pipeline/storage/sharded_feature.py",
        "if self._copied and self.version != self._seen:",
        "if False:",
        _FILE + "test_copies_in_tiers_and_at_other_ranks_are_refused",
    ),
    Mutant(
        "pipeline/storage/gpu_cached_feature.py",
        "            self._forget_written()\n",
        "",
        "tests/cuda_host/test_gpu_cached_feature.py::test_writes_past_update_are_seen",
    ),
    Mutant(
        "pipeline/storage/cached_feature.py",
        "if self._copied.were_written():",
        "if False:",
        _COPIES + "test_caches_are_emptied[sieve-1]",
    ),
    Mutant(
        "pipeline/storage/cached_feature.py",
        "            self._copied.mark()\n",
        "            pass\n",
        _COPIES + "test_caches_are_emptied[sieve-1]",
    ),
    Mutant(
        "pipeline/storage/gpu_cached_feature.py",
        "        with self._reading.held():\n            self._forget_all()",
        "        pass",
        "tests/cuda_host/test_gpu_cached_feature.py::test_writes_that_nobody_counts_are_seen_when_an_iteration_begins",
    ),
    Mutant(
        "pipeline/storage/tiered_feature.py",
        "if self._were_written or self._copied.were_written():",
        "if False:",
        _COPIES + "test_tiers_and_copies_at_other_ranks_refuse",
    ),
    Mutant(
        "pipeline/storage/disk_feature.py",
        'read(torch.zeros(min(self.num_rows, 1), dtype=torch.int64, device="cpu"))',
        'read(torch.zeros(0, dtype=torch.int64, device="cpu"))',
        _COPIES + "test_files_on_disk[True]",
    ),
    Mutant(
        "pipeline/stages/item_sampler.py",
        "            self.keep_seen(mask)\n",
        "            pass\n",
        _COPIES + "test_masks_of_items",
    ),
    Mutant(
        "pipeline/data/times.py",
        "        seen.check_version()\n",
        "        seen.array\n",
        _TABLES + "test_writes_in_the_middle_of_an_epoch[times of edges-1-copy_]",
    ),
    Mutant(
        "pipeline/data/seen.py",
        "if content_mark(self.array, self._whole_below) != self._mark:",
        "if False:",
        _TABLES + "test_writes_in_the_middle_of_an_epoch[times of edges-1-NumPy]",
    ),
    Mutant(
        "pipeline/run/iteration.py",
        "        self._ended()\n",
        "",
        _TABLES + "test_writes_in_the_middle_of_an_epoch[times of edges-1-NumPy]",
    ),
    Mutant(
        "pipeline/run/loader.py",
        "        self._tables.check_begin(self._fail)\n",
        "",
        _TABLES + "test_writes_between_making_a_loader_and_an_epoch[times of edges-1-NumPy]",
    ),
    Mutant(
        "pipeline/stages/uniform_negative.py",
        "        self.keep_seen(argument(self.name, name, array))\n",
        "",
        _TABLES + "test_writes_in_the_middle_of_an_epoch[node_weight-1-NumPy]",
    ),
    Mutant(
        "pipeline/data/shared_memory.py",
        "            seen.move(copies[id(seen.array)])\n",
        "            seen.array\n",
        _TABLES + "test_a_graph_that_moves_to_shared_memory_is_watched_there",
    ),
)
