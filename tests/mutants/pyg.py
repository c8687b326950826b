"""Faults in the loaders with the names of PyG."""

from __future__ import annotations

from mutants.mutant import Mutant

_COUNTS = "tests/behaviour/compat/test_counts.py::"
_DUE = "tests/pipeline/compat/test_due.py::"
_GRAPHS = "tests/behaviour/compat/test_kept_graphs.py::"
_ITERATIONS = "tests/behaviour/compat/test_iterations.py::"
_KINDS = "tests/behaviour/compat/test_attribute_kinds.py::"
_ORDER = "tests/behaviour/compat/test_torch_samplers.py::"

_OVERRIDES = "tests/behaviour/compat/test_overrides.py::"
_PARTS = "tests/behaviour/compat/test_saved_parts.py::"
_PLACES = "tests/behaviour/compat/test_places.py::"
_SUBGRAPHS = "tests/behaviour/compat/test_subgraphs.py::"

PYG = (
    Mutant(
        "pipeline/compat/pyg/sampler.py",
        'if sample_direction != "forward":',
        "if False:",
        "tests/behaviour/compat/test_refusals.py::test_refused[direction]",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "runner = self._runner_beside() or self._settled_runner()",
        "runner = self._settled_runner()",
        _ITERATIONS + "test_an_iteration_in_the_middle_of_another",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "max(self._began + 1, place",
        "max(self._began, place",
        _ITERATIONS + "test_iterations_side_by_side_are_epochs_that_follow",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "if known is not None and known[0].are(given):",
        "if known is not None:",
        _GRAPHS + "test_changed_edges_are_another_graph",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "graphs.by_name[name] = given, graph",
        "pass",
        _GRAPHS + "test_loaders_of_all_kinds_have_the_same_graph",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "del _kept[key]",
        "pass",
        _GRAPHS + "test_it_goes_with_the_data",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "graph = _of_another(name, given)",
        "graph = None",
        _GRAPHS + "test_copies_with_the_same_tensors_have_the_same_graph",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "made = _sorted(made, time) if made_here else made",
        "made = made",
        _GRAPHS + "test_loaders_by_time_hold_the_edges_once[False]",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "values = [store.get(name) for store in stores for name in names]",
        "values = []",
        _GRAPHS + "test_changed_attributes_and_numbers_of_nodes_are_another_graph",
    ),
    Mutant(
        "pipeline/compat/pyg/kept_graphs.py",
        "if array.is_inference():",
        "if False:",
        _GRAPHS + "test_edges_that_count_their_writes_or_not",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "self._filtered if own else self._made",
        "self._made",
        _OVERRIDES + "test_filter_fn_of_a_subclass_makes_all_batches",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "check_overrides(self, self.not_called)",
        "pass",
        _OVERRIDES + "test_methods_that_no_batch_passes_through_are_refused",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "of_workers = self.num_workers > 0 and",
        "of_workers =",
        _DUE + "test_batches_have_what_the_loop_wrote",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "and not draws and not self.learns",
        "and not draws",
        _DUE + "test_attributes_that_learn",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "self.filter_per_worker, self.learns, own)",
        "self.filter_per_worker, own)",
        _DUE + "test_an_attribute_that_learns_from_the_next_epoch_on",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "or not self.samples_ahead:",
        "or False:",
        _DUE + "test_samplers_of_the_user_draw_in_the_order_of_the_loop",
    ),
    Mutant(
        "pipeline/compat/pyg/finish.py",
        "np.random.set_state(of_numpy)",
        "pass",
        _DUE + "test_random_transforms",
    ),
    Mutant(
        "pipeline/compat/pyg/finish.py",
        "stream_key(settings.seed, epoch, index,",
        "stream_key(settings.seed, epoch, 0,",
        _DUE + "test_random_transforms",
    ),
    Mutant(
        "pipeline/compat/pyg/cluster.py",
        "PygClusterLoader.__init__(self",
        "__import__('torch_geometric').loader.ClusterLoader.__init__(self",
        _PLACES + "test_loaders_work_in_the_place_of_those_of_pyg",
    ),
    Mutant(
        "pipeline/compat/pyg/cluster.py",
        "if self._made_by is None:",
        "if False:",
        _PARTS + "test_parts_of_another_graph_are_refused",
    ),
    Mutant(
        "pipeline/compat/pyg/cluster.py",
        "fits = torch.equal(compressed, ptr2index(partition.indptr)) and",
        "fits =",
        _PARTS + "test_parts_are_compared_at_both_ends_of_edges",
    ),
    Mutant(
        "pipeline/compat/pyg/saint.py",
        '("edge_ids", graph.edge_ids)',
        '("edge_ids", graph.edge_ids[:0])',
        _SUBGRAPHS + "test_norms_of_something_else_are_refused",
    ),
    Mutant(
        "pipeline/compat/pyg/sampler_output.py",
        "if self.no_hops:",
        "if False:",
        _COUNTS + "test_without_hops_each_type_has_its_seeds",
    ),
    Mutant(
        "pipeline/compat/pyg/torch_arguments.py",
        "checked[name] = as_length(value",
        "as_length(value",
        _COUNTS + "test_numbers_of_numpy_are_numbers",
    ),
    Mutant(
        "pipeline/compat/pyg/torch_samplers.py",
        "list(dict.fromkeys(positions.tolist()))",
        "sorted(positions.tolist())",
        _ORDER + "test_clusters_come_as_a_sampler_says",
    ),
    Mutant(
        "pipeline/compat/pyg/torch_samplers.py",
        "epoch * self._num_steps + int(positions[0])",
        "epoch * self._num_steps + index",
        _ORDER + "test_ranks_share_the_steps_of_an_epoch",
    ),
    Mutant(
        "pipeline/compat/pyg/plan_loader.py",
        "check_attributes(self.sliced, who)",
        "pass",
        _KINDS + "test_all_loaders_refuse_it",
    ),
    Mutant(
        "pipeline/data/graph_sources.py",
        'if hasattr(data, "to_data_list"):',
        "if False:",
        _KINDS + "test_several_graphs_in_a_batch_are_warned_of_once",
    ),
    Mutant(
        "pipeline/compat/pyg/attributes.py",
        "if not isinstance(dim, int):\n        if is_sparse(value):",
        "if not isinstance(dim, int):\n        if False:",
        _KINDS + "test_matrices_of_the_whole_graph_do_not_vanish",
    ),
    Mutant(
        "pipeline/compat/pyg/slicing.py",
        "plain = type(value) is Tensor and",
        "plain =",
        _KINDS + "test_rows_of_what_they_are_taken_of",
    ),
    Mutant(
        "ops/features/gather.py",
        "if not address and source.numel():",
        "if False:",
        "tests/pipeline/compat/test_wrapped_tensors.py::test_gather_of_a_tensor_around_another_one",
    ),
    Mutant(
        "pipeline/compat/pyg/attributes.py",
        "value.ndim == 1 and len(value) in counts.values()",
        "value.ndim > 0 and len(value) in counts.values()",
        "tests/behaviour/compat/test_columns.py::test_weights",
    ),
    Mutant(
        "pipeline/compat/pyg/sampler.py",
        "if self.graph.edge_types is not None and not self.graph.edge_types.names:",
        "if False:",
        "tests/behaviour/compat/test_columns.py::test_data_without_edge_types",
    ),
    Mutant(
        "pipeline/compat/pyg/sampler.py",
        "                seeds.dtype,\n",
        "",
        "tests/behaviour/compat/test_torch_samplers.py::test_later_seeds_are_ids_as_the_first_ones_are",
    ),
    Mutant(
        "pipeline/data/arrays.py",
        'if hasattr(array, "tocoo"):',
        "if False:",
        "tests/pipeline/data/test_arrays.py::test_what_is_no_dense_array_is_named",
    ),
    Mutant(
        "pipeline/compat/pyg/adjacency.py",
        "rows = None if edge is None else edge if found.places is None else found.places[edge]",
        "rows = edge",
        "tests/behaviour/compat/test_adjacency.py::test_batches_are_those_of_its_edges",
    ),
    Mutant(
        "pipeline/compat/pyg/adjacency.py",
        "places[order] = of_matrix if found.places is None else found.places[of_matrix]",
        "places[order] = of_matrix",
        "tests/behaviour/compat/test_adjacency.py::test_beside_edges_in_another_order",
    ),
    Mutant(
        "pipeline/compat/pyg/adjacency.py",
        "else sizes[::-1]",
        "else sizes",
        "tests/behaviour/compat/test_adjacency.py::test_by_type",
    ),
    Mutant(
        "pipeline/data/build_graph.py",
        "return low >= 0 and high + offset <= _LARGEST",
        "return True",
        "tests/pipeline/compat/test_joined_ends.py::test_ids_are_as_narrow_as_they_fit",
    ),
    Mutant(
        "pipeline/compat/pyg/graph.py",
        "if fill == ALWAYS or len(set(there)) == 1:",
        "if True:",
        "tests/behaviour/compat/test_building_memory.py::test_weights_of_types_in_several_dtypes",
    ),
)
