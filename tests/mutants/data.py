"""Faults in plans and data: digests, passes, the machine, features, folders that are replaced."""

from __future__ import annotations

from mutants.mutant import Mutant

_CLUSTERS = "tests/behaviour/stages/test_cluster_sampler.py::"
_DIGEST = "tests/behaviour/data/test_digest.py::"
_FUSE = "tests/behaviour/passes/test_fuse_sampling.py::"
_FOLDER = "tests/behaviour/data/test_new_folder.py::"

_SHARED = "tests/behaviour/data/test_shared_memory.py::"
_WHOLE = "tests/behaviour/data/test_whole_numbers.py::"

DATA = (
    # Integers that wrap or are rounded.
    Mutant(
        "pipeline/data/integers.py",
        "if bool(wrapped.any()):",
        "if False:",
        _WHOLE + "test_what_is_refused_is_named",
    ),
    Mutant(
        "pipeline/data/arrays.py",
        "if int(float(one)) != one",
        "if False",
        _WHOLE + "test_lists_that_numpy_would_round_are_refused",
    ),
    Mutant(
        "pipeline/data/types.py",
        "if sum(sizes) >= 1 << 63:",
        "if False:",
        _WHOLE + "test_counts_are_exact_or_refused[types-2**62]",
    ),
    Mutant(
        "pipeline/data/ranking.py",
        "if not scores.is_floating_point() and scores.element_size() == 8:",
        "if False:",
        _WHOLE + "test_scores_of_64_bits_rank_rows_exactly",
    ),
    # Memory that torch moves.
    Mutant(
        "ops/borrowed.py",
        "return list(map(torch.Tensor.data_ptr, self._tensors)) != self._addresses",
        "return False",
        _SHARED + "test_batches_stay_where_memory_is_moved[labor]",
    ),
    Mutant(
        "ops/sampling/block_sampler.py",
        "Borrowed((*of_rows, *self._arrays[1:]))",
        "Borrowed(())",
        _SHARED + "test_batches_stay_where_memory_is_moved[typed]",
    ),
    Mutant(
        "pipeline/data/shared_memory.py",
        "        seen.check()  # a copy would take what was written",
        "        pass",
        _SHARED + "test_weights_that_were_changed_are_not_shared",
    ),
    Mutant(
        "pipeline/data/graph_view.py",
        "        sent_shared(cls, share_graph)",
        "        pass",
        _SHARED + "test_tensors_that_a_graph_was_made_of_stay_where_they_are",
    ),
    Mutant(
        "pipeline/storage/array_source.py",
        "        if self._file is not None:",
        "        if False:",
        _SHARED + "test_files_that_are_mapped_are_mapped_again",
    ),
    Mutant(
        "pipeline/data/shared_memory.py",
        "while not set(self._reading).isdisjoint(sys._current_frames()):",
        "while False:",
        "tests/pipeline/data/test_shared_memory.py::test_memory_is_not_moved_under_readers",
    ),
    Mutant(
        "pipeline/data/arrays.py",
        "    return bool(found.all())",
        "    return True",
        "tests/behaviour/data/test_arrays.py::test_ids_that_are_not_each_once_are_refused",
    ),
    Mutant(
        "pipeline/data/arrays.py",
        "isinstance(array, Tensor) and array.requires_grad",
        "False",
        "tests/behaviour/storage/test_features.py::test_what_learns_is_refused_with_what_to_write",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "torch.arange(self.first, self.first + self.num_own, device=device)",
        "torch.arange(self.first, self.first + self.num_own)",
        "tests/test_named_devices.py::test_batches_are_the_same_under_a_default_device[link_negatives]",
    ),
    Mutant(
        "pipeline/data/gcn_norm.py",
        'torch.empty(graph.num_edges, dtype=torch.float32, device="cpu")',
        'torch.empty(graph.num_edges, device="cpu")',
        "tests/behaviour/run/test_default_dtype.py::test_functions_give_the_same_numbers[gcn_norm-torch.float64]",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "< num_positives).float()",
        "< num_positives).to(torch.get_default_dtype())",
        "tests/behaviour/run/test_default_dtype.py::test_plans_give_the_same_batches[link_negatives-torch.float64]",
    ),
    Mutant(
        "pipeline/data/feature_names.py",
        "dict.fromkeys(batch.blocks)",
        "batch.blocks",
        _CLUSTERS + "test_features_of_edges_are_fetched_once_for_all_layers",
    ),
    Mutant(
        "pipeline/data/batch.py",
        "once = cache(of_tensor)",
        "once = of_tensor",
        _CLUSTERS + "test_features_of_edges_are_fetched_once_for_all_layers",
    ),
    # Digests.
    Mutant(
        "pipeline/data/digest.py",
        "_add_header(state, name, str(tensor.dtype), tuple(tensor.shape))",
        '_add_header(state, name, "", tuple(tensor.shape))',
        "tests/pipeline/data/test_digest.py::test_names_dtypes_and_shapes_count_where_bytes_are_equal",
    ),
    Mutant(
        "pipeline/data/digest.py",
        'str(array.dtype).removeprefix("torch."), tuple(array.shape)',
        '"", tuple(array.shape)',
        "tests/pipeline/data/test_digest.py::test_names_dtypes_and_shapes_count_where_bytes_are_equal",
    ),
    Mutant(
        "pipeline/data/digest.py",
        "{dtype}\\0{shape}\\0",
        "{dtype}\\0",
        "tests/pipeline/data/test_digest.py::test_names_dtypes_and_shapes_count_where_bytes_are_equal",
    ),
    Mutant(
        "pipeline/data/made_of_graph.py",
        "or number != int(number)",
        "",
        "tests/behaviour/plan/test_hostile_arguments.py::test_a_fill_is_what_attributes_can_hold",
    ),
    Mutant(
        "pipeline/data/typed_edges.py",
        "if low < 0 or high >= count:",
        "if low < 0:",
        "tests/behaviour/data/test_refusals.py::test_what_is_refused",
    ),
    Mutant(
        "pipeline/data/split_links.py",
        "kept = part <= before",
        "kept = part <= 2",
        "tests/behaviour/data/test_split_links.py::test_a_random_split_divides_pairs_and_no_graph_has_one_of_a_later_part",
    ),
    Mutant(
        "pipeline/data/split_links.py",
        "part[keys >= cut] = number",
        "part[own.start : own.stop][keys[own.start : own.stop] >= cut] = number",
        "tests/behaviour/data/test_split_links.py::test_a_split_by_time_cuts_all_types_at_the_same_times",
    ),
    Mutant(
        "pipeline/data/split_links.py",
        "torch.maximum(part[back.start : back.stop], latest)",
        "part[back.start : back.stop]",
        "tests/behaviour/data/test_split_links.py::test_reverse_types_have_no_edge_of_a_later_part",
    ),
    Mutant(
        "pipeline/data/split_links.py",
        "torch.minimum(key, mirrored) if of_one_type else key",
        "key",
        "tests/behaviour/data/test_split_links.py::test_a_random_split_divides_pairs_and_no_graph_has_one_of_a_later_part",
    ),
    Mutant(
        "pipeline/data/made_of_graph.py",
        "(there[at] != wanted)",
        "(there[at] == wanted)",
        "tests/behaviour/data/test_reverse_edges.py::test_undirected_has_each_edge_in_both_directions_once_added",
    ),
    Mutant(
        "pipeline/data/graph.py",
        'arrays.append(("edge_ids", self.edge_permutation))',
        "pass",
        _DIGEST + "test_graphs_are_told_apart_by_their_edge_ids",
    ),
    Mutant(
        "pipeline/plan/fingerprint.py",
        "_absorb(digest, code.co_names)",
        "pass",
        "tests/behaviour/plan/test_stages.py::test_fingerprints_tell_functions_apart_by_the_names_and_values_they_use",
    ),
    Mutant(
        "pipeline/plan/fingerprint.py",
        "value.__defaults__, value.__kwdefaults__, cells",
        "value.__defaults__, value.__kwdefaults__",
        "tests/behaviour/plan/test_stages.py::test_fingerprints_tell_functions_apart_by_what_they_close_over",
    ),
    # Passes and the machine.
    Mutant(
        "pipeline/lowered/_hop.py",
        "replace(self, rule=other.rule, key_layer=other.key_layer) == other",
        "replace(self, rule=other.rule, key_layer=other.key_layer, edge_ids=other.edge_ids) == other",
        "tests/pipeline/passes/test_fuse_sampling.py::test_refuses_hops_of_which_one_has_edge_ids",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "replace(self, rule=other.rule, key_layer=other.key_layer) == other",
        "replace(self, rule=other.rule, key_layer=other.key_layer, weight=other.weight) == other",
        "tests/pipeline/passes/test_fuse_sampling.py::test_refuses_hops_that_disagree",
    ),
    Mutant(
        "pipeline/passes/fuse_sampling.py",
        "(*fused.hops, stage.hop)",
        "(*fused.hops, replace(stage.hop, key_layer=stage.layer))",
        _FUSE + "test_keeps_what_keys_the_randomness",
    ),
    Mutant(
        "pipeline/plan/machine.py",
        "min(len(affinity(0)) if affinity is not None else os.cpu_count() or 1, MAX_THREADS)",
        "min(os.cpu_count() or 1, MAX_THREADS)",
        "tests/behaviour/plan/test_machine.py::test_cores_are_those_of_the_affinity_mask",
    ),
    Mutant(
        "pipeline/passes/prefetch.py",
        "position = next((i for i, known in enumerate(facts) if known.place is not None), len(facts)) - 1",
        "position = len(stages)",
        "tests/behaviour/passes/test_prefetch.py::test_stands_before_the_copy_to_a_device",
    ),
    # Facts.
    Mutant(
        "pipeline/plan/rules.py",
        "if not self.facts(start + len(replacement)).say_the_same_as(known):",
        "if False:",
        "tests/pipeline/plan/test_facts.py::test_facts_that_a_rule_changes_far_ahead_wake_rules_behind",
    ),
    Mutant(
        "pipeline/plan/rules.py",
        "place=stage.moves_to or self.place,",
        "place=stage.moves_to,",
        "tests/pipeline/plan/test_facts.py::test_fields_have_places",
    ),
    # Features and batches.
    Mutant(
        "pipeline/storage/wanted.py",
        "found += [(ids,) for ids in label_ids_of(batch, self.labels, by_type)]",
        "found += [(batch.n_id[: len(batch.seeds)],) for _ in self.of_seeds]",
        "tests/behaviour/interop/test_interop.py::test_repeated_seeds_have_one_row_each",
    ),
    Mutant(
        "pipeline/storage/wanted.py",
        "labels=self.labels if other.labels is None else None,",
        "labels=None,",
        "tests/pipeline/storage/test_wanted.py::test_what_some_have_and_the_rest_are_the_whole",
    ),
    Mutant(
        "pipeline/storage/wanted.py",
        "{name: of_layers(batch, next(each)) for name in self.edge}",
        "{name: of_layers(batch, next(each)) for name in reversed(self.edge)}",
        "tests/pipeline/storage/test_wanted.py::test_rows_come_to_the_fields_of_their_ids",
    ),
    Mutant(
        "pipeline/data/feature_names.py",
        "if num_found < batch.seeds.numel():",
        "if False:",
        "tests/behaviour/stages/test_labels_by_type.py::test_refuses_them_when_they_show_with_a_batch",
    ),
    Mutant(
        "pipeline/data/batch_parts.py",
        'yield from ((f"y/{name}", batch.y[name])',
        'yield from ((f"y/{name}", batch.seeds)',
        "tests/behaviour/stages/test_labels_by_type.py::test_a_batch_moves_pickles_prints_and_is_told_apart",
    ),
    Mutant(
        "pipeline/data/graph_sources.py",
        "value.ndim and len(value) not in expected",
        "value.ndim and len(value) > max(expected)",
        "tests/behaviour/data/test_graph_sources.py::test_attributes_of_another_length_are_named_as_left_out",
    ),
    Mutant(
        "pipeline/interop/labels.py",
        "rows = seeds.numbers[index[mine]]",
        "rows = index[mine]",
        "tests/behaviour/stages/test_labels_by_type.py::test_to_pyg_has_them_on_their_types",
    ),
    Mutant(
        "pipeline/lowered/compact.py",
        "hop.indptr[1:] + block.indptr[-1]",
        "hop.indptr[1:]",
        _FUSE + "test_same_result[neighbor_new]",
    ),
    Mutant(
        "pipeline/lowered/compact.py",
        "sum(after.num_sampled_edges[hops:])",
        "sum(after.num_sampled_edges)",
        "tests/behaviour/run/test_stats.py::test_stats_count_each_hop_once",
    ),
    Mutant(
        "pipeline/storage/features.py",
        "(num_ids is not None and num_rows < num_ids)",
        "(num_ids is not None and num_rows < num_ids - 1)",
        "tests/behaviour/storage/test_features.py::test_features_shorter_than_the_graph_are_refused_before_work_starts",
    ),
    # Folders.
    Mutant(
        "pipeline/data/new_folder.py",
        "replaced.rename(path)",
        "pass",
        "tests/pipeline/data/test_new_folder.py::test_what_was_there_returns_if_the_new_folder_cannot_be_moved",
    ),
    Mutant(
        "pipeline/data/new_folder.py",
        "check_is_free(path, overwrite=overwrite, contents=contents, what=what)\n        if path.exists():",
        "if path.exists():",
        "tests/pipeline/data/test_new_folder.py::test_what_came_while_the_new_folder_was_written_is_not_replaced",
    ),
    Mutant(
        "pipeline/data/written_file.py",
        "os.fsync(file.fileno())",
        "pass",
        _FOLDER + "test_files_are_on_the_disk_before_the_folder_appears",
    ),
    Mutant(
        "pipeline/data/type_attributes.py",
        "        return ALWAYS\n",
        "        return 0\n",
        "tests/behaviour/data/test_type_attributes.py::test_nodes_without_a_time_have_always_been_there",
    ),
    Mutant(
        "pipeline/data/type_attributes.py",
        "differ = len(dtypes) > 1 or not all_there",
        "differ = len(dtypes) > 1",
        "tests/behaviour/data/test_type_attributes.py::test_times_have_room_for_that",
    ),
    Mutant(
        "pipeline/lowered/trees.py",
        "self._check_types_have_times(times, source.all_seeds())",
        "pass",
        "tests/behaviour/data/test_type_attributes.py::test_seeds_without_a_time_of_their_own_are_asked_for_one",
    ),
)
