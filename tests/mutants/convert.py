"""Faults in conversions: order, numbers, memory, what is left out, and what a killed run leaves."""

from __future__ import annotations

from mutants.mutant import Mutant

_RESUMED = "tests/pipeline/convert/test_resumed_conversions.py::"
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
        "    if not options.dry_run:\n        write_parts",
        "    if True:\n        write_parts",
        _PARTS + "test_a_dry_run_writes_nothing",
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
    Mutant(
        "pipeline/convert/ids.py",
        "row_number() OVER (ORDER BY key) - 1",
        "row_number() OVER (ORDER BY key DESC) - 1",
        "tests/behaviour/convert/test_ids.py::test_empty_texts_and_nulls",
    ),
    Mutant(
        "pipeline/convert/ids.py",
        "(SELECT DISTINCT key FROM seen)",
        "seen",
        "tests/pipeline/convert/test_any_memory.py::test_bytes_do_not_depend_on_threads_memory_or_batches[texts]",
    ),
    Mutant(
        "pipeline/convert/fed_rows.py",
        "            yield more\n",
        "",
        "tests/pipeline/convert/test_any_memory.py::test_bytes_do_not_depend_on_threads_memory_or_batches[texts]",
    ),
    Mutant(
        "pipeline/convert/ids.py",
        "HAVING count(*) > 1 ORDER BY min(node) LIMIT 1",
        "HAVING count(*) > 2 ORDER BY min(node) LIMIT 1",
        "tests/behaviour/convert/test_policies.py::test_ids_are_there_once_and_not_null",
    ),
    Mutant(
        "pipeline/convert/ids.py",
        "SELECT bool_and(key = node)",
        "SELECT bool_or(key = node)",
        "tests/behaviour/convert/test_policies.py::test_ids_with_gaps_are_no_numbers_of_nodes",
    ),
    Mutant(
        "pipeline/convert/ends.py",
        "i.{column} >= 0 AND i.{column} < {ids.num_nodes}",
        "i.{column} >= 0",
        "tests/behaviour/convert/test_without_database.py::test_what_is_wrong_is_refused_in_the_same_words",
    ),
    Mutant(
        "pipeline/convert/ends.py",
        "WHERE src IS NULL OR dst IS NULL ORDER BY row LIMIT 1",
        "WHERE src IS NULL OR dst IS NULL ORDER BY row DESC LIMIT 1",
        "tests/behaviour/convert/test_policies.py::test_unknown_nodes_are_created_behind_the_others",
    ),
    Mutant(
        "pipeline/convert/ends.py",
        'f"coalesce(max(src), -1), coalesce(max(dst), -1) FROM {rows}"',
        'f"coalesce(max(src), -1), coalesce(max(dst), -1) FROM {rows} WHERE {stays}"',
        "tests/behaviour/convert/test_policies.py::test_null_ends_are_unknown",
    ),
    Mutant(
        "pipeline/convert/ends.py",
        "is_whole = kept == total and not is_part",
        "is_whole = kept == total",
        "tests/behaviour/convert/test_relations.py::test_each_relation_is_an_edge_type",
    ),
    Mutant(
        "pipeline/convert/ends.py",
        "coalesce(lower(i.split) IN ({names}), false)",
        "lower(i.split) IN ({names})",
        "tests/behaviour/convert/test_held_out.py::test_held_out_links_are_items_alone",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "SELECT min(edge) AS first{of_sums}",
        "SELECT max(edge) AS first{of_sums}",
        "tests/behaviour/convert/test_policies.py::test_a_graph_without_types_with_reverse_edges_and_without_repeats",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "ORDER BY dst, edge",
        "ORDER BY dst, src",
        "tests/behaviour/convert/test_policies.py::test_keys_without_a_table_of_nodes_are_in_ascending_order",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "WHERE y.src = x.dst AND y.dst = x.src",
        "WHERE y.src = x.dst",
        "tests/behaviour/convert/test_added_edges.py::test_undirected_graphs_with_loops",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "WHERE y.src = node AND y.dst = node",
        "WHERE y.src = node",
        "tests/behaviour/convert/test_added_edges.py::test_undirected_graphs_with_loops",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        'f"edge + {first} AS edge", *values]',
        '"edge", *values]',
        "tests/behaviour/convert/test_policies.py::test_a_graph_without_types_with_reverse_edges_and_without_repeats",
    ),
    Mutant(
        "pipeline/convert/sorted_edges.py",
        'np.searchsorted(dst, np.arange(self._node, last), side="right")',
        'np.searchsorted(dst, np.arange(self._node, last), side="left")',
        "tests/behaviour/convert/test_policies.py::test_node_numbers_without_a_table_of_nodes",
    ),
    Mutant(
        "pipeline/convert/sorted_edges.py",
        "self._seen = [None] * self._num_kinds\n            self._add_to_open",
        "self._add_to_open",
        "tests/pipeline/convert/test_any_memory.py::test_repeats_and_rows_wherever_batches_end",
    ),
    Mutant(
        "pipeline/convert/sorted_edges.py",
        "new = fresh[(self._bits[fresh >> 3]",
        "new = fresh[0 * (self._bits[fresh >> 3]",
        "tests/pipeline/convert/test_any_memory.py::test_repeats_and_rows_wherever_batches_end",
    ),
    Mutant(
        "pipeline/convert/graph_arrays.py",
        "            start += len(edge)\n",
        "            start = len(edge)\n",
        "tests/pipeline/convert/test_any_memory.py::test_edges_in_their_order_have_no_numbers_wherever_batches_end",
    ),
    Mutant(
        "pipeline/convert/database.py",
        "raise self._fault from None",
        "raise",
        "tests/behaviour/convert/test_refusals.py::test_descriptions",
    ),
    Mutant(
        "pipeline/convert/external_ids.py",
        "offsets[1:] - offsets[0] + end",
        "offsets[1:] - offsets[0]",
        "tests/pipeline/convert/test_any_memory.py::test_bytes_do_not_depend_on_threads_memory_or_batches",
    ),
    Mutant(
        "pipeline/convert/external_ids.py",
        "SELECT node FROM {self._keys} ORDER BY key",
        "SELECT node FROM {self._keys} ORDER BY node",
        "tests/behaviour/convert/test_conversions.py::test_a_conversion_is_that_of_the_objects_themselves",
    ),
    Mutant(
        "pipeline/convert/fed_rows.py",
        "(whole != np.floor(whole)) | ",
        "",
        "tests/behaviour/convert/test_without_database.py::test_what_is_wrong_is_refused_in_the_same_words",
    ),
    Mutant(
        "pipeline/convert/relations.py",
        "return sorted(found)",
        "return sorted(found)[::-1]",
        "tests/behaviour/convert/test_relations.py::test_each_relation_is_an_edge_type",
    ),
    Mutant(
        "pipeline/convert/formats/folder_keys.py",
        "len(set(map(int, there))) == len(set(there))",
        "True",
        "tests/behaviour/convert/test_files.py::test_keys_that_differ_by_zeros_are_two",
    ),
    Mutant(
        "pipeline/convert/iso_times.py",
        "pc.if_else(has_zone, None, texts)",
        "pc.if_else(has_zone, texts, texts)",
        "tests/behaviour/convert/test_iso_times.py::test_dates_and_datetimes_in_csv",
    ),
    Mutant(
        "pipeline/convert/iso_times.py",
        'return "ns" if any(map(_TOO_FINE.search, there)) else "us"',
        'return "us"',
        "tests/behaviour/convert/test_iso_times.py::test_nine_digits_of_a_second_are_nanoseconds",
    ),
    Mutant(
        "pipeline/convert/work_folder.py",
        "if not _is_ours(path):",
        "if False:",
        "tests/behaviour/convert/test_resumed_conversions.py::test_a_folder_that_no_conversion_has_made_is_left_alone",
    ),
    Mutant(
        "pipeline/convert/in_memory.py",
        "(False if num_nodes is None else ids >= num_nodes)",
        "(False)",
        "tests/behaviour/convert/test_without_database.py::test_what_is_wrong_is_refused_in_the_same_words",
    ),
    Mutant(
        "pipeline/convert/ends.py",
        "(is_end[0] & is_end[1]).sum()",
        "(is_end[0] | is_end[1]).sum()",
        "tests/behaviour/convert/test_nothing_is_silent.py::test_keys_of_both_columns_that_become_one_node_are_counted",
    ),
    Mutant(
        "pipeline/convert/csv_values.py",
        "str(int(text)) == text",
        "True",
        "tests/behaviour/convert/test_ids.py::test_an_id_behind_the_first_rows_that_is_no_integer_is_refused",
    ),
    Mutant(
        "pipeline/convert/csv_text.py",
        "if not self._is_quoted and line.startswith(comment):",
        "if line.startswith(comment):",
        "tests/behaviour/convert/test_odd_csv.py::test_comments_are_none_inside_quotes",
    ),
    Mutant(
        "pipeline/convert/csv_table.py",
        "skip_rows=self._lines_before[path],",
        "skip_rows=self._skip + self._has_header,",
        "tests/behaviour/convert/test_odd_csv.py::test_lines_around_a_header_are_no_rows",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "sum(weight ORDER BY edge)",
        "max(weight ORDER BY edge)",
        "tests/behaviour/convert/test_repeats.py::test_weights_are_summed_into_the_first_edge",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "if stay < one.num_edges or has_sums:",
        "if stay < one.num_edges:",
        "tests/behaviour/convert/test_repeats.py::test_sums_over_several_tables_of_a_type",
    ),
    Mutant(
        "pipeline/convert/edges.py",
        "FROM sums WHERE weight > {most}",
        "FROM sums WHERE weight > 2 * {most}",
        "tests/behaviour/convert/test_repeats.py::test_sums_that_their_type_has_not",
    ),
    Mutant(
        "pipeline/convert/ids.py",
        "ANTI JOIN firsts ON first = node",
        "SEMI JOIN firsts ON first = node",
        "tests/behaviour/convert/test_repeats.py::test_the_first_row_of_each_id_stays",
    ),
    Mutant(
        "pipeline/convert/formats/other_rows.py",
        "return self._table.where(start + int(stays[left]))",
        "return self._table.where(start + left)",
        "tests/behaviour/convert/test_repeats.py::test_errors_name_the_row_as_it_stands_in_the_file",
    ),
    Mutant(
        "pipeline/convert/csv_table.py",
        "return column in self._are_null",
        "return False",
        "tests/behaviour/convert/test_empty_columns.py::test_attributes_have_the_dtype_of_others",
    ),
    Mutant(
        "pipeline/convert/iso_times.py",
        "if own != unit and (own or one.table.is_empty(name))]",
        "if own != unit and own]",
        "tests/behaviour/convert/test_empty_columns.py::test_times_have_the_unit_of_others",
    ),
    Mutant(
        "pipeline/convert/feature_rows.py",
        'if plain.dtype.kind in "iu" and dtype.kind == "f":',
        'if plain.dtype.kind in "u" and dtype.kind == "f" and labels:',
        "tests/behaviour/convert/test_nothing_is_silent.py::test_integers_that_no_common_type_has",
    ),
    Mutant(
        "pipeline/convert/parquet_table.py",
        "self._largest(column) >= 1 << 63",
        "self._largest(column) >= 1 << 64",
        "tests/behaviour/convert/test_ids.py::test_unsigned_hashes_are_texts",
    ),
    Mutant(
        "pipeline/plan/checks.py",
        "and of_graph != of_items.numbering:",
        "and of_graph == of_items.numbering:",
        "tests/behaviour/convert/test_numbering.py::test_items",
    ),
    Mutant(
        "pipeline/plan/config.py",
        "not in (None, numbering):",
        "in (None, numbering):",
        "tests/behaviour/convert/test_numbering.py::test_configs",
    ),
    Mutant(
        "pipeline/convert/conversion.py",
        "largest = [one for of_type, one in self._largest_of_items if of_type == name]",
        "largest = list(dict(self._largest_of_items).values())",
        "tests/behaviour/convert/test_policies.py::test_the_largest_number_may_be_at_either_end_of_a_pair",
    ),
)
