"""Faults in aggregations: sums, extremes and attention over edges, and the layers on them."""

from __future__ import annotations

from mutants.mutant import Mutant

_SPMM = "tests/ops/aggregate/test_spmm.py::"
_EXTREME = "tests/ops/aggregate/test_extreme.py::"
_ATTENTION = "tests/ops/aggregate/test_attention.py::"
_AUTOGRAD = "tests/ops/aggregate/test_autograd.py::"
_TWINS = "tests/ops/aggregate/test_twins.py::"
_SCHEDULES = "tests/cuda_host/test_schedules.py::test_all_have_the_bits_of_the_cpu"
_LAYERS = "tests/behaviour/models/nn/test_layers.py::"

_AUTOCAST = "tests/behaviour/models/nn/test_autocast.py::"
_HALF = "tests/behaviour/models/nn/test_half.py::"
_WAITS = "tests/cuda_host/test_models_on_gpu.py::"
_CAPTURED = "tests/behaviour/models/nn/test_captured_step.py::"

AGGREGATE = (
    Mutant(
        "pipeline/data/block_messages.py",
        "Transposed(starts, destinations_of(block), numbers())",
        "Transposed(starts, numbers(), numbers())",
        "tests/behaviour/data/test_update_all.py::test_messages_of_a_function_are_those_of_torch",
    ),
    Mutant(
        "pipeline/data/block_messages.py",
        "back.indptr, back.positions, gradient",
        "back.indptr, back.indices, gradient",
        "tests/behaviour/data/test_update_all.py::test_messages_of_a_function_are_those_of_torch",
    ),
    Mutant(
        "ops/aggregate/attention_scores.py",
        "isinstance(probability, (int, float)) and probability == 0:",
        "not probability > 0:",
        "tests/behaviour/data/test_block_messages.py::test_refusals",
    ),
    Mutant(
        "ops/aggregate/precision.py",
        "x.dtype in _NARROW and _casts(x.device.type)",
        "x.dtype in _NARROW",
        _HALF + "test_reductions_are_those_of_float32_rounded_once",
    ),
    Mutant(
        "ops/aggregate/precision.py",
        "out.to(x.dtype) if out.dtype != x.dtype else out",
        "out",
        _HALF + "test_attention_is_that_of_float32_rounded_once",
    ),
    Mutant(
        "pipeline/models/nn/aggregate.py",
        "by_all[: ctx.num_dst] += by_own",
        "pass",
        "tests/behaviour/models/nn/test_work.py::test_modules_of_a_layer_may_be_others",
    ),
    Mutant(
        "pipeline/models/nn/aggregate.py",
        'not any(getattr(module, name, None) for name in _HOOKS) and "forward" not in vars(module)',
        '"forward" not in vars(module)',
        "tests/behaviour/models/nn/test_work.py::test_hooks_see_what_a_module_returns",
    ),
    Mutant(
        "pipeline/models/nn/gcn.py",
        "x = in_single(self.lin(x) if narrows else x)",
        "x = self.lin(x) if narrows else x",
        _HALF + "test_degrees_are_counted_exactly",
    ),
    Mutant(
        "ops/aggregate/autograd.py",
        "x, scores = in_single(given), scores.map(in_single)",
        "x = in_single(given)",
        _AUTOCAST + "test_attention_of_narrow_scores",
    ),
    Mutant(
        "ops/native/aggregate/row_sums.hpp",
        "to[i] = to[i] + a[i] + b[i] + c[i] + d[i];",
        "to[i] = to[i] + ((a[i] + b[i]) + (c[i] + d[i]));",
        _SPMM + "test_neither_threads_nor_instructions_change_a_bit",
    ),
    Mutant(
        "ops/native/aggregate/spmm.cpp",
        "const Value* const from = arrays.weights + rows.position(first + k) * heads;",
        "const Value* const from = arrays.weights + (first + k) * heads;",
        _SPMM + "test_transposed_rows_find_their_weights",
    ),
    Mutant(
        "ops/native/aggregate/edge_rows.cpp",
        "if (first == last || largest < bound) return;",
        "if (first == last || largest <= bound) return;",
        _SPMM + "test_bad_input_is_refused_and_nothing_is_written",
    ),
    Mutant(
        "ops/native/aggregate/extreme_order.hpp",
        "(level & (position < winner))",
        "level",
        _EXTREME + "test_of_equal_messages_the_first_edge_wins",
    ),
    Mutant(
        "ops/native/aggregate/extreme_order.hpp",
        "above | (winner < 0) |",
        "above |",
        _EXTREME + "test_equals_the_reference",
    ),
    Mutant(
        "ops/native/aggregate/attention.cpp",
        "    state.sums[at] = state.sums[at] * factor;\n",
        "",
        _ATTENTION + "test_parts_of_rows_come_in_any_order",
    ),
    Mutant(
        "ops/native/aggregate/attention_terms.hpp",
        "score == no_score<Value>() ? score : score - largest",
        "score - largest",
        _ATTENTION + "test_scores_that_are_no_numbers",
    ),
    Mutant(
        "ops/native/aggregate/attention_terms.hpp",
        "plain > 0 || plain == no_score<Value>() ?",
        "plain > 0 ?",
        _ATTENTION + "test_edges_that_do_not_count_change_nothing",
    ),
    Mutant(
        "ops/native/aggregate/attention_segment.hpp",
        "    if (scores.weights[edges.positions[k]] == 0) plain[k] = no_score<Value>();\n",
        "",
        _ATTENTION + "test_edges_that_do_not_count_change_nothing",
    ),
    Mutant(
        "cuda/kernels/attention.cuh",
        "  if (scores.weights != nullptr && scores.weights[position] == 0) return no_score<Value>();\n",
        "",
        _TWINS + "test_attention_there_and_back",
    ),
    Mutant(
        "pipeline/data/block_messages.py",
        'divided_by(reduced(block, in_single(x), "sum", weight), sums)',
        'reduced(block, x, "mean", weight)',
        "tests/behaviour/data/test_block_messages.py::test_aggregate",
    ),
    Mutant(
        "pipeline/models/nn/gin.py",
        """            check_has_own_rows("GINConv", block)\n""",
        "            pass\n",
        "tests/behaviour/data/test_block_messages.py::test_a_relation_of_two_types_has_no_own_rows",
    ),
    Mutant(
        "ops/native/aggregate/attention_backward.cpp",
        "own.size() == 0 ? gradients.x + row * gradients.width : own.data();",
        "gradients.x + row * gradients.width;",
        _ATTENTION + "test_gradients_of_a_row_with_many_edges_may_be_written_over_it",
    ),
    Mutant(
        "ops/native/aggregate/attention_backward.cpp",
        "    drop(scores, edges, arrays[kAttention]);\n",
        "",
        _AUTOGRAD + "test_gradients_of_attention",
    ),
    Mutant(
        "ops/native/aggregate/attention_terms.hpp",
        "(product - share) * leak(plain, slope)",
        "(product - share)",
        _AUTOGRAD + "test_gradients_of_attention",
    ),
    Mutant(
        "cuda/kernels/edge_rows.cu",
        "number >= 0 && number < bound",
        "number >= 0 && number <= bound",
        _SPMM + "test_bad_input_is_refused_and_nothing_is_written",
    ),
    Mutant(
        "cuda/kernels/spmm.cu",
        "factors[rows.position(edge)] * value",
        "factors[edge] * value",
        _SPMM + "test_transposed_rows_find_their_weights",
    ),
    Mutant(
        "cuda/kernels/edge_rows.cuh",
        "for (int k = 0; k < kAtOnce; ++k) add(made[k]);",
        "for (int k = kAtOnce; k-- > 0;) add(made[k]);",
        _TWINS + "test_sums_extremes_and_products",
    ),
    Mutant(
        "cuda/kernels/dot.cuh",
        "int with = kDotLanes / 2; with != 0; with /= 2",
        "int with = 1; with != kDotLanes; with *= 2",
        _TWINS + "test_sums_extremes_and_products",
    ),
    Mutant(
        "cuda/kernels/attention.cu",
        "sum * segment.of_head[group.rank]",
        "sum",
        _TWINS + "test_attention_there_and_back",
    ),
    Mutant(
        "cuda/kernels/attention.cu",
        "      group.sync();  // before the next segment is written\n",
        "",
        _SCHEDULES + "[attention of five heads]",
    ),
    Mutant(
        "cuda/kernels/attention_backward.cu",
        "      group.sync();  // before the next segment is written\n",
        "",
        _SCHEDULES + "[attention of five heads]",
    ),
    Mutant(
        "ops/aggregate/transpose.py",
        "torch.searchsorted(found, sources)",
        "torch.bincount(indices, minlength=num_src).cumsum(0)",
        _WAITS + "test_no_layer_waits_for_a_batch_of_the_loader[sage-plain]",
    ),
    Mutant(
        "pipeline/models/nn/gat.py",
        "edge_ids = looped.names",
        "pass",
        _WAITS + "test_masks_of_attention_are_those_of_a_cpu",
    ),
    Mutant(
        "pipeline/models/nn/gcn.py",
        "[last]  # -1 is the last entry",
        ".index_put((rows,), weight)[:num_dst]  # -1 is the last entry",
        "tests/behaviour/models/nn/test_layers.py::test_of_two_loops_at_a_node_one_has_a_gradient",
    ),
    Mutant(
        "pipeline/models/nn/gcn.py",
        "if has_fixed_sizes(block) or bool(is_loop.any()):",
        "if bool(is_loop.any()):",
        _WAITS + "test_no_layer_waits_for_a_batch_of_the_loader[gcn-plain]",
    ),
    Mutant(
        "pipeline/data/checks.py",
        "return trusted(block.map(of_tensor), like=block)",
        "return block.map(of_tensor)",
        _WAITS + "test_no_layer_waits_for_a_batch_of_the_loader[sage-plain]",
    ),
    Mutant(
        "pipeline/models/captured_step.py",
        "(name, names.setdefault(id(one), name), one",
        "(name, names.setdefault(id(one), name) and None, one",
        _CAPTURED + "test_batches_whose_fields_share_tensors_are_of_another_shape",
    ),
    Mutant(
        "pipeline/models/captured_step.py",
        "        kept.replay()\n",
        "",
        "tests/cuda_host/test_captured_step.py::test_a_capture_changes_nothing",
    ),
    Mutant(
        "pipeline/models/captured_step.py",
        "use_here(one for one in tree_leaves(result) if isinstance(one, Tensor))",
        "pass",
        "tests/cuda_host/test_captured_step.py::test_what_a_side_stream_returns_may_be_used_here",
    ),
    Mutant(
        "ops/aggregate/attention_scores.py",
        "if not is_compiling() and IS_CAPTURED.get():",
        "if False:",
        _CAPTURED + "test_dropout_of_attention_is_refused[by_layer]",
    ),
    Mutant(
        "ops/aggregate/way_back.py",
        "self.trusted or self.transpose is None",
        "True",
        "tests/cuda_host/test_aggregate.py::test_a_transposed_csc_that_is_given_is_looked_at_too",
    ),
    Mutant(
        "ops/aggregate/autograd.py",
        "divisors.masked_fill(divisors == 0, 1)",
        "divisors",
        _AUTOGRAD + "test_gradients_of_reductions",
    ),
    Mutant(
        "pipeline/models/nn/aggregate.py",
        "kept = block.indices != destinations\n    counts",
        "kept = torch.ones_like(destinations, dtype=torch.bool)\n    counts",
        _LAYERS + "test_gat",
    ),
    Mutant(
        "pipeline/models/nn/sage.py",
        'None if self.aggr == "max" else weight_of(block)',
        "None",
        _LAYERS + "test_importance_weights_count",
    ),
)
