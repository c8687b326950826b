"""Faults in conversions: order, numbers, memory, what is left out, and what a killed run leaves."""

from __future__ import annotations

from mutants.mutant import Mutant

_SAME = "tests/pipeline/convert/test_conversions.py::test_a_conversion_is_that_of_the_objects_themselves"
_POLICY = "tests/pipeline/convert/test_policies.py::"
_ADDED = "tests/pipeline/convert/test_added_edges.py::"
_RESUMED = "tests/pipeline/convert/test_resumed_conversions.py::"
_TEXTS = "tests/pipeline/convert/test_text_keys.py::"
_PARTS = "tests/behaviour/cli/test_partition_memory.py::"
_FORMATS = "tests/pipeline/convert/test_formats.py::"

CONVERT = (
    Mutant(
        "pipeline/convert/output.py",
        'counted.update(facts["counted"])',
        "pass",
        "tests/behaviour/convert/test_nothing_is_silent.py::"
        "test_labels_that_are_missing_are_counted_also_when_a_stopped_run_goes_on",
    ),
    Mutant(
        "pipeline/convert/memory.py",
        "if resident() > most:",
        "if resident() > most + (1 << 40):",
        "tests/pipeline/cli/test_partition_memory.py::test_pages_of_maps_are_let_go_above_the_limit",
    ),
    Mutant(
        "pipeline/storage/array_file.py",
        "                _MAPS[id(mapped.base)] = mapped.base\n",
        "                pass\n",
        "tests/pipeline/cli/test_partition_memory.py::test_pages_of_maps_are_let_go_above_the_limit",
    ),
    Mutant(
        "pipeline/cli/cut.py",
        "    if not options.dry_run:\n        write_shards",
        "    if True:\n        write_shards",
        _PARTS + "test_a_dry_run_writes_nothing",
    ),
    Mutant(
        "pipeline/convert/sort_edges.py",
        "is_sorted = last < int(column[0]) and bool((column[1:] > column[:-1]).all())",
        "is_sorted = bool((column[1:] > column[:-1]).all())",
        _SAME,
    ),
    Mutant("pipeline/convert/sort_edges.py", '            ends += done["edges"]\n', "", _SAME),
    Mutant(
        "pipeline/convert/unique_edges.py",
        'self.starts, ids, side="right") - 1',
        'self.starts, ids, side="left") * 0',
        "tests/behaviour/convert/test_added_edges.py::test_undirected_graphs_with_loops",
    ),
    Mutant(
        "pipeline/convert/unique_edges.py",
        "(added & ~added[firsts])",
        "added",
        "tests/behaviour/convert/test_added_edges.py::test_undirected_graphs_with_loops",
    ),
    Mutant(
        "pipeline/convert/graph_edges.py",
        "dropped.between(first + start, first + stop)",
        "dropped.between(start, stop)",
        _SAME,
    ),
    Mutant(
        "pipeline/convert/write_arrays.py",
        "one - dropped.num_below(one)",
        "one",
        "tests/behaviour/convert/test_added_edges.py::test_undirected_graphs_with_loops",
    ),
    Mutant("pipeline/convert/bit_set.py", "start & 7 : (start & 7)", "0 : 0", _ADDED + "test_sets_of_bits"),
    Mutant(
        "pipeline/convert/unique_edges.py",
        "self._seen.add(unique)",
        "pass",
        _ADDED + "test_repeats_are_counted_in_any_memory",
    ),
    Mutant(
        "pipeline/convert/unique_edges.py",
        "elif added:",
        "else:",
        _ADDED + "test_edges_go_in_any_memory",
    ),
    Mutant(
        "pipeline/convert/csv_table.py",
        "str(int(text)) == text",
        "True",
        "tests/pipeline/convert/test_id_columns.py::test_an_id_behind_the_first_rows_that_is_no_integer_is_refused",
    ),
    Mutant(
        "pipeline/convert/integer_keys.py",
        "keys[1:] == keys[:-1]",
        "keys[1:] < keys[:-1]",
        "tests/behaviour/convert/test_policies.py::test_ids_are_there_once_and_not_null",
    ),
    Mutant(
        "pipeline/convert/edge_ends.py",
        "int(found.max(initial=-1))",
        "int(found[kept].max(initial=-1))",
        "tests/behaviour/convert/test_policies.py::test_a_graph_without_types_with_reverse_edges_and_without_repeats",
    ),
    Mutant(
        "pipeline/convert/edge_ends.py",
        "first, side = min(firsts)",
        "first, side = firsts[0]",
        "tests/behaviour/convert/test_policies.py::test_unknown_nodes_are_created_behind_the_others",
    ),
    Mutant(
        "pipeline/convert/text_parts.py",
        "hash(id) %",
        "row %",
        _TEXTS + "test_bytes_do_not_depend_on_parts",
    ),
    Mutant(
        "pipeline/convert/text_keys.py",
        'ordered[some["row"] - place * part_rows] = some["node"]',
        'ordered[: len(some)] = some["node"]',
        _TEXTS + "test_bytes_do_not_depend_on_threads_or_memory",
    ),
    Mutant(
        "pipeline/convert/duck_database.py",
        "raise wrapped.fault from None",
        "raise",
        _TEXTS + "test_a_fault_of_a_table_keeps_its_kind_behind_duckdb",
    ),
    Mutant(
        "pipeline/convert/work_folder.py",
        'if not line.endswith("\\n"):\n                    break',
        "if not line:\n                    break",
        _RESUMED + "test_passes_that_are_finished_are_not_run_again",
    ),
    Mutant(
        "pipeline/convert/work_folder.py",
        'lines[0] != {"fingerprint": fingerprint}',
        "not lines[0]",
        "tests/behaviour/convert/test_resumed_conversions.py::test_another_description_begins_anew",
    ),
    Mutant(
        "pipeline/convert/conversion.py",
        "            self._check()\n",
        "",
        "tests/behaviour/convert/test_resumed_conversions.py::test_files_that_change_while_they_are_read_are_refused",
    ),
    Mutant(
        "pipeline/convert/files.py",
        "int(part) if place % 2 else part",
        "part",
        _FORMATS + "test_natural_order_of_files",
    ),
)
