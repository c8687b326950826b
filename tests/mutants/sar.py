"""Faults in full-batch training over shards: rounds, degrees, ties, replays, gradients that would be lost."""

from __future__ import annotations

from mutants.mutant import Mutant

_SAR = "pipeline/models/sar/"
_GRAPH = "tests/behaviour/models/sar/test_sharded_graph.py::"
_COUNTS = "tests/behaviour/models/sar/test_counts.py::"
_UPDATE = "tests/behaviour/models/sar/test_update_all.py::"
_WRAP = "tests/behaviour/models/sar/test_wrap.py::"
_CHECKPOINT = "tests/behaviour/models/test_checkpoint.py::"
_AUTOCAST = "tests/behaviour/models/sar/test_autocast.py::"
_OWN = "tests/behaviour/models/sar/test_own_layers.py::"
_PARTING = "tests/behaviour/models/sar/test_parting.py::"

SAR = (
    Mutant(
        "pipeline/models/message_graph.py",
        "weight.new_full((1,), fill)",
        "weight.new_ones(1)",
        _OWN + "test_training_is_that_on_the_whole_graph[1-gcn_improved_weights]",
    ),
    Mutant(
        "pipeline/models/nn/gcn.py",
        "graph.sum_edges(weight))[:, None]",
        "graph.in_degrees().to(x.dtype))[:, None]",
        _OWN + "test_training_is_that_on_the_whole_graph[1-gcn_weights]",
    ),
    Mutant(
        "pipeline/models/nn/gat.py",
        "means_without_loops(block, edge)]",
        "block.sum_edges(edge)]",
        _OWN + "test_training_is_that_on_the_whole_graph[1-gat_edges]",
    ),
    Mutant(
        "pipeline/models/nn/gcn.py",
        "block.destinations[block.self_loops]",
        "block.destinations[:0]",
        _OWN + "test_training_is_that_on_the_whole_graph[1-cluster_gcn]",
    ),
    Mutant(
        "pipeline/models/sar/wrap.py",
        "keys.calls = calls[name]",
        "pass",
        "tests/behaviour/models/sar/test_dropout_state.py::test_masks_go_on_with_any_number_of_ranks",
    ),
    Mutant(
        "pipeline/models/sar/wrap.py",
        "if isinstance(of_attention, AttentionKeys) and of_attention.given is not None:",
        "if False:",
        "tests/behaviour/models/sar/test_dropout_state.py::test_masks_go_on_with_any_number_of_ranks",
    ),
    Mutant(
        _SAR + "replaced_layer.py",
        "return _Anew() if saved.data_ptr() == place and saved.shape == shape else saved",
        "return saved",
        _WRAP + "test_transformed_rows_are_computed_anew_from_what_they_were_computed_of",
    ),
    Mutant(
        "pipeline/models/recomputation.py",
        "drawn = self._drawn[state]\n        else",
        "drawn = next(reversed(self._drawn.values()))\n        else",
        _CHECKPOINT + "test_two_batches_may_be_under_way",
    ),
    Mutant(
        "pipeline/models/cooperative_modules.py",
        "comm = self._comm if running is None and is_recomputing() else",
        "comm =",
        _CHECKPOINT + "test_ranks_compute_anew_what_stands_between_layers[norm]",
    ),
    Mutant(
        "pipeline/models/nn/attention_keys.py",
        "key = comm.all_gather(key)[0]",
        "key = comm.all_gather(key)[comm.rank]",
        _WRAP + "test_ranks_take_one_key_where_nothing_gives_it",
    ),
    Mutant(
        "pipeline/models/nn/gat.py",
        "edge_ids = masks.edge_ids[looped.origin]",
        "edge_ids = masks.edge_ids[: len(looped.origin)]",
        "tests/behaviour/models/nn/test_layers_on_ranks.py::test_training_equals_one_process[dropout-2]",
    ),
    Mutant(
        _SAR + "replaced_layer.py",
        "with inside(self.name):",
        'with inside(""):',
        _PARTING + "test_ranks_that_part_are_named[order]",
    ),
    Mutant(
        _SAR + "rounds.py",
        "zip(names, needed, strict=True) if one]",
        "zip(names, needed, strict=True) if one or names]",
        _PARTING + "test_ranks_that_part_are_named[requires_grad]",
    ),
    Mutant(
        _SAR + "rank_graph.py",
        "        if error is not None:\n            report(error, self.comm)",
        "        return",
        _PARTING + "test_an_error_reaches_the_other_ranks_with_its_traceback[loss]",
    ),
    Mutant(
        "pipeline/distributed/collective_order.py",
        "if length > longest:",
        "if length:",
        "tests/pipeline/distributed/test_collective_order.py::test_whatever_repeats_itself_is_expected_in_the_end",
    ),
    Mutant(
        _SAR + "rounds.py",
        "yield self.shards[(self.transfer.rank - number) % world_size]",
        "yield self.shards[(self.transfer.rank + number) % world_size]",
        _GRAPH + "test_aggregate[3-mean-None]",
    ),
    Mutant(
        _SAR + "rounds.py",
        "waiting = nothing  # lets go of the rows before others come",
        "pass",
        _COUNTS + "test_rows_come_again_only_where_gradients_depend_on_them[by_sum-0-4]",
    ),
    Mutant(
        _SAR + "reductions.py",
        "x if ctx.needs_input_grad[1] else None, weight, divisors",
        "x, weight, divisors",
        _COUNTS + "test_rows_come_again_only_where_gradients_depend_on_them[by_mean-0-4]",
    ),
    Mutant(
        _SAR + "reductions.py",
        "positions=shard.positions,\n                state=found,",
        "positions=None,\n                state=found,",
        _GRAPH + "test_among_equal_messages_the_first_edge_of_the_whole_graph_wins[True]",
    ),
    Mutant(
        _SAR + "sharded_graph.py",
        "divisors = self._edges.in_degrees.clamp(min=1).to(x.dtype)",
        "divisors = self._rounds.own.indptr.diff().clamp(min=1).to(x.dtype)",
        _GRAPH + "test_aggregate[3-mean-None]",
    ),
    Mutant(
        _SAR + "attention.py",
        "last=shard is rounds.last,",
        "last=True,",
        _GRAPH + "test_attend[3-False-0.0]",
    ),
    Mutant(
        _SAR + "sharded_graph.py",
        "AttentionDropout.of(dropout, key, self.edge_ids)",
        "AttentionDropout.of(dropout, key)",
        _GRAPH + "test_attend[3-False-0.4]",
    ),
    Mutant(
        _SAR + "transfer.py",
        "total[part] += gradients",
        "total[part] = gradients",
        _COUNTS + "test_who_needs_almost_all_rows_gets_them",
    ),
    Mutant(
        _SAR + "transfer.py",
        "scatter_add_rows(total, rows[part], gradients",
        "scatter_add_rows(total, rows[: len(gradients)], gradients",
        _COUNTS + "test_rows_go_in_pieces",
    ),
    Mutant(
        _SAR + "shard.py",
        "if ALMOST_ALL * size <= len(asked) < size:",
        "if False:",
        _COUNTS + "test_other_modes_keep_rows_and_fetch_none_again",
    ),
    Mutant(
        "pipeline/models/by_parts/drawing.py",
        "if again:\n            _set_generators(states[part])",
        "if False:\n            _set_generators(states[part])",
        _UPDATE + "test_dropout_is_replayed",
    ),
    Mutant(
        "pipeline/models/by_parts/captured.py",
        "if node._sequence_nr() <= began:",
        "if node._sequence_nr() < 0:",
        _UPDATE + "test_no_gradient_is_lost",
    ),
    Mutant(
        _SAR + "messages.py",
        "if captured_leaves(messages, leaves, parameters, began):",
        "if False:",
        _UPDATE + "test_a_parameter_that_only_some_calls_use_must_be_named",
    ),
    Mutant(
        _SAR + "rank_graph.py",
        "values = values.index_fill(0, self._edges.replaced, 0)",
        "pass",
        _GRAPH + "test_loops_are_added_once_to_each_node",
    ),
    Mutant(
        _SAR + "wrap.py",
        "self.keys.next(), self.graph.owned",
        "self.keys.next(), torch.arange(self.graph.num_dst)",
        _WRAP + "test_dropout_and_normalisation_do_not_depend_on_the_ranks[2]",
    ),
    Mutant(
        "pipeline/models/message_graph.py",
        "chosen = loops.new_full((graph.num_dst,), -1)",
        "chosen = loops.new_full((graph.num_dst,), 0)",
        _WRAP + "test_three_ranks_compute_what_pyg_does[gcn_weights]",
    ),
    # Autocast: products that are computed anew are rounded otherwise, or lose gradients; degrees and sums are rounded.
    Mutant(
        _SAR + "messages.py",
        "with self.casting():",
        "if True:",
        _AUTOCAST + "test_messages_of_ones_own_are_cast_again_in_the_backward_direction[float32-sum-1]",
    ),
    Mutant(
        "ops/aggregate/precision.py",
        "cache_enabled=False",
        "cache_enabled=True",
        _AUTOCAST + "test_messages_of_ones_own_are_cast_again_in_the_backward_direction[float32-sum-1]",
    ),
    Mutant(
        _SAR + "replaced_layer.py",
        "one.to(multiplied)",
        "one",
        _AUTOCAST + "test_transformed_rows_that_are_computed_anew_are_rounded_as_they_were",
    ),
    Mutant(
        _SAR + "replaced_layer.py",
        "return widened(x), graph",
        "return x, graph",
        _AUTOCAST + "test_degrees_are_counted_exactly",
    ),
    Mutant(
        _SAR + "rank_graph.py",
        "values = widened(values)",
        "pass",
        _AUTOCAST + "test_what_is_narrow_is_reduced_in_float32_to_the_bit",
    ),
    Mutant(
        _SAR + "sharded_graph.py",
        'if mode == "one-shot" and prefetch:',
        "if False:",
        "tests/behaviour/models/test_refusals.py::test_refused_of_shards",
    ),
)
